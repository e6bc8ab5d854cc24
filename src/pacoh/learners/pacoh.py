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
from pacoh.priors.base import AbstractHyperPrior, AbstractPredictor, AbstractPrior, draw_start
from pacoh.theory import BAYES, Rates, hyper_posterior
from pacoh.types import Key, Params


class PACOHModel(AbstractMetaModel):
    """K priors P_phi; a context conditions each of them. `rates` are those of adapting."""

    prior: AbstractPrior
    phis: Params
    rates: Rates

    def adapt(self, context: Dataset, key: Key) -> AbstractPredictor:
        """Q_beta(context, P_phi_k) for each k."""
        return self.prior.condition_all(self.phis, context, self.rates.betas(context.sizes), key)


class Start(eqx.Module):
    """Draws training starts for d inputs of anything with `specs`: a prior family, or a rule."""

    family: Any
    d: int = eqx.field(static=True)

    def __call__(self, key: Key) -> Params:
        """One start."""
        return draw_start(self.family.specs(self.d), key)


class PACOH(AbstractTrainedLearner):
    """A prior family, a hyper-prior, an engine: the hyper-posterior ln P(phi) + sum omega_i/eta ln Z_i, approximated.

    `batch` tasks a step (None: all); `temperature` is eta. With no hyper-prior and MAP this is MLL-GP. `rates` are
    those of training, `predict` those of adapting: beta = m by default, the Bayesian posterior, whatever training used.
    """

    prior: AbstractPrior
    hyper_prior: Callable[[Any], AbstractHyperPrior]
    inference: AbstractInference = eqx.field(default_factory=SVGD)
    rates: Rates = BAYES
    predict: Rates = BAYES
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
        return PACOHModel(self.prior, self.inference.draws(state, key), self.predict)

    def restart(self, model: PACOHModel) -> Particles:
        """The fitted priors' parameters."""
        return Particles(model.phis)

    def check(self, tasks: Dataset) -> None:
        """Refuses tasks that the prior family cannot hold."""
        count = tasks.mask.shape[-2] if self.batch is None else min(self.batch, tasks.mask.shape[-2])
        self.prior.check(jax.tree.map(lambda leaf: leaf[:, :count], tasks), 1)
