"""Neural processes: what they climb is below the log-likelihood, and a context is a set."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pacoh.categorical import CategoricalMixture
from pacoh.data import pad, stack
from pacoh.learners.episodic import EpisodicModel, masked, split
from pacoh.learners.neural_process import Attention, DecodedNoise, Mean, NeuralProcess, pooled
from pacoh.priors.base import draw_start
from pacoh.priors.nets import MLP
from pacoh.registry import Shape, learner
from pacoh.testing import ragged_tasks

pytestmark = pytest.mark.slow  # compilations dominate

NET = MLP((8,), "tanh")
TASK = jax.tree.map(lambda leaf: leaf[1], stack(ragged_tasks(d=2)))
KEY = jax.random.key(3)
KINDS = {
    "np": NeuralProcess(NET, NET, DecodedNoise(), None, 8, 4, share=0.5),
    "cnp": NeuralProcess(NET, NET, DecodedNoise(), Mean(), 8, 0, whole=True, share=0.5),
    "anp": NeuralProcess(NET, NET, DecodedNoise(), Attention(NET, 2), 8, 4, whole=True, share=0.5),
}


def start(made):
    return draw_start(made.specs(2), jax.random.key(0))


@pytest.mark.parametrize("kind", ["np", "anp"])
def test_the_bound_is_below_the_log_likelihood_of_the_targets_and_near_where_z_says_little(kind):
    made = KINDS[kind]
    context, query = split(TASK, 0.5, KEY)
    targets = TASK if made.whole else query

    def gap(theta):
        loc, sd = made.posterior(theta, context)
        z = loc + sd * jax.random.normal(KEY, (20_000, 4))
        logs = jax.vmap(lambda z: made.log_likelihood(theta, context, z, targets))(z)
        bounds = jax.vmap(lambda key: made.bound(theta, context, targets, TASK, key))(jax.random.split(KEY, 5000))
        return jax.nn.logsumexp(logs) - np.log(len(logs)) - bounds.mean()

    theta = start(made)
    assert gap(theta) > 0.05
    theta["decoder"][0]["w"] = theta["decoder"][0]["w"].at[2:6].set(0.0)  # the decoder does not read z
    theta["head"][-1] = jax.tree.map(jnp.zeros_like, theta["head"][-1])  # nor does q(z | S) read S
    np.testing.assert_allclose(gap(theta), 0.0, atol=1e-4)


def test_the_value_of_a_conditional_process_is_the_log_likelihood_given_the_context():
    made = KINDS["cnp"]
    theta = start(made)
    key_split, _ = jax.random.split(KEY)
    context, _ = split(TASK, 0.5, key_split)
    predictive = made.adapt(theta, context, KEY)(TASK.x)
    expected = predictive.log_prob(TASK.y)[TASK.mask].sum()
    np.testing.assert_allclose(made.value(theta, TASK, KEY), expected, rtol=1e-5)


def test_attention_with_equal_keys_is_the_mean_and_with_one_point_that_point():
    path = Attention(NET, 2)
    params = draw_start(path.specs(2, 8), KEY)
    values = jax.random.normal(KEY, (len(TASK.x), 8))
    flat = jax.tree.map(jnp.zeros_like, params)
    queries = jax.random.normal(KEY, (5, 2))
    np.testing.assert_allclose(
        path(flat, queries, TASK, values), np.broadcast_to(pooled(TASK.mask, values), (5, 8)), atol=1e-6
    )
    one = masked(TASK, jnp.arange(len(TASK.x)) == 2)
    np.testing.assert_allclose(path(params, queries, one, values), np.broadcast_to(values[2], (5, 8)), atol=1e-6)
    assert np.ptp(np.asarray(path(params, queries, TASK, values)), 0).max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_is_a_set_whatever_its_order_and_padding(kind):
    made = KINDS[kind]
    model = EpisodicModel(made, start(made))
    x, y = ragged_tasks(d=2)[1]
    expected = model.adapt(pad(x, y, 6), KEY)(x)
    order = np.random.default_rng(2).permutation(len(x))
    for other in (pad(x[order], y[order], 6), pad(x, y, 11)):
        found = model.adapt(other, KEY)(x)
        np.testing.assert_allclose(found.mean, expected.mean, atol=1e-5)
        np.testing.assert_allclose(found.std, expected.std, atol=1e-5)


@pytest.mark.parametrize("method", ["np", "cnp", "anp"])
def test_training_learns_what_tasks_share_and_how_wide_the_noise_is(method):
    tasks = stack(ragged_tasks(seed=5, sizes=(10,) * 20))
    made = learner(method, Shape(20, 10, 1), steps=600, layers=2, width=16, rate=0.005)
    model = made.fit(tasks, KEY)
    others = stack(ragged_tasks(seed=6, sizes=(10,) * 20))
    context, query = jax.vmap(lambda task, key: split(task, 0.5, key))(others, jax.random.split(KEY, 20))

    def score(context, query):
        each = model.adapt(context, KEY)(query.x).log_prob(query.y)
        return jnp.where(query.mask, each, 0).sum() / query.mask.sum()

    alone = jax.scipy.stats.norm.logpdf(others.y, tasks.y.mean(), tasks.y.std()).mean()
    assert jax.vmap(score)(context, query).mean() > alone + 0.25


def test_classes_get_probabilities():
    random = np.random.default_rng(0)
    x = random.normal(size=(8, 30, 2))
    tasks = stack([(rows, (rows[:, 0] > 0).astype(int)) for rows in x])
    model = learner("anp", Shape(8, 30, 2, 2), steps=100, layers=1, width=8, draws=3).fit(tasks, KEY)
    predictive = model.adapt(jax.tree.map(lambda leaf: leaf[0], tasks), KEY)(jnp.asarray(x[1], jnp.float32))
    assert isinstance(predictive, CategoricalMixture)
    assert (np.asarray(predictive.mode) == (x[1][:, 0] > 0)).mean() > 0.85
