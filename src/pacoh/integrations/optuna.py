"""An Optuna sampler that has learned from the user's past studies. Needs the extra `optuna`."""

import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from pacoh.api import Model
from pacoh.errors import PacohError, PacohWarning
from pacoh.optimize import UCB, AbstractAcquisition, Choice, Integer, LogEI, Optimizer, Real, Space
from pacoh.optimize.optimizer import taught
from pacoh.optimize.space import Axis
from pacoh.optimize.warp import Warp

MOST = 100  # trials of a past study that are learned from, the first ones
PATIENCE = 8  # trials without a better one after which every second one is that of a search without a past
GOOD = 8  # trials of a past study, its best, near which the next study looks
OWN_SCALE = 0.5  # the sd of the log of a study's own scale
_DONE = (TrialState.COMPLETE, TrialState.PRUNED)


class PacohSampler(BaseSampler):
    """Suggests what a prior learned from past studies expects to be best, from the first trial of a study on.

    It chooses near the best trials of past studies (`places`, rows of the space). Where the evidence speaks against the
    past, and every second time after eight trials without a better one, it chooses as a search without a past would.

    Parameters that no past study had, that changed their kind or reach beyond the ranges seen, and studies with several
    objectives are left to `fallback` (a multivariate TPE), with one warning each. Parameters that a trial left out
    count as the middle of their range. Failed trials are ignored; running ones count as pending; a pruned trial counts
    with its last report, or with the median of the complete trials where that is worse.

    >>> import optuna
    >>> from optuna.samplers import RandomSampler
    >>> from pacoh.integrations.optuna import PacohSampler
    >>> optuna.logging.set_verbosity(optuna.logging.ERROR)
    >>> storage = optuna.storages.InMemoryStorage()
    >>> for seed in (0, 1, 2):  # past studies of the same parameter
    ...     past = optuna.create_study(storage=storage, study_name=f"past-{seed}", sampler=RandomSampler(seed))
    ...     past.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=6)
    >>> sampler = PacohSampler.from_storage(storage, method="pacoh-gp-map", settings={"steps": 20})
    >>> study = optuna.create_study(sampler=sampler)
    >>> study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.35) ** 2, n_trials=2)
    >>> 0 <= study.best_params["x"] <= 1
    True
    """

    def __init__(
        self,
        model: Model | None,
        space: Space | None,
        *,
        acquisition: AbstractAcquisition | None = None,
        fallback: BaseSampler | None = None,
        warp: Warp | None = None,
        places: Any = None,
        seed: int = 0,
    ):
        self.model, self.space, self.warp, self.seed = model, space, warp, seed
        self.places = places
        self.acquisition = UCB() if acquisition is None else acquisition
        self.alone = LogEI()
        self.fallback = TPESampler(multivariate=True, seed=seed) if fallback is None else fallback
        self._plans: dict[int, dict[str, Any]] = {}
        self._said: set[str] = set()
        self._lock = threading.RLock()

    @staticmethod
    def from_storage(
        storage: Any,
        studies: Sequence[str] | None = None,
        *,
        method: str = "pacoh-gp-svgd",
        settings: Mapping[str, Any] | None = None,
        acquisition: AbstractAcquisition | None = None,
        fallback: BaseSampler | None = None,
        seed: int = 0,
    ) -> "PacohSampler":
        """Learns from the named studies of a database (all, without names), given as `optuna.load_study` takes it.

        `settings` are those of the method; without any, it is guarded against past studies unlike the new one, and
        under PACOH-GP each study has a scale of its own (an error moves more on one data set than on another).
        """
        known = optuna.study.get_all_study_names(storage)
        names = list(known if studies is None else studies)
        missing = [name for name in names if name not in known]
        if missing:
            raise PacohError(f"The storage has no study {', '.join(missing)}; it has {', '.join(known) or 'none'}.")
        past = [optuna.load_study(study_name=name, storage=storage) for name in names]
        single = [study for study in past if len(study.directions) == 1]
        space = joint_space([trial for study in single for trial in study.trials])
        tasks = [] if space is None else [task for study in single if (task := _task(study, space)) is not None]
        rest: dict[str, Any] = {"acquisition": acquisition, "fallback": fallback, "seed": seed}
        if space is None or len(tasks) < 2:
            sampler = PacohSampler(None, None, **rest)
            sampler._say(f"{len(tasks)} past studies have trials to learn from, and two are needed")
            return sampler
        options = _usual(method) if settings is None else dict(settings)
        model, warp = taught(tasks, method, seed=seed, **options)
        return PacohSampler(model, space, warp=warp, places=good_places(tasks), **rest)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Parameters of this study that the prior knows; before any trial none is, and each is asked for by itself."""
        if not self._helps(study):
            return self.fallback.infer_relative_search_space(study, trial)
        shown: dict[str, BaseDistribution] = {}
        for one in study.get_trials(deepcopy=False, states=_DONE):
            shown |= one.distributions
        return {name: kind for name, kind in shown.items() if not kind.single() and self._covers(name, kind)}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The prior's suggestion; the fallback's for what it does not know."""
        if not self._helps(study):
            return self.fallback.sample_relative(study, trial, search_space)
        ours = {name: kind for name, kind in search_space.items() if self._covers(name, kind)}
        rest = {name: kind for name, kind in search_space.items() if name not in ours}
        plan = self._plan(study, trial) if ours else {}
        found = {name: _fitted(plan[name], kind) for name, kind in ours.items()}
        found |= self.fallback.sample_relative(study, trial, rest) if rest else {}
        alone = {name: kind for name, kind in rest.items() if name not in found}  # a TPE's first trials, for instance
        return found | {
            name: self.fallback.sample_independent(study, trial, name, kind) for name, kind in alone.items()
        }

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The same suggestion, a parameter at a time: what a first trial asks for."""
        if self._helps(study) and self._covers(param_name, param_distribution):
            return _fitted(self._plan(study, trial)[param_name], param_distribution)
        return self.fallback.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """The fallback's."""
        self.fallback.before_trial(study, trial)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Forgets the trial's plan."""
        with self._lock:
            self._plans.pop(trial._trial_id, None)
        self.fallback.after_trial(study, trial, state, values)

    def reseed_rng(self) -> None:
        """The fallback's: suggestions differ by trial already."""
        self.fallback.reseed_rng()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    def _helps(self, study: optuna.Study) -> bool:
        if len(study.directions) > 1:
            self._say("the study has several objectives")
            return False
        return self.model is not None

    def _covers(self, name: str, kind: BaseDistribution) -> bool:
        """Whether the prior may choose a parameter of this distribution; says why not, once."""
        axis = None if self.space is None else self.space.axes.get(name)
        if axis is None:
            self._say(f"no past study varied {name!r}")
            return False
        if not _inside(kind, axis):
            self._say(f"{name!r} is {kind}, and past studies had {axis}")
            return False
        return True

    def _say(self, why: str) -> None:
        if why not in self._said:
            self._said.add(why)
            told = f"{why[0].upper()}{why[1:]}: {type(self.fallback).__name__} takes its place there."
            warnings.warn(told, PacohWarning, stacklevel=4)

    def _plan(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, Any]:
        with self._lock:
            if trial._trial_id not in self._plans:
                self._plans[trial._trial_id] = self._suggest(study, trial)
            return self._plans[trial._trial_id]

    def _suggest(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, Any]:
        assert self.space is not None
        optimizer = Optimizer(
            self.model,
            self.space,
            acquisition=self.acquisition,
            alone=self.alone,
            warp=self.warp,
            places=self.places,
            patience=PATIENCE,
            seed=self.seed,
        )
        task = _told(study, self.space)
        if task is not None:
            optimizer.tell(*task)
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        optimizer.pending = [
            _known_part(one, self.space) for one in running if one._trial_id != trial._trial_id and one.params
        ]
        optimizer.asked = trial.number
        return optimizer.ask()[0]


