"""Sets of tasks of which it is known whether transfer helps, and which tasks are of another kind."""

from collections.abc import Callable

import numpy as np

from pacoh.environments import Ellipses
from pacoh.environments.base import Pair

Random = np.random.Generator
Odd = Callable[[Random, np.ndarray], np.ndarray]
Make = Callable[[Random], list[Pair]]


def machines(
    random: Random,
    n: int = 15,
    *,
    points: tuple[int, int] = (4, 30),
    wave: float = 1.5,
    period: float = 3.7,
    phase: float = 0.05,
    noise: float = 0.1,
    d: int = 1,
    second: float = 0.0,
    odd: tuple[Odd, ...] = (),
) -> list[Pair]:
    """y = o_i + s_i x + wave sin(2 pi (x / period + p_i)) + second u^2 + noise; the last are `odd`.

    x is the first of d inputs and u the second, about 5; the others have no say.
    """

    def machine() -> Pair:
        x = random.uniform(0, 10, (random.integers(points[0], points[1] + 1), d))
        shared = wave * np.sin(2 * np.pi * (x[:, 0] / period + random.normal(0, phase)))
        shared += second * np.square(x[:, 1:2] - 5).sum(1)
        own = random.normal(2, 1) + random.normal(1, 0.2) * x[:, 0]
        return x, own + shared + noise * random.normal(size=len(x))

    def other(kind: Odd) -> Pair:
        x = random.uniform(0, 10, (20, d))
        return x, kind(random, x[:, 0]) + noise * random.normal(size=20)

    return [*(machine() for _ in range(n - len(odd))), *map(other, odd)]


def measured(
    random: Random, make: Make, *, x: tuple[float, float] = (0, 1), y: tuple[float, float] = (0, 1)
) -> list[Pair]:
    """The tasks of `make` in other units: offset and scale of x and of y."""
    return [(x[0] + x[1] * inputs, y[0] + y[1] * targets) for inputs, targets in make(random)]


def falling(random: Random, x: np.ndarray) -> np.ndarray:
    """A line that falls where the others rise."""
    del random
    return 12 - 1.2 * x


def jumping(random: Random, x: np.ndarray) -> np.ndarray:
    """The same with a jump at every integer."""
    return falling(random, x) + 3 * (-1) ** np.floor(x)


def periodic(
    random: Random,
    n: int = 15,
    *,
    points: tuple[int, int] = (8, 30),
    period: tuple[float, float] = (1.5, 4),
    amplitude: tuple[float, float] = (0.5, 2),
    noise: float = 0.1,
) -> list[Pair]:
    """Sinusoids of one period, an amplitude and a phase of each task's own."""
    common, tasks = random.uniform(*period), []
    for _ in range(n):
        x = random.uniform(0, 10, (random.integers(points[0], points[1] + 1), 1))
        y = random.uniform(*amplitude) * np.sin(2 * np.pi * (x[:, 0] / common + random.uniform()))
        tasks.append((x, y + noise * random.normal(size=len(x))))
    return tasks


def unrelated(
    random: Random,
    n: int = 15,
    *,
    points: int = 40,
    length: tuple[float, float] = (0.3, 4),
    noise: float = 0.1,
    d: int = 1,
) -> list[Pair]:
    """Draws of Gaussian processes, each of a length-scale, a scale and a level of its own."""
    tasks = []
    for _ in range(n):
        x, scale = random.uniform(0, 10, (points, d)), np.exp(random.normal(0, 0.5))
        near = np.square(x[:, None] - x).sum(-1) / np.exp(random.uniform(*np.log(length))) ** 2
        smooth = np.linalg.cholesky(np.exp(-0.5 * near) + 1e-8 * np.eye(points)) @ random.normal(size=points)
        tasks.append((x, random.normal() + scale * (smooth + noise * random.normal(size=points))))
    return tasks


def patterns(random: Random, n: int = 20, *, points: int = 10) -> list[Pair]:
    """Five classes whose places are the same in all tasks, but for a turn and a shift: tasks of Ellipses."""
    seeded = np.random.RandomState(random.integers(2**31))
    return [Ellipses().task(seeded, points) for _ in range(n)]


def prototypes(
    random: Random, n: int = 20, *, classes: int = 5, points: int = 10, width: float = 0.5, d: int = 2
) -> list[Pair]:
    """Classes about places that each task draws anew: of another task's places nothing is to be learned."""
    tasks = []
    for _ in range(n):
        places, y = 2 * random.normal(size=(classes, d)), np.tile(np.arange(classes), points)
        tasks.append((places[y] + width * random.normal(size=(len(y), d)), y))
    return tasks


def lines(random: Random, n: int = 15, *, points: int = 40, noise: float = 0.1) -> list[Pair]:
    """Lines of any slope and level: that they are straight is all that they share."""
    tasks = []
    for _ in range(n):
        x, slope, level = random.uniform(0, 10, (points, 1)), random.normal(), 3 * random.normal()
        tasks.append((x, level + slope * x[:, 0] + noise * random.normal(size=points)))
    return tasks
