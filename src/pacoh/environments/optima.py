"""Families of functions to minimise, with known optima: Branin and Hartmann, moved and scaled by task.

A task is scale f(x + shift) + offset on the box of f: the shift U(-15 %, 15 %) of each range, the scale U(1/2, 2), the
offset U(-1, 1) times a tenth of f's range.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np

from pacoh.environments.base import AbstractSynthetic, Pair

SHIFT, SCALE, OFFSET = 0.15, (0.5, 2.0), 0.1

_A3 = np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_P3 = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
_A6 = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_P6 = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])


def branin(x: Any, xp: Any = np) -> Any:
    """(x2 - 5.1/(4 pi^2) x1^2 + 5/pi x1 - 6)^2 + 10 (1 - 1/(8 pi)) cos x1 + 10, on [-5, 10] x [0, 15]."""
    first, second = x[..., 0], x[..., 1]
    valley = second - 5.1 / (4 * np.pi**2) * first**2 + 5 / np.pi * first - 6
    return valley**2 + 10 * (1 - 1 / (8 * np.pi)) * xp.cos(first) + 10


def hartmann(x: Any, a: np.ndarray, p: np.ndarray, xp: Any = np) -> Any:
    """-sum_i alpha_i exp(-sum_j A_ij (x_j - P_ij)^2), on [0, 1]^d."""
    return -(_ALPHA * xp.exp(-(a * (x[..., None, :] - p) ** 2).sum(-1))).sum(-1)


class Objective(NamedTuple):
    """One task: call it on rows. `least` is its minimum over the box, `span` how far its family's values reach."""

    f: Callable[..., Any]
    shift: np.ndarray
    scale: float
    offset: float
    least: float
    where: np.ndarray
    span: float

    def __call__(self, x: Any, xp: Any = np) -> Any:
        """The values at the rows of x."""
        return self.scale * self.f(x + self.shift, xp) + self.offset

    def regret(self, values: Any) -> Any:
        """How far values are above the minimum, in shares of the span."""
        return (values - self.least) / self.span


class AbstractOptima(AbstractSynthetic):
    """Tasks whose minimum is looked for; as regression tasks, uniform inputs and values without noise."""

    n: int = eqx.field(static=True, default=10)
    m: int = eqx.field(static=True, default=20)
    tests: int = eqx.field(static=True, default=20)
    valids: int = eqx.field(static=True, default=20)
    query: int = eqx.field(static=True, default=200)

    bounds: ClassVar[tuple[tuple[float, float], ...]]
    minima: ClassVar[tuple[tuple[float, ...], ...]]  # those of the function as it is that a shift may make the least
    span: ClassVar[float]  # its range over its box

    @staticmethod
    @abc.abstractmethod
    def f(x: Any, xp: Any = np) -> Any:
        """The function as it is."""

    def objective(self, random: np.random.RandomState) -> Objective:
        """The next function of `random`: shift, scale, offset."""
        low, high = np.array(self.bounds).T
        shift = random.uniform(-SHIFT, SHIFT, len(low)) * (high - low)
        scale, offset = random.uniform(*SCALE), OFFSET * self.span * random.uniform(-1, 1)
        where, least = self._minimum(shift)
        return Objective(self.f, shift, scale, offset, scale * least + offset, where, scale * self.span)

    def task(self, random: np.random.RandomState, points: int) -> Pair:
        """A function, then uniform inputs."""
        objective = self.objective(random)
        low, high = np.array(self.bounds).T
        x = random.uniform(low, high, (points, len(low)))
        return x, objective(x)

    def _minimum(self, shift: np.ndarray) -> tuple[np.ndarray, float]:
        """The least of the local minima, followed into the box where the shift moved them out."""
        from scipy.optimize import minimize  # takes long to import: only where it is used

        box = np.array(self.bounds)
        starts = np.clip(np.array(self.minima) - shift, *box.T)
        found = [minimize(lambda x: self.f(x + shift), start, bounds=box, method="L-BFGS-B") for start in starts]
        best = min(found, key=lambda one: one.fun)
        return best.x, float(best.fun)


class Branin(AbstractOptima):
    """Branin functions, to be minimised: two inputs, three equal minima; moved and scaled by task."""

    bounds = ((-5.0, 10.0), (0.0, 15.0))
    minima = ((-np.pi, 12.275), (np.pi, 2.275), (9.42478, 2.475))
    span = 307.731

    @staticmethod
    def f(x: Any, xp: Any = np) -> Any:
        """Branin's function."""
        return branin(x, xp)


class Hartmann3(AbstractOptima):
    """Hartmann functions of three inputs, to be minimised; moved and scaled by task."""

    bounds = ((0.0, 1.0),) * 3
    minima = ((0.114589, 0.555649, 0.852547),)
    span = 3.862742

    @staticmethod
    def f(x: Any, xp: Any = np) -> Any:
        """Hartmann's function of three inputs."""
        return hartmann(x, _A3, _P3, xp)


class Hartmann6(AbstractOptima):
    """Hartmann functions of six inputs, to be minimised; moved and scaled by task."""

    bounds = ((0.0, 1.0),) * 6
    minima = (
        (0.201690, 0.150011, 0.476874, 0.275332, 0.311652, 0.657301),
        (0.404653, 0.882450, 0.846102, 0.573990, 0.138927, 0.038497),
    )
    span = 3.322368

    @staticmethod
    def f(x: Any, xp: Any = np) -> Any:
        """Hartmann's function of six inputs."""
        return hartmann(x, _A6, _P6, xp)