def _usual(method: str) -> dict[str, Any]:
    return {"guard": True} | ({"own_scale": OWN_SCALE} if method.startswith("pacoh-gp-") else {})


def good_places(tasks: Sequence[tuple[np.ndarray, np.ndarray]], most: int = GOOD) -> np.ndarray:
    """The rows with the smallest values of each past study, at most so many of each.

    >>> import numpy as np
    >>> from pacoh.integrations.optuna import good_places
    >>> rows = np.array([[0.1], [0.4], [0.9]])
    >>> good_places([(rows, np.array([3.0, 1.0, 2.0])), (rows, np.array([0.0, 5.0, 6.0]))], most=1).tolist()
    [[0.4], [0.1]]
    """
    return np.concatenate([rows[np.argsort(values, kind="stable")[:most]] for rows, values in tasks])


def joint_space(trials: Sequence[FrozenTrial]) -> Space | None:
    """The parameters that trials varied, over the widest ranges seen; not those whose kind or scale changed.

    >>> from optuna.distributions import FloatDistribution
    >>> from optuna.trial import create_trial
    >>> from pacoh.integrations.optuna import joint_space
    >>> kinds = [{"x": FloatDistribution(0, 1)}, {"x": FloatDistribution(0, 3)}]
    >>> joint_space([create_trial(params={"x": 0.5}, distributions=kind, value=1.0) for kind in kinds])
    Space(axes={'x': Real(low=0.0, high=3.0, log=False)})
    """
    kinds: dict[str, list[BaseDistribution]] = {}
    for trial in trials:
        for name, kind in trial.distributions.items():
            if kind not in kinds.setdefault(name, []):
                kinds[name].append(kind)
    axes = {name: axis for name, found in kinds.items() if (axis := _widest(found)) is not None}
    return Space(axes) if axes else None


