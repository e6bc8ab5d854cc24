"""Tuning before a fit: candidates, the tasks that judge them, the choice and its record, kept for a resumed fit."""

import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax

from pacoh.errors import PacohError, PacohWarning
from pacoh.inference import checkpoint
from pacoh.learners.base import AbstractMetaLearner
from pacoh.reading import Split, Tasks
from pacoh.tuning.folds import Fold, folds, leave_out_folds
from pacoh.tuning.search import Effort, search
from pacoh.tuning.space import candidates, merged, space
from pacoh.writing import write_whole


@dataclass(frozen=True)
class Tune:
    """How much to search before a fit: settings at most, seconds at most, and the tasks that judge.

    Validation tasks judge where `valid` has them; else tasks are left out in `folds` folds, half the points of each as
    context. A limit in seconds makes the choice depend on how fast the machine is; one in settings alone does not.
    Of a fit whose method is chosen, too, the seconds are for all of it, the fit itself included; `methods` are those to
    compare, the first first, with settings of each (default: those that suit the size of the tasks).

    >>> import pacoh
    >>> pacoh.Tune(settings=16, seconds=60).folds  # pacoh.fit(tasks, "pacoh-gp-map", tune=...)
    5
    >>> pacoh.Tune(settings=1)
    Traceback (most recent call last):
        ...
    pacoh.errors.PacohError: Tuning compares the default with others: give 2 settings or more, got 1.
    """

    settings: int = 32
    seconds: float | None = None
    folds: int = 5
    valid: Split | None = None
    progress: Callable[[int, int, float], None] | None = None  # told after each batch: tried, in all, the best score
    methods: Mapping[str, Mapping[str, Any]] | None = None
    began: float | None = None  # by `time.monotonic`, where the seconds for all of a fit began before it was called

    def __post_init__(self) -> None:
        if self.settings < 2:
            raise PacohError(f"Tuning compares the default with others: give 2 settings or more, got {self.settings}.")
        if self.seconds is not None and not self.seconds > 0:
            raise PacohError(f"A tuning budget is a positive number of seconds; got {self.seconds!r}.")
        if self.folds < 1:
            raise PacohError(f"Tuning leaves tasks out in 1 fold or more; got {self.folds}.")
        if self.methods is not None and not self.methods:
            raise PacohError("There are no methods to compare: name one or more, or leave `methods` out.")


class Choice(NamedTuple):
    """The method and the settings to train with, and what was chosen and why as plain values."""

    method: str
    settings: dict[str, Any]
    record: dict[str, Any]

    @property
    def reasons(self) -> list[str]:
        """Why this method, in sentences; none where it was given."""
        return list(self.record.get("why", ()))


Make = Callable[..., AbstractMetaLearner]  # from (tasks, mean points a task, inputs) and settings


def choose(method: str, make: Make, fixed: dict[str, Any], tasks: Tasks, tune: Tune, seed: int) -> Choice:
    """The setting with the best mean validation log-likelihood (of points the least RMSE): the default's, or better.

    A guard is left out of the search: it is there for tasks of another kind, and would hide a poor setting.
    """
    bare = {name: value for name, value in fixed.items() if name != "guard"}
    free, fold = space(method, bare), _fold(tasks, tune, seed)
    n, _, d = fold.train.x.shape[1:]
    shape = (n, float(fold.train.mask.sum(-1).mean()), d)

    def learner(**chosen: float) -> AbstractMetaLearner:
        return make(shape, **merged(bare, chosen))

    effort = Effort(at_once(), tune.seconds, tune.progress)
    report = search(learner, candidates(free, tune.settings, seed), fold, seed, effort)
    if len(report.settings) == 1:
        warnings.warn(_nothing_compared(report.seconds, len(fold.y_scale)), PacohWarning, stacklevel=4)
    record = report.record() | {
        "default_score": float(report.score[0]),
        "on": "left-out tasks" if tune.valid is None else "validation tasks",
        "searched": {name: [axis.low, axis.high] for name, axis in free.items()},
        "settings_at_most": tune.settings,
        "seconds_at_most": tune.seconds,
    }
    del record["seconds"]  # the same fit gives the same file
    return Choice(method, merged(fixed, report.best), {name: finite(value) for name, value in record.items()})


def at_once() -> int:
    """Lanes in one `vmap`: a core gains little from many."""
    return 1 if jax.default_backend() == "cpu" else 256


def finite(value: Any) -> Any:
    """None for a number that JSON cannot hold: a setting that never gave a score."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _nothing_compared(seconds: float, count: int) -> str:
    return (
        f"The tuning budget went on the default alone ({seconds:.0f} s for {count} trainings), so nothing was compared "
        "and the default stays. Give more seconds, tasks left out in fewer folds, fewer steps, or a cheaper method."
    )


def _fold(tasks: Tasks, tune: Tune, seed: int) -> Fold:
    if tune.valid is not None:
        return folds([(tasks, tune.valid)])
    return leave_out_folds(tasks, tune.folds, 0.5, seed)


def choose_once(path: Path | None, made_by: dict[str, str], search_now: Callable[[], Choice]) -> Choice:
    """The choice that an interrupted fit had made, else a new one, written beside its checkpoint for the next time.

    Within a budget in seconds a second search may end elsewhere, and training could then not go on bit for bit.
    """
    if path is None:
        return search_now()
    beside = _beside(path)
    if beside.is_file():
        try:
            found = json.loads(beside.read_text())
            known, choice = found["made_by"], Choice(found["method"], found["settings"], found["record"])
        except (ValueError, KeyError, TypeError) as error:
            raise PacohError(
                f"{beside} holds no choice of settings that pacoh wrote: delete it, or move it."
            ) from error
        if known != made_by:
            raise PacohError(
                f"The choice of settings in {beside} belongs to another run. Repeat the command that was interrupted "
                "to go on with it; delete the file, or name another checkpoint, to start afresh."
            )
        return choice
    choice = search_now()
    write_whole(beside, json.dumps({"made_by": made_by} | choice._asdict()).encode())
    return choice


def asked(method: str | None, fixed: dict[str, Any], tasks: Tasks, tune: Tune, seed: int) -> dict[str, str]:
    """What must be equal for a choice to serve again; without a method it was to be chosen, too."""
    valid = None if tune.valid is None else (tune.valid.context.pairs(), tune.valid.query.pairs())
    terms = [method, fixed, tune.settings, tune.seconds, tune.folds, tune.methods]
    said = json.dumps(terms, sort_keys=True, default=str)
    data = checkpoint.fingerprint((tasks.pairs(), valid), jax.random.key(seed), 0)
    return data | {"what was asked": said}


def forget(path: Path) -> None:
    """Deletes a choice that has served."""
    checkpoint.remove(_beside(path))


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".tuned")
