"""The Optuna sampler: what it learns, what it leaves to others, and Optuna's own conformance tests."""

import os
import warnings
from functools import lru_cache

import numpy as np
import pytest

optuna = pytest.importorskip("optuna")
pytest_samplers = pytest.importorskip("optuna.testing.pytest_samplers")

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution  # noqa: E402

from pacoh.errors import PacohError, PacohWarning  # noqa: E402
from pacoh.integrations.optuna import PATIENCE, PacohSampler, joint_space  # noqa: E402
from pacoh.learners.moved import MovedModel  # noqa: E402
from pacoh.optimize import Choice, Integer, Real, Space, optimizer  # noqa: E402
from pacoh.priors import ScaledGPPrior  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)
SETTINGS = {"steps": 300, "layers": 1, "width": 8, "particles": 2}


def loss(rate: float, depth: int, kind: str, at: float) -> float:
    """Least at rate 1e-2 (or near it), depth 3 and kind b."""
    return (np.log10(rate) + 2 + at) ** 2 + 0.2 * (depth - 3) ** 2 + (kind != "b")


def objective(trial, at=0.0):
    rate, depth = trial.suggest_float("rate", 1e-5, 1.0, log=True), trial.suggest_int("depth", 1, 8)
    return loss(rate, depth, trial.suggest_categorical("kind", ["a", "b"]), at)


@pytest.fixture(scope="module")
def storage(tmp_path_factory) -> str:
    """Five studies: one maximised, one with failed and pruned trials, one with a parameter of its own."""
    url = f"sqlite:///{tmp_path_factory.mktemp('past')}/past.db"
    for i in range(5):
        direction = "maximize" if i == 1 else "minimize"
        random = optuna.samplers.RandomSampler(seed=i)
        study = optuna.create_study(storage=url, study_name=f"past-{i}", sampler=random, direction=direction)

        def run(trial, i=i):
            value = objective(trial, 0.1 * np.sin(i))
            if i == 2 and trial.number % 4 == 0:
                raise RuntimeError("it failed")
            if i == 2 and trial.number % 4 == 1:
                trial.report(value, 0)
                raise optuna.TrialPruned
            if i == 3 and trial.number % 2:
                trial.suggest_float("momentum", 0, 1)
            return -value if i == 1 else value

        study.optimize(run, n_trials=14, catch=(RuntimeError,))
    return url


@pytest.fixture(scope="module")
def sampler(storage) -> PacohSampler:
    return PacohSampler.from_storage(storage, settings=SETTINGS, seed=1)


def test_the_space_is_what_the_studies_varied(sampler):
    assert sampler.space.axes == {
        "rate": Real(1e-5, 1.0, True),
        "depth": Integer(1, 8),
        "kind": Choice(("a", "b")),
        "momentum": Real(0, 1),
    }


def test_the_first_trials_of_a_new_study_are_good_already(sampler):
    found = {}
    for name, one in (("pacoh", sampler), ("tpe", optuna.samplers.TPESampler(seed=0))):
        study = optuna.create_study(sampler=one)
        study.optimize(objective, n_trials=4)
        found[name] = [trial.value for trial in study.trials]
    assert np.mean(found["pacoh"]) < 2  # a random trial: 4.9 on average
    assert min(found["pacoh"]) < min(found["tpe"])


def test_a_first_trial_is_near_a_good_one_of_the_past(sampler):
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=1)
    row = sampler.space.encode([study.trials[0].params])[0]
    known = [column for column in range(sampler.space.width) if column not in _columns(sampler.space, "momentum")]
    assert np.abs(sampler.places - row)[:, known].max(-1).min() < 0.25


def _columns(space: Space, name: str) -> list[int]:
    widths = [axis.width for axis in space.axes.values()]
    start = sum(widths[: list(space.axes).index(name)])
    return list(range(start, start + space.axes[name].width))


def test_a_study_that_is_flat_where_past_ones_were_good_is_not_searched_there_for_ever(tmp_path):
    url = f"sqlite:///{tmp_path}/slopes.db"
    for seed in range(4):
        past = optuna.create_study(storage=url, study_name=f"{seed}", sampler=optuna.samplers.RandomSampler(seed))
        past.optimize(lambda trial: trial.suggest_float("x", 0, 1) + 0.1 * trial.suggest_float("y", 0, 1), n_trials=10)
    study = optuna.create_study(sampler=PacohSampler.from_storage(url, settings=SETTINGS | {"guard": True}))

    def other(trial):
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        return 0.0 if x < 0.6 else -x + 0.1 * y

    study.optimize(other, n_trials=2 * PATIENCE)
    assert study.best_value < -0.6


@pytest.mark.slow
def test_studies_in_the_users_database_teach_what_they_teach_elsewhere(storage, sampler):
    """PostgreSQL where PACOH_TEST_DATABASE names one (postgresql://...), else a second file."""
    url = os.environ.get("PACOH_TEST_DATABASE", storage.replace("past.db", "copy.db"))
    names = [f"past-{i}" for i in range(5)]
    for name in names:
        optuna.copy_study(from_study_name=name, from_storage=storage, to_storage=url, to_study_name=f"{name} elsewhere")
    other = PacohSampler.from_storage(url, [f"{name} elsewhere" for name in names], settings=SETTINGS, seed=1)
    suggested = []
    for one in (sampler, other):
        study = optuna.create_study(sampler=one)
        study.optimize(objective, n_trials=4)
        suggested.append([trial.params for trial in study.trials])
    assert suggested[0] == suggested[1]