def _widest(kinds: Sequence[BaseDistribution]) -> Axis | None:
    if all(isinstance(kind, CategoricalDistribution) for kind in kinds):
        options = [option for kind in kinds for option in kind.choices]  # type: ignore[attr-defined]
        plain = all(option is None or isinstance(option, bool | int | float | str) for option in options)
        distinct = list({(type(option), option): option for option in options}.values()) if plain else []
        return Choice(tuple(distinct)) if len(distinct) > 1 else None
    numbers = [kind for kind in kinds if isinstance(kind, FloatDistribution | IntDistribution)]
    if len(numbers) < len(kinds) or len({(type(kind), kind.log) for kind in numbers}) > 1:
        return None
    low, high, log = min(kind.low for kind in numbers), max(kind.high for kind in numbers), numbers[0].log
    if low >= high:
        return None
    return Integer(int(low), int(high), log) if isinstance(numbers[0], IntDistribution) else Real(low, high, log)


def _inside(kind: BaseDistribution, axis: Axis) -> bool:
    if isinstance(kind, CategoricalDistribution):
        return isinstance(axis, Choice) and all(_has(axis.options, option) for option in kind.choices)
    if isinstance(kind, FloatDistribution):
        return isinstance(axis, Real) and axis.low <= kind.low and kind.high <= axis.high
    return (
        isinstance(kind, IntDistribution)
        and isinstance(axis, Integer)
        and axis.low <= kind.low <= kind.high <= axis.high
    )


def _has(options: Sequence[Any], value: Any) -> bool:
    return any(type(one) is type(value) and one == value for one in options)


def _fitted(value: Any, kind: BaseDistribution) -> Any:
    """The value nearest to a suggestion that a distribution allows."""
    if isinstance(kind, CategoricalDistribution):
        return value if _has(kind.choices, value) else kind.choices[0]
    assert isinstance(kind, FloatDistribution | IntDistribution)
    clipped = min(max(value, kind.low), kind.high)
    if kind.step is not None:
        clipped = min(kind.low + round((clipped - kind.low) / kind.step) * kind.step, kind.high)
    return int(clipped) if isinstance(kind, IntDistribution) else float(clipped)


def _known_part(trial: FrozenTrial, space: Space) -> dict[str, Any]:
    """The parameters of a trial that a space has, numbers moved into its ranges; others are left out."""
    point = {}
    for name, axis in space.axes.items():
        value = trial.params.get(name)
        if name not in trial.params or (isinstance(axis, Choice) and not _has(axis.options, value)):
            continue
        if isinstance(axis, Choice):
            point[name] = value
        elif isinstance(value, bool | int | float):
            point[name] = min(max(float(value) if isinstance(axis, Real) else round(value), axis.low), axis.high)
    return point


def _told(study: optuna.Study, space: Space) -> tuple[list[dict[str, Any]], list[float]] | None:
    """Points and values of a study, as if to be minimised; None without any. Very bad values are drawn in.

    What is worse than the median by more than five times the way from the best to the median says only that it is bad.
    """
    trials = study.get_trials(deepcopy=False, states=_DONE)
    sign = 1.0 if study.direction == optuna.study.StudyDirection.MINIMIZE else -1.0
    done = [sign * trial.value for trial in trials if trial.state == TrialState.COMPLETE and trial.value is not None]
    done = [value for value in done if np.isfinite(value)]
    middle = float(np.median(done)) if done else -np.inf
    points, values = [], []
    for trial in trials:
        reports = trial.intermediate_values
        last = reports[max(reports)] if reports else None
        value = trial.value if trial.state == TrialState.COMPLETE else last
        if value is None or not np.isfinite(value):
            continue
        points.append(_known_part(trial, space))
        values.append(sign * value if trial.state == TrialState.COMPLETE else max(sign * value, middle))
    if not values:
        return None
    best, centre = min(values), float(np.median(values))
    worst = centre + 5 * (centre - best) if centre > best else np.inf
    return points, [min(value, worst) for value in values]


def _task(study: optuna.Study, space: Space) -> tuple[np.ndarray, np.ndarray] | None:
    told = _told(study, space)
    if told is None or len(told[1]) < 2:
        return None
    return space.encode(told[0][:MOST]), np.array(told[1][:MOST])
