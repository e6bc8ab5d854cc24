"""A guard against harm: the learned prior beside one that knows nothing, weighed by what the context says of each."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.special import ndtri

from pacoh.data import Dataset
from pacoh.inference.base import Particles, Problem
from pacoh.learners.base import AbstractMetaModel, AbstractTrainedLearner
from pacoh.learners.moved import Moved, MovedModel
from pacoh.learners.pacoh import PACOH, PACOHModel
from pacoh.learners.vanilla import Rescaled, context_units, in_units
from pacoh.predictive import GaussianMixture
from pacoh.priors.base import AbstractPredictor, AbstractPrior, Ensemble
from pacoh.priors.gp import GPPrior
from pacoh.priors.kernels import SE, Linear, Sum
from pacoh.priors.means import Constant
from pacoh.theory import BAYES
from pacoh.types import Key, Params, Scalar

_NEVER = -60.0  # a log-weight that counts for nothing, yet whose exponential is not zero


class GuardedPredictor(AbstractPredictor):
    """The learned prior's predictor and the weak one's as one mixture, with the logs of their shares."""

    learned: AbstractPredictor
    weak: AbstractPredictor
    log_shares: Float[Array, " 2"]

    def __call__(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of y."""
        return self._mixed(self.learned(x), self.weak(x))

    def latent(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of f."""
        return self._mixed(self.learned.latent(x), self.weak.latent(x))

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, " q"]]:
        """A function of the one or the other, drawn by their weights."""
        key_which, key_function = jax.random.split(key)
        is_weak = jax.random.categorical(key_which, self.log_shares) == 1
        learned, weak = self.learned.function(key_function), self.weak.function(key_function)
        return lambda x: jnp.where(is_weak, weak(x), learned(x))

    def settled(self) -> "GuardedPredictor":
        """One of the two. A search that mixes them follows an unlikely one that promises much, round after round."""
        chosen = jnp.where(self.log_shares == self.log_shares.max(), 0.0, _NEVER)
        return GuardedPredictor(self.learned, self.weak, chosen)

    def _mixed(self, learned: Any, weak: Any) -> GaussianMixture:
        parts = [
            jax.nn.log_softmax(jnp.zeros(part.loc.shape[-2]) if part.log_weights is None else part.log_weights) + share
            for part, share in zip((learned, weak), self.log_shares, strict=True)
        ]
        weights = jnp.maximum(jnp.concatenate(parts), _NEVER)
        loc, scale = (jnp.concatenate(pair, -2) for pair in ((learned.loc, weak.loc), (learned.scale, weak.scale)))
        return GaussianMixture(loc, scale, weights)


class Guarded(AbstractMetaModel):
    """Two explanations of a context, the learned prior and a weak one, weighed as Bayes does.

    share(learned) : share(weak) = odds : 1 - odds, times the evidence of each on the context. The evidence is a mean
    over hyper-parameters, never a maximum, which would always speak for the more flexible one. Without points the
    shares are the odds. With `own`, that model predicts where the weak one is believed.
    """

    learned: PACOHModel | MovedModel
    weak_prior: AbstractPrior
    weak_phis: Params
    odds: float = eqx.field(static=True)
    own: AbstractMetaModel | None = None

    def adapt(self, context: Dataset, key: Key) -> GuardedPredictor:
        """Both adapted, and their shares."""
        key_learned, key_weak = jax.random.split(key)
        learned, evidence_learned = self._learned(context, key_learned)
        weak, evidence_weak = _averaged(self.weak_prior, self.weak_phis, context, key_weak)
        shares = jnp.log(jnp.array([self.odds, 1 - self.odds])) + jnp.stack(
            [evidence_learned, _log_mean(evidence_weak)]
        )
        weak = weak if self.own is None else self.own.adapt(context, key_weak)
        return GuardedPredictor(learned, weak, jax.nn.log_softmax(shares))

    def believes(self, context: Dataset, key: Key) -> Bool[Array, ""]:
        """Whether a context does not speak against the learned prior: its evidence is half the weak one's or more.

        A search that waits until the weak one has the larger share spends five rounds or more on another family's best.
        """
        learned, weak = self.adapt(context, key).log_shares
        return learned - weak >= math.log(self.odds / (1 - self.odds)) - math.log(2)

    def _learned(self, context: Dataset, key: Key) -> tuple[AbstractPredictor, Scalar]:
        if isinstance(self.learned, MovedModel):
            return self.learned.weigh(context, key)
        evidence = log_evidences(self.learned.prior, self.learned.phis, context, key)
        return self.learned.adapt(context, key), _log_mean(evidence)


def log_evidences(prior: AbstractPrior, phis: Params, context: Dataset, key: Key) -> Float[Array, " K"]:
    """ln Z of a context under each prior, untempered."""
    beta = BAYES.betas(context.sizes)
    keys = jax.random.split(key, len(jax.tree.leaves(phis)[0]))
    return jax.vmap(lambda phi, k: prior.log_evidence(phi, context, beta, k))(phis, keys)


def _averaged(prior: AbstractPrior, phis: Params, context: Dataset, key: Key) -> tuple[Ensemble, Float[Array, " K"]]:
    """The posteriors of a context under each prior, weighed by its evidence, and the logs of that."""
    evidence, beta = log_evidences(prior, phis, context, key), BAYES.betas(context.sizes)
    condition = eqx.filter_vmap(lambda phi: prior.condition(phi, context, beta, key))
    return Ensemble(condition(phis), evidence), evidence


def _log_mean(values: Float[Array, " K"]) -> Scalar:
    return jax.nn.logsumexp(values) - jnp.log(len(values))


def weak_gp() -> GPPrior:
    """A GP that knows nothing: a smooth part with one length-scale plus a line with an intercept, about zero."""
    return GPPrior(Constant(), Sum((SE(ard=False), Linear())))


def weak_phis(prior: AbstractPrior, d: int, count: int, sd: float) -> Params:
    """`count` settings spread evenly (a Sobol sequence) over N(loc, sd^2) of each scale; other parameters at their loc.

    Scales of one array move together, so a few settings cover any number of inputs.
    """
    from scipy.stats import qmc  # a second to import: only where it is used

    specs, treedef = jax.tree.flatten(prior.specs(d))
    free = [i for i, spec in enumerate(specs) if spec.group in ("scale", "noise")]
    uniform = qmc.Sobol(len(free), scramble=False).random(count) + 0.5 / count
    normal = np.zeros((len(specs), count))
    normal[free] = ndtri(uniform.T)
    leaves = [
        jnp.asarray(spec.loc + sd * spec.unit * z.reshape(-1, *[1] * len(spec.shape)) * np.ones(spec.shape), float)
        for spec, z in zip(specs, normal, strict=True)
    ]
    return jax.tree.unflatten(treedef, leaves)


class WeakModel(AbstractMetaModel):
    """The weak GP alone: settings weighed by the evidence of a context whose targets are in units of their own.

    With own=False they stay in the units of the meta-train tasks: of these, level and scale are then known.
    """

    prior: AbstractPrior
    phis: Params
    own: bool = eqx.field(static=True, default=True)

    def adapt(self, context: Dataset, key: Key) -> Rescaled:
        """The posterior under each setting, as one mixture."""
        _, _, y_loc, y_scale = context_units(context) if self.own else (None, None, jnp.zeros(()), jnp.ones(()))
        flat = jnp.zeros(context.x.shape[-1])
        units = (flat, flat + 1, y_loc, y_scale)
        return Rescaled(_averaged(self.prior, self.phis, in_units(context, units), key)[0], *units)


class Guard(AbstractTrainedLearner):
    """PACOH whose model is guarded: where a context speaks against the learned prior, a weak GP takes over.

    `odds` is the probability, before any point is seen, that a new task is of the family; `count` and `sd` say how
    many settings of the weak GP are averaged, and how far apart they lie. With 64 of them these were the best on tasks
    of other kinds, among those that cost at most a hundredth of a nat a point in the family (`benchmarks/guard.py`).
    With `own`, that model predicts where the weak GP is believed.
    """

    learner: PACOH | Moved
    odds: float = eqx.field(static=True, default=0.95)
    count: int = eqx.field(static=True, default=64)
    sd: float = eqx.field(static=True, default=1.0)
    own: AbstractMetaModel | None = None

    def problem(self, tasks: Dataset) -> Problem:
        """The learner's."""
        return self.learner.problem(tasks)

    def model(self, state: Any, tasks: Dataset, key: Key) -> Guarded:
        """The learner's model beside the weak GP."""
        weak = weak_gp()
        d = tasks.x.shape[-1]
        phis = weak_phis(weak, d, self.count, self.sd)
        return Guarded(self.learner.model(state, tasks, key), weak, phis, self.odds, self.own)

    def restart(self, model: Guarded) -> Particles:
        """The learner's."""
        return self.learner.restart(model.learned)  # type: ignore[arg-type]

    def check(self, tasks: Dataset) -> None:
        """The learner's."""
        self.learner.check(tasks)
