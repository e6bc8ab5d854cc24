"""Settings chosen on validation tasks with Optuna: the same budget for every method, trials in a database.

A batch of settings trains in one `vmap`. A method's forms (kernels, activations) are programs of their own: each has a
study, gets one batch, and the best one the rest of the budget. Several machines may share one database: each adds
trials until there are enough, so that each may add one batch too many. Test tasks are never looked at.

The best of many settings on few tasks is best by luck, too. So a default is kept (the method's, else the best one of
its other forms) unless the best setting beats it by more than one standard error, paired by task.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from pacoh import __version__, registry
from pacoh.bench.spec import Column, Experiment, Row
from pacoh.environments.base import AbstractEnvironment
from pacoh.errors import PacohError
from pacoh.learners.base import AbstractMetaLearner
from pacoh.reading import Split, Tasks
from pacoh.tuning.folds import Fold, folds, left_out, rehearsed
from pacoh.tuning.search import Effort, Range, search
from pacoh.tuning.space import SPACES, forms, merged, space
from pacoh.writing import write_whole

FOLDS = 5
"""Folds where tasks are left out because there are none to validate with."""


@dataclass(frozen=True)
class Search:
    """The budget of every method: settings tried, validation tasks at most; the draw, and where trials are kept."""

    settings: int = 32
    tasks: int = 50
    draw: int = 29
    storage: str | None = None
    at_once: int | None = None
    command: str = ""

    def pairs(self, experiment: Experiment) -> Iterator[tuple[Column, Row]]:
        """What there is to tune: every method with a space, in every environment where it has a cell."""
        if experiment.bandit:
            raise PacohError(
                f"{experiment.name} is a bandit: predictions of held-out points do not judge its settings."
            )
        cells, seen = {(cell.row, cell.column) for cell in experiment.cells()}, set()
        for column in experiment.columns:
            for row in experiment.rows:
                place = (column.key, row.name)
                if row.name in SPACES and not row.varied and (row.key, column.key) in cells and place not in seen:
                    seen.add(place)
                    yield column, row

    def batch(self) -> int:
        """Settings that train together."""
        return self.at_once or (4 if jax.default_backend() == "cpu" else 16)


class Tried(NamedTuple):
    """A setting that was tried: its score, what that is the mean of, and whether it is the default of its form."""

    settings: dict[str, Any]
    score: float
    by_task: np.ndarray
    default: bool


def without_password(text: str) -> str:
    """A command or message that may be shown: the password in a database's address is left out."""
    return re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:...@", text)


def _optuna() -> Any:
    try:
        import optuna  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise PacohError('Tuning needs Optuna: pip install "pacoh[bench]".') from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def judged_on(environment: AbstractEnvironment, asked: Search, shots: int | None) -> tuple[Fold, str]:
    """Meta-train tasks and the tasks that judge: validation tasks, or meta-train tasks left out in turn."""
    draw = environment.draw(asked.draw)
    if draw.valid is not None:
        context, query = (_first(part, asked.tasks) for part in (draw.valid.context, draw.valid.query))
        return folds([(draw.train, Split(context, query))]), f"{len(context)} validation tasks"

    def divide(some: Tasks) -> Split:
        return some.split(0.5) if shots is None else some.shots(shots)

    rehearsal = environment.rehearsal(draw.train)
    if rehearsal is None:
        pairs, how = left_out(draw.train, FOLDS, divide, asked.draw), ""
    else:
        pairs, how = rehearsed(*rehearsal, FOLDS, asked.draw), ", divided as the test tasks"
    count = sum(len(valid.context) for _, valid in pairs)
    return folds(pairs), f"{count} left-out meta-train tasks, {len(pairs)} folds{how}"


def _first(tasks: Tasks, count: int) -> Tasks:
    return replace(tasks, names=tasks.names[:count], x=tasks.x[:count], y=tasks.y[:count])


def choose(
    asked: Search, column: Column, row: Row, out: Path, tell: Callable[[int, int, float], None] | None = None
) -> dict[str, Any]:
    """Tries settings until the study has as many as asked for, and writes the best with its score to a file.

    Higher scores are better: log-likelihood, or for learners of points minus the RMSE (of classes: those wrong).
    """
    optuna, free = _optuna(), space(row.name, row.settings)
    out.mkdir(parents=True, exist_ok=True)
    environment = registry.environment(column.name, **column.settings)
    shots = column.settings.get("shots", 2) if column.targets == "classes" else None
    fold, judges = judged_on(environment, asked, shots)
    kinds = forms(row.name, row.settings)
    studies = [_study(optuna, asked, column, row, out, form) for form in kinds]
    make = _maker(fold, row, column, environment, asked)
    while (tried := sum(len(_finished(study)) for study in studies)) < asked.settings:
        turn = _turn(studies)
        form, study = kinds[turn], studies[turn]
        count = min(asked.batch(), asked.settings - tried)
        trials = [] if _finished(study) else [None]
        trials += [study.ask(_distributions(optuna, free)) for _ in range(count - len(trials))]
        settings: list[dict[str, Any]] = [form | ({} if trial is None else _rounded(trial.params)) for trial in trials]
        filled = (settings * asked.batch())[: asked.batch()]  # the last batch is filled up: nothing compiles
        report = search(make, filled, fold, 0, Effort(asked.batch() * len(fold.y_scale)))
        assert report.by_task is not None
        for trial, score, by_task in zip(trials, report.score, report.by_task, strict=False):
            _told(optuna, study, trial, float(score), by_task.tolist())
        if tell is not None:
            done = sum(len(_finished(study)) for study in studies)
            tell(done, asked.settings, max(map(_best, studies)))
    if max(map(_best, studies)) == -np.inf:
        raise PacohError(f"None of {asked.settings} settings of {row.name} on {column.key} gave a finite score.")
    return _written(asked, kinds, studies, column, row, out, judges)


