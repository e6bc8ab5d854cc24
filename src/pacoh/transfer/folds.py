"""Parts of the tasks to learn from, and the method fitted to many of them in one `vmap`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pacoh.api import Model, fit_many
from pacoh.inference.base import Budget
from pacoh.reading import Tasks
from pacoh.tuning import Choice
from pacoh.tuning.folds import select


class Leaving(NamedTuple):
    """Up to how many tasks each is left out alone, and into how many groups more of them are divided."""

    alone: int
    groups: int


NUMBERS, CLASSES = Leaving(20, 10), Leaving(8, 5)
"""Of numbers and of classes, whose networks train for longer."""
Tell = Callable[[str], Callable[[int, int, float], None]]
"""From the name of a stage to who is told of it: steps done, in all, the log-density."""


@dataclass(frozen=True)
class Trainer:
    """The chosen method on parts of the tasks."""

    tasks: Tasks
    choice: Choice
    seed: int
    progress: Tell | None

    def fit(self, parts: Sequence[np.ndarray], stage: str) -> list[Model]:
        """A model a part; parts larger than the smallest lose tasks at random, so that all have one shape."""
        random, least = np.random.default_rng([self.seed, 2]), min(len(part) for part in parts)
        even = [part if len(part) == least else np.sort(random.choice(part, least, replace=False)) for part in parts]
        budget = Budget() if self.progress is None else Budget(progress=self.progress(stage))
        sources, seeds = [select(self.tasks, part) for part in even], [self.seed] * len(even)
        return fit_many(sources, self.choice.method, seeds, budget=budget, **self.choice.settings)


def groups(able: np.ndarray, seed: int, leaving: Leaving = NUMBERS) -> list[np.ndarray]:
    """The tasks to judge as groups to leave out together: one by one, or some of one size.

    To be of one size, the last may repeat tasks of the first.
    """
    if len(able) <= leaving.alone:
        return [np.array([task]) for task in able]
    order = np.random.default_rng([seed, 3]).permutation(able)
    size = -(-len(order) // leaving.groups)
    return list(np.concatenate([order, order[: -len(order) % size]]).reshape(-1, size))


def divided(among: np.ndarray, parts: int, times: int, seed: int) -> list[np.ndarray]:
    """The tasks divided at random into parts of one size, several times; what does not divide is left over."""
    random, size = np.random.default_rng([seed, 1]), len(among) // parts
    each = [random.permutation(among)[: parts * size].reshape(parts, size) for _ in range(times)]
    return [np.sort(part) for some in each for part in some]