def test_the_same_study_gets_the_same_trials(sampler):
    runs = []
    for _ in range(2):
        study = optuna.create_study(sampler=sampler)
        study.optimize(objective, n_trials=3)
        runs.append([trial.params for trial in study.trials])
    assert runs[0] == runs[1]


def test_conditional_failed_and_pruned_trials_are_lived_with(sampler):
    study = optuna.create_study(sampler=sampler, direction="maximize")

    def run(trial):
        rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)  # a narrower range
        kind = trial.suggest_categorical("kind", ["a", "b"])
        depth = trial.suggest_int("depth", 2, 8, step=2) if kind == "b" else 2
        value = -loss(rate, depth, kind, 0.0)
        trial.report(value, 0)
        if trial.number == 1:
            raise RuntimeError("it failed")
        if trial.number == 2:
            raise optuna.TrialPruned
        return value if trial.number != 3 else float("nan")

    study.optimize(run, n_trials=6, catch=(RuntimeError,))
    assert all(trial.params.get("depth", 2) in (2, 4, 6, 8) for trial in study.trials)
    assert study.best_value > -1.5


def test_what_the_past_does_not_cover_is_left_to_the_fallback_with_one_warning_each(storage):
    sampler = PacohSampler.from_storage(storage, ["past-0", "past-3"], settings=SETTINGS | {"steps": 5})
    study = optuna.create_study(sampler=sampler)

    def run(trial):
        unseen, wider = trial.suggest_float("unseen", 0, 1), trial.suggest_float("rate", 1e-9, 1.0, log=True)
        return unseen + wider + trial.suggest_categorical("depth", [1, 2])  # it was a whole number

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study.optimize(run, n_trials=3)
    told = [str(one.message) for one in caught if issubclass(one.category, PacohWarning)]
    assert len(told) == 3
    assert any("no past study varied 'unseen'".capitalize()[1:] in one for one in told)


def test_too_little_history_and_unknown_studies_are_said(storage, tmp_path):
    with pytest.raises(PacohError, match="no study nobody"):
        PacohSampler.from_storage(storage, ["nobody"])
    empty = f"sqlite:///{tmp_path}/empty.db"
    optuna.create_study(storage=empty, study_name="one")
    with pytest.warns(PacohWarning, match="two are needed"):
        sampler = PacohSampler.from_storage(empty)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=2)
    assert len(study.trials) == 2


def test_kinds_and_scales_that_changed_are_no_part_of_the_space():
    def trial(**kinds):
        params = {name: kind.to_external_repr(kind.to_internal_repr(_some(kind))) for name, kind in kinds.items()}
        return optuna.create_trial(params=params, distributions=kinds, value=0.0)

    def _some(kind):
        return kind.choices[0] if isinstance(kind, CategoricalDistribution) else kind.low

    first = trial(
        a=FloatDistribution(0, 1),
        b=IntDistribution(1, 3),
        c=FloatDistribution(0.1, 1),
        d=CategoricalDistribution([1, "x"]),
    )
    second = trial(
        a=FloatDistribution(-1, 0.5),
        b=FloatDistribution(0, 1),
        c=FloatDistribution(0.1, 1, log=True),
        d=CategoricalDistribution([True]),
    )
    assert joint_space([first, second]) == Space({"a": Real(-1, 1), "d": Choice((1, "x", True))})


@lru_cache
def _learned(storage: str) -> PacohSampler:
    """A sampler that has seen the parameter names of Optuna's tests."""
    for i in range(3):
        study = optuna.create_study(
            storage=storage, study_name=f"names-{i}", sampler=optuna.samplers.RandomSampler(seed=i)
        )
        study.optimize(lambda t: t.suggest_float("x", -10, 10) + t.suggest_int("y", 0, 100), n_trials=5)
    return PacohSampler.from_storage(storage, settings=SETTINGS | {"steps": 5})


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('names')}/names.db"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pacoh.errors.PacohWarning", "ignore::optuna.exceptions.ExperimentalWarning")
class TestConformance(
    pytest_samplers.BasicSamplerTestCase,
    pytest_samplers.RelativeSamplerTestCase,
    pytest_samplers.MultiObjectiveSamplerTestCase,
):
    """What Optuna asks of any sampler, of one that takes parameters together, and of one for several objectives."""

    @pytest.fixture
    def sampler(self, names):
        """A sampler that learned, with a fallback of its own."""
        learned = _learned(names)
        return lambda: PacohSampler(learned.model, learned.space)


@pytest.mark.parametrize(("method", "scaled"), [("pacoh-gp-map", True), ("moved-gp", False)])
def test_without_settings_studies_have_scales_of_their_own_where_the_method_knows_them(
    storage, monkeypatch, method, scaled
):
    asked = {}

    def taught(tasks, method, **options):
        asked.update(options)
        few = {"steps": 5} if scaled else {"steps": 5, "draws": 16, "kept": 4, "adapt_steps": 2}
        return optimizer.taught(tasks[:2], method, **options | few)

    monkeypatch.setattr("pacoh.integrations.optuna.taught", taught)
    sampler = PacohSampler.from_storage(storage, method=method)
    assert asked["guard"]
    assert isinstance(sampler.model.meta.learned, MovedModel) != scaled
    assert (asked.get("own_scale") == 0.5) == scaled
    if scaled:
        assert isinstance(sampler.model.meta.learned.prior, ScaledGPPrior)
