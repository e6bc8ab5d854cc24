"""Models of many folds on the tasks each of them left out: predictions by one program, scores by task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pacoh import metrics
from pacoh.api import Model, predict_stack
from pacoh.categorical import CategoricalMixture
from pacoh.data import stack
from pacoh.predictive import AbstractDistribution, AbstractPredictive
from pacoh.transfer.contexts import Contexts

_AT_ONCE, _CLASSES_AT_ONCE = 4, 8  # rows: the contexts of a task, and those of a group
LEVEL = 0.9
"""The level of the intervals whose coverage is told."""


@dataclass(frozen=True)
class Scores:
    """By lane and task judged, averaged over contexts: the error and the log-likelihood a point (None of points).

    The error is the RMSE, of classes the share of wrong ones. `sure` is of every query, in rows by lane and task: the
    cdf at its target, or of classes the confidence and whether it was right.
    """

    error: np.ndarray
    log_likelihood: np.ndarray | None
    sure: list[list[np.ndarray]] | None

    def spread(self, judged: Sequence[np.ndarray], tasks: int) -> "Scores":
        """The same with a column a task, NaN where it was not judged."""

        def column(values: np.ndarray) -> np.ndarray:
            wide = np.full((len(values), tasks), np.nan)
            for row, some, places in zip(wide, values, judged, strict=True):
                row[places] = some
            return wide

        return Scores(column(self.error), None if self.log_likelihood is None else column(self.log_likelihood), None)

    def covered(self) -> np.ndarray:
        """The share of each task's queries inside the central 90 % interval; numbers only."""
        tail = (1 - LEVEL) / 2
        assert self.sure is not None
        return np.array([[np.mean((u >= tail) & (u <= 1 - tail)) for u in row] for row in self.sure])


def score(models: Sequence[Model], judged: Sequence[np.ndarray], contexts: Contexts, amount: str) -> Scores:
    """Scores of each model on its tasks `judged` (as many for each), with a context of the given amount."""
    sizes, repeats = contexts.sizes(amount), len(contexts.orders[0])
    rows = [[pair for task in tasks for pair in contexts.split(int(task), amount)] for tasks in judged]
    said = predict(models, rows, sizes)
    error, density, sure = [], [], []
    for predictive, row in zip(said, rows, strict=True):
        y = np.stack([np.pad(target, (0, sizes[1] - len(target))) for _, (_, target) in row])
        mask = np.arange(sizes[1]) < np.array([len(target) for _, (_, target) in row])[:, None]
        with np.errstate(divide="ignore"):  # a component of an average may have no weight left
            found = metrics.by_task(predictive, y, mask)
        by_task = {name: values.reshape(-1, repeats).mean(1) for name, values in found.items()}
        error.append(by_task["rmse"] if "rmse" in by_task else 1 - by_task["accuracy"])
        density.append(by_task.get("log_likelihood"))
        sure.append(_sure(predictive, y, mask, repeats))
    known = None if density[0] is None else np.array(density)
    return Scores(np.array(error), known, None if sure[0] is None else sure)


def _sure(predictive: AbstractPredictive, y: np.ndarray, mask: np.ndarray, repeats: int) -> list[np.ndarray] | None:
    """How sure it was of each query of each task."""
    if isinstance(predictive, AbstractDistribution):
        values = np.asarray(predictive.cdf(y))
    elif isinstance(predictive, CategoricalMixture):
        values = np.stack([predictive.confidence, predictive.mode == y], -1)
    else:
        return None
    return [values[i : i + repeats][mask[i : i + repeats]] for i in range(0, len(y), repeats)]


def predict(models: Sequence[Model], rows: Sequence[Sequence[Any]], sizes: tuple[int, int]) -> list[AbstractPredictive]:
    """Each model's predictions for its rows of (context, query), as many for each, in original units.

    Some rows at a time, so that one program serves any number of models and rows.
    """
    count = len(rows[0])
    keys = jax.random.split(jax.random.key(0), count)
    said = []
    for model, row in zip(models, rows, strict=True):
        parts, at_once = [], _AT_ONCE if model.codec.classes is None else _CLASSES_AT_ONCE
        for start in range(0, count, at_once):
            places = [min(place, count - 1) for place in range(start, start + at_once)]
            context = stack([model.units(*row[place][0]) for place in places], sizes[0])
            query = stack([model.units(*row[place][1]) for place in places], sizes[1])
            parts.append(predict_stack(model.meta, context, query.x, keys[np.array(places)]).numpy())
        whole = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *parts)
        said.append(whole.affine(model.units.y_loc, model.units.y_scale))
    return said