def _turn(studies: list[Any]) -> int:
    """Whose batch is next: a form without one, then the best form."""
    untried = [turn for turn, study in enumerate(studies) if not _finished(study)]
    return untried[0] if untried else int(np.argmax([_best(study) for study in studies]))


def _study(optuna: Any, asked: Search, column: Column, row: Row, out: Path, form: dict[str, Any]) -> Any:
    storage = asked.storage or f"sqlite:///{(out / 'trials.db').resolve()}"
    said = json.dumps([column.settings, row.settings | form, asked.draw, asked.tasks], sort_keys=True)
    name = f"{column.key}/{row.name} {said}"
    study = _opened(
        lambda: optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    )
    seed = len(study.trials) if asked.storage is None else None  # who shares a database must not ask the same
    study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=16, constant_liar=True)
    return study


def _opened(create: Callable[[], Any], tries: int = 5) -> Any:
    """The study, tried again where another process makes the database's tables at the same moment."""
    try:
        return create()
    except Exception as error:
        if tries > 1:
            time.sleep(1.0)
            return _opened(create, tries - 1)
        said = without_password(str(error).split("\n")[0])
        raise PacohError(f"The trials could not be kept: {said}. Give another --storage.") from error


def _finished(study: Any) -> list[Any]:
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]


def _best(study: Any) -> float:
    return max((trial.value for trial in _finished(study) if trial.value is not None), default=-np.inf)


def _distributions(optuna: Any, free: dict[str, Range]) -> dict[str, Any]:
    kind = optuna.distributions.FloatDistribution
    return {name: kind(axis.low, axis.high, log=axis.log) for name, axis in free.items()}


def _rounded(params: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in params.items()}


def _told(optuna: Any, study: Any, trial: Any, score: float, by_task: list[float]) -> None:
    """A score to the database, with what it is the mean of; a form's default is a trial without parameters."""
    fine = bool(np.isfinite(score))
    known = {"by_task": by_task} if fine else {}
    if trial is not None:
        for name, value in known.items():
            trial.set_user_attr(name, value)
        state = optuna.trial.TrialState.COMPLETE if fine else optuna.trial.TrialState.FAIL
        study.tell(trial, score if fine else None, state=state)
        return
    states = optuna.trial.TrialState
    result: dict[str, Any] = {"value": score} if fine else {"state": states.FAIL}
    study.add_trial(optuna.trial.create_trial(user_attrs=known | {"default": True}, **result))


def simplest(trials: Sequence[Tried]) -> Tried:
    """The method's default, else the best default of a form, if within one standard error of the best; else the best.

    >>> best = Tried({"kernel": "se", "rate": 0.1}, -1.0, np.array([-0.5, -1.5]), False)
    >>> near = Tried({"kernel": "se"}, -1.1, np.array([-0.5, -1.7]), True)
    >>> far = Tried({}, -2.0, np.array([-1.5, -2.5]), True)
    >>> simplest([far, best, near]).settings
    {'kernel': 'se'}
    """
    ranked = sorted(trials, key=lambda one: -one.score)
    for one in sorted((one for one in ranked if one.default), key=lambda one: bool(one.settings)):
        loss = ranked[0].by_task - one.by_task
        if loss.mean() <= loss.std(ddof=1) / np.sqrt(len(loss)) if len(loss) > 1 else loss.mean() <= 0:
            return one
    return ranked[0]


def _maker(
    fold: Fold, row: Row, column: Column, environment: AbstractEnvironment, asked: Search
) -> Callable[..., AbstractMetaLearner]:
    n, _, d = fold.train.x.shape[1:]
    labels = environment.draw(asked.draw).train.classes if column.targets == "classes" else None
    shape = registry.Shape(n, float(fold.train.mask.sum(-1).mean()), d, None if labels is None else len(labels))
    return lambda **chosen: registry.learner(row.name, shape, **merged(row.settings, chosen))


def _by(row: Row, column: Column) -> str:
    if registry.METHODS[row.name].distributional:
        return "mean validation log-likelihood"
    return "minus the share of wrong classes" if column.targets == "classes" else "minus the mean validation RMSE"


def _written(
    asked: Search, kinds: list[dict[str, Any]], studies: list[Any], column: Column, row: Row, out: Path, judges: str
) -> dict[str, Any]:
    default = [trial.value for trial in _finished(studies[0]) if trial.user_attrs.get("default")]
    tried = [
        Tried(form | _rounded(trial.params), trial.value, np.array(trial.user_attrs["by_task"]), not trial.params)
        for form, study in zip(kinds, studies, strict=True)
        for trial in _finished(study)
        if trial.value is not None
    ]
    chosen = simplest(tried)
    record = {
        "cell": f"{column.key}/{row.name}",
        "settings": chosen.settings,
        "fixed": row.settings,
        "by": _by(row, column),
        "score": chosen.score,
        "best_score": max(one.score for one in tried),
        "default_score": default[0] if default else None,
        "settings_tried": sum(len(_finished(study)) for study in studies),
        "forms_tried": [
            {"form": form, "score": _best(study), "settings": len(_finished(study))}
            for form, study in zip(kinds, studies, strict=True)
            if _finished(study)
        ],
        "judged_on": judges,
        "draw": asked.draw,
        "command": without_password(asked.command),
        "pacoh": __version__,
        "device": jax.devices()[0].device_kind,
    }
    name = f"{column.key}.{row.name}.chosen.json".replace("/", "_")
    write_whole(out / name, (json.dumps(record, indent=1) + "\n").encode())
    return record
