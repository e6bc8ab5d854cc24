"""The logistic case study: quadrature against adaptive quadrature, simulation, symmetry and the fast tables."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad
from scipy.special import expit

from pacoh.bounds.logistic import LogisticModel, error_rate, logistic_log_z, logistic_pacoh, nll_sum
from pacoh.bounds.logistic_grid import LogisticWorld, true_error


def simulate(seed: int, n: int, m: int, size: float = 1.0, mean: float = 2.0):
    rng = np.random.default_rng(seed)
    tasks = []
    for _ in range(n):
        w = mean + rng.normal(size=2)
        x = size * rng.uniform(-1, 1, (m, 2))
        tasks.append((x, (rng.uniform(size=m) < expit(x @ w)).astype(int)))
    return tasks


@pytest.mark.parametrize(
    ("prior_var", "size", "mu"),
    [(100.0, 1.0, (0.0, 0.0)), (100.0, 1.0, (-20.0, -20.0)), (0.25, 1.0, (1.0, -0.5)), (4.0, 5.0, (3.0, 1.0))],
)
def test_log_evidence_agrees_with_adaptive_quadrature(prior_var, size, mu):
    task = simulate(3, 1, 5, size)[0]
    centre, beta, sd = np.array(mu), math.sqrt(5), math.sqrt(prior_var)
    x, s = task[0], 2 * task[1] - 1

    def integrand(b, a):
        energy = sum(math.log1p(math.exp(-abs(z))) + max(-z, 0.0) for z in s * (x[:, 0] * a + x[:, 1] * b))
        square = (a - centre[0]) ** 2 + (b - centre[1]) ** 2
        return math.exp(-square / (2 * prior_var) - beta / 5 * energy) / (2 * math.pi * prior_var)

    mode = centre if mu != (-20.0, -20.0) else np.zeros(2) - 5.0
    low, high = np.minimum(mode, centre) - 7.5 * sd, np.maximum(mode, centre) + 7.5 * sd
    cuts = np.linspace(low[0], high[0], 5)
    pieces = [dblquad(integrand, a, b, low[1], high[1], epsabs=1e-11, epsrel=1e-7)[0] for a, b in pairwise(cuts)]
    model = LogisticModel(prior_var, 1.0, beta, np.zeros(2))
    assert logistic_log_z([task], model, centre)[0] == pytest.approx(math.log(sum(pieces)), abs=1e-6)


def test_pacoh_agrees_with_importance_sampling():
    tasks = simulate(0, 4, 5)
    model, lam, rng = LogisticModel(4.0, 9.0, math.sqrt(5), np.array([0.5, -0.5])), 2.0, np.random.default_rng(0)
    best = logistic_pacoh(tasks, model, lam)
    omega = lam / (4 * model.beta + lam)
    mu = model.hyper_mean + 3.0 * rng.standard_normal((1500, 2))
    w = mu[:, None] + 2.0 * rng.standard_normal((1500, 4000, 2))
    log_z, emp, kl = np.empty((4, 1500)), np.empty((4, 1500)), np.empty((4, 1500))
    for i, (x, y) in enumerate(tasks):
        log_f = -model.beta / 5 * nll_sum(w.reshape(-1, 2), x, y).reshape(1500, 4000)
        f = np.exp(log_f)
        z = f.mean(-1)
        log_z[i], kl[i] = np.log(z), (f * log_f).mean(-1) / z - np.log(z)
        emp[i] = (f * error_rate(w.reshape(-1, 2), x, y).reshape(1500, 4000)).mean(-1) / z
    weight = np.exp(omega * log_z.sum(0))
    assert abs(weight.mean() - math.exp(best.log_z2)) < 4 * weight.std() / math.sqrt(1500)
    share = weight / weight.sum()
    for values, exact in ((emp.mean(0), best.emp01), *zip(kl, best.kl_tasks, strict=True), (mu[:, 0], best.mean[0])):
        estimate = share @ values
        se = math.sqrt(np.sum(share**2 * (values - estimate) ** 2))
        assert abs(estimate - exact) < 4 * se + 5e-3 * abs(exact)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.2, 20), st.floats(0, 6.3))
def test_scaling_and_turning_the_inputs_changes_no_value(seed, scale, angle):
    """x -> c R x with means and sds divided by c leaves every integral as it is."""
    tasks = simulate(seed, 2, 3)
    turn = scale * np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    moved = [(x @ turn.T, y) for x, y in tasks]
    centre = np.array([0.3, -0.2])
    here = logistic_pacoh(tasks, LogisticModel(4.0, 6.0, 1.5, centre), 1.3)
    there = logistic_pacoh(moved, LogisticModel(4.0 / scale**2, 6.0 / scale**2, 1.5, turn @ centre / scale**2), 1.3)
    for name in ("log_z2", "kl_hyper", "kl_tasks", "emp01"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), atol=1e-7)


def test_small_lam_gives_the_hyper_prior_back():
    best = logistic_pacoh(simulate(1, 3, 4), LogisticModel(4.0, 9.0, 2.0, np.array([1.0, 2.0])), 1e-9)
    np.testing.assert_allclose(best.mean, [1.0, 2.0], atol=1e-6)
    np.testing.assert_allclose(best.cov, 9 * np.eye(2), atol=1e-5)
    assert best.kl_hyper == pytest.approx(0, abs=1e-8)


def test_the_pacoh_is_nowhere_wider_than_the_hyper_prior_and_all_kls_are_positive():
    best = logistic_pacoh(simulate(2, 5, 4), LogisticModel(9.0, 4.0, 2.0, np.zeros(2)), 2.0)
    assert np.linalg.eigvalsh(4 * np.eye(2) - best.cov).min() >= 0
    assert best.kl_hyper > 0
    assert (best.kl_tasks > 0).all()
    assert 0 <= best.emp01 <= 1


def test_an_input_at_zero_counts_as_predicted_zero():
    x, y = np.array([[0.0, 0.0], [1.0, 0.5]]), np.array([1, 1])
    model = LogisticModel(1.0, 1.0, 1.0, np.zeros(2))
    base = logistic_pacoh([(x, y)], model, 1.0)
    flipped = logistic_pacoh([(x, np.array([0, 1]))], model, 1.0)
    assert base.emp01 - flipped.emp01 == pytest.approx(0.5, abs=1e-12)


def test_fast_tables_agree_with_accurate_quadrature():
    world = LogisticWorld()
    _, x, y = world.simulate(np.random.default_rng(0), 4)
    tables = world.tables(x, y)
    weight, kl_hyper, log_z2 = world.hyper_posterior(tables.log_z.sum(0), 4, 2.0)
    best = logistic_pacoh(list(zip(x, y, strict=True)), LogisticModel(100.0, 400.0, world.beta, np.zeros(2)), 2.0)
    assert log_z2 == pytest.approx(best.log_z2, abs=3e-6)
    assert kl_hyper == pytest.approx(best.kl_hyper, abs=3e-6)
    np.testing.assert_allclose(tables.kl @ weight, best.kl_tasks, atol=3e-5)
    assert float(np.mean(tables.emp @ weight)) == pytest.approx(best.emp01, abs=1e-4)


@settings(max_examples=8, deadline=None)
@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(0, 6.28))
def test_true_error_of_a_direction_agrees_with_simulation(a, b, angle):
    x = np.random.default_rng(0).uniform(-1, 1, (200_000, 2))
    up, chance = x @ [math.cos(angle), math.sin(angle)] > 0, expit(x @ [a, b])
    values = np.where(up, 1 - chance, chance)
    exact = float(true_error(np.array([a, b]), np.array(angle)))
    assert abs(values.mean() - exact) < 4 * values.std() / math.sqrt(len(x)) + 1e-5


def test_the_best_direction_is_the_true_one():
    angles = np.linspace(0, 2 * math.pi, 721)
    errors = true_error(np.array([3.0, 3.0]), angles)
    assert angles[errors.argmin()] == pytest.approx(math.pi / 4, abs=0.02)
    np.testing.assert_allclose(errors[:361] + errors[360:], 1, atol=2e-5)
