"""BMAML: the chaser follows a leader that stands still, and one particle is gradient ascent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import pacoh
from pacoh.categorical import CategoricalMixture
from pacoh.data import Dataset, pad, stack
from pacoh.errors import PacohError
from pacoh.learners.bmaml import BMAML
from pacoh.learners.episodic import EpisodicModel, split
from pacoh.learners.maml import Inner
from pacoh.priors.base import draw_start
from pacoh.priors.likelihoods import GaussianNoise
from pacoh.priors.nets import MLP
from pacoh.registry import Shape, learner
from pacoh.testing import ragged_tasks

pytestmark = pytest.mark.slow  # compilations dominate

TASKS = stack(ragged_tasks(d=2))
TASK = jax.tree.map(lambda leaf: leaf[1], TASKS)
KEY = jax.random.key(3)


def rule(particles=3, steps=2, **rest):
    return BMAML(MLP((4,), "tanh"), GaussianNoise(0.5), Inner(steps, 0.05, 3, np.inf), particles, **rest)


def start(made):
    return draw_start(made.specs(2), jax.random.key(0))


def test_one_particle_is_gradient_ascent_on_the_log_posterior_a_point():
    made = rule(1)
    theta = start(made)
    expected = jax.tree.map(lambda leaf: leaf[0], theta)
    for _ in range(2):
        slope = jax.grad(lambda h: made.log_posterior(h, TASK))(expected)
        expected = jax.tree.map(lambda leaf, up: leaf + made.inner.rate / 6 * up, expected, slope)
    found = jax.tree.map(lambda leaf: leaf[0], made.moved(theta, TASK, 2))
    np.testing.assert_allclose(ravel_pytree(found)[0], ravel_pytree(expected)[0], atol=1e-5)


def test_the_gradient_pulls_the_chaser_to_a_leader_that_stands_still():
    with jax.enable_x64(True):
        made = rule(sd=2.0)
        theta, task = jax.tree.map(
            lambda leaf: leaf.astype(jnp.float64) if leaf.dtype == jnp.float32 else leaf, (start(made), TASK)
        )
        context, _ = split(task, made.share, KEY)
        chaser, pull_back = jax.vjp(lambda theta: made.moved(theta, context, 2), theta)
        leader = made.moved(chaser, task, made.chase)
        expected = pull_back(jax.tree.map(lambda a, b: -(a - b) / made.inner.rate, chaser, leader))[0]
        found = jax.grad(made.value)(theta, task, KEY)
        np.testing.assert_allclose(ravel_pytree(found)[0], ravel_pytree(expected)[0], rtol=1e-8, atol=1e-10)
        flat, back = ravel_pytree(theta)
        steps = 1e-6 * jnp.eye(len(flat))[::5]

        def value(flat):
            gaps = jax.tree.map(lambda a, b: -((a - b) ** 2).sum(), made.moved(back(flat), context, 2), leader)
            return sum(jax.tree.leaves(gaps)) / (2 * made.inner.rate)

        slopes = jax.vmap(lambda e: (value(flat + e) - value(flat - e)) / 2e-6)(steps)
        np.testing.assert_allclose(ravel_pytree(found)[0][::5], slopes, rtol=1e-4, atol=1e-6)


def test_a_step_that_would_run_away_is_shortened_and_others_are_not():
    def length_of_step(longest, scale):
        made = BMAML(MLP((4,), "tanh"), GaussianNoise(0.5), Inner(1, 0.05, longest=longest), particles=1)
        far = Dataset(TASK.x, scale * TASK.y, TASK.mask)
        theta = start(made)
        return float(jnp.linalg.norm(ravel_pytree(made.moved(theta, far, 1))[0] - ravel_pytree(theta)[0]))

    assert length_of_step(10.0, 1e4) == pytest.approx(0.05 * 10.0, rel=1e-3)
    assert length_of_step(np.inf, 1e4) > 100 * 0.05 * 10.0
    assert BMAML().inner.longest == np.inf
    assert length_of_step(1e3, 1.0) == pytest.approx(length_of_step(np.inf, 1.0), rel=1e-6)


@pytest.mark.parametrize("longest", [0, -1.0, float("nan"), True, "long", None])
def test_a_limit_that_is_no_length_is_refused(longest):
    with pytest.raises(PacohError, match="longest is a length above 0"):
        learner("bmaml", Shape(3, 10.0, 1), longest=longest)


def test_particles_that_see_points_keep_apart():
    made = rule(4)
    theta = start(made)
    far = ravel_pytree(jax.tree.map(lambda leaf: leaf.std(0).mean(), made.moved(theta, TASK, 300)["net"]))[0]
    assert (far > 0.01).all()


def test_without_points_the_particles_stay_and_padding_and_order_change_nothing():
    made = rule()
    theta = start(made)
    empty = Dataset(TASK.x, TASK.y, jnp.zeros_like(TASK.mask))
    np.testing.assert_array_equal(ravel_pytree(made.moved(theta, empty, 5))[0], ravel_pytree(theta)[0])
    x, y = ragged_tasks(d=2)[1]
    model = EpisodicModel(made, theta)
    order = np.random.default_rng(2).permutation(len(x))
    expected = model.adapt(pad(x, y, 6), KEY)(x)
    for other in (pad(x[order], y[order], 6), pad(x, y, 11)):
        found = model.adapt(other, KEY)(x)
        np.testing.assert_allclose(found.mean, expected.mean, atol=1e-5)
        np.testing.assert_allclose(found.std, expected.std, atol=1e-5)


def test_predictions_mix_one_normal_a_particle_with_its_own_noise():
    made = rule(3)
    predictive = EpisodicModel(made, start(made)).adapt(TASK, KEY)(TASK.x)
    assert predictive.loc.shape == (3, 6)
    assert len(np.unique(np.asarray(predictive.scale)[:, 0])) == 3


def test_classes_get_probabilities():
    random = np.random.default_rng(0)
    x = random.normal(size=(8, 30, 2))
    tasks = stack([(rows, (rows[:, 0] > 0).astype(int)) for rows in x])
    model = learner("bmaml", Shape(8, 30, 2, 2), steps=100, layers=1, width=8, particles=2, inner_rate=0.3).fit(
        tasks, KEY
    )
    predictive = model.adapt(jax.tree.map(lambda leaf: leaf[0], tasks), KEY)(jnp.asarray(x[1], jnp.float32))
    assert isinstance(predictive, CategoricalMixture)
    np.testing.assert_allclose(predictive.probs.sum(-1), 1.0, rtol=1e-5)
    assert (np.asarray(predictive.mode) == (x[1][:, 0] > 0)).mean() > 0.85


def test_a_leader_that_is_not_ahead_is_refused():
    with pytest.raises(PacohError, match="chase is a whole number of 1 or more; got 0"):
        pacoh.fit(ragged_tasks(), "bmaml", chase=0)
