"""MR-MAML: the price of the bottleneck, and what is left of MAML without it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import pacoh
from pacoh.data import pad, stack
from pacoh.errors import PacohError
from pacoh.learners.episodic import Episodes, EpisodicModel, split
from pacoh.learners.maml import MAML, Inner
from pacoh.learners.mr_maml import Coder, MRMAMLActivations, MRMAMLWeights
from pacoh.learners.points import Squared
from pacoh.priors.base import draw_start
from pacoh.priors.nets import MLP
from pacoh.priors.weights import DiagonalGaussian, gaussian_kl
from pacoh.registry import Shape, learner
from pacoh.testing import ragged_tasks

pytestmark = pytest.mark.slow  # compilations dominate

NET = Coder(MLP((6,), "tanh"), MLP((5,), "tanh"), 4)
TASKS = stack(ragged_tasks(d=2))
TASK = jax.tree.map(lambda leaf: leaf[1], TASKS)
KEY = jax.random.key(3)
KINDS = {"weights": MRMAMLWeights, "activations": MRMAMLActivations}


def rule(kind, steps=2, rate=0.1, **rest):
    return kind(NET, Squared(), Inner(steps, rate, 3), **rest)


def start(made):
    return draw_start(made.specs(2), jax.random.key(0))


def test_the_divergence_of_gaussians_is_the_mean_log_ratio_of_draws():
    q, p = (jnp.array([0.3, -1.0]), jnp.array([0.5, 1.5])), (jnp.array([0.0, 0.2]), jnp.array([1.0, 0.8]))
    draws = q[0] + q[1] * jax.random.normal(KEY, (200_000, 2))
    ratio = [jax.scipy.stats.norm.logpdf(draws, *part).sum(-1) for part in (q, p)]
    np.testing.assert_allclose(gaussian_kl(q, p), (ratio[0] - ratio[1]).mean(), rtol=0.02)
    assert gaussian_kl(p, p) == 0


def test_beta_times_the_divergence_is_paid_once_for_the_weights():
    free, priced = (rule(MRMAMLWeights, beta=beta) for beta in (0.0, 0.01))
    theta = start(free)
    loc, sd = free.weights.place(theta["encoder"])
    standard = (jax.tree.map(jnp.zeros_like, loc), jax.tree.map(jnp.ones_like, loc))
    values = [Episodes(made, TASKS, jnp.array(0.0), None)(theta, KEY) for made in (free, priced)]
    np.testing.assert_allclose(values[0] - values[1], 0.01 * gaussian_kl((loc, sd), standard), rtol=1e-4)


def test_beta_times_the_mean_divergence_is_paid_for_the_query_codes():
    free, priced = (rule(MRMAMLActivations, beta=beta) for beta in (0.0, 0.5))
    theta = start(free)
    key_split, _ = jax.random.split(KEY)
    _, query = split(TASK, 0.5, key_split)
    loc, sd = free.codes(theta["encoder"], TASK.x)
    divergence = (-jnp.log(sd) + (sd**2 + loc**2) / 2 - 0.5).sum(-1)[query.mask].mean()
    gap = free.value(theta, TASK, KEY) - priced.value(theta, TASK, KEY)
    np.testing.assert_allclose(gap, 0.5 * divergence, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_and_price_the_decoder_is_maml_on_the_codes(kind):
    quiet = {"weights": DiagonalGaussian(1e-7)} if kind == "weights" else {"spread": 1e-7}
    made = rule(KINDS[kind], beta=0.0, **quiet)
    theta = start(made)
    key_split, _ = jax.random.split(KEY)
    encoder = theta["encoder"]["loc"] if kind == "weights" else theta["encoder"]
    codes = NET.encoder(encoder, TASK.x)[:, :4]
    on_codes = MAML(NET.decoder, Squared(), Inner(2, 0.1, 3))
    encoded = type(TASK)(codes, TASK.y, TASK.mask)
    expected = on_codes.value(theta["decoder"], encoded, key_split)
    np.testing.assert_allclose(made.value(theta, TASK, KEY), expected, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_beta_leaves_an_encoder_that_says_nothing(kind):
    method = {"weights": "mr-maml-w", "activations": "mr-maml-a"}[kind]
    made = learner(method, Shape(4, 5, 2), steps=500, layers=1, width=8, beta=100.0, rate=0.05, inner_rate=1e-4)
    theta = made.fit(TASKS, KEY).theta
    if kind == "weights":
        loc, sd = made.rule.weights.place(theta["encoder"])
        assert np.abs(ravel_pytree(loc)[0]).max() < 0.05
    else:
        loc, sd = made.rule.codes(theta["encoder"], TASK.x)
        assert np.abs(loc).max() < 0.2
    np.testing.assert_allclose(ravel_pytree(sd)[0], 1.0, atol=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_adapting_moves_the_decoder_alone_and_ignores_padding_and_order(kind):
    made = rule(KINDS[kind])
    theta = start(made)
    model = EpisodicModel(made, theta)
    x, y = ragged_tasks(d=2)[1]
    predictor = model.adapt(pad(x, y, 6), KEY)
    encoder = theta["encoder"]["loc"] if kind == "weights" else theta["encoder"]
    assert jax.tree.all(jax.tree.map(jnp.array_equal, predictor.weights["encoder"], encoder))
    assert not jax.tree.all(jax.tree.map(jnp.array_equal, predictor.weights["decoder"], theta["decoder"]))
    order = np.random.default_rng(2).permutation(len(x))
    for other in (pad(x[order], y[order], 6), pad(x, y, 11)):
        np.testing.assert_allclose(model.adapt(other, KEY)(x).mean, predictor(x).mean, atol=1e-5)


@pytest.mark.parametrize("method", ["mr-maml-w", "mr-maml-a"])
def test_a_share_that_leaves_no_query_is_refused(method):
    with pytest.raises(PacohError, match="share of points"):
        pacoh.fit(ragged_tasks(), method, share=1.2)
