"""What needs no learning, or hardly any: references that every table should hold. They predict points.

In learner units the mean of the meta-train targets is zero, so an empty context is answered with it.
"""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.data import Dataset, Task
from pacoh.errors import PacohError
from pacoh.inference.base import Budget
from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel
from pacoh.predictive import Point
from pacoh.priors.base import AbstractPredictor
from pacoh.types import Key, Scalar


class Plane(AbstractPredictor):
    """f(x) = level + slope . x"""

    level: Scalar
    slope: Float[Array, " d"]

    def __call__(self, x: Float[Array, "q d"]) -> Point:
        """The value."""
        return Point(self.level + x @ self.slope)

    def latent(self, x: Float[Array, "q d"]) -> Point:
        """The same: a point has no noise to take away."""
        return self(x)

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, " q"]]:
        """The one function there is."""
        del key
        return lambda x: self(x).loc


def context_mean(context: Dataset) -> Scalar:
    """The mean target; zero without points."""
    return jnp.where(context.mask, context.y, 0.0).sum() / jnp.maximum(context.mask.sum(), 1)


def last_value(context: Dataset) -> Scalar:
    """The target at the largest first input, the first of several there; zero without points."""
    last = jnp.argmax(jnp.where(context.mask, context.x[:, 0], -jnp.inf))
    return jnp.where(context.mask.any(), context.y[last], 0.0)


class ContextModel(AbstractMetaModel):
    """keep * (share * last value + (1 - share) * mean): shrunk from the context towards the meta-train mean."""

    share: float = eqx.field(static=True)
    keep: float = eqx.field(static=True)

    def adapt(self, context: Dataset, key: Key) -> Plane:
        """A constant."""
        del key
        level = self.share * last_value(context) + (1 - self.share) * context_mean(context)
        return Plane(self.keep * level, jnp.zeros(context.x.shape[-1], context.x.dtype))


class PlaneModel(AbstractMetaModel):
    """One plane for every task, whatever its context."""

    plane: Plane

    def adapt(self, context: Dataset, key: Key) -> Plane:
        """The plane."""
        del context, key
        return self.plane


def _check_share(name: str, value: float) -> None:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise PacohError(f"The setting {name} is a number between 0 and 1; got {value!r}.")


class LastValue(AbstractMetaLearner):
    """The last value of a context carried forward.

    `share` below 1 mixes in the context's mean, `keep` below 1 shrinks towards the meta-train mean. With `lag`, the
    number of an input column that holds the last value (in the target's unit), that column itself is the prediction.
    """

    share: float = eqx.field(static=True, default=1.0)
    keep: float = eqx.field(static=True, default=1.0)
    lag: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        _check_share("share", self.share)
        _check_share("keep", self.keep)

    def fit(
        self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None
    ) -> ContextModel | PlaneModel:
        """Learns nothing."""
        del key, valid, budget
        if self.lag is None:
            return ContextModel(self.share, self.keep)
        d = tasks.x.shape[-1]
        if not isinstance(self.lag, int) or not -d <= self.lag < d:
            raise PacohError(f"The lag is the number of an input column, 0 to {d - 1}; got {self.lag!r}.")
        slope = np.eye(d)[self.lag]
        return PlaneModel(Plane(jnp.zeros(()), jnp.asarray(slope, tasks.x.dtype)))


class ContextMean(AbstractMetaLearner):
    """The mean of a context; `keep` below 1 shrinks it towards the meta-train mean."""

    keep: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        _check_share("keep", self.keep)

    def fit(self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None) -> ContextModel:
        """Learns nothing."""
        del tasks, key, valid, budget
        return ContextModel(0.0, self.keep)


class PooledRidge(AbstractMetaLearner):
    """argmin_w sum (y - w . x - b)^2 + penalty |w|^2 over the points of all tasks: one plane, no adaptation."""

    penalty: float = eqx.field(static=True, default=1e-3)

    def __check_init__(self):
        if not isinstance(self.penalty, int | float) or not 0 < self.penalty < float("inf"):
            raise PacohError(f"The penalty of a ridge is a positive number; got {self.penalty!r}.")

    def fit(self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None) -> PlaneModel:
        """The normal equations in float64: lagged inputs are nearly collinear."""
        del key, valid, budget
        keep = np.asarray(tasks.mask)
        x, y = np.asarray(tasks.x, np.float64)[keep], np.asarray(tasks.y, np.float64)[keep]
        centre, level = x.mean(0), y.mean()
        gram = (x - centre).T @ (x - centre) + self.penalty * np.eye(x.shape[1])
        slope = np.linalg.solve(gram, (x - centre).T @ (y - level))
        dtype = tasks.x.dtype
        return PlaneModel(Plane(jnp.asarray(level - centre @ slope, dtype), jnp.asarray(slope, dtype)))
