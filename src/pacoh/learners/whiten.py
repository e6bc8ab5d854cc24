"""Inputs turned so that all of them together are uncorrelated and of unit size."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.learners.change import AbstractChange, only, with_inputs
from pacoh.predictive import AbstractPredictive
from pacoh.priors.base import AbstractPredictor
from pacoh.types import Key

_LEAST = 1e-5  # of the largest variance: directions with less are rounding, or columns that say the same


class Whitening(AbstractChange):
    """x -> (x - loc) C^{-1/2}, C the covariance of all inputs together: the turn nearest to leaving them as they are.

    Ten lags of a slow signal are one number nearly ten times over, and what tells them apart, their differences, is a
    hundredth of its size: gradients see the level alone. Directions whose variance is below 1e-5 of the largest count
    as having that much, so what is only rounding stays small.
    """

    loc: Float[Array, " d"]
    turn: Float[Array, "d d"]

    @classmethod
    def of(cls, tasks: Dataset) -> "Whitening":
        """The turn for the inputs of all tasks together; without a point, none."""
        mask = tasks.mask.reshape(-1)
        x = only(mask, tasks.x.reshape(-1, tasks.x.shape[-1]))
        count = jnp.maximum(mask.sum(), 1)
        loc = x.sum(0) / count
        apart = only(mask, x - loc)
        values, vectors = jnp.linalg.eigh(_product(apart.T, apart) / count)
        most = values[-1]
        roots = jnp.where(most > 0, jnp.maximum(values, _LEAST * most), 1.0) ** -0.5
        return cls(loc, _product(vectors * roots, vectors.T))

    def inputs(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """Inputs in the new coordinates."""
        return _product(x - self.loc, self.turn)

    def tasks(self, tasks: Dataset) -> Dataset:
        """Tasks with their inputs turned."""
        return with_inputs(tasks, self.inputs(tasks.x))

    def predictor(self, inner: AbstractPredictor) -> "WhitenedPredictor":
        """At inputs as they are."""
        return WhitenedPredictor(inner, self)


class WhitenedPredictor(AbstractPredictor):
    """A predictor at turned inputs, at the inputs themselves."""

    inner: AbstractPredictor
    change: Whitening

    def __call__(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """Of y."""
        return self.inner(self.change.inputs(x))

    def latent(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """Of f."""
        return self.inner.latent(self.change.inputs(x))

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Array]:
        """One draw of f."""
        draw = self.inner.function(key)
        return lambda x: draw(self.change.inputs(x))


def _product(a: Array, b: Array) -> Array:
    """In full precision: accelerators round more, and small differences of large numbers are the point here."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)
