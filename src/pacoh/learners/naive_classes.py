"""What needs no learning, for classes: references that every table should hold. They predict classes, no probabilities.

Ties, and contexts without points, go to the class that is most frequent in the meta-train tasks.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from pacoh.categorical import PointClass
from pacoh.data import Dataset, Task
from pacoh.inference.base import Budget
from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel
from pacoh.priors.base import AbstractPredictor
from pacoh.types import Key


class Prototypes(AbstractPredictor):
    """argmin_c |x - place_c|^2 over the classes that count; among equals the one with the largest share."""

    places: Float[Array, "C d"]
    counts: Bool[Array, " C"]
    shares: Float[Array, " C"]

    def __call__(self, x: Float[Array, "q d"]) -> PointClass:
        """The class."""
        squared = ((x[:, None] - self.places) ** 2).sum(-1)
        squared = jnp.where(self.counts, squared, jnp.inf)
        nearest = squared <= squared.min(-1, keepdims=True)  # all of them where none counts
        return PointClass(jnp.where(nearest, self.shares, -1.0).argmax(-1))

    def latent(self, x: Float[Array, "q d"]) -> PointClass:
        """The same: a class has no noise to take away."""
        return self(x)

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, "q C"]]:
        """The one function there is: probability one for the class."""
        del key
        return lambda x: jax.nn.one_hot(self(x).ids, len(self.shares), dtype=x.dtype)


def class_sums(data: Dataset, classes: int) -> tuple[Float[Array, " C"], Float[Array, "C d"]]:
    """The number of points of each class of a task, and the sums of their inputs."""
    belongs = jax.nn.one_hot(data.y, classes, dtype=data.x.dtype) * data.mask[:, None]
    return belongs.sum(0), belongs.T @ jnp.where(data.mask[:, None], data.x, 0.0)


class MajorityModel(AbstractMetaModel):
    """The shares of the classes in the meta-train tasks."""

    shares: Float[Array, " C"]

    def adapt(self, context: Dataset, key: Key) -> Prototypes:
        """One place for all classes: the most frequent in the context wins everywhere."""
        del key
        counts, places = class_sums(context, len(self.shares))
        return Prototypes(jnp.zeros_like(places), jnp.ones_like(counts, bool), counts + self.shares)


class PrototypeModel(AbstractMetaModel):
    """The shares of the classes in the meta-train tasks."""

    shares: Float[Array, " C"]

    def adapt(self, context: Dataset, key: Key) -> Prototypes:
        """The mean of each class in the context, in learner units."""
        del key
        counts, sums = class_sums(context, len(self.shares))
        return Prototypes(sums / jnp.maximum(counts, 1)[:, None], counts > 0, self.shares)


def _shares(tasks: Dataset, classes: int) -> Float[Array, " C"]:
    """The share of each class in all points, below one, so that a single point of a context counts for more."""
    counts, _ = jax.vmap(lambda task: class_sums(task, classes))(tasks)
    return counts.sum(0) / (1 + counts.sum())


class MajorityClass(AbstractMetaLearner):
    """The most frequent class of a context, whatever the inputs."""

    classes: int = eqx.field(static=True)

    def fit(self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None) -> MajorityModel:
        """Learns how frequent the classes are."""
        del key, valid, budget
        return MajorityModel(_shares(tasks, self.classes))


class NearestPrototype(AbstractMetaLearner):
    """The class whose mean over the context is nearest."""

    classes: int = eqx.field(static=True)

    def fit(self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None) -> PrototypeModel:
        """Learns how frequent the classes are."""
        del key, valid, budget
        return PrototypeModel(_shares(tasks, self.classes))
