"""What a learner is given of each task and what it is asked: random contexts of several sizes, the rest as queries."""

import math
from dataclasses import dataclass

import numpy as np

from pacoh.environments.base import Pair
from pacoh.reading import Tasks

FEW = 5
MOST = 64
"""Context points at most: with more, a task hardly needs the others."""
ASKED = 128
"""Query points at most."""
SMALL = 8
"""Context points up to which contexts are padded to so many, and no further."""
FEW_POINTS, HALF = "few", "half"


@dataclass(frozen=True)
class Contexts:
    """Random orders of each task's points; the first ones are the context.

    `amounts` says how many by name: `few`, `half`, and the sizes of a learning curve ("1", "2", ...), with an entry a
    task, 0 where the task is too small for it.
    """

    tasks: Tasks
    orders: list[list[np.ndarray]]
    amounts: dict[str, np.ndarray]

    @property
    def curve(self) -> list[int]:
        """The sizes of the learning curve."""
        return [int(name) for name in self.amounts if name not in (FEW_POINTS, HALF)]

    def sizes(self, amount: str) -> tuple[int, int]:
        """Padded numbers of context and query points: two shapes serve all amounts, and few serve all data.

        Of classes one shape does: networks take longer to compile than for points more.
        """
        small = self.tasks.classes is None and int(self.amounts[amount].max()) <= SMALL
        most = SMALL if small else max(int(counts.max()) for counts in self.amounts.values())
        return _power_of_two(most), min(ASKED, _power_of_two(max(self.tasks.sizes)))

    def first_of_equals(self) -> dict[str, str]:
        """For each amount the first that takes as many points of every task: what is said of it holds for both."""
        names = list(self.amounts)
        same = {one: [other for other in names if (self.amounts[one] == self.amounts[other]).all()] for one in names}
        return {one: others[0] for one, others in same.items()}

    def thinned(self, most: int) -> Tasks:
        """The tasks with so many points of each at most, drawn at random."""
        return self.tasks.rows([np.isin(np.arange(len(order[0])), order[0][:most]) for order in self.orders])

    def split(self, task: int, amount: str) -> list[tuple[Pair, Pair]]:
        """Context and query of a task for each order; where it is too small, a context of one point stands in."""
        count = max(1, int(self.amounts[amount][task]))
        x, y = self.tasks.x[task], self.tasks.y[task]
        rows = [(order[:count], order[count : count + ASKED]) for order in self.orders[task]]
        return [((x[given], y[given]), (x[asked], y[asked])) for given, asked in rows]


def _power_of_two(size: int) -> int:
    return 2 ** math.ceil(math.log2(size))


def draw(tasks: Tasks, repeats: int, seed: int) -> Contexts:
    """Contexts of few points (5, or half of a smaller task), of half of each task, and of the sizes of a curve.

    A curve goes on while half of the tasks have two more points than it takes. Tasks of one point are never asked.
    """
    random = np.random.default_rng(seed)
    by_task = tasks.codec is not None and tasks.codec.by_task
    orders = [[_order(y, by_task, random) for _ in range(repeats)] for y in tasks.y]
    sizes = np.array(tasks.sizes)
    least = np.array([len(np.unique(y)) if by_task else 1 for y in tasks.y])  # labels of its own: name each once
    half = np.minimum(np.maximum(sizes // 2, least), MOST)
    amounts = {FEW_POINTS: np.minimum(np.maximum(FEW, least), half), HALF: half}
    for size in (1, 2, 3, 5, 8, 13, 21) if tasks.classes is None else (2, 5, 13):
        fits = (sizes >= size + 2) & (size >= least)
        if fits.mean() >= 0.5:
            amounts[str(size)] = np.where(fits, size, 0)
    return Contexts(tasks, orders, {name: np.where(sizes > counts, counts, 0) for name, counts in amounts.items()})


def _order(y: np.ndarray, by_task: bool, random: np.random.Generator) -> np.ndarray:
    """A random order; where labels are the task's own, one of each class comes first, then another of each."""
    order = random.permutation(len(y))
    if not by_task:
        return order
    turn = np.empty(len(y), int)
    for label in np.unique(y):
        mine = order[y[order] == label]
        turn[mine] = np.arange(len(mine))
    return order[np.argsort(turn[order], kind="stable")]
