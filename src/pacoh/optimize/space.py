"""Where an optimum is looked for: a box of named parameters, or a finite pool. Both give rows that models read.

A parameter becomes columns in [0, 1]: a number one (by its logarithm, where that is asked for), a choice one a choice.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.errors import PacohError

Plain = None | bool | int | float | str


@dataclass(frozen=True)
class Real:
    """A number between two bounds; with `log` all factors count alike.

    >>> from pacoh.optimize import Real
    >>> rate = Real(1e-4, 1.0, log=True)
    >>> round(rate.encode(0.01)[0], 6), round(rate.decode([0.5]), 6)
    (0.5, 0.01)
    """

    low: float
    high: float
    log: bool = False
    width = 1
    moves = True

    def __post_init__(self) -> None:
        _check_bounds(self)

    def encode(self, value: Any) -> list[float]:
        """Its place in [0, 1]."""
        return [float(_to_unit(_number(value, self), *self.ends, self.log))]

    def decode(self, columns: np.ndarray) -> float:
        """The number at a place, never outside the bounds by rounding."""
        return float(np.clip(_from_unit(float(columns[0]), *self.ends, self.log), self.low, self.high))

    def snap(self, columns: Array) -> Array:
        """Every place stands for a number."""
        return columns

    @property
    def ends(self) -> tuple[float, float]:
        """The values at 0 and at 1."""
        return self.low, self.high


@dataclass(frozen=True)
class Integer:
    """A whole number between two bounds, which count; each is as wide as the others (with `log`, in logarithms).

    >>> from pacoh.optimize import Integer
    >>> depth = Integer(1, 4)
    >>> depth.encode(1), depth.decode([0.6])
    ([0.125], 3)
    """

    low: int
    high: int
    log: bool = False
    width = 1
    moves = True

    def __post_init__(self) -> None:
        _check_bounds(self)
        if int(self.low) != self.low or int(self.high) != self.high:
            raise PacohError(f"The bounds of an Integer are whole numbers; got {self.low} and {self.high}.")

    def encode(self, value: Any) -> list[float]:
        """Its place in [0, 1]."""
        number = _number(value, self)
        if number != round(number):
            raise PacohError(f"An Integer takes whole numbers; got {value!r}.")
        return [float(_to_unit(number, *self.ends, self.log))]

    def decode(self, columns: np.ndarray) -> int:
        """The whole number nearest to a place."""
        return int(np.clip(round(_from_unit(float(columns[0]), *self.ends, self.log)), self.low, self.high))

    def snap(self, columns: Array) -> Array:
        """The places of the nearest whole numbers."""
        nearest = jnp.clip(jnp.round(_from_unit(columns, *self.ends, self.log)), self.low, self.high)
        return _to_unit(nearest, *self.ends, self.log)

    @property
    def ends(self) -> tuple[float, float]:
        """The values at 0 and at 1: half a step beyond the bounds."""
        return self.low - 0.5, self.high + 0.5


@dataclass(frozen=True)
class Choice:
    """One of some labels, one column each.

    >>> from pacoh.optimize import Choice
    >>> loss = Choice(("l1", "l2"))
    >>> loss.encode("l2"), loss.decode([0.9, 0.1])
    ([0.0, 1.0], 'l1')
    """

    options: tuple[Plain, ...]
    moves = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(self.options))
        if not self.options or len({(type(one), one) for one in self.options}) < len(self.options):
            raise PacohError(f"A Choice has one or more different options; got {self.options!r}.")

    @property
    def width(self) -> int:
        """The number of options."""
        return len(self.options)

    def encode(self, value: Any) -> list[float]:
        """One at its own column."""
        hits = [float(one == value and type(one) is type(value)) for one in self.options]
        if not any(hits):
            raise PacohError(f"{value!r} is none of the options {self.options!r}.")
        return hits

    def decode(self, columns: np.ndarray) -> Plain:
        """The option of the largest column."""
        return self.options[int(np.argmax(columns))]

    def snap(self, columns: Array) -> Array:
        """One at the largest column."""
        return jnp.eye(self.width, dtype=columns.dtype)[jnp.argmax(columns, -1)]


Axis = Real | Integer | Choice


@dataclass(frozen=True)
class Space:
    """Named parameters. A parameter that a point leaves out (or gives as None) counts as the middle of its range.

    `width` is the number of columns, `moves` says which of them a gradient may move.

    >>> from pacoh.optimize import Choice, Integer, Space
    >>> space = Space({"depth": Integer(1, 4), "loss": Choice(("l1", "l2"))})
    >>> space.encode([{"depth": 2, "loss": "l1"}, {"loss": "l2"}])
    array([[0.375, 1.   , 0.   ],
           [0.5  , 0.   , 1.   ]])
    >>> space.decode([[0.9, 0.2, 0.8]])
    [{'depth': 4, 'loss': 'l2'}]
    """

    axes: dict[str, Axis]

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", dict(self.axes))
        if not self.axes:
            raise PacohError("A Space has at least one parameter: Space({'rate': Real(1e-4, 1, log=True)}).")
        for name, axis in self.axes.items():
            if not isinstance(axis, Real | Integer | Choice):
                raise PacohError(f"Parameter {name!r} is a Real, an Integer or a Choice; got {axis!r}.")

    def __hash__(self) -> int:
        return hash(tuple(self.axes.items()))

    @cached_property
    def slices(self) -> dict[str, tuple[int, int]]:
        """The first column of each parameter, and the one after its last."""
        ends = np.cumsum([0, *(axis.width for axis in self.axes.values())]).tolist()
        return dict(zip(self.axes, itertools.pairwise(ends), strict=True))

    @property
    def width(self) -> int:
        """The number of columns."""
        return sum(axis.width for axis in self.axes.values())

    @property
    def moves(self) -> np.ndarray:
        """The columns of numbers."""
        return np.concatenate([np.full(axis.width, axis.moves) for axis in self.axes.values()])

    def encode(self, points: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """A row in [0, 1] for each point."""
        return np.array([self._row(point) for point in points], np.float64).reshape(len(points), self.width)

    def decode(self, rows: np.ndarray) -> list[dict[str, Any]]:
        """The points of rows."""
        cuts = self.slices.items()
        return [{name: self.axes[name].decode(row[a:b]) for name, (a, b) in cuts} for row in np.asarray(rows)]

    def snap(self, rows: Float[Array, "q d"]) -> Float[Array, "q d"]:
        """The nearest rows that stand for points; inside compiled code."""
        parts = [self.axes[name].snap(rows[..., a:b]) for name, (a, b) in self.slices.items()]
        return jnp.concatenate(parts, -1)

    def _row(self, point: Mapping[str, Any]) -> list[float]:
        unknown = set(point) - set(self.axes)
        if unknown:
            raise PacohError(f"The space has no parameter {', '.join(sorted(unknown))}; it has {', '.join(self.axes)}.")
        row: list[float] = []
        for name, axis in self.axes.items():
            try:
                row += _absent(axis) if point.get(name) is None and not _means(axis, None) else axis.encode(point[name])
            except PacohError as error:
                raise PacohError(f"Parameter {name!r}: {error}") from error
        return row


@dataclass(frozen=True, eq=False)
class Pool:
    """Candidates by their number: rows as the model reads them.

    >>> from pacoh.optimize import Pool
    >>> pool = Pool([[0.1, 2.0], [0.4, 3.0]])
    >>> len(pool), pool.width, pool.encode([1])
    (2, 2, array([[0.4, 3. ]]))
    """

    rows: np.ndarray

    def __post_init__(self) -> None:
        rows = np.asarray(self.rows, np.float64)
        object.__setattr__(self, "rows", rows[:, None] if rows.ndim == 1 else rows)
        if self.rows.ndim != 2 or not len(self.rows) or not np.isfinite(self.rows).all():
            raise PacohError(
                "A pool is an array of finite numbers, a row for each candidate and a column for each input; got one "
                f"of shape {rows.shape}."
            )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.rows.shape[1]

    def encode(self, points: Sequence[int]) -> np.ndarray:
        """The rows of candidates."""
        numbers = np.asarray(points)
        if numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= len(self)):
            raise PacohError(f"Candidates are numbers from 0 to {len(self) - 1}; got {points!r}.")
        return self.rows[numbers.astype(int)]


def _means(axis: Axis, value: Plain) -> bool:
    return isinstance(axis, Choice) and value in axis.options


def _absent(axis: Axis) -> list[float]:
    return [1.0 / axis.width] * axis.width if isinstance(axis, Choice) else [0.5]


def _check_bounds(axis: Real | Integer) -> None:
    kind = type(axis).__name__
    if not (math.isfinite(axis.low) and math.isfinite(axis.high) and axis.low < axis.high):
        raise PacohError(f"A {kind} lies between two finite bounds, the lower first; got {axis.low} and {axis.high}.")
    if axis.log and axis.ends[0] <= 0:
        raise PacohError(f"A {kind} by its logarithm has positive bounds; got {axis.low}: leave `log` out or raise it.")


def _number(value: Any, axis: Real | Integer) -> float:
    number = float(value)
    slack = 1e-9 * (axis.high - axis.low)
    if not axis.low - slack <= number <= axis.high + slack:
        raise PacohError(f"{value!r} is outside the bounds {axis.low} to {axis.high}: widen them, or leave it out.")
    return number


def _to_unit(value: Any, low: float, high: float, log: bool) -> Any:
    xp = np if isinstance(value, float) else jnp
    if log:
        return (xp.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    return (value - low) / (high - low)


def _from_unit(place: Any, low: float, high: float, log: bool) -> Any:
    if not log:
        return low + place * (high - low)
    xp = np if isinstance(place, float) else jnp
    return xp.exp(math.log(low) + place * (math.log(high) - math.log(low)))
