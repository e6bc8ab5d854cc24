"""The multi-task GP: one Gaussian process over tasks, and its limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pacoh
from pacoh.data import Dataset, stack
from pacoh.errors import PacohError
from pacoh.inference.base import Adam
from pacoh.inference.map import MAP
from pacoh.learners.multitask import MTGP, Coregionalised, MTGPPredictor
from pacoh.priors.hyper import NoHyperPrior
from pacoh.registry import METHODS, Shape, learner
from pacoh.testing import ragged_tasks

pytestmark = pytest.mark.slow  # compilations dominate

TASKS = stack(ragged_tasks(d=2))
KEY = jax.random.key(3)
MODEL = MTGP(NoHyperPrior(), Coregionalised(), MAP(Adam(0.01, 5)), MAP(Adam(0.05, 10))).fit(TASKS, KEY)
TASK = jax.tree.map(lambda leaf: leaf[1], stack(ragged_tasks(d=2, seed=8)))


def dense(row, context, x):
    """Mean and sd of f at x by one Gaussian over all points of all tasks, written out."""
    theta, k = MODEL.theta, lambda a, b: MODEL.prior.kernel.gram(MODEL.theta["kernel"], a, b)
    keep, some = np.asarray(TASKS.mask).reshape(-1), np.asarray(context.mask)
    points = jnp.concatenate([TASKS.x.reshape(-1, 2)[keep], context.x[some], x])
    ids = np.concatenate([np.repeat(np.arange(4), 6)[keep], np.full(some.sum() + len(x), 4)])
    w = jnp.concatenate([theta["w"], row["w"][None]])
    own = jnp.concatenate([theta["log_own"], row["log_own"][None]])
    gram = (w @ w.T + jnp.diag(jnp.exp(2 * own)))[ids][:, ids] * k(points, points)
    seen = keep.sum() + some.sum()
    y = jnp.concatenate([TASKS.y.reshape(-1)[keep], context.y[some]]) - theta["level"]
    solve = jnp.linalg.solve(gram[:seen, :seen] + jnp.exp(2 * theta["log_noise"]) * jnp.eye(seen), gram[:seen, seen:])
    covariance = gram[seen:, seen:] - gram[seen:, :seen] @ solve
    return theta["level"] + y @ solve, jnp.sqrt(jnp.diag(covariance))


def test_a_prediction_is_that_of_one_gaussian_over_all_points_of_all_tasks():
    x = jax.random.normal(KEY, (5, 2))
    predictor = MODEL.adapt(TASK, KEY)
    mean, sd = dense(predictor.row, TASK, x)
    np.testing.assert_allclose(predictor.latent(x).mean, mean, atol=1e-3)
    np.testing.assert_allclose(predictor.latent(x).std, sd, atol=1e-3)


def test_a_task_that_shares_nothing_is_a_gp_alone():
    row = {"w": jnp.zeros(2), "log_own": jnp.zeros(())}
    x, predictor = jax.random.normal(KEY, (5, 2)), MTGPPredictor.of(MODEL, row, TASK)
    mask = np.asarray(TASK.mask)
    gram = MODEL.prior.kernel.gram(MODEL.theta["kernel"], TASK.x[mask], jnp.concatenate([TASK.x[mask], x]))
    noise = jnp.exp(2 * MODEL.theta["log_noise"]) * jnp.eye(mask.sum())
    solve = jnp.linalg.solve(gram[:, : mask.sum()] + noise, gram[:, mask.sum() :])
    level = MODEL.theta["level"]
    np.testing.assert_allclose(predictor(x).mean, level + (TASK.y[mask] - level) @ solve, atol=1e-4)


def test_without_points_the_mean_row_of_the_tasks_predicts():
    empty = Dataset(TASK.x, TASK.y, jnp.zeros_like(TASK.mask))
    predictor = MODEL.adapt(empty, KEY)
    np.testing.assert_allclose(predictor.row["w"], MODEL.theta["w"].mean(0), atol=1e-6)
    x = jax.random.normal(KEY, (5, 2))
    np.testing.assert_allclose(predictor.latent(x).mean, dense(predictor.row, empty, x)[0], atol=1e-3)


def test_related_tasks_help_and_are_told_from_opposite_ones():
    x = np.linspace(-2, 2, 15)[:, None]
    wave = np.sin(2 * x[:, 0])
    tasks = stack([(x, sign * wave) for sign in (1.0, 1.0, -1.0, 1.0, -1.0)])
    model = learner("mtgp", Shape(5, 15, 1), steps=200, rank=1).fit(tasks, KEY)
    for sign in (1.0, -1.0):
        context = Dataset(jnp.array([[0.8], [-0.7]]), sign * jnp.sin(2 * jnp.array([0.8, -0.7])), jnp.array([True] * 2))
        predicted = model.adapt(context, KEY)(jnp.asarray(x, jnp.float32)).mean
        assert np.corrcoef(predicted, sign * wave)[0, 1] > 0.9


def test_the_model_holds_the_targets_and_the_registry_says_so():
    covariance = MODEL.factor @ MODEL.factor.T
    found = (covariance @ MODEL.solved + MODEL.theta["level"]).reshape(TASKS.y.shape)
    np.testing.assert_allclose(found[TASKS.mask], TASKS.y[TASKS.mask], atol=1e-3)
    assert [name for name, method in METHODS.items() if method.holds_data] == ["moved-gp", "mtgp"]


def test_more_points_than_a_matrix_holds_are_refused():
    x = np.random.default_rng(0).normal(size=(4000, 1))
    with pytest.raises(PacohError, match="at most 3000"):
        pacoh.fit([(x, x[:, 0]), (x, -x[:, 0])], "mtgp")


def test_classes_are_refused():
    with pytest.raises(PacohError, match="targets that are numbers"):
        learner("mtgp", Shape(2, 5, 1, 3))
