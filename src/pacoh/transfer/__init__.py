"""Should I transfer? The learned prior beside learning each task alone, on tasks that it was not learned from."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacoh.api import Model
from pacoh.errors import PacohError
from pacoh.reading import read
from pacoh.transfer import contexts as drawing
from pacoh.transfer import folds, unlike
from pacoh.transfer.choice import PLAIN, choose
from pacoh.transfer.compare import Comparison, compare, plain_clouds, weak
from pacoh.transfer.contexts import FEW_POINTS, HALF, MOST, Contexts
from pacoh.transfer.findings import Report
from pacoh.transfer.folds import Tell, Trainer
from pacoh.transfer.illustrations import illustrate
from pacoh.transfer.judge import HARMS, HELPS, NO_BENEFIT
from pacoh.transfer.scores import Scores, score
from pacoh.tuning.folds import select

__all__ = ["HARMS", "HELPS", "NO_BENEFIT", "Report", "report"]

REPEATS, CLASS_REPEATS = 4, 2
"""Random contexts of each size, a task: fewer of classes, whose networks take their time for each."""
_PARTS = 16  # at most, of two tasks


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

    >>> import numpy as np
    >>> import pacoh
    >>> x = np.arange(8.0)
    >>> tasks = [(x, slope * x + np.sin(x)) for slope in np.linspace(1, 2, 6)]
    >>> found = pacoh.report(tasks, method="pacoh-gp-map", steps=20)
    >>> found.verdict in ("helps", "no benefit", "do not transfer"), len(found.unlike)
    (True, 0)
    """
    began = time.perf_counter()
    tasks = read(source, task=task, target=target, classes=classes, categorical=categorical)
    of_classes = tasks.classes is not None
    contexts = drawing.draw(tasks, CLASS_REPEATS if of_classes else REPEATS, seed)
    able = np.flatnonzero(contexts.amounts[HALF] > 0)
    if len(able) < 3:
        raise PacohError(
            f"A report leaves tasks out, and needs 3 tasks or more with points to predict; got {len(able)} of "
            f"{len(tasks)}. Give more tasks, or tasks with more points."
        )
    trainer = Trainer(tasks, choose(tasks, method, settings), seed, progress)
    enough = len(tasks) >= unlike.LEAST
    screened = _screen(trainer, contexts, able) if enough and not of_classes else _Screened([], [])
    groups = folds.groups(able, seed, folds.CLASSES if of_classes else folds.NUMBERS)
    odd, (models, told) = screened.odd, _leave_out(trainer, contexts, groups, screened.odd)
    if enough:
        more = [task for task in unlike.stand_out(told, unlike.heard(tasks)) if task not in odd]
        if more and len(odd) + len(more) <= len(tasks) // 4:
            odd = [*odd, *more]
            models, told = _leave_out(trainer, contexts, groups, odd)
    comparison = compare(models, _plain(trainer, models, contexts, groups, odd), groups, able, contexts)
    parts = [*_few(trainer, contexts, able, odd), *screened.parts]
    curve = [(len(part.learned_from[0]), part.ratio(comparison, odd)) for part in parts]
    curve.append((models[0].card["tasks"], comparison.ratio(FEW_POINTS)))
    one_input = not of_classes and tasks.x[0].shape[1] == 1
    return Report(
        tasks=tasks,
        choice=trainer.choice,
        contexts=contexts,
        comparison=comparison,
        unlike=tuple(unlike.named(tasks, odd, told, _harms(screened.parts, odd))),
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

    def ratio(self, comparison: Comparison, odd: Sequence[int]) -> float:
        """The mean error beside that of learning alone, of parts that hold none of the odd tasks where there are."""
        clean = [i for i, part in enumerate(self.learned_from) if not np.isin(odd, part).any()]
        return comparison.ratio(FEW_POINTS, self.error[clean] if clean else self.error)


class _Screened(NamedTuple):
    """Tasks unlike the rest, and the parts that told."""

    odd: list[int]
    parts: list[_Part]


def _few(trainer: Trainer, contexts: Contexts, able: np.ndarray, odd: Sequence[int]) -> list[_Part]:
    """Priors learned from two tasks, for the learning curve; none where there are few anyway, or of classes."""
    family = np.setdiff1d(np.arange(len(trainer.tasks)), odd)
    if len(family) < 6 or trainer.tasks.classes is not None:
        return []
    chosen = folds.divided(family, len(family) // 2, 2, trainer.seed)[:_PARTS]
    models = trainer.fit(chosen, "learning from 2 tasks")
    return [_Part(chosen, _judged(models, chosen, contexts, able, FEW_POINTS).error)]


def _leave_out(
    trainer: Trainer, contexts: Contexts, groups: Sequence[np.ndarray], odd: Sequence[int]
) -> tuple[list[Model], unlike.Told]:
    """A model for each group, learned from all other tasks that are not odd, and what it says of the group's tasks."""
    models = _left_out(trainer, groups, odd, "leaving tasks out")
    others = [np.setdiff1d(np.arange(len(trainer.tasks)), group) for group in groups]
    told = _told(models, others, contexts, np.unique(np.concatenate(groups)))
    first = np.isfinite(told.gain).argmax(0), np.arange(len(trainer.tasks))
    return models, unlike.Told(*(values[first] for values in told))


def _plain(
    trainer: Trainer, models: Sequence[Model], contexts: Contexts, groups: Sequence[np.ndarray], odd: Sequence[int]
) -> list[Model]:
    """Plain GPs that leave out the same groups, each learned from some points of a task; of classes plain clouds."""
    if trainer.tasks.classes is not None:
        parts = [select(trainer.tasks, part) for part in _others(trainer, groups, odd)]
        return [plain_clouds(model, part) for model, part in zip(models, parts, strict=True)]
    some = replace(trainer, tasks=contexts.thinned(MOST), choice=PLAIN)
    return _left_out(some, groups, odd, "plain GPs")


def _left_out(trainer: Trainer, groups: Sequence[np.ndarray], odd: Sequence[int], stage: str) -> list[Model]:
    """A model for each group, learned from all other tasks that are not odd."""
    return trainer.fit(_others(trainer, groups, odd), stage)


def _others(trainer: Trainer, groups: Sequence[np.ndarray], odd: Sequence[int]) -> list[np.ndarray]:
    """For each group all other tasks that are not odd."""
    family = np.setdiff1d(np.arange(len(trainer.tasks)), odd)
    return [np.setdiff1d(family, group) for group in groups]


def _harms(parts: Sequence[_Part], odd: Sequence[int]) -> list[float | None]:
    """How much larger the others' error is where an odd task was learned from; None where no part tells."""
    told = [unlike.harms(part.error, part.learned_from, odd) for part in parts]
    return told[0] if told else [None] * len(odd)


def _told(models: Sequence[Model], seen: Sequence[np.ndarray], contexts: Contexts, able: np.ndarray) -> unlike.Told:
    """What each model says of each task; NaN for those in `seen`."""
    tasks = contexts.tasks
    told = unlike.evidences(models, contexts)
    if told is None:
        pair = (_judged(each, seen, contexts, able, HALF) for each in (models, weak(models, tasks)))
        return unlike.Told.of(unlike.predicted(*pair))
    return told.only(np.array([~np.isin(np.arange(len(tasks)), known) for known in seen]))


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
    chosen = folds.divided(np.arange(len(tasks)), 3, unlike.THIRDS, trainer.seed)
    models = trainer.fit(chosen, f"learning from {len(chosen[0])} tasks")
    part = _Part(chosen, _judged(models, chosen, contexts, able, FEW_POINTS).error)
    told, figures = unlike.judged(_told(models, chosen, contexts, able)), unlike.by_figures(tasks)
    odd = unlike.stand_out(told, unlike.heard(tasks))
    odd += [i for i, name in enumerate(tasks.names) if name in figures and i not in odd and not told.gain[i] > 0]
    return _Screened(odd if len(odd) <= len(tasks) // 4 else [], [part])


def _origin(source: Any, **reading: Any) -> str | None:
    """The expression that reads the tasks again, where they came from a path."""
    if not isinstance(source, str | Path):
        return None
    said = [repr(str(source)), *(f"{name}={value!r}" for name, value in reading.items() if value)]
    return f"pacoh.read({', '.join(said)})"
