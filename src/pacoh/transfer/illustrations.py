"""Predictions on left-out tasks of one input, to be drawn: the learned prior beside learning the task alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pacoh.api import Model, shape_of
from pacoh.environments.base import Pair
from pacoh.predictive import AbstractDistribution, AbstractNumeric
from pacoh.transfer.compare import LEARNED, Comparison, references
from pacoh.transfer.contexts import FEW_POINTS, Contexts
from pacoh.transfer.scores import predict

SHOWN = 3
_GRID = 96


@dataclass(frozen=True)
class Drawn:
    """A task with its context and queries, and by learner the mean and a 90 % band (None of points) on a grid."""

    task: str
    context: Pair
    query: Pair
    grid: np.ndarray
    said: dict[str, tuple[np.ndarray, np.ndarray | None, np.ndarray | None]]


def illustrate(
    models: Sequence[Model], comparison: Comparison, groups: Sequence[np.ndarray], contexts: Contexts
) -> tuple[Drawn, ...]:
    """The tasks with most points, each given few of them."""
    tasks = contexts.tasks
    largest = sorted(range(len(groups)), key=lambda i: -tasks.sizes[groups[i][0]])[:SHOWN]
    alone = comparison.alone(FEW_POINTS)
    meta = references(shape_of(tasks))[alone]
    splits = [contexts.split(int(groups[i][0]), FEW_POINTS)[0] for i in largest]
    grids = [np.linspace(*_span(tasks.x[groups[i][0]][:, 0]), _GRID)[:, None] for i in largest]
    rows = [[(context, (grid, np.zeros(_GRID)))] for (context, _), grid in zip(splits, grids, strict=True)]
    learners = {
        LEARNED: [models[i] for i in largest],
        alone: [replace(models[i], meta=meta) for i in largest],
    }
    said = {name: predict(each, rows, (contexts.sizes(FEW_POINTS)[0], _GRID)) for name, each in learners.items()}
    return tuple(
        Drawn(
            tasks.names[groups[i][0]], *splits[k], grids[k][:, 0], {name: _band(each[k]) for name, each in said.items()}
        )
        for k, i in enumerate(largest)
    )  # fmt: skip


def _band(predictive: object) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    assert isinstance(predictive, AbstractNumeric)
    mean = np.asarray(predictive.mean)[0]
    if not isinstance(predictive, AbstractDistribution):
        return mean, None, None
    low, high = predictive.interval(0.9)
    return mean, np.asarray(low)[0], np.asarray(high)[0]


def _span(x: np.ndarray) -> tuple[float, float]:
    margin = 0.05 * (x.max() - x.min())
    return float(x.min() - margin), float(x.max() + margin)
