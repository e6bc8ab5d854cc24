"""Clouds of classes: their evidence and predictions against multivariate normals, and what they learn from tasks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from pacoh.data import Dataset, stack
from pacoh.learners.clouds import CloudsModel, LearnedClouds, averaged_clouds

KEY = jax.random.key(0)


def task(seed=0, points=12, classes=3, width=0.3, distance=1.0):
    random = np.random.default_rng(seed)
    places, y = distance * random.normal(size=(classes, 2)), np.arange(points) % classes
    return places[y] + width * random.normal(size=(points, 2)), y


def whole(x, y, padding=0):
    mask = np.arange(len(y) + padding) < len(y)
    return Dataset(
        jnp.pad(jnp.asarray(x), ((0, padding), (0, 0))), jnp.pad(jnp.asarray(y), (0, padding)), jnp.array(mask)
    )


def joint(x, y, width, distance):
    """ln p(x | y) with the places of the clouds integrated out, as one normal of each column."""
    cov = distance**2 * (y[:, None] == y) + width**2 * np.eye(len(y))
    return sum(multivariate_normal(cov=cov).logpdf(column) for column in np.asarray(x).T)


@pytest.mark.parametrize("points", [1, 4, 12])
def test_evidence_and_predictions_are_those_of_normals(points):
    x, y = task(points=points)
    x = x - x.mean(0)
    settings = np.array([[0.2, 0.7], [0.5, 1.5]])
    model = CloudsModel(*jnp.asarray(settings.T), jnp.zeros(2), jnp.ones(3), own=False)
    logs = np.array([joint(x, y, *one) for one in settings])
    np.testing.assert_allclose(np.diff(model.log_evidences(whole(x, y, 3))), np.diff(logs), rtol=1e-4)
    at = np.array([[0.3, -0.2], [1.0, 1.0]])
    said = np.asarray(model.adapt(whole(x, y, 3), KEY)(jnp.asarray(at)).log_probs)
    shares = 1 + np.bincount(y, minlength=3)
    for row, query in enumerate(at):
        each = np.array(
            [
                [joint(np.vstack([x, query]), np.append(y, c), *one) - logs[j] + np.log(shares[c]) for c in range(3)]
                for j, one in enumerate(settings)
            ]
        )
        each -= logsumexp(each, 1, keepdims=True)
        expected = logsumexp(each + (logs - logsumexp(logs))[:, None], 0)
        np.testing.assert_allclose(said[row], expected, atol=2e-4)


def test_width_and_shares_are_learned_from_tasks_and_their_places_are_not():
    tasks = [task(seed, 30) for seed in range(8)]
    frequent = [(x[(y > 0) | (np.arange(len(y)) < 6)], y[(y > 0) | (np.arange(len(y)) < 6)]) for x, y in tasks]
    model = LearnedClouds(3).fit(stack(frequent), KEY)
    width = float(model.widths[jnp.argmax(model.log_weights)])
    assert width == pytest.approx(0.3, rel=0.3)
    assert model.pseudo[0] < model.pseudo[1]
    empty = model.adapt(whole(np.zeros((1, 2)), np.zeros(1, int)), KEY)
    said = np.asarray(empty(jnp.array([[1.5, 0.0], [0.0, 1.5]])).log_probs)
    np.testing.assert_allclose(said[0], said[1], atol=1e-5)


def test_classes_far_apart_are_told_from_few_points_and_the_scale_of_inputs_is_nothing():
    x, y = task(2, 60, width=0.1, distance=2.0)
    model = averaged_clouds(3)
    for scale in (1.0, 1000.0):
        said = model.adapt(whole(scale * x[:9], y[:9]), KEY)(jnp.asarray(scale * x[9:]))
        assert np.mean(np.asarray(said.mode) == y[9:]) > 0.95
