"""Classes predicted as surely as they are right: one exponent, learned from points that a context leaves out."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.categorical import CategoricalMixture
from pacoh.data import Dataset
from pacoh.inference.base import Particles, Problem
from pacoh.learners.base import AbstractMetaModel, AbstractTrainedLearner
from pacoh.learners.episodic import check_count, check_share, masked
from pacoh.learners.pacoh import PACOH, PACOHModel
from pacoh.priors.base import AbstractPredictor
from pacoh.types import Key, Scalar

_POWERS = np.geomspace(0.4, 4.0, 47)
_TASKS = 64  # at most: one number needs no more


class SharpPredictor(AbstractPredictor):
    """The probabilities of a predictor to a power, normalised: above 1 it is surer than that, below less sure."""

    inner: AbstractPredictor
    power: Scalar

    def __call__(self, x: Float[Array, "q d"]) -> CategoricalMixture:
        """Of y."""
        return self._sharp(self.inner(x))

    def latent(self, x: Float[Array, "q d"]) -> CategoricalMixture:
        """Of f."""
        return self._sharp(self.inner.latent(x))

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Array]:
        """The probabilities of one hypothesis, to the same power."""
        inner = self.inner.function(key)
        return lambda x: jax.nn.softmax(self.power * jnp.log(inner(x)))

    def _sharp(self, said: Any) -> CategoricalMixture:
        return CategoricalMixture(self.power * said.log_probs[..., None, :, :], classes=said.classes)


class SharpModel(AbstractMetaModel):
    """A model of classes and its power."""

    learned: PACOHModel
    power: Scalar

    def adapt(self, context: Dataset, key: Key) -> SharpPredictor:
        """The learned model's predictor, sharpened."""
        return SharpPredictor(self.learned.adapt(context, key), self.power)


class Sharpened(AbstractTrainedLearner):
    """PACOH of classes whose probabilities are taken to a power that the meta-train tasks choose.

    A prior found through an evidence by few draws hedges, and so does what follows from it. After training, a random
    `share` of each class of a meta-train task is the context of a prediction of the rest, `repeats` times; the power is
    the one of 47 between 0.4 and 4 with the best mean log-likelihood. It changes no class that is predicted, only how
    surely.
    """

    learner: PACOH
    share: float = eqx.field(static=True, default=0.25)
    repeats: int = eqx.field(static=True, default=4)

    def __check_init__(self):
        check_share(self.share)
        check_count("repeats", self.repeats, 1)

    def problem(self, tasks: Dataset) -> Problem:
        """The learner's."""
        return self.learner.problem(tasks)

    def model(self, state: Any, tasks: Dataset, key: Key) -> SharpModel:
        """The learner's model with its power."""
        key_model, key_power = jax.random.split(key)
        learned = self.learner.model(state, tasks, key_model)
        some = jax.tree.map(lambda leaf: leaf[:_TASKS], tasks)
        return SharpModel(learned, self._power(learned, some, key_power))

    def restart(self, model: SharpModel) -> Particles:
        """The learner's."""
        return self.learner.restart(model.learned)

    def check(self, tasks: Dataset) -> None:
        """The learner's."""
        self.learner.check(tasks)

    def _power(self, learned: PACOHModel, tasks: Dataset, key: Key) -> Scalar:
        """argmax over powers s of the mean of ln softmax(s ln p)[y] over the points that contexts leave out."""

        def scores(task: Dataset, key: Key) -> tuple[Float[Array, " powers"], Scalar]:
            key_split, key_adapt = jax.random.split(key)
            context, query = split_classes(task, self.share, key_split)
            predictor = learned.adapt(context, key_adapt)

            def under(power):
                log_prob = SharpPredictor(predictor, power)(query.x).log_prob(query.y)
                return jnp.where(query.mask, log_prob, 0.0).sum()

            return jax.vmap(under)(jnp.asarray(_POWERS, float)), query.mask.sum()

        def once(key):
            totals, counts = jax.vmap(scores)(tasks, jax.random.split(key, len(tasks.mask)))
            return totals.sum(0), counts.sum()

        totals, counts = jax.lax.map(once, jax.random.split(key, self.repeats))  # all at once take as much more memory
        best = jnp.asarray(_POWERS, float)[jnp.argmax(totals.sum(0))]
        return jnp.where(counts.sum() > 0, best, 1.0)


def split_classes(task: Dataset, share: float, key: Key) -> tuple[Dataset, Dataset]:
    """Context and query as two masks over the points of one task: round(share m_c) random points of each class c.

    A context has at least one point of every class, as one that people give: a class of one point has no query.
    """
    at = task.y + jnp.where(task.mask, jax.random.uniform(key, task.mask.shape, maxval=0.99), jnp.inf)
    in_order = jnp.sort(at)
    first, last = (jnp.searchsorted(in_order, (task.y + k).astype(at.dtype)) for k in (0, 1))
    rank = jnp.argsort(jnp.argsort(at)) - first
    chosen = task.mask & (rank < jnp.maximum(jnp.round(share * (last - first)), 1))
    return masked(task, chosen), masked(task, task.mask & ~chosen)
