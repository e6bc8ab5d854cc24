"""The front door: any form of the same tasks, the same answer; many tasks at once, as one by one."""

import numpy as np
import pandas as pd
import pytest

import pacoh
from pacoh import api, metrics
from pacoh.environments.sinusoid import Sinusoid
from pacoh.errors import PacohError
from pacoh.inference.base import Budget
from pacoh.predictive import AbstractDistribution
from pacoh.reading import read
from pacoh.testing import compilations, ragged_tasks

SMALL = {"steps": 20, "layers": 1, "width": 8}
QUERY = np.linspace(-2, 2, 5)
TASKS = ragged_tasks()


@pytest.fixture(scope="module")
def model() -> api.Model:
    return api.fit(TASKS, "pacoh-gp-map", **SMALL)


@pytest.fixture(scope="module")
def split():
    return read(ragged_tasks(seed=3, sizes=(6, 4, 5))).split(2)


def answer(model: api.Model) -> np.ndarray:
    predictive = model.adapt(*TASKS[0])(QUERY)
    return np.stack([predictive.mean, predictive.std])


@pytest.mark.parametrize("form", ["dict", "1-D", "column targets", "lists", "frame", "float32"])
def test_the_form_of_the_tasks_does_not_matter(model, form):
    flat = [(x[:, 0], y) for x, y in TASKS]
    frame = pd.concat([pd.DataFrame({"task": i, "x": x, "y": y}) for i, (x, y) in enumerate(flat)])
    forms = {
        "dict": {f"task {i}": pair for i, pair in enumerate(TASKS)},
        "1-D": flat,
        "column targets": [(x, y[:, None]) for x, y in TASKS],
        "lists": [(x.tolist(), y.tolist()) for x, y in TASKS],
        "frame": frame,
        "float32": [(x.astype(np.float32), y.astype(np.float32)) for x, y in TASKS],
    }
    other = api.fit(forms[form], "pacoh-gp-map", **SMALL)
    np.testing.assert_allclose(answer(other), answer(model), atol=1e-3 if form == "float32" else 1e-12)


def test_predictions_are_numpy_in_float64_and_of_the_length_asked(model):
    for size in (1, 3, 9):
        predictive = model.adapt(*TASKS[1])(np.linspace(0, 1, size))
        assert isinstance(predictive, AbstractDistribution)
        for values in (predictive.mean, predictive.std, predictive.quantile(0.1)):
            assert (type(values), values.shape, values.dtype) == (np.ndarray, (size,), np.float64)


def test_a_prediction_does_not_depend_on_what_else_is_asked(model):
    predictor = model.adapt(*TASKS[1])
    alone = [predictor(q[None]).mean[0] for q in QUERY]
    np.testing.assert_allclose(predictor(QUERY).mean, alone, atol=1e-5)


def test_as_many_queries_as_components_keep_every_weight():
    """The oracle of Sinusoid mixes 256 components, and 250 queries are padded to 256."""
    predictor = api.fit_oracle(Sinusoid(), 29).adapt([0.0, 1.0], [5.0, 5.5])
    many = np.linspace(-5, 5, 250)
    np.testing.assert_allclose(predictor(many).mean[:5], predictor(many[:5]).mean, atol=1e-4)


def test_predictions_come_in_the_units_of_the_tasks(model):
    moved = api.fit([(7 + 100 * x, 50 + 3 * y) for x, y in TASKS], "pacoh-gp-map", **SMALL)
    x, y = TASKS[0]
    predictive = moved.adapt(7 + 100 * x, 50 + 3 * y)(7 + 100 * QUERY)
    plain = model.adapt(x, y)(QUERY)
    np.testing.assert_allclose(predictive.mean, 50 + 3 * plain.mean, atol=0.02)
    np.testing.assert_allclose(predictive.std, 3 * plain.std, rtol=0.02)


