"""What an environment is: meta-train tasks, test tasks, and validation tasks where the data allow them."""

import abc
from typing import NamedTuple

import equinox as eqx
import numpy as np

from pacoh.encoding import default_columns
from pacoh.learners.base import AbstractMetaLearner
from pacoh.reading import Split, Tasks

Pair = tuple[np.ndarray, np.ndarray]
PUBLISHED = 29
"""The draw behind the published tables."""


class Draw(NamedTuple):
    """One draw of an environment, in original units. `valid` is None where the data allow none."""

    train: Tasks
    test: Split
    valid: Split | None


def named(pairs: list[Pair], classes: tuple | None = None) -> Tasks:
    """Tasks that the environment vouches for, named by their numbers; `classes` are the labels of class ids."""
    names, columns = tuple(str(i) for i in range(len(pairs))), default_columns(pairs[0][0].shape[1])
    return Tasks(names, tuple(x for x, _ in pairs), tuple(y for _, y in pairs), columns, classes)


class AbstractEnvironment(eqx.Module):
    """A distribution of tasks. `draw` moves the data; a learner's seed moves training only."""

    @abc.abstractmethod
    def draw(self, number: int) -> Draw:
        """The data of one draw; the same number gives the same data."""

    def oracle(self) -> AbstractMetaLearner | None:
        """The Bayes-optimal learner (in original units), where it is known."""
        return None

    def rehearsal(self, train: Tasks) -> tuple[Tasks, Split] | None:
        """Of each meta-train task what to learn from, and what to be judged on when it is left out.

        For environments whose test is not at random points of a task, such as one at later times; None where it is.
        """
        del train
        return None


class AbstractSynthetic(AbstractEnvironment):
    """Tasks made by NumPy's legacy generator in the order behind the published tables: draw 29 is the published one.

    First the meta-train tasks, then test tasks, then validation tasks, each with `query` more points.
    """

    n: eqx.AbstractVar[int]
    m: eqx.AbstractVar[int]
    tests: eqx.AbstractVar[int]
    valids: eqx.AbstractVar[int]
    query: eqx.AbstractVar[int]

    @abc.abstractmethod
    def task(self, random: np.random.RandomState, points: int) -> Pair:
        """The next task of `random`."""

    def draw(self, number: int) -> Draw:
        """The data of one draw."""
        random = np.random.RandomState(number)  # the published tables' generator
        train = named([self.task(random, self.m) for _ in range(self.n)])
        test, valid = self._split(random, self.tests), self._split(random, self.valids)
        return Draw(train, test, valid)

    def with_unused(self, number: int) -> tuple[Draw, Split]:
        """A draw whose meta-train tasks have `query` further points each that no learner sees, to measure overfitting.

        The split's context is what the learner trains on. Its data are not those of `draw`.
        """
        random = np.random.RandomState(number)
        train = self._split(random, self.n)
        test, valid = self._split(random, self.tests), self._split(random, self.valids)
        return Draw(train.context, test, valid), train

    def _split(self, random: np.random.RandomState, count: int) -> Split:
        return named([self.task(random, self.m + self.query) for _ in range(count)]).split(self.m)
