"""Should I transfer? The learned prior beside learning each task alone, on tasks that it was not learned from."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacoh.api import Model
from pacoh.errors import PacohError
from pacoh.reading import Tasks, read
from pacoh.transfer import contexts as drawing
from pacoh.transfer import folds, unlike
from pacoh.transfer.choice import choose
from pacoh.transfer.compare import Comparison, compare, weak
from pacoh.transfer.contexts import FEW_POINTS, HALF, Contexts
from pacoh.transfer.findings import Report
from pacoh.transfer.folds import Tell, Trainer
from pacoh.transfer.illustrations import illustrate
from pacoh.transfer.judge import HARMS, HELPS, NO_BENEFIT
from pacoh.transfer.scores import Scores, score
from pacoh.transfer.unlike import Unlike

__all__ = ["HARMS", "HELPS", "NO_BENEFIT", "Report", "report"]

REPEATS = 4
"""Random contexts of each size, a task."""


def report(
    source: Any,
    *,
    method: str | None = None,
    seed: int = 0,
    task: str | None = None,
    target: str | None = None,
    classes: bool | str = False,
    categorical: Sequence[str] | None = None,
    progress: Tell | None = None,
    origin: str | None = None,
    **settings: Any,
) -> Report:
    """Compares a method with learning each task alone on left-out tasks, and says whether to transfer.

    `source` is anything that `pacoh.read` takes. `method` is a registered one with its settings as keywords; without it
    one is chosen. `origin` is the Python expression that gives the tasks, for the snippet of a source that is no path.
    """
    began = time.perf_counter()
    tasks = read(source, task=task, target=target, classes=classes, categorical=categorical)
    contexts = drawing.draw(tasks, REPEATS, seed)
    able = np.flatnonzero(contexts.amounts[HALF] > 0)
    if len(able) < 3:
        raise PacohError(
            f"A report leaves tasks out, and needs 3 tasks or more with points to predict; got {len(able)} of "
            f"{len(tasks)}. Give more tasks, or tasks with more points."
        )
    trainer = Trainer(tasks, choose(tasks, method, settings), seed, progress)
    screened = _screen(trainer, contexts, able) if len(tasks) >= unlike.LEAST else _Screened([], [])
    named = [one.task for one in screened.named]
    family = np.array([i for i, name in enumerate(tasks.names) if name not in named])
    groups = folds.groups(able, seed)
    learned_from = [np.setdiff1d(family, group) for group in groups]
    models = trainer.fit(learned_from, "leaving tasks out")
    comparison = compare(models, groups, able, contexts)
    parts = [*_few(trainer, contexts, able, family), *screened.parts]
    curve = [(len(part.learned_from[0]), part.ratio(comparison, named, tasks)) for part in parts]
    curve.append((min(map(len, learned_from)), comparison.ratio(FEW_POINTS)))
    one_input = tasks.classes is None and tasks.x[0].shape[1] == 1
    return Report(
        tasks=tasks,
        choice=trainer.choice,
        contexts=contexts,
        comparison=comparison,
        unlike=tuple(screened.named),
        curve=tuple(curve),
        pictures=illustrate(models, comparison, groups, contexts) if one_input else (),
        origin=origin or _origin(source, task=task, target=target, classes=classes, categorical=categorical),
        seed=seed,
        seconds=round(time.perf_counter() - began, 1),
    )


class _Part(NamedTuple):
    """Priors learned from random parts of the tasks, and the error (parts, tasks) with few points on the others."""

    learned_from: list[np.ndarray]
    error: np.ndarray

    def ratio(self, comparison: Comparison, named: Sequence[str], tasks: Tasks) -> float:
        """The mean error beside that of learning alone, of parts that hold none of the named tasks where there are."""
        odd = [tasks.names.index(name) for name in named]
        clean = [i for i, part in enumerate(self.learned_from) if not np.isin(odd, part).any()]
        return comparison.ratio(FEW_POINTS, self.error[clean] if clean else self.error)


class _Screened(NamedTuple):
    """Tasks unlike the rest, and the parts that told."""

    named: list[Unlike]
    parts: list[_Part]


def _few(trainer: Trainer, contexts: Contexts, able: np.ndarray, family: np.ndarray) -> list[_Part]:
    """Priors learned from few tasks, for the learning curve; none where there are few anyway."""
    few = max(2, round(0.15 * len(family)))
    if few + 3 > len(family):
        return []
    chosen = folds.random_parts(family, few, unlike.PARTS, trainer.seed)
    models = trainer.fit(chosen, f"learning from {few} tasks")
    return [_Part(chosen, _judged(models, chosen, contexts, able, FEW_POINTS).error)]


def _judged(
    models: Sequence[Model], parts: Sequence[np.ndarray], contexts: Contexts, able: np.ndarray, amount: str
) -> Scores:
    """Scores by part and task; NaN where the part has the task, or the task is too small."""
    outs = [np.setdiff1d(able, part) for part in parts]
    most = max(map(len, outs))
    even = [np.resize(out, most) for out in outs]
    return score(models, even, contexts, amount).spread(even, len(contexts.tasks))


def _screen(trainer: Trainer, contexts: Contexts, able: np.ndarray) -> _Screened:
    """Looks for tasks unlike the rest with priors learned from random parts of the tasks."""
    tasks = trainer.tasks
    size = max(2, round(unlike.SHARE * len(tasks)))
    chosen = folds.random_parts(np.arange(len(tasks)), size, unlike.PARTS, trainer.seed)
    models = trainer.fit(chosen, f"learning from {size} tasks")
    part = _Part(chosen, _judged(models, chosen, contexts, able, FEW_POINTS).error)
    gains = unlike.evidences(models, tasks)
    if gains is None:
        gains = unlike.predicted(
            *(_judged(each, chosen, contexts, able, HALF) for each in (models, weak(models, tasks)))
        )
    else:
        for row, learned_from in zip(gains, chosen, strict=True):
            row[learned_from] = np.nan
    return _Screened(unlike.find(tasks, gains, part.error, chosen), [part])


def _origin(source: Any, **reading: Any) -> str | None:
    """The expression that reads the tasks again, where they came from a path."""
    if not isinstance(source, str | Path):
        return None
    said = [repr(str(source)), *(f"{name}={value!r}" for name, value in reading.items() if value)]
    return f"pacoh.read({', '.join(said)})"
