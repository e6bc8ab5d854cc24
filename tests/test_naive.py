"""References that learn nothing, or hardly anything."""

import numpy as np
import pytest

import pacoh
from pacoh.errors import PacohError
from pacoh.predictive import Point
from pacoh.testing import ragged_tasks

TASKS = ragged_tasks(d=2)


def test_the_last_value_is_that_at_the_largest_first_input_in_any_order():
    x, y = np.array([[0.1, 0.9], [0.5, 0], [0.3, 0.2]]), np.array([10.0, 30.0, 20.0])
    model = pacoh.fit(TASKS, "last-value")
    for order in ([0, 1, 2], [1, 0, 2], [2, 0, 1]):
        predictive = model.adapt(x[order], y[order])(x)
        assert isinstance(predictive, Point)
        np.testing.assert_allclose(predictive.mean, 30.0, rtol=1e-6)


def test_without_points_a_context_method_gives_the_mean_of_the_tasks():
    mean = np.concatenate([y for _, y in TASKS]).mean()
    for method in ("last-value", "context-mean"):
        np.testing.assert_allclose(pacoh.fit(TASKS, method).adapt()(TASKS[0][0]).mean, mean, atol=1e-6)


def test_share_and_keep_mix_last_value_context_mean_and_train_mean():
    x, y = np.array([[0.0, 0], [1.0, 0], [2.0, 0]]), np.array([1.0, 2.0, 6.0])
    train = np.concatenate([y for _, y in TASKS]).mean()
    expected = train + 0.5 * (0.7 * 6 + 0.3 * 3 - train)
    model = pacoh.fit(TASKS, "last-value", share=0.7, keep=0.5)
    np.testing.assert_allclose(model.adapt(x, y)(x).mean, expected, rtol=1e-5)


def test_a_lag_is_an_input_column_and_needs_no_context():
    random = np.random.default_rng(0)
    walks = [np.cumsum(random.normal(size=(50, 3)), 0) for _ in range(4)]
    tasks = [(walk, walk[:, 2] + 0.001 * random.normal(size=50)) for walk in walks]
    model = pacoh.fit(tasks, "last-value", lag=2)
    np.testing.assert_allclose(model.adapt()(walks[0]).mean, walks[0][:, 2], atol=0.01)
    with pytest.raises(PacohError, match="0 to 2; got 3"):
        pacoh.fit(tasks, "last-value", lag=3)


def test_pooled_ridge_is_least_squares_over_all_points():
    random = np.random.default_rng(1)
    xs = [random.normal(size=(size, 3)) * [1, 10, 0.1] + [0, 5, -3] for size in (4, 9, 30)]
    tasks = [(x, x @ [1.0, -0.2, 7.0] + 4 + 0.1 * random.normal(size=len(x))) for x in xs]
    pooled = np.concatenate([np.column_stack([x, np.ones(len(x))]) for x in xs])
    weights = np.linalg.lstsq(pooled, np.concatenate([y for _, y in tasks]), rcond=None)[0]
    query = random.normal(size=(5, 3)) * [1, 10, 0.1] + [0, 5, -3]
    predicted = pacoh.fit(tasks, "pooled-ridge", penalty=1e-8).adapt(*tasks[0])(query).mean
    np.testing.assert_allclose(predicted, np.column_stack([query, np.ones(5)]) @ weights, rtol=1e-4, atol=1e-4)


def test_a_large_penalty_leaves_the_mean():
    mean = np.concatenate([y for _, y in TASKS]).mean()
    np.testing.assert_allclose(pacoh.fit(TASKS, "pooled-ridge", penalty=1e9).adapt()(TASKS[0][0]).mean, mean, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("last-value", {"share": 1.5}, "share is a number between 0 and 1"),
        ("last-value", {"lag": "minus1"}, "0 to 1; got 'minus1'"),
        ("context-mean", {"keep": -0.1}, "keep is a number between 0 and 1"),
        ("pooled-ridge", {"penalty": 0}, "penalty of a ridge is a positive number"),
    ],
)
def test_settings_that_cannot_work_are_refused(method, settings, message):
    with pytest.raises(PacohError, match=message):
        pacoh.fit(TASKS, method, **settings)
