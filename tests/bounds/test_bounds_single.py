"""Single-task bounds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from pacoh.bounds.coverage import product_form_failures
from pacoh.bounds.single import (
    binary_kl,
    bounded_psi,
    catoni,
    discrete_psi,
    gibbs_single_bound,
    kl_inverse,
    maurer_seeger,
    single_bound,
    sub_gamma_psi,
    sub_gaussian_psi,
)
from pacoh.errors import PacohError


@given(st.floats(0, 1), st.floats(1e-4, 5))
def test_the_kl_inverse_inverts(q, budget):
    p = kl_inverse(q, budget)
    assert q <= p <= 1
    if p < 1 - 1e-9:
        assert binary_kl(q, p) == pytest.approx(budget, rel=1e-6, abs=1e-9)


@given(st.floats(0, 0.5), st.floats(0, 5), st.integers(8, 400), st.floats(0.01, 0.5))
def test_the_best_catoni_bound_is_below_the_linear_one(emp, kl, m, delta):
    """-log(1 - L(1 - e^{-C})) >= C L - C^2/8: Catoni's form is never above Hoeffding's at the same beta."""
    beta = math.sqrt(m)
    linear = single_bound(emp, kl, beta, delta, bounded_psi(beta, m)).total
    assert catoni(emp, kl, m, delta, beta).total <= linear + 1e-12
    assert maurer_seeger(emp, kl, m, delta).total <= emp + math.sqrt(
        (kl + math.log(2 * math.sqrt(m) / delta)) / (2 * m)
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 30), st.floats(0.05, 0.95))
def test_bounds_for_one_hypothesis_fail_no_more_often_than_delta(m, risk):
    """Exact: all m + 1 outcomes of a 0-1 loss, one hypothesis (KL = 0)."""
    delta = 0.1
    wrong = np.arange(m + 1)
    chance = binom.pmf(wrong, m, risk)
    for form in (
        lambda k: maurer_seeger(k / m, 0.0, m, delta),
        lambda k: catoni(k / m, 0.0, m, delta, math.sqrt(m)),
        lambda k: single_bound(k / m, 0.0, m, delta, bounded_psi(m, m)),
    ):
        failed = np.array([form(int(k)).total < risk for k in wrong])
        assert chance[failed].sum() <= delta


def test_maurers_constant_covers_every_sample_size():
    for m in range(1, 60):
        k = np.arange(m + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = binom.pmf(k, m, k / m).sum()
        assert exact <= 2 * math.sqrt(m)


def test_the_gibbs_form_is_the_single_bound_at_the_gibbs_posterior():
    rng = np.random.default_rng(0)
    prior, loss, beta = rng.dirichlet(np.ones(5)), rng.uniform(size=5), 3.0
    log_z = math.log(np.sum(prior * np.exp(-beta * loss)))
    q = prior * np.exp(-beta * loss - log_z)
    direct = single_bound(float(q @ loss), float(q @ np.log(q / prior)), beta, 0.1, 0.2)
    assert gibbs_single_bound(log_z, beta, 0.1, 0.2).total == pytest.approx(direct.total, abs=1e-12)


def test_sub_gamma_and_sub_gaussian_terms():
    assert sub_gaussian_psi(2, 5, 3.0) == pytest.approx(4 * 3 / 10)
    assert sub_gamma_psi(2, 5, 3.0, 1.0) == pytest.approx(4 * 3 / (10 * 0.6))
    assert sub_gamma_psi(5, 5, 3.0, 1.0) == math.inf


def test_the_power_stands_inside_the_mean_over_hypotheses():
    """m means over h multiplied are far too small: 1.04 where 73.1 is right, and the bound fails at 21 %."""
    prior, log_mgf = (0.999, 0.001), (0.0, 4.0)
    assert discrete_psi(prior, log_mgf, 20) == pytest.approx(73.09, abs=0.01)
    assert 20 * discrete_psi(prior, log_mgf, 1) == pytest.approx(1.044, abs=0.001)
    product, exact = product_form_failures(400_000)
    assert product == pytest.approx(0.209, abs=0.004)
    assert product > 0.1
    assert exact <= 0.1


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.integers(1, 30), st.integers(0, 10**6))
def test_exact_psi_is_never_below_the_product_form(weights, m, seed):
    prior = np.array(weights) / np.sum(weights)
    log_mgf = np.random.default_rng(seed).exponential(size=prior.size)
    assert discrete_psi(prior, log_mgf, m) >= m * discrete_psi(prior, log_mgf, 1) - 1e-9


def test_bad_inputs_teach():
    with pytest.raises(PacohError, match="sum 1"):
        discrete_psi((0.5, 0.6), (0.0, 0.0), 3)
    with pytest.raises(PacohError, match="delta"):
        maurer_seeger(0.1, 1.0, 5, 0.0)
    with pytest.raises(PacohError, match="emp"):
        catoni(1.5, 1.0, 5, 0.1, 1.0)
