"""Bayesian MAML (Yoon et al. 2018): particles that Stein steps adapt, trained by chasing where more data lead them."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.inference.starts import Layout
from pacoh.inference.svgd import stein_direction
from pacoh.learners.episodic import AbstractRule, check_count, check_share, split
from pacoh.learners.maml import Inner, shortening
from pacoh.priors.base import Param
from pacoh.priors.bnn import BNNPredictor
from pacoh.priors.likelihoods import AbstractLikelihood, GaussianNoise
from pacoh.priors.nets import MLP, AbstractNet
from pacoh.types import Key, Params, Scalar


class BMAML(AbstractRule):
    """min (1/2 alpha) sum_i sum_k |chaser_ik - [leader_ik]|^2 over K particles that start at theta; [.] has no slope.

    The chaser is SVGD_steps(theta; context), the leader SVGD_chase(chaser; the whole task) [Yoon et al., algorithm 3].
    A Stein step is Theta + (alpha/m) phi(Theta), phi the Stein direction to the posterior of the m points it sees: a
    rate a point, so that one rate serves tasks of all sizes. The factor 1/(2 alpha) gives the loss the slope of a risk,
    whatever the rate. The weights' prior is N(0, sd^2) in their units, of the log noise about where it starts; a
    particle holds its own noise. Without points particles stay where they are. A particle's score a point that
    is longer than `inner.longest` is shortened to it, as a gradient of MAML is; there is no limit by default.
    """

    net: AbstractNet = MLP()
    likelihood: AbstractLikelihood = GaussianNoise()
    inner: Inner = eqx.field(default_factory=lambda: Inner(longest=math.inf))
    particles: int = eqx.field(static=True, default=5)
    chase: int = eqx.field(static=True, default=5)
    sd: Float[Array, ""] = eqx.field(converter=lambda sd: jnp.asarray(sd, float), default=17.0)
    share: float = eqx.field(static=True, default=0.5)

    def __check_init__(self):
        check_share(self.share)
        check_count("particles", self.particles, 1)
        check_count("chase", self.chase, 1)

    def one(self, d: int) -> dict[str, Any]:
        """The tree of Param of one particle: a network and what its likelihood adds."""
        return {"net": self.net.specs(d, self.likelihood.outputs), "own": self.likelihood.specs()}

    def specs(self, d: int) -> Any:
        """K particles as a leading axis."""
        return jax.tree.map(lambda p: dataclasses.replace(p, shape=(self.particles, *p.shape)), self.one(d))

    def log_posterior(self, h: Params, data: Dataset) -> Scalar:
        """sum ln p(y | x, h) + ln p(h), up to a constant."""
        each = self.likelihood.log_prob(h["own"], self.net(h["net"], data.x), data.y)

        def log_prior(p: Param, w: Array) -> Scalar:
            return -0.5 * (((w - p.loc) / (self.sd * p.unit)) ** 2).sum()

        priors = jax.tree.map(log_prior, self.one(data.x.shape[-1]), h)
        return jnp.where(data.mask, each, 0.0).sum() + sum(jax.tree.leaves(priors), jnp.zeros(()))

    def moved(self, theta: Params, data: Dataset, steps: int) -> Params:
        """Theta <- Theta + (alpha/m) phi(Theta), `steps` times; differentiable in where it starts."""
        layout = Layout.of(jax.tree.map(lambda leaf: leaf[0], theta))
        many = jnp.maximum(data.sizes, 1)
        rate = self.inner.rate * jnp.where(data.sizes > 0, 1 / many, 0.0)

        @jax.vmap
        def score(row):
            slope = jax.grad(lambda row: self.log_posterior(layout.unflatten(row), data))(row)
            return slope * shortening(slope / many, self.inner.longest)

        def step(rows, _):
            return rows + rate * stein_direction(rows, score(rows), None), None

        rows = jax.lax.scan(step, jax.vmap(layout.flatten)(theta), None, steps)[0]
        return jax.vmap(layout.unflatten)(rows)

    def value(self, theta: Params, task: Dataset, key: Key) -> Scalar:
        """Minus the chaser loss."""
        context, _ = split(task, self.share, key)
        chaser = self.moved(theta, context, self.inner.steps)
        leader = jax.lax.stop_gradient(self.moved(chaser, task, self.chase))
        gaps = jax.tree.map(lambda a, b: ((a - b) ** 2).sum(), chaser, leader)
        return -sum(jax.tree.leaves(gaps), jnp.zeros(())) / (2 * self.inner.rate)

    def adapt(self, theta: Params, context: Dataset, key: Key) -> BNNPredictor:
        """The particles after Stein steps on the whole context, equally weighted."""
        del key
        return BNNPredictor(self.net, self.likelihood, self.moved(theta, context, self.inner.test_steps))
