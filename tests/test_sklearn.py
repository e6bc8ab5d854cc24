"""The scikit-learn estimators: what `Model.adapt` says, in scikit-learn's words, and its own checks of estimators."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason='scikit-learn is not here (pip install "pacoh[sklearn]")')

import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import pacoh
from pacoh.errors import PacohError, PacohWarning
from pacoh.sklearn import PacohClassifier, PacohRegressor
from pacoh.testing.compare import compilations

SMALL = {"steps": 300, "layers": 1, "width": 8}
QUIET = {"hypotheses": 2, "adapt_steps": 20, "layers": 1, "width": 4}


def wave(size: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = random.uniform(0, 6, size)
    return x[:, None], 5 + np.sin(x) + 0.3 * random.normal() + 0.05 * random.normal(size=size)


def blobs(size: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    ids = np.arange(size) % 3
    return np.eye(3)[ids][:, :2] * 4 + random.normal(size=(size, 2)), np.array(["cat", "cow", "dog"])[ids]


@pytest.fixture(scope="module")
def prior() -> pacoh.Model:
    random = np.random.default_rng(0)
    return pacoh.fit([wave(6, random) for _ in range(10)], "pacoh-gp-map", **SMALL)


@pytest.fixture(scope="module")
def task() -> tuple[np.ndarray, np.ndarray]:
    return wave(6, np.random.default_rng(9))


QUERY = np.linspace(0.5, 5.5, 5)[:, None]


@parametrize_with_checks([PacohRegressor(), PacohClassifier()])
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pacoh.errors.PacohWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_a_regressor_says_what_the_adapted_model_says(prior, task):
    made = PacohRegressor(prior).fit(*task)
    wanted = prior.adapt(*task, seed=made._seed())(QUERY)
    mean, std = made.predict(QUERY, return_std=True)
    np.testing.assert_allclose(mean, wanted.mean, rtol=1e-5)
    np.testing.assert_allclose(std, wanted.std, rtol=1e-4)
    found = made.predict_quantiles(QUERY, (0.1, 0.9))
    np.testing.assert_allclose(found.T, wanted.interval(0.8), rtol=1e-5)
    assert made.score(*task) > 0.9
    assert (made.method_, made.vanilla_, repr(made)) == (
        "pacoh-gp-map",
        False,
        "PacohRegressor(prior=Model(pacoh-gp-map, learned from 10 tasks))",
    )
    with pytest.raises(PacohError, match="between 0 and 1"):
        made.predict_quantiles(QUERY, (5, 95))


def test_without_a_prior_it_is_the_vanilla_learner_and_says_so(task):
    made = PacohRegressor().fit(*task)
    assert (made.method_, made.vanilla_) == ("vanilla-gp", True)
    assert "no learned prior: vanilla-gp" in repr(made)
    alone = pacoh.fit([task, task], "vanilla-gp").adapt(*task)(QUERY)
    np.testing.assert_allclose(made.predict(QUERY), alone.mean, rtol=1e-3)


def test_a_rows_prediction_does_not_depend_on_the_rows_beside_it(prior, task):
    made = PacohRegressor(prior).fit(*task)
    rows = np.random.default_rng(0).uniform(0, 6, (150, 1))
    whole = made.predict(rows)
    np.testing.assert_array_equal([made.predict(row[None])[0] for row in rows[::29]], whole[::29])
    np.testing.assert_array_equal(made.predict(rows[::-1]), whole[::-1])


def test_a_file_a_pickle_and_a_clone_predict_the_same(prior, task, tmp_path):
    prior.save(tmp_path / "prior")
    made = PacohRegressor(prior).fit(*task)
    mean = made.predict(QUERY)
    for other in (
        PacohRegressor(str(tmp_path / "prior")).fit(*task),
        clone(made).fit(*task),
        pickle.loads(pickle.dumps(made)),
    ):
        np.testing.assert_array_equal(other.predict(QUERY), mean)


def test_draws_have_the_moments_of_the_function_and_move_together(prior, task):
    made = PacohRegressor(prior).fit(*task)
    near = np.concatenate([QUERY, QUERY[:1] + 1e-3])
    drawn = made.sample_y(near, 2000)
    latent = made.predictor_.task.predictor.latent(made.predictor_.units.inputs(near))
    scale = float(made.predictor_.units.y_scale)
    sd = np.asarray(latent.std) * scale
    assert drawn.shape == (6, 2000)
    np.testing.assert_allclose(drawn.std(1), sd, rtol=0.08)
    np.testing.assert_array_less(np.abs(drawn.mean(1) - made.predict(near)), 4 * sd / np.sqrt(2000) + 1e-4)
    assert (drawn[0] - drawn[-1]).std() < 0.1 * sd[0]
    assert not np.array_equal(made.sample_y(near, 2, random_state=1), drawn[:, :2])


def test_meta_fit_learns_a_prior_that_clones_and_searches_keep(task):
    random = np.random.default_rng(0)
    made = PacohRegressor().meta_fit([wave(6, random) for _ in range(10)], "pacoh-gp-map", **SMALL)
    assert clone(made).prior.card["tasks"] == 10
    x, y = wave(12, np.random.default_rng(3))
    few = KFold(4)
    pipeline = make_pipeline(FunctionTransformer(), made)
    learned, alone = (cross_val_score(one, x, y, cv=few).mean() for one in (pipeline, PacohRegressor()))
    search = GridSearchCV(PacohRegressor(), {"prior": [None, made.prior]}, cv=few).fit(x, y)
    assert (search.best_params_["prior"] is not None) == (learned > alone)
    assert search.best_score_ == pytest.approx(max(learned, alone))


def test_tables_keep_their_columns_in_and_their_index_out():
    random = np.random.default_rng(1)
    tables = {}
    for name in "abcd":
        frame = pd.DataFrame({"load": random.uniform(0, 2, 6), "kind": random.permutation(["dry", "wet"] * 3)})
        tables[name] = (frame, 2 * frame["load"] + 3.0 * (frame["kind"] == "wet"))
    prior = pacoh.fit(tables, "vanilla-gp", steps=50)
    frame, y = tables["a"]
    made = PacohRegressor(prior).fit(frame, y)
    asked = frame[["kind", "load"]].set_index(pd.Index(list("uvwxyz")))
    found = made.predict_frame(asked[["load", "kind"]])
    assert list(found.index) == list("uvwxyz")
    assert list(found.columns) == ["mean", "std", "q05", "q50", "q95"]
    np.testing.assert_array_equal(found["mean"], made.predict(frame))
    assert list(made.feature_names_in_) == ["load", "kind"]
    with pytest.raises(ValueError, match="feature names"):
        made.predict(asked)


def test_a_classifier_knows_the_classes_of_its_prior():
    random = np.random.default_rng(2)
    made = PacohClassifier().meta_fit([blobs(9, random) for _ in range(4)], "cnp", steps=50, layers=1, width=8)
    x, y = blobs(9, random)
    some = y != "cow"
    made.fit(x[some], y[some])
    assert list(made.classes_) == ["cat", "cow", "dog"]
    probabilities = made.predict_proba(x)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(made.predict(x), made.classes_[probabilities.argmax(1)])
    wanted = made.prior.adapt(x[some], y[some], seed=made._seed())(x)
    np.testing.assert_allclose(probabilities, wanted.probs, rtol=1e-3, atol=1e-5)
    assert made.score(x, y) == np.mean(made.predict(x) == y)
    assert list(made.predict_frame(x).columns) == ["class", "p(cat)", "p(cow)", "p(dog)"]


def test_a_classifier_without_a_prior_is_a_network_on_the_task_alone():
    x, y = blobs(15, np.random.default_rng(0))
    made = PacohClassifier(settings=QUIET | {"adapt_steps": 300}).fit(x, y)
    assert (made.method_, made.vanilla_) == ("vanilla-bnn", True)
    assert made.score(x, y) > 0.8
    with pytest.raises(PacohError, match="got one class, cat"):
        PacohClassifier().fit(x[:2], ["cat", "cat"])


def test_the_pages_example_runs(capsys):
    page = (Path(__file__).parent.parent / "docs" / "sklearn.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code.replace('"pacoh-gp-map")', '"mll-gp", steps=20, layers=1, width=8)'), "sklearn.md", "exec"), {})
    told = capsys.readouterr().out
    assert told.startswith("mll-gp [-")
    assert "'prior'" in told


def test_far_queries_are_warned_of_once(prior, task):
    made = PacohRegressor(prior).fit(*task)
    with pytest.warns(PacohWarning, match="1 of 101 queries"):
        made.predict(np.append(np.zeros(100), 100.0)[:, None])


def test_what_does_not_fit_is_refused_in_a_sentence(prior, task, tmp_path):
    for made, says in {
        PacohClassifier(prior): "needs a prior of classes; this one is for PacohRegressor",
        PacohRegressor(3): "a fitted pacoh model, its file, or None; got a int",
        PacohRegressor(tmp_path / "none"): "no model file",
        PacohRegressor(prior, settings={"steps": 3}): "Settings are for the learner without a prior",
        PacohRegressor(settings={"speed": 3}): "settings of vanilla-gp do not fit",
    }.items():
        with pytest.raises(PacohError, match=says):
            made.fit(*task)


def test_an_estimator_compiles_nothing_for_more_rows_of_a_bucket(prior, task):
    made = PacohRegressor(prior).fit(*task)
    made.predict(QUERY)
    clone(made)  # copies of the prior's arrays compile once, whichever test comes first
    with compilations() as names:
        made.predict(np.linspace(0, 6, 130)[:, None])
        PacohRegressor(clone(made).prior).fit(task[0] + 0.1, task[1]).predict(QUERY)
    assert not names