def test_no_context_is_the_same_however_it_is_said(model):
    prior = model.adapt()(QUERY).mean
    for empty in (([], []), (np.empty((0, 1)), np.empty(0)), (np.empty(0), np.empty(0))):
        np.testing.assert_array_equal(model.adapt(*empty)(QUERY).mean, prior)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.adapt(np.ones((3, 2)), np.ones(3)), "'context' has 2 input columns, expected 1"),
        (lambda m: m.adapt(*TASKS[0])(np.ones((3, 2))), "'query' has 2 input columns, expected 1"),
        (lambda m: m.adapt(np.ones(3), np.ones(2)), "3 rows and 2 targets"),
        (lambda m: m.adapt(np.ones(3)), "3 rows and 0 targets"),
        (lambda m: m.adapt([0.0, np.nan], [1.0, 2.0]), r"missing \(NaN\)"),
        (lambda _: api.fit(TASKS[:1], "mll-gp"), "2 tasks or more, got 1"),
        (lambda _: api.fit(TASKS, "magic"), "no method 'magic'. Methods: pacoh-gp-map"),
        (lambda _: api.fit(TASKS, "mll-gp", stepz=3), "settings of mll-gp do not fit"),
        (lambda _: api.fit(TASKS, "mll-gp", kernel="cubic"), "A kernel is one of"),
        (lambda _: api.fit(TASKS, "mll-gp", own=-0.5), "own is zero or a positive number; got -0.5"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(model, call, message):
    with pytest.raises(PacohError, match=message):
        call(model)


def test_many_tasks_at_once_are_as_one_by_one(model, split):
    contexts, queries = split.context.pairs(), split.query.x
    together = model.predict_tasks(contexts, queries)
    for index, ((x, y), query) in enumerate(zip(contexts, queries, strict=True)):
        alone = model.adapt(x, y)(query)
        np.testing.assert_allclose(together.mean[index, : len(query)], alone.mean, atol=1e-4)
        np.testing.assert_allclose(together.std[index, : len(query)], alone.std, atol=1e-4)


def test_more_tasks_than_fit_at_once_change_nothing(model, split, monkeypatch):
    contexts, queries = split.context.pairs(), split.query.x
    together = model.predict_tasks(contexts, queries).mean
    monkeypatch.setattr(api, "_TASKS_AT_ONCE", 2)
    np.testing.assert_allclose(model.predict_tasks(contexts, queries).mean, together, atol=1e-5)


def test_an_evaluation_is_the_metrics_by_hand(model, split):
    scores = model.evaluate(split)
    errors, densities = [], []
    for (x, y), query, target in zip(split.context.pairs(), split.query.x, split.query.y, strict=True):
        predictive = model.adapt(x, y)(query)
        errors.append(np.sqrt(np.mean((predictive.mean - target) ** 2)))
        densities.append(predictive.log_prob(target).mean())
    assert scores["rmse"] == pytest.approx(np.mean(errors), rel=1e-4)
    assert scores["log_likelihood"] == pytest.approx(np.mean(densities), rel=1e-3)
    assert set(scores) == {*metrics.OF_NUMBERS, *metrics.OF_CLASSES}


def test_new_contexts_and_queries_of_known_sizes_compile_nothing(model):
    model.adapt(*TASKS[1])(QUERY)
    with compilations() as names:
        for seed in range(3):
            model.adapt(*ragged_tasks(seed=seed)[1])(QUERY + seed)
    assert names == []


def test_the_same_seed_gives_the_same_model_and_another_seed_another(model):
    again, other = (api.fit(TASKS, "pacoh-gp-map", seed=seed, **SMALL) for seed in (0, 1))
    np.testing.assert_array_equal(answer(again), answer(model))
    assert np.abs(answer(other) - answer(model)).max() > 1e-3


def test_progress_is_told_up_to_the_end():
    told = []
    budget = Budget(chunk=10, progress=lambda done, total, value: told.append((done, total, value)))
    api.fit(TASKS, "pacoh-gp-map", budget=budget, **SMALL)
    assert [(done, total) for done, total, _ in told] == [(10, 20), (20, 20)]
    assert np.isfinite([value for *_, value in told]).all()


def test_the_card_says_how_the_model_was_made(model):
    card = model.card
    assert (card["method"], card["seed"], card["settings"], card["tasks"]) == ("pacoh-gp-map", 0, SMALL, 4)
    assert card["points"] == {"least": 3, "most": 6, "in_all": 18}


def test_the_front_door_offers_what_it_says():
    for name in pacoh.__all__:
        assert getattr(pacoh, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = pacoh.magic


def test_a_callers_own_callback_is_called_beside_the_models_curve():
    runs = []
    model = api.fit(TASKS, "pacoh-gp-map", budget=Budget(finished=runs.append), **SMALL)
    np.testing.assert_array_equal(runs[0].curve[0], model.curve)


def test_the_papers_hyper_prior_takes_no_sds_beside_it():
    with pytest.raises(PacohError, match="not both"):
        api.fit(TASKS, "pacoh-gp-map", paper=0.5, sds={"weight": 1.0})


def test_linear_networks_of_several_seeds_train_together_as_each_alone():  # jaxlib 0.10.2 has crashed here
    random = np.random.default_rng(0)
    tasks = [(random.normal(size=(20, 11)), random.normal(size=20)) for _ in range(10)]
    settings = {"steps": 5, "layers": 0, "waves": 0}
    models = api.fit_many([tasks] * 3, "pacoh-nn-svgd", [0, 1, 2], **settings)
    for seed, together in enumerate(models):
        alone = pacoh.fit(tasks, "pacoh-nn-svgd", seed=seed, **settings)
        means = [model.adapt(*tasks[0])(tasks[1][0]).mean for model in (together, alone)]
        np.testing.assert_allclose(*means, rtol=1e-2, atol=1e-3)
    first, second = (model.adapt(*tasks[0])(tasks[1][0]).mean for model in models[:2])
    assert np.abs(first - second).max() > 0.01  # seeds differ by more than lanes may
