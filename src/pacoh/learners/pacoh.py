"""PACOH: meta-learned priors by approximating the PAC-optimal hyper-posterior."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.inference.base import AbstractInference, Particles, Problem
from pacoh.inference.svgd import SVGD
from pacoh.learners.base import AbstractMetaModel, AbstractTrainedLearner
from pacoh.predictive import GaussianMixture, mixture
from pacoh.priors.base import AbstractHyperPrior, AbstractPredictor, AbstractPrior, draw_start
from pacoh.theory import BAYES, Rates, hyper_posterior
from pacoh.types import Key, Params


class Ensemble(AbstractPredictor):
    """Predictors with a leading axis K as one mixture: equally weighted unless `log_weights` says otherwise."""

    members: AbstractPredictor
    log_weights: Float[Array, " K"] | None = None

    def __call__(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """The mixture of the members' predictions."""
        return mixture(eqx.filter_vmap(lambda member: member(x))(self.members), self.log_weights)

    def latent(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """The mixture of the members' latent predictions."""
        return mixture(eqx.filter_vmap(lambda member: member.latent(x))(self.members), self.log_weights)

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, " q"]]:
        """A function drawn from a member drawn by its weight."""
        key_member, key_function = jax.random.split(key)
        count = len(jax.tree.leaves(eqx.filter(self.members, eqx.is_array))[0])
        weights = jnp.zeros(count) if self.log_weights is None else self.log_weights
        chosen = jax.random.categorical(key_member, weights)
        member = jax.tree.map(lambda leaf: leaf[chosen] if eqx.is_array(leaf) else leaf, self.members)
        return member.function(key_function)


class PACOHModel(AbstractMetaModel):
    """K priors P_phi; a context conditions each of them."""

    prior: AbstractPrior
    phis: Params
    rates: Rates

    def adapt(self, context: Dataset, key: Key) -> Ensemble:
        """Q_beta(context, P_phi_k) for each k."""
        beta = self.rates.betas(context.sizes)
        count = len(jax.tree.leaves(self.phis)[0])
        keys = jax.random.split(key, count)
        condition = eqx.filter_vmap(lambda phi, k: self.prior.condition(phi, context, beta, k))
        return Ensemble(condition(self.phis, keys))


class Start(eqx.Module):
    """Draws training starts of a prior family for d inputs."""

    prior: AbstractPrior
    d: int = eqx.field(static=True)

    def __call__(self, key: Key) -> Params:
        """One start."""
        return draw_start(self.prior.specs(self.d), key)


class PACOH(AbstractTrainedLearner):
    """A prior family, a hyper-prior, an engine: the hyper-posterior ln P(phi) + sum omega_i/eta ln Z_i, approximated.

    `batch` tasks a step (None: all); `temperature` is eta. With no hyper-prior and MAP this is MLL-GP.
    """

    prior: AbstractPrior
    hyper_prior: Callable[[Any], AbstractHyperPrior]
    inference: AbstractInference = eqx.field(default_factory=SVGD)
    rates: Rates = BAYES
    temperature: Float[Array, ""] = eqx.field(converter=lambda eta: jnp.asarray(eta, float), default=1.0)
    batch: int | None = eqx.field(static=True, default=None)

    def problem(self, tasks: Dataset) -> Problem:
        """The engine on the hyper-posterior."""
        d = tasks.x.shape[-1]
        hyper_prior = self.hyper_prior(self.prior.specs(d))
        density = hyper_posterior(self.prior, hyper_prior, tasks, self.rates, self.batch, self.temperature)
        return Problem(self.inference, density, Start(self.prior, d))

    def model(self, state: Any, tasks: Dataset, key: Key) -> PACOHModel:
        """The draws of the hyper-posterior; nothing of the tasks is kept."""
        del tasks
        return PACOHModel(self.prior, self.inference.draws(state, key), self.rates)

    def restart(self, model: PACOHModel) -> Particles:
        """The fitted priors' parameters."""
        return Particles(model.phis)

    def check(self, tasks: Dataset) -> None:
        """Refuses tasks that the prior family cannot hold."""
        count = tasks.mask.shape[-2] if self.batch is None else min(self.batch, tasks.mask.shape[-2])
        self.prior.check(jax.tree.map(lambda leaf: leaf[:, :count], tasks), 1)
