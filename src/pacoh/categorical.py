"""Predictive distributions of a class at q query points."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float, Int

from pacoh.errors import PacohError
from pacoh.predictive import AbstractPredictive
from pacoh.types import Key


class AbstractClasses(AbstractPredictive):
    """A predictive of a class.

    >>> import numpy as np
    >>> from pacoh.categorical import AbstractClasses, PointClass
    >>> isinstance(PointClass(np.array([0, 1])), AbstractClasses)
    True
    """

    @property
    @abc.abstractmethod
    def mode(self) -> Int[Array, "*n q"]:
        """The id of the most probable class."""

    @property
    @abc.abstractmethod
    def labels(self) -> np.ndarray:
        """The most probable class by its label, where labels are known."""

    def affine(self, loc, scale) -> "AbstractClasses":
        """The same: classes have no units."""
        del loc, scale
        return self


def _labels(ids: Array, classes: tuple | None) -> np.ndarray:
    """The labels that ids stand for, in their own type."""
    if classes is None:
        return np.asarray(ids)
    plain = np.asarray(classes)
    known = np.array(classes, dtype=object) if plain.dtype.kind in "US" else plain  # numbers beside text stay numbers
    return known[np.asarray(ids)]


class PointClass(AbstractClasses):
    """A class without a probability: what needs one is refused.

    >>> import numpy as np
    >>> from pacoh.categorical import PointClass
    >>> said = PointClass(np.array([0, 1, 1]), classes=("fine", "hot"))
    >>> said.mode, said.labels.tolist()
    (array([0, 1, 1]), ['fine', 'hot', 'hot'])
    """

    ids: Int[Array, "*n q"]
    classes: tuple | None = eqx.field(static=True, default=None)

    @property
    def mode(self) -> Int[Array, "*n q"]:
        """The predicted class."""
        return self.ids

    @property
    def labels(self) -> np.ndarray:
        """The most probable class by its label."""
        return _labels(self.mode, self.classes)

    def first(self, count: int) -> "PointClass":
        """The classes at the first `count` query points."""
        return PointClass(self.ids[..., :count], self.classes)

    def numpy(self) -> "PointClass":
        """The same in NumPy."""
        return PointClass(np.asarray(self.ids), self.classes)  # pyright: ignore[reportArgumentType]

    def __getattr__(self, name: str):
        if name in ("probs", "log_prob", "sample", "confidence"):
            raise PacohError(
                f"This method predicts classes, not their probabilities: there is no {name!r}. "
                "Use `mode` or `labels`, or a method that predicts distributions."
            )
        raise AttributeError(name)


class CategoricalMixture(AbstractClasses):
    """sum_k w_k Categorical(softmax(logits_k)) at each query point; equal weights unless `log_weights` says else.

    >>> import numpy as np
    >>> from pacoh.categorical import CategoricalMixture
    >>> logits = np.log([[[0.9, 0.1]], [[0.5, 0.5]]])  # two components, one query, two classes
    >>> said = CategoricalMixture(logits, classes=("fine", "hot"))
    >>> said.probs.round(2), said.labels.tolist(), said.confidence.round(2)
    (array([[0.7, 0.3]]), ['fine'], array([0.7]))
    """

    logits: Float[Array, "*n K q C"]
    log_weights: Float[Array, "*n K"] | None = None
    classes: tuple | None = eqx.field(static=True, default=None)

    @property
    def log_probs(self) -> Float[Array, "*n q C"]:
        """The logs of the classes' probabilities."""
        xp, logsumexp = (jnp, jax.nn.logsumexp) if isinstance(self.logits, jax.Array) else (np, scipy.special.logsumexp)
        each = self.logits - logsumexp(self.logits, -1, keepdims=True)
        if self.log_weights is None:
            return logsumexp(each, -3) - xp.log(self.logits.shape[-3])
        weights = self.log_weights - logsumexp(self.log_weights, -1, keepdims=True)
        return logsumexp(each + weights[..., None, None], -3)

    @property
    def probs(self) -> Float[Array, "*n q C"]:
        """The classes' probabilities."""
        xp: Any = jnp if isinstance(self.logits, jax.Array) else np
        return xp.exp(self.log_probs)

    @property
    def mode(self) -> Int[Array, "*n q"]:
        """The most probable class."""
        return self.log_probs.argmax(-1)

    @property
    def labels(self) -> np.ndarray:
        """The most probable class by its label."""
        return _labels(self.mode, self.classes)

    @property
    def confidence(self) -> Float[Array, "*n q"]:
        """The probability of the most probable class."""
        return self.probs.max(-1)

    def log_prob(self, y) -> Float[Array, "*n q"]:
        """The log-probability of the class ids y."""
        xp: Any = jnp if isinstance(self.logits, jax.Array) else np
        return xp.take_along_axis(self.log_probs, xp.asarray(y)[..., None].astype(int), -1)[..., 0]

    def sample(self, count: int, key: Key) -> Int[Array, "count *n q"]:
        """`count` independent classes at each query point."""
        log_probs = jnp.asarray(self.log_probs)
        return jax.random.categorical(key, log_probs, shape=(count, *log_probs.shape[:-1]))

    def first(self, count: int) -> "CategoricalMixture":
        """The same at the first `count` query points alone."""
        return CategoricalMixture(self.logits[..., :count, :], self.log_weights, self.classes)


def named(predictive: AbstractPredictive, classes: tuple | None) -> AbstractPredictive:
    """The same predictive with the labels of its classes; numbers as they are.

    >>> import numpy as np
    >>> from pacoh.categorical import PointClass, named
    >>> named(PointClass(np.array([1, 0])), ("fine", "hot")).labels.tolist()
    ['hot', 'fine']
    """
    if isinstance(predictive, CategoricalMixture):
        return CategoricalMixture(predictive.logits, predictive.log_weights, classes)
    if isinstance(predictive, PointClass):
        return PointClass(predictive.ids, classes)
    return predictive
