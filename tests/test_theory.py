"""The hyper-posterior: weights, mini-batches, temperature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacoh.data import stack
from pacoh.priors import SE, Constant, GPPrior, GroupGaussian
from pacoh.priors.base import draw_start, log_mean_exp
from pacoh.priors.hyper import NoHyperPrior
from pacoh.theory import (
    BAYES,
    CONSISTENT,
    Rates,
    hyper_posterior,
    stratified,
    tempering,
)

KEY = jax.random.key(0)
PRIOR = GPPrior(Constant(), SE())
SDS = {"mean": 1.0, "scale": 1.0, "noise": 1.0}


def tasks(sizes=(4, 8, 5), seed=0):
    random = np.random.default_rng(seed)
    return stack([(random.normal(size=(m, 1)), random.normal(size=m)) for m in sizes])


def density(stacked, **options):
    return hyper_posterior(PRIOR, GroupGaussian(SDS)(PRIOR.specs(1)), stacked, **options)


def test_ragged_weights_are_the_worked_example():
    weights = tempering(3.0, jnp.asarray([4.0, 8.0, 24.0]))
    np.testing.assert_allclose(weights, [0.21951, 0.10976, 0.03659], atol=5e-6)


@given(n=st.integers(1, 50), m=st.integers(1, 300), lam=st.floats(0.1, 100), beta=st.floats(0.1, 100))
@settings(max_examples=30, deadline=None)
def test_equal_tasks_have_the_weight_of_the_theorem(n, m, lam, beta):
    del m
    weights = tempering(lam, jnp.full(n, beta))
    np.testing.assert_allclose(weights, lam / (n * beta + lam), rtol=1e-5)


def test_the_two_named_rates_give_the_two_named_weights():
    n, m = 20, 5
    for rates, weight in ((BAYES, 1 / (m + 1)), (CONSISTENT, 1 / ((n * m) ** 0.5 + 1))):
        got = tempering(rates.lam(n), rates.betas(jnp.full(n, m)))
        np.testing.assert_allclose(got, weight, rtol=1e-6)


def test_padding_a_task_or_adding_an_empty_one_changes_no_density():
    few, padded = tasks(), stack([*zip(*_unstack(tasks()), strict=True)], 16)
    phi = draw_start(PRIOR.specs(1), KEY)
    assert float(density(few)(phi, KEY)) == pytest.approx(float(density(padded)(phi, KEY)), rel=1e-5)


def _unstack(stacked):
    keep = [np.asarray(mask) for mask in stacked.mask]
    return tuple([np.asarray(part[i])[keep[i]] for i in range(len(keep))] for part in (stacked.x, stacked.y))


def test_the_order_of_tasks_does_not_matter():
    stacked = tasks()
    turned = jax.tree.map(lambda leaf: leaf[::-1], stacked)
    phi = draw_start(PRIOR.specs(1), KEY)
    assert float(density(stacked)(phi, KEY)) == pytest.approx(float(density(turned)(phi, KEY)), rel=1e-5)


def test_an_infinite_temperature_gives_the_hyper_prior_back():
    hyper = GroupGaussian(SDS)(PRIOR.specs(1))
    phi = hyper.sample(KEY)
    hot = density(tasks(), temperature=1e12)(phi, KEY)
    assert float(hot) == pytest.approx(float(hyper.log_prob(phi, KEY)), abs=1e-4)


def test_no_hyper_prior_leaves_the_weighted_evidence():
    stacked = tasks()
    flat = hyper_posterior(PRIOR, NoHyperPrior()(PRIOR.specs(1)), stacked)
    phi = draw_start(PRIOR.specs(1), KEY)
    evidence = [
        PRIOR.log_evidence(phi, jax.tree.map(lambda leaf, i=i: leaf[i], stacked), flat.betas[i], KEY) for i in range(3)
    ]
    assert float(flat(phi, KEY)) == pytest.approx(float(jnp.dot(flat.weights, jnp.stack(evidence))), rel=1e-5)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_mini_batch_is_unbiased(batch):
    whole, part = density(tasks()), density(tasks(), batch=batch)
    phi = draw_start(PRIOR.specs(1), KEY)
    values = jax.vmap(lambda key: part.minibatch(key)(phi, key))(jax.random.split(KEY, 20_000))
    error = float(values.std()) / 20_000**0.5
    assert abs(float(values.mean()) - float(whole(phi, KEY))) < 4 * error + 1e-4


@given(n=st.integers(2, 40), share=st.floats(0.05, 1.0))
@settings(max_examples=15, deadline=None)
def test_every_task_is_drawn_equally_often(n, share):
    batch = max(1, int(share * n))
    index = jax.vmap(lambda key: stratified(n, batch, key))(jax.random.split(KEY, 4000))
    counts = np.bincount(np.ravel(index), minlength=n)
    expected = 4000 * batch / n
    assert np.abs(counts - expected).max() < 5 * expected**0.5 + 5


def test_no_task_comes_twice_where_the_batch_divides():
    index = np.asarray(jax.vmap(lambda key: stratified(20, 4, key))(jax.random.split(KEY, 500)))
    assert all(len(set(row)) == 4 for row in index)


def test_rates_of_an_empty_task_are_those_of_one_point():
    np.testing.assert_array_equal(Rates(0.5, 0.5).betas(jnp.asarray([0, 1, 4])), [1.0, 1.0, 2.0])


@given(
    losses=st.lists(st.floats(0.0, 10.0), min_size=1, max_size=12),
    beta=st.floats(0.01, 20.0),
)
@settings(max_examples=60, deadline=None)
def test_the_estimated_evidence_is_above_the_naive_average_of_the_losses(losses, beta):
    values = jnp.asarray(losses)
    estimate = float(log_mean_exp(-beta * values))
    assert estimate >= float(-beta * values.mean()) - 1e-4 * (1 + beta)
    if len(losses) == 1:
        assert estimate == pytest.approx(-beta * losses[0], abs=1e-4 * (1 + beta))


@given(sd=st.floats(0.2, 2.0), beta=st.floats(0.5, 5.0), seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_the_mean_estimate_grows_with_the_draws_and_stays_below_the_evidence(sd, beta, seed):
    # losses N(1, sd^2): ln E exp(-beta loss) = -beta + beta^2 sd^2 / 2
    draws = 1 + sd * np.random.default_rng(seed).normal(size=(20_000, 16))
    exact = -beta + 0.5 * (beta * sd) ** 2
    means, errors = [], []
    for count in (1, 4, 16):
        values = np.asarray(jax.vmap(lambda row: log_mean_exp(-beta * row))(draws[:, :count]))
        means.append(float(values.mean()))
        errors.append(float(values.std()) / 20_000**0.5)
    assert means[0] < means[1] < means[2] < exact + 4 * errors[2]
    assert means[0] == pytest.approx(-beta, abs=4 * errors[0])
