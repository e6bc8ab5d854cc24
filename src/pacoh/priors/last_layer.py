"""A Bayesian network whose last layer is integrated out in closed form: the same prior, a far better evidence."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.errors import PacohError
from pacoh.inference.base import AbstractInference
from pacoh.predictive import AbstractPredictive
from pacoh.priors.base import AbstractPredictor, leading, likelihood_power
from pacoh.priors.bnn import AbstractDrawnPrior, adaptation
from pacoh.priors.gaussian import cholesky, tempered_log_linear, tempered_log_normal
from pacoh.priors.likelihoods import AbstractGaussian, GaussianNoise
from pacoh.priors.nets import MLP, AbstractHeaded
from pacoh.priors.weights import AbstractWeights, DiagonalGaussian
from pacoh.types import Key, Params, Scalar

_HEAD = 5.0  # the sd of exchangeable outputs' weights at the start, by that of other weights


class LastLayerPredictor(AbstractPredictor):
    """J hidden networks, each with the exact posterior of its last layer."""

    net: AbstractHeaded
    likelihood: AbstractGaussian
    hypotheses: Params
    mean: Float[Array, "J o p"]
    factor: Float[Array, "J s p p"]  # of the covariance of the last layer's weights; s is o, or 1 for all outputs

    def __call__(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """Of y."""
        return self.likelihood.marginal(*self._outputs(x), self._noise())

    def latent(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """Of f."""
        return self.likelihood.latent_marginal(*self._outputs(x), self._noise())

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Array]:
        """One hidden network with one draw of its last layer."""
        key_which, key_weights = jax.random.split(key)
        chosen = jax.random.randint(key_which, (), 0, leading(self.hypotheses))
        net = jax.tree.map(lambda leaf: leaf[chosen], self.hypotheses["net"])
        noise = jax.random.normal(key_weights, self.mean.shape[1:])
        weights = self.mean[chosen] + (self.factor[chosen] @ noise[..., None])[..., 0]
        return lambda x: self.likelihood.function(self.net.features(net, x) @ weights.T)

    def _outputs(self, x: Array) -> tuple[Float[Array, "J q o"], Float[Array, "J q o"]]:
        """Mean and variance of the outputs."""
        features = jax.vmap(lambda h: self.net.features(h["net"], x))(self.hypotheses)
        loc = jnp.einsum("jqp,jop->jqo", features, self.mean)
        variance = (jnp.einsum("jqp,jspr->jqsr", features, self.factor) ** 2).sum(-1)
        return loc, jnp.broadcast_to(variance, loc.shape)

    def _noise(self) -> Float[Array, " J"]:
        return jnp.exp(2 * self.hypotheses["own"]["log_noise"])


class LastLayerBNN(AbstractDrawnPrior):
    """The Gaussian prior over a network's weights with Gaussian noise, its last layer never drawn.

    Given the hidden layers and the noise, the targets are Gaussian: exp(-beta Lh) is integrated over the last layer
    exactly, so the L draws need only find hidden layers that suit a task.

    Outputs that are `exchangeable`, as classes whose labels are each task's own, share one mean and one sd for each
    feature. With means of their own the meta-train tasks teach which label comes with which of their drawings, and
    nothing that helps the next task. The last layer's means start at zero then, its sds at five times the others'.
    """

    net: AbstractHeaded = MLP()
    likelihood: AbstractGaussian = GaussianNoise()
    weights: AbstractWeights = eqx.field(default_factory=DiagonalGaussian)
    adaptation: AbstractInference = eqx.field(default_factory=adaptation)
    draws: int = eqx.field(static=True, default=10)
    points: int | None = eqx.field(static=True, default=None)
    average: bool = eqx.field(static=True, default=False)
    coupled: bool = eqx.field(static=True, default=False)
    exchangeable: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if not isinstance(self.weights, DiagonalGaussian):
            raise PacohError(
                f"The last layer is integrated out under Gaussian weights; got {type(self.weights).__name__}. "
                "BNNPrior draws all layers and takes any family."
            )
        if self.coupled:
            raise PacohError("Priors adapt in one coupled run where all layers are drawn: use BNNPrior (exact=False).")

    def specs(self, d: int) -> Any:
        """The parameters of the distribution over networks and noise."""
        net = self.net.specs(d, 1 if self.exchangeable else self.likelihood.outputs)
        if not self.exchangeable:
            return self.weights.specs({"net": net, "own": self.likelihood.specs()})
        net = [*net[:-1], {name: replace(param, start=0.0) for name, param in net[-1].items()}]
        specs = self.weights.specs({"net": net, "own": self.likelihood.specs()})
        levels = specs["level"]["net"]
        levels[-1] = {name: replace(param, loc=math.log(_HEAD)) for name, param in levels[-1].items()}
        return specs

    def drawn(self, phi: Params) -> Params:
        """All but the last layer's."""
        return {part: {"net": phi[part]["net"][:-1], "own": phi[part]["own"]} for part in phi}

    def log_weights(self, phi: Params, h: Params, tasks: Dataset, betas: Float[Array, " n"]) -> Float[Array, " n"]:
        """ln E exp(-beta Lh) over the last layer: ln N(y; F mu, F S F' + sigma^2/t) and the constant of tempering.

        Of several outputs, which are independent given the hidden layers, the sum.
        """
        head, axes = self._head(phi)
        rows = tasks.x.reshape(-1, tasks.x.shape[-1])
        features = self.net.features(h["net"], rows).reshape(*tasks.mask.shape, -1)

        def of_task(features, y, mask, beta):
            def of_output(target, mean, variance):
                residual, power = target - features @ mean, likelihood_power(mask, beta)
                if len(features) > features.shape[-1]:
                    scaled = features * jnp.sqrt(variance)
                    return tempered_log_linear(residual, scaled, mask, h["own"]["log_noise"], power)
                gram = jnp.einsum("mp,lp->ml", features * variance, features)
                return tempered_log_normal(residual, gram, mask, h["own"]["log_noise"], power)

            return jax.vmap(of_output, (0, *axes))(self.likelihood.targets(y).T, *head).sum()

        return jax.vmap(of_task)(features, tasks.y, tasks.mask, betas)

    def predictor(self, phis: Params, hypotheses: Params, data: Dataset, beta: Scalar) -> LastLayerPredictor:
        """The hidden networks, and the last layer given each under the one prior there is."""
        head, axes = self._head(jax.tree.map(lambda leaf: leaf[0], phis))
        power = likelihood_power(data.mask, beta)
        targets = self.likelihood.targets(data.y).T

        def condition(h):
            def of_output(y, mean, variance):
                return self._posterior(mean, variance, h, data, y, power)

            mean, factor = jax.vmap(of_output, (0, *axes), (0, axes[0]))(targets, *head)
            return mean, factor[None] if self.exchangeable else factor

        return LastLayerPredictor(self.net, self.likelihood, hypotheses, *jax.vmap(condition)(hypotheses))

    def _posterior(
        self, mean: Array, variance: Array, h: Params, data: Dataset, y: Array, power: Scalar
    ) -> tuple[Array, Array]:
        """Mean and factor of an output's weights: ridge regression on the features, in units of the prior."""
        precision = power * jnp.exp(-2 * h["own"]["log_noise"])
        features = jnp.where(data.mask[:, None], self.net.features(h["net"], data.x), 0.0)
        scaled = features * jnp.sqrt(variance)
        inverse = jnp.eye(len(mean)) + precision * scaled.T @ scaled
        lower = cholesky(inverse)
        half = jax.scipy.linalg.solve_triangular(lower, jnp.eye(len(mean)), lower=True)
        residual = jnp.where(data.mask, y - features @ mean, 0.0)
        change = half.T @ (half @ (precision * scaled.T @ residual))
        return mean + jnp.sqrt(variance) * change, jnp.sqrt(variance)[:, None] * half.T

    def _head(self, phi: Params) -> tuple[tuple[Array, Array], tuple[int | None, int | None]]:
        """Means and variances of the last layer's weights and biases under P_phi, and their axes of outputs.

        Of exchangeable outputs there is none: all have the same covariance then, which is factorised once.
        """
        loc, sd = (self.net.head(part["net"][-1]).T for part in self.weights.place(phi))
        return ((loc[0], sd[0] ** 2), (None, None)) if self.exchangeable else ((loc, sd**2), (0, 0))
