"""Which method, and with what settings: held-out tasks judge the candidates of the rule until time is up."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pacoh.encoding import counted
from pacoh.errors import PacohError
from pacoh.inference.base import Budget
from pacoh.reading import Split, Tasks
from pacoh.recipes.base import Shape
from pacoh.tuning.choice import Choice, Make, Tune, at_once, finite
from pacoh.tuning.folds import Fold, folds, left_out
from pacoh.tuning.pace import FEWEST_STEPS, GRACE, LEAST_STEPS, Pace, TooSlow, looks
from pacoh.tuning.rule import PARTICLE_STEPS, PARTICLES, SLOW_STEPS, WAVE_INPUTS, WAVES, guarded, quick, rule
from pacoh.tuning.search import Effort, Report, search
from pacoh.tuning.space import candidates, free, merged

SECONDS = 45.0
"""For all of a fit whose method is chosen: with the start of a process and the end of it less than a minute."""

_TASKS, _CONTEXT, _QUERY = 20, 100, 200  # of a fold at most: judging must not take longer than training
_FEW = 8  # tasks that are left out one by one
_SHARE = 0.4  # of the time that is left, for settings of the best method, or for a first method that is slow


@dataclass(frozen=True)
class Trial:
    """A method with settings, and how it did on each of the held-out tasks."""

    method: str
    settings: dict[str, Any]
    chosen: dict[str, float]  # those of the settings that were searched
    score: float
    rmse: float
    by_task: np.ndarray
    pace: Pace

    @staticmethod
    def of(method: str, settings: dict[str, Any], report: Report, pace: Pace) -> "Trial":
        """The best of a report."""
        assert report.by_task is not None
        i = int(np.argmax(report.score))
        chosen = report.settings[i]
        score, rmse = float(report.score[i]), float(report.rmse[i].mean())
        return Trial(method, merged(settings, chosen), chosen, score, rmse, report.by_task[i], pace)


@dataclass
class Log:
    """What was tried, what was not, and why: it grows as the search goes on."""

    deadline: float
    trials: list[Trial] = field(default_factory=list)
    tried: int = 0
    not_tried: dict[str, str] = field(default_factory=dict)
    why: list[str] = field(default_factory=list)

    @property
    def best(self) -> Trial:
        """The trial with the best score, of equals the first."""
        return max(self.trials, key=lambda trial: trial.score)

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    def scores(self) -> dict[str, float | None]:
        """The best score of each method."""
        methods = dict.fromkeys(trial.method for trial in self.trials)
        return {name: finite(max(t.score for t in self.trials if t.method == name)) for name in methods}


Try = Callable[[str, dict[str, Any], list[dict[str, float]], Pace | None, float | None], Report]


def choose_method(
    make: Callable[[str], Make], shape: Shape, tasks: Tasks, tune: Tune, guard: bool | None, seed: int
) -> Choice:
    """The method of best mean log-likelihood on held-out tasks among those of the rule (or of `tune`), with settings.

    First each as it stands, then the best with waves in its kernel and with other settings, then its Stein particles.
    What would not leave the time for the fit itself is not tried, and that is said.
    """
    began = time.monotonic() if tune.began is None else tune.began
    log = Log(began + (SECONDS if tune.seconds is None else tune.seconds))
    reasons = rule(shape)
    options = {name: quick(shape, name) for name in reasons} if tune.methods is None else tune.methods
    on = {name: {"guard": True} if guarded(name) and guard is not False else {} for name in options}
    ready = {name: on[name] | dict(settings) for name, settings in options.items()}
    first = next(iter(ready))
    log.why.append(f"{_size(shape)}: " + (reasons[first] if tune.methods is None else f"{first} was named first"))
    try:
        fold = _fold(tasks, tune, seed)
    except PacohError as error:
        log.why.append(f"nothing was compared. {error}")
        log.not_tried |= dict.fromkeys(list(ready)[1:], "nothing to judge by")
        return _choice(first, ready[first], log, tune, None)
    attempt = _attempts(make, shape, fold, seed, log, tune)
    settings = _first(first, ready.pop(first), attempt, log, len(fold.y_scale))
    if not log.trials:
        log.why.append("no time to compare it with others: give a larger budget")
        log.not_tried |= dict.fromkeys(ready, "no time")
        return _choice(first, settings, log, tune, None)
    for method, given in ready.items():
        _next(method, given, attempt, log)
    if tune.methods is None and guarded(log.best.method) and shape.d <= WAVE_INPUTS:
        _waves(attempt, log)
    if tune.methods is None and quick(shape, log.best.method):
        _slow(attempt, log)
    _other_settings(attempt, log, tune, seed)
    if tune.methods is None and log.best.method in PARTICLES:
        best = log.best
        _next(PARTICLES[best.method], best.settings, attempt, log, best.chosen, best.pace.times(PARTICLE_STEPS))
    return _choice(log.best.method, log.best.settings, log, tune, fold)


def _attempts(make: Callable[[str], Make], shape: Shape, fold: Fold, seed: int, log: Log, tune: Tune) -> Try:
    """Trains a method with each of some settings on all folds in one `vmap`, and judges it."""
    n, _, d = fold.train.x.shape[1:]
    within = Shape(n, float(fold.train.mask.sum(-1).mean()), d, shape.classes)

    def attempt(method, settings, options, pace, seconds) -> Report:
        def learner(**chosen: float) -> Any:
            return make(method)(within, **merged(settings, chosen))

        effort = Effort(at_once(), seconds, None, training=Budget(chunk=looks(fold.train.x.shape[-2]), progress=pace))
        report = search(learner, options, fold, seed, effort)
        log.tried += len(report.settings)
        if tune.progress is not None:
            best = max([report.score.max(), *(trial.score for trial in log.trials)])
            tune.progress(log.tried, tune.settings, float(best))
        return report

    return attempt


def _first(method: str, settings: dict[str, Any], attempt: Try, log: Log, lanes: int) -> dict[str, Any]:
    """Judges the first method, with fewer steps where all of them take too long; its settings."""
    pace = Pace(log.deadline)
    try:
        log.trials.append(Trial.of(method, settings, attempt(method, settings, [{}], pace, None), pace))
        return settings
    except TooSlow:
        pass
    steps, alone = pace.steps_in(_SHARE * log.left), pace.steps_in(log.left, GRACE) * lanes // 2
    if "steps" in settings or (steps < LEAST_STEPS and alone >= pace.total):
        return settings
    short = settings | {"steps": min(steps if steps >= LEAST_STEPS else max(alone, FEWEST_STEPS), pace.total)}
    log.why.append(f"{method} is trained for {short['steps']} of {pace.total} steps, which take less time")
    if steps >= LEAST_STEPS:
        again = Pace(float("inf"))
        log.trials.append(Trial.of(method, short, attempt(method, short, [{}], again, None), again))
    return short


def _next(
    method: str,
    settings: dict[str, Any],
    attempt: Try,
    log: Log,
    chosen: dict[str, float] | None = None,
    expected: float = 0.0,
) -> None:
    """Judges one more method, where there is time for it and for the last fit."""
    pace = Pace(log.deadline, log.best.pace.last_fit)
    if log.left < max(pace.reserve, expected):
        log.not_tried[method] = "no time"
        return
    try:
        trial = Trial.of(method, settings, attempt(method, settings, [{}], pace, None), pace)
        log.trials.append(replace(trial, chosen=chosen or {}))
    except TooSlow:
        log.not_tried[method] = "too slow for the time that was left"


def _other_settings(attempt: Try, log: Log, tune: Tune, seed: int) -> None:
    """Other settings of the best method in a share of the time, taken where they are clearly better.

    Clearly is by two standard errors of the mean difference, paired by task: of many settings one is always better.
    """
    start, room = log.best, tune.settings - log.tried
    axes, seconds = free(start.method, start.settings), _SHARE * (log.left - start.pace.last_fit)
    if not axes or room < 1:
        return
    spare = log.left - start.pace.times(PARTICLE_STEPS)
    seconds = min(seconds, spare) if spare > 0 and start.method in PARTICLES else seconds
    if seconds < start.pace.training + 1:
        log.not_tried[f"other settings of {start.method}"] = "no time"
        return
    report = attempt(start.method, start.settings, candidates(axes, room + 1, seed)[1:], None, seconds)
    trial = Trial.of(start.method, start.settings, report, start.pace)
    _if_clear(trial, start, f"the best of {counted(len(report.settings), 'other setting')} of {start.method}", log)


def _waves(attempt: Try, log: Log) -> None:
    """The best method with waves in its kernel, taken where it is clearly better."""
    _variant(f"{log.best.method} with waves in its kernel", log.best.settings | WAVES, 1, attempt, log)


def _slow(attempt: Try, log: Log) -> None:
    """The best method with its default settings where it had quick ones, taken where it is clearly better."""
    _variant(f"{log.best.method} with its slower default settings", {}, SLOW_STEPS, attempt, log)


def _variant(told: str, settings: dict[str, Any], steps: float, attempt: Try, log: Log) -> None:
    """The best method with other settings, whose steps take so much longer, taken where it is clearly better."""
    start = log.best
    pace = Pace(log.deadline, start.pace.last_fit)
    if log.left < start.pace.times(steps):
        log.not_tried[told] = "no time"
        return
    try:
        report = attempt(start.method, settings, [{}], pace, None)
    except TooSlow:
        log.not_tried[told] = "too slow for the time that was left"
        return
    _if_clear(
        Trial.of(start.method, settings, report, pace), start, told, log, "its default" if settings else "quick ones"
    )


def _if_clear(trial: Trial, start: Trial, told: str, log: Log, beside: str = "its default") -> None:
    """Takes a trial that is above another by two standard errors of the mean difference, and says so."""
    gain = trial.by_task - start.by_task
    error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else np.inf
    if np.isfinite(trial.score) and gain.mean() > 2 * error:
        log.trials.append(trial)
        log.why.append(f"{told} scores {gain.mean():.3g} above {beside}, with a standard error of {error:.2g}")
    else:
        log.why.append(f"{told} is not above {beside} by two standard errors")


def _choice(method: str, settings: dict[str, Any], log: Log, tune: Tune, fold: Fold | None) -> Choice:
    """The choice with its record; without a fold nothing was judged. The default is the first method as it stands."""
    record: dict[str, Any] = {"method": method, "chosen": {}, "settings_tried": max(log.tried, 1)}
    if fold is not None:
        by = "mean log-likelihood"
        told = ", ".join(f"{name} {score:.4g}" for name, score in log.scores().items() if score is not None)
        log.why.append(f"{by} of {_judges(fold, tune)}: {told}")
        record |= {"chosen": log.best.chosen, "by": f"{by} of tasks not trained on", "score": log.best.score}
        record |= {"rmse": log.best.rmse, "default_score": log.trials[0].score, "scores": log.scores()}
        record |= {"folds": len(fold.y_scale)}
    if log.not_tried:
        log.why.append("not tried: " + ", ".join(f"{name} ({why})" for name, why in log.not_tried.items()))
    record |= {"on": "left-out tasks" if tune.valid is None else "validation tasks", "not_tried": log.not_tried}
    record |= {"settings_at_most": tune.settings, "seconds_at_most": SECONDS if tune.seconds is None else tune.seconds}
    return Choice(method, settings, {name: finite(value) for name, value in (record | {"why": log.why}).items()})


def _size(shape: Shape) -> str:
    of = "" if shape.classes is None else f", {counted(shape.classes, 'class')}"
    return f"{counted(shape.n, 'task')} of {round(shape.m, 1):g} points on {counted(shape.d, 'input')}{of}"


def _judges(fold: Fold, tune: Tune) -> str:
    lanes, tasks = fold.valid.query.mask.shape[:2]
    if tune.valid is not None:
        return counted(tasks, "validation task")
    return f"{counted(lanes * tasks, 'task')} left out in {counted(lanes, 'fold')}, half the points of each as context"


def _fold(tasks: Tasks, tune: Tune, seed: int) -> Fold:
    """Validation tasks where there are some, else tasks left out: one by one where they are few."""
    if tune.valid is not None:
        return folds([(tasks, tune.valid)])
    count = len(tasks) if len(tasks) <= _FEW else tune.folds
    return folds(left_out(tasks, count, _divide, seed, _TASKS))


def _divide(tasks: Tasks) -> Split:
    """Half the points of each task as context (where labels are each task's own: of each class), and not too many."""
    if tasks.codec is not None and tasks.codec.by_task:
        return tasks.shots(max(1, min(int(np.bincount(y).min()) for y in tasks.y) // 2))
    split = tasks.split(0.5)
    context, query = (
        part.rows([np.arange(size) < most for size in part.sizes])
        for part, most in ((split.context, _CONTEXT), (split.query, _QUERY))
    )
    return Split(context, query)
