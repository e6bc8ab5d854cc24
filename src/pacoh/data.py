"""Tasks as arrays: padded, masked stacks, and the change of units that learners work in."""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Num

from pacoh.errors import PacohError


class Dataset(eqx.Module):
    """The points of one task; a stack of tasks is the same type with a leading axis.

    Rows whose mask is False are padding and count for nothing.
    """

    x: Float[Array, "*n m d"]
    y: Num[Array, "*n m"]
    mask: Bool[Array, "*n m"]

    @property
    def sizes(self) -> Num[Array, "*n"]:
        """The number of points of each task."""
        return self.mask.sum(-1)


class Task(eqx.Module):
    """What a learner is given (context) and what it is asked (query)."""

    context: Dataset
    query: Dataset


def bucket(size: int) -> int:
    """The padded length for `size` rows: the next of 1..8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...

    At most a quarter of the rows is padding, and a stream of odd sizes meets few shapes, so it compiles seldom.
    """
    size, step = max(size, 1), 1
    while size > 8 * step:
        step *= 2
    return -(-size // step) * step


def pad(x: np.ndarray, y: np.ndarray, size: int | None = None) -> Dataset:
    """One task as a Dataset of `size` rows (default: its bucket), in the precision jax works in."""
    return Dataset(*map(jnp.asarray, padded(x, y, size)))


def stack(tasks: Sequence[tuple[np.ndarray, np.ndarray]], size: int | None = None) -> Dataset:
    """Tasks of unequal sizes as one Dataset with a leading axis, padded to the bucket of the largest."""
    size = bucket(max((len(x) for x, _ in tasks), default=0)) if size is None else size
    columns = zip(*[padded(x, y, size) for x, y in tasks], strict=True)
    return Dataset(*[jnp.asarray(np.stack(column)) for column in columns])


def padded(x: np.ndarray, y: np.ndarray, size: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and mask of what `pad` gives, still in NumPy: thousands of tasks go to the device together."""
    size = bucket(len(x)) if size is None else size
    if len(x) > size:
        raise PacohError(
            f"A task of {len(x)} points does not fit into {size} rows: give size={bucket(len(x))} or more."
        )
    full_x, full_y = np.zeros((size, x.shape[1])), np.zeros(size, float if np.issubdtype(y.dtype, np.floating) else int)
    full_x[: len(x)], full_y[: len(x)] = x, y
    return full_x, full_y, np.arange(size) < len(x)


@dataclass(frozen=True)
class Standardizer:
    """Zero mean and unit scale for inputs and targets, and back.

    It works in NumPy's float64 on the host, before anything is cast to the working precision: a time stamp of 1.7e9 or
    a frequency of 1e9 +- 10 keeps its digits. A constant column gets scale 1.
    """

    x_loc: np.ndarray
    x_scale: np.ndarray
    y_loc: np.ndarray
    y_scale: np.ndarray

    @staticmethod
    def fit(tasks: Sequence[tuple[np.ndarray, np.ndarray]], *, alike: bool = False) -> "Standardizer":
        """Statistics of the pooled points of `tasks`; class ids (integers) keep their values.

        Inputs that are `alike` share one mean and one scale: a pixel that one drawing in a thousand inks is no louder
        than the others then, and a convolution finds the same stroke everywhere.
        """
        x = np.concatenate([np.asarray(x, np.float64) for x, _ in tasks])
        y = np.concatenate([np.asarray(y) for _, y in tasks])
        loc, scale = x.mean(0), _scale(x)
        if alike:
            loc, scale = np.full_like(loc, loc.mean()), np.full_like(scale, _scale(x.reshape(-1, 1))[0])
        if not np.issubdtype(y.dtype, np.floating):
            return Standardizer(loc, scale, np.zeros(()), np.ones(()))
        return Standardizer(loc, scale, y.mean(dtype=np.float64), _scale(y[:, None])[0])

    @staticmethod
    def identity(d: int) -> "Standardizer":
        """Original units."""
        return Standardizer(np.zeros(d), np.ones(d), np.zeros(()), np.ones(()))

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Inputs in learner units."""
        return (np.asarray(x, np.float64) - self.x_loc) / self.x_scale

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Targets in learner units; class ids as they are."""
        y = np.asarray(y)
        return (y - self.y_loc) / self.y_scale if np.issubdtype(y.dtype, np.floating) else y

    def __call__(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets in learner units."""
        return self.inputs(x), self.targets(y)


def _scale(columns: np.ndarray) -> np.ndarray:
    """Standard deviations, with 1 for columns that are constant up to rounding."""
    sd = columns.std(0, dtype=np.float64)
    resolution = 1e-12 * np.abs(columns).max(0, initial=0.0)
    return np.where(sd > resolution, sd, 1.0)
