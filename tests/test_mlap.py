"""MLAP: the two complexities, and who learns from whom in the joint bound."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import pacoh
from pacoh.data import Dataset, stack
from pacoh.errors import PacohError
from pacoh.inference.base import Adam, Budget
from pacoh.inference.map import MAP
from pacoh.learners.mlap import MLAP, Family, Joint, McAllester, MLAPModel, Seeger, Start, meta_complexity
from pacoh.priors.likelihoods import GaussianNoise
from pacoh.priors.nets import MLP
from pacoh.testing import ragged_tasks

pytestmark = pytest.mark.slow  # compilations dominate

TASKS = stack(ragged_tasks(d=2))
KEY = jax.random.key(3)
FAMILY = Family(MLP((4,), "tanh"), GaussianNoise(0.5), wide=10.0)


def kl(p, q):
    return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))


def moved(phi, seed=5):
    """Posteriors away from the prior, each elsewhere."""
    flat, back = ravel_pytree(phi["posteriors"])
    return phi | {"posteriors": back(flat + 0.3 * jax.random.normal(jax.random.key(seed), flat.shape))}


@pytest.mark.parametrize("m", [5, 20, 200])
@pytest.mark.parametrize("risk", [0.01, 0.1, 0.4])
def test_seegers_term_bounds_the_inverse_of_the_binary_divergence(m, risk):
    epsilon = (3.0 + np.log(4 * 7 * np.sqrt(m) / 0.1)) / m
    bound = risk + float(Seeger(0.1)(jnp.array(3.0), jnp.array(risk), jnp.array(m), 7))
    assert bound >= 1 or kl(risk, bound) >= epsilon * (1 - 1e-5)


def test_without_risk_seegers_term_falls_as_one_over_m_and_mcallesters_as_its_root():
    far, near = (
        np.array([float(c(jnp.array(50.0), jnp.array(0.0), jnp.array(m), 1)) for m in (10**3, 10**5)])
        for c in (Seeger(), McAllester())
    )
    np.testing.assert_allclose(far[0] / far[1], 100, rtol=0.1)
    np.testing.assert_allclose(near[0] / near[1], 10, rtol=0.1)
    assert far[1] < near[1]


def test_a_risk_below_zero_counts_as_zero_under_the_root_and_has_a_slope():
    slope = jax.grad(lambda r: Seeger()(jnp.array(3.0), r, jnp.array(5), 2))(jnp.array(-0.5))
    assert slope == 0


def test_the_joint_value_is_the_bound_written_out():
    phi = moved(Start(FAMILY, 4, 2)(KEY))
    family = Family(FAMILY.net, FAMILY.likelihood, FAMILY.weights, McAllester(0.2), wide=10.0, narrow=0.0)
    _, key_risk = jax.random.split(KEY)
    keys, hyper = jax.random.split(key_risk, 4), float((ravel_pytree(phi["prior"])[0] ** 2).sum() / 200)
    each = []
    for i, m in enumerate((3, 6, 4, 5)):
        own, task = (jax.tree.map(lambda leaf, i=i: leaf[i], tree) for tree in (phi["posteriors"], TASKS))
        divergence = float(family.divergence(own, phi["prior"]))
        price = np.sqrt((divergence + hyper + np.log(2 * 4 * m / 0.2)) / (2 * (m - 1)))
        each.append(float(family.risk(own, task, keys[i])) + price)
    expected = np.mean(each) + np.sqrt((hyper + np.log(2 * 4 / 0.2)) / 6)
    np.testing.assert_allclose(Joint(family, TASKS, jnp.arange(4), 4, None)(phi, KEY), -expected, rtol=1e-5)
    np.testing.assert_allclose(meta_complexity(jnp.array(hyper), 4, 0.2), expected - np.mean(each), rtol=1e-4)


def test_a_posterior_learns_from_its_own_task_alone_and_the_prior_from_all():
    phi = moved(Start(FAMILY, 4, 2)(KEY))
    other = Dataset(TASKS.x, TASKS.y.at[0].add(1.0), TASKS.mask)
    slopes = [jax.grad(Joint(FAMILY, tasks, jnp.arange(4), 4, None))(phi, KEY) for tasks in (TASKS, other)]
    changed = jax.vmap(lambda a, b: jnp.abs(ravel_pytree(a)[0] - ravel_pytree(b)[0]).max())(
        *(slope["posteriors"] for slope in slopes)
    )
    np.testing.assert_array_equal(np.asarray(changed) > 0, [True, False, False, False])
    assert np.abs(ravel_pytree(slopes[0]["prior"])[0]).max() > 0


def test_a_minibatch_of_tasks_keeps_the_mean():
    phi = moved(Start(FAMILY, 4, 2)(KEY))
    whole = Joint(FAMILY, TASKS, jnp.arange(4), 4, 2)

    def sides(key):
        key_batch, key_draws = jax.random.split(key)
        return whole.minibatch(key_batch)(phi, key_draws), whole(phi, key_draws)

    some, all_of_them = jax.vmap(sides)(jax.random.split(KEY, 4000))
    np.testing.assert_allclose(some.mean(), all_of_them.mean(), rtol=0.02)


def test_without_points_the_prior_predicts_and_points_lower_the_bound():
    phi = Start(FAMILY, 4, 2)(KEY)
    model = MLAPModel(FAMILY, phi["prior"], MAP(Adam(0.02, 100)), 50)
    task = jax.tree.map(lambda leaf: leaf[1], TASKS)
    empty = Dataset(task.x, task.y, jnp.zeros_like(task.mask))
    key_draws = jax.random.split(KEY, 3)[2]
    drawn = jax.vmap(lambda k: FAMILY.weights.sample(phi["prior"], k))(jax.random.split(key_draws, 50))
    np.testing.assert_array_equal(ravel_pytree(model.adapt(empty, KEY).hypotheses)[0], ravel_pytree(drawn)[0])
    before, after = (model.adapt(data, KEY)(task.x).log_prob(task.y)[task.mask].mean() for data in (empty, task))
    assert after > before + 0.1


def test_training_lowers_the_bound():
    learner = MLAP(FAMILY, MAP(Adam(0.02, 200)))
    phi = Start(FAMILY, 4, 2)(KEY)
    before = float(Joint(FAMILY, TASKS, jnp.arange(4), 4, None)(phi, KEY))
    curves = []
    learner.fit(TASKS, KEY, budget=Budget(finished=lambda trained: curves.append(trained.curve[0])))
    assert curves[0][-1] > before + 0.2


def test_a_delta_that_is_no_probability_is_refused():
    with pytest.raises(PacohError, match="delta is a probability"):
        pacoh.fit(ragged_tasks(), "mlap-m", delta=0.0)
