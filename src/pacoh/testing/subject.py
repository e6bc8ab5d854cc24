"""What is checked: a learner, a model it fitted, and the small ragged tasks behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.learners.base import AbstractMetaLearner

SIZES = (3, 6, 4, 5)
"""Points of the tasks that learners are checked on: ragged, the padded length being 6."""
QUERIES = 7
"""Points that predictions are asked at."""


@dataclass(frozen=True)
class Subject:
    """A learner, the model it fitted, the tasks it was fitted on, and what it claims to do.

    >>> from pacoh.testing import prepare
    >>> subject = prepare("pooled-ridge")
    >>> [len(x) for x, _ in subject.pairs()]
    [3, 6, 4, 5]
    """

    learner: AbstractMetaLearner
    model: Any
    tasks: Dataset
    classes: int | None = None
    has_prior: bool = True
    distributional: bool = True
    holds_data: bool = False
    tolerance: float = 2e-3
    skip: Mapping[str, str] = field(default_factory=dict)

    def reason(self, name: str) -> str | None:
        """Why a check does not apply; None where it does."""
        if name == "an empty context gives the prior" and not self.has_prior:
            return "the method has no prior predictive (has_prior=False)"
        return self.skip.get(name)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one draw of f at the queries: a value, or the classes' probabilities."""
        return (QUERIES,) if self.classes is None else (QUERIES, self.classes)

    @property
    def queries(self) -> Float[Array, "q d"]:
        """Inputs to predict at, in learner units."""
        return jax.random.normal(jax.random.key(7), (QUERIES, self.tasks.x.shape[-1]))

    def pairs(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The tasks without padding."""
        parts = (np.asarray(part) for part in (self.tasks.x, self.tasks.y))
        return [(x[:size], y[:size]) for x, y, size in zip(*parts, SIZES, strict=True)]

    def task(self, index: int) -> Dataset:
        """One task of the stack, with its padding."""
        return jax.tree.map(lambda leaf: leaf[index], self.tasks)


def ragged_tasks(
    d: int = 1, seed: int = 0, sizes: tuple[int, ...] = SIZES, classes: int | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Small related tasks in learner units: noisy waves of one frequency, with a phase and offset a task.

    With `classes` the targets are ids instead: the waves cut into slices of equal height.

    >>> from pacoh.testing import ragged_tasks
    >>> [x.shape for x, _ in ragged_tasks(d=2)]
    [(3, 2), (6, 2), (4, 2), (5, 2)]
    >>> [y.tolist() for _, y in ragged_tasks(sizes=(3, 4), classes=2)]
    [[1, 0, 1], [1, 1, 1, 0]]
    """
    random = np.random.default_rng(seed)
    tasks = []
    for size in sizes:
        x, phase, offset = random.normal(size=(size, d)), random.normal(), random.normal()
        y = np.sin(2 * x.sum(-1) + phase) + 0.3 * offset + 0.1 * random.normal(size=size)
        tasks.append((x, y if classes is None else np.clip((y + 1) / 2 * classes, 0, classes - 1).astype(int)))
    return tasks
