"""Ellipses: its tasks are what they say, and its oracle is Bayes' rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from pacoh.api import fit, fit_oracle
from pacoh.data import pad
from pacoh.environments.ellipses import CENTRES, FACTORS, Ellipses, EllipsesOracleModel
from pacoh.errors import PacohError


def test_sizes_are_asked_for_and_every_class_is_as_frequent():
    draw = Ellipses(shots=3, n=4, m=6, tests=5, valids=2, query=7).draw(1)
    assert draw.train.sizes == (30,) * 4
    assert draw.test.context.sizes == (15,) * 5
    assert draw.test.query.sizes == (35,) * 5
    assert len(draw.valid.query) == 2
    np.testing.assert_array_equal(np.bincount(draw.test.context.y[0]), [3] * 5)
    assert draw.train.classes == (0, 1, 2, 3, 4)


def test_a_draw_is_its_number_and_shots_leave_the_meta_train_tasks_alone():
    first, again, other = (Ellipses(shots=shots).draw(number) for shots, number in ((2, 1), (5, 1), (2, 2)))
    np.testing.assert_array_equal(first.train.x[3], again.train.x[3])
    assert not np.array_equal(first.train.x[0], other.train.x[0])


def test_a_task_is_the_pattern_turned_and_shifted():
    """Turning back and shifting back by the truth of the generator gives the classes' own moments."""
    x, y = Ellipses(turn=0.0).task(np.random.RandomState(0), 20_000)
    shift = np.random.RandomState(0).normal(size=2)
    for c in range(5):
        points = x[y == c] - shift
        np.testing.assert_allclose(points.mean(0), CENTRES[c], atol=0.03)
        np.testing.assert_allclose(np.cov(points.T), FACTORS[c] @ FACTORS[c].T, atol=0.03)


def test_the_oracle_is_bayes_rule_by_simulation():
    random = np.random.default_rng(0)
    count = 200_000
    angles, shifts = random.uniform(-np.pi / 4, np.pi / 4, count), random.normal(size=(count, 2))
    cos, sin = np.cos(angles), np.sin(angles)

    def log_density(point, c):
        """In the pattern's own frame: one covariance for all draws."""
        gap = point - shifts
        back = np.stack([cos * gap[:, 0] + sin * gap[:, 1], -sin * gap[:, 0] + cos * gap[:, 1]], -1)
        return multivariate_normal(CENTRES[c], FACTORS[c] @ FACTORS[c].T).logpdf(back)

    x, y = np.array([[0.3, 0.4], [1.9, 1.0], [0.1, -1.2]]), np.array([0, 1, 3])
    weights = np.exp(sum(log_density(point, c) for point, c in zip(x, y, strict=True)))
    predictor = EllipsesOracleModel(np.pi / 4).adapt(pad(x, y, 5), jax.random.key(0))
    for point in (np.array([0.7, 0.2]), np.array([-0.8, 0.8]), np.array([0.2, -0.6])):
        joint = np.array([weights @ np.exp(log_density(point, c)) for c in range(5)])
        probs = predictor(jnp.asarray(point[None])).probs[0]
        np.testing.assert_allclose(probs, joint / joint.sum(), atol=0.02)


def test_the_oracle_is_calibrated_and_beats_what_needs_no_learning():
    environment = Ellipses(tests=60)
    draw = environment.draw(0)
    oracle = fit_oracle(environment, 0).evaluate(draw.test)
    assert oracle["ece"] < 0.02
    assert oracle["accuracy"] > fit(draw.train, "nearest-prototype").evaluate(draw.test)["accuracy"] + 0.05
    assert fit(draw.train, "majority-class").evaluate(draw.test)["accuracy"] == pytest.approx(0.2)


def test_more_shots_and_less_turn_are_easier_for_the_oracle():
    scores = {
        (shots, turn): fit_oracle(Ellipses(shots, turn=turn, tests=60), 0).evaluate(
            Ellipses(shots, turn=turn, tests=60).draw(0).test
        )["log_likelihood"]
        for shots, turn in ((1, np.pi), (1, 0.1), (5, np.pi))
    }
    assert scores[1, np.pi] < min(scores[1, 0.1], scores[5, np.pi])


def test_a_turn_beyond_pi_is_refused():
    with pytest.raises(PacohError, match="between 0 and pi, got 7"):
        Ellipses(turn=7)
