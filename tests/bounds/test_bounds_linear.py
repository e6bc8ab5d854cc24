"""The linear-Gaussian case study: closed forms against each other and against brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from pacoh.bounds import (
    Gaussian,
    LinearPacoh,
    LinearTasks,
    Setting,
    gibbs_bound,
    improvement,
    meta_bound,
    pacoh_bound,
    per_task_bound,
)
from pacoh.bounds.linear_cgf import LinearWorld

seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=40, deadline=None)


class Case:
    """Ragged random tasks with random variances."""

    def __init__(self, seed: int, beta: float | None = None, lam: float | None = None, size: int | None = None):
        rng = np.random.default_rng(seed)
        self.rng = rng
        n, d = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        sizes = rng.integers(1, 8, n) if size is None else np.full(n, size)
        self.data = [(rng.normal(size=(m, d)), rng.normal(size=m)) for m in sizes]
        self.noise, self.prior_var, self.hyper_var = rng.uniform(0.1, 3, 3)
        beta = rng.uniform(0.2, 8) if beta is None else beta
        self.setting = Setting(n, sizes, rng.uniform(0.2, 8) if lam is None else lam, beta, 0.1)
        self.tasks = LinearTasks.of(self.data, self.noise, self.prior_var, beta)
        self.prior = Gaussian.isotropic(rng.normal(size=d), self.hyper_var, d)
        self.best = LinearPacoh.of(self.tasks, self.setting.omega, self.prior.mean, self.hyper_var)
        self.d = d


@laws
@given(seeds)
def test_log_evidence_is_the_literal_quadratic(seed):
    case = Case(seed)
    mu = case.rng.normal(size=case.d)
    beta, s2, sp2 = case.setting.beta, case.noise, case.prior_var
    for (x, y), value in zip(case.data, case.tasks.log_z(mu), strict=True):
        tau = beta / (len(y) * s2)
        inverse = np.linalg.inv(np.eye(len(y)) + tau * sp2 * x @ x.T)
        a, b = tau * x.T @ inverse @ x, tau * x.T @ inverse @ y
        c = -(beta * math.log(2 * math.pi * s2) - np.linalg.slogdet(inverse)[1] + tau * y @ inverse @ y) / 2
        assert value == pytest.approx(c + b @ mu - mu @ a @ mu / 2, abs=1e-9)


@laws
@given(seeds)
def test_beta_equal_m_gives_the_bayesian_evidence(seed):
    case = Case(seed, beta=4.0, size=4)
    mu = case.rng.normal(size=case.d)
    for (x, y), value in zip(case.data, case.tasks.log_z(mu), strict=True):
        cov = case.prior_var * x @ x.T + case.noise * np.eye(4)
        assert value == pytest.approx(multivariate_normal(x @ mu, cov).logpdf(y), abs=1e-9)


@laws
@given(seeds)
def test_all_forms_of_the_bound_agree_at_the_pacoh(seed):
    case = Case(seed)
    tasks, best, s = case.tasks, case.best, case.setting
    kl = best.posterior.kl(case.prior)
    by_theorem = meta_bound((float(tasks.mean_emp(best.posterior).mean()), kl, tasks.mean_kl(best.posterior)), s).total
    by_evidence = gibbs_bound(tasks.mean_log_z(best.posterior), kl, s).total
    assert by_theorem == pytest.approx(pacoh_bound(float(best.log_z2), s).total, abs=1e-8)
    assert by_evidence == pytest.approx(pacoh_bound(float(best.log_z2), s).total, abs=1e-8)
    assert float(best.kl_hyper) == pytest.approx(kl, abs=1e-9)
    assert kl == pytest.approx(s.omega * tasks.mean_log_z(best.posterior).sum() - float(best.log_z2), abs=1e-8)


@laws
@given(seeds)
def test_any_gaussian_hyper_posterior_pays_its_kl_to_the_pacoh(seed):
    case = Case(seed)
    root = case.rng.normal(size=(case.d, case.d))
    other = Gaussian(case.rng.normal(size=case.d), root @ root.T + 0.1 * np.eye(case.d))
    s = case.setting
    gap = (
        gibbs_bound(case.tasks.mean_log_z(other), other.kl(case.prior), s).total
        - pacoh_bound(float(case.best.log_z2), s).total
    )
    assert gap == pytest.approx(s.pre * other.kl(case.best.posterior), rel=1e-7, abs=1e-8)


@laws
@given(seeds)
def test_improvement_is_the_gap_and_the_reverse_kl_and_grows_with_the_hyper_variance(seed):
    case = Case(seed)
    s, tasks, best = case.setting, case.tasks, case.best
    delta = s.pre * float(best.reverse_kl)
    prior_mean = tasks.mean_log_z(case.prior)
    assert delta == pytest.approx(improvement(float(best.log_z2), prior_mean, s), abs=1e-8)
    assert delta == pytest.approx(
        per_task_bound(prior_mean, s).total - pacoh_bound(float(best.log_z2), s).total, abs=1e-8
    )
    assert delta == pytest.approx(s.pre * case.prior.kl(best.posterior), rel=1e-7, abs=1e-9)
    assert delta >= 0
    wider = LinearPacoh.of(tasks, s.omega, case.prior.mean, 1.3 * case.hyper_var)
    assert s.pre * float(wider.reverse_kl) >= delta


@laws
@given(seeds)
def test_the_pacoh_is_nowhere_wider_than_the_hyper_prior(seed):
    case = Case(seed)
    assert np.linalg.eigvalsh(case.prior.cov - case.best.posterior.cov).min() >= -1e-12


@laws
@given(seeds)
def test_small_lam_gives_the_hyper_prior_back(seed):
    case = Case(seed, lam=1e-8)
    np.testing.assert_allclose(case.best.posterior.mean, case.prior.mean, atol=1e-5)
    np.testing.assert_allclose(case.best.posterior.cov, case.prior.cov, atol=1e-5)
    assert case.setting.pre * float(case.best.reverse_kl) == pytest.approx(0, abs=1e-5)


@laws
@given(seeds)
def test_large_lam_and_beta_equal_m_give_hierarchical_bayes(seed):
    case = Case(seed, beta=3.0, lam=1e12, size=3)
    precision, pull = np.eye(case.d) / case.hyper_var, case.prior.mean / case.hyper_var
    for x, y in case.data:
        inverse = np.linalg.inv(case.prior_var * x @ x.T + case.noise * np.eye(3))
        precision, pull = precision + x.T @ inverse @ x, pull + x.T @ inverse @ y
    np.testing.assert_allclose(case.best.posterior.mean, np.linalg.solve(precision, pull), atol=1e-7)
    np.testing.assert_allclose(case.best.posterior.cov, np.linalg.inv(precision), atol=1e-8)


@laws
@given(seeds)
def test_small_beta_gives_the_prior_back(seed):
    case = Case(seed, beta=1e-7)
    mu = case.rng.normal(size=case.d)
    mean, cov = case.tasks.posterior(mu)
    np.testing.assert_allclose(mean, np.broadcast_to(mu, mean.shape), atol=1e-4)
    point = Gaussian(mu, np.zeros((case.d, case.d)))
    np.testing.assert_allclose(-case.tasks.log_z(mu) / 1e-7, case.tasks.mean_emp(point), rtol=1e-3)
    np.testing.assert_allclose(cov, np.broadcast_to(case.prior_var * np.eye(case.d), cov.shape), atol=1e-4)


@laws
@given(seeds)
def test_empirical_loss_from_sums_over_tasks(seed):
    case = Case(seed)
    post, start = case.best.posterior, case.prior.mean
    e0, e1, e2 = (part.sum(0) for part in case.tasks.emp_parts(start))
    moved = post.mean - start
    total = e0 - 2 * e1 @ moved + moved @ e2 @ moved + np.trace(e2 @ post.cov)
    mean = math.log(2 * math.pi * case.noise) / 2 + total / case.setting.n
    assert case.tasks.mean_emp(post).mean() == pytest.approx(mean, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_closed_forms_agree_with_simulation(seed):
    """Evidence, empirical loss, true loss, KL and the hyper-posterior, within 4 standard errors."""
    case = Case(seed)
    rng, draws = np.random.default_rng(seed + 100), 200_000
    over = case.best.posterior
    mu = rng.multivariate_normal(over.mean, over.cov, draws)
    x, y = case.data[0]
    tau = case.setting.beta / len(y)

    def loss(w):
        return math.log(2 * math.pi * case.noise) / 2 + ((y - w @ x.T) ** 2).mean(-1) / (2 * case.noise)

    prior_draw = case.prior.mean + math.sqrt(case.prior_var) * rng.standard_normal((draws, case.d))
    values = np.exp(-tau * len(y) * loss(prior_draw))
    near(values, math.exp(case.tasks.log_z(case.prior.mean)[0]))

    _, cov = case.tasks.posterior(over.mean)
    shrink, root = cov[0] / case.prior_var, np.linalg.cholesky(cov[0])
    centre = (mu - over.mean) @ shrink.T + case.tasks.posterior(over.mean)[0][0]
    w = centre + rng.standard_normal((draws, case.d)) @ root.T
    near(loss(w), case.tasks.mean_emp(over)[0])
    truth = rng.normal(size=case.d)
    risk = math.log(2 * math.pi * case.noise) / 2 + (0.3 + 1.7 * ((w - truth) ** 2).sum(-1)) / (2 * case.noise)
    near(risk, case.tasks.mean_risk(over, truth, 1.7, 0.3)[0])
    log_q = -(np.linalg.solve(root, (w - centre).T) ** 2).sum(0) / 2 - np.log(np.diag(root)).sum()
    log_p = -((w - mu) ** 2).sum(-1) / (2 * case.prior_var) - case.d / 2 * math.log(case.prior_var)
    near(log_q - log_p, case.tasks.mean_kl(over)[0])

    hyper = rng.multivariate_normal(case.prior.mean, case.prior.cov, 4000)
    weight = np.exp(case.setting.omega * np.array([case.tasks.log_z(one).sum() for one in hyper]))
    near(weight, math.exp(float(case.best.log_z2)))


def near(values: np.ndarray, exact: float) -> None:
    assert abs(values.mean() - exact) < 4 * values.std() / math.sqrt(len(values)) + 1e-12


def test_transfer_error_agrees_with_simulated_tasks():
    world, beta = LinearWorld(draws=100_000), math.sqrt(5)
    over = Gaussian(np.array([0.1, 0.3, 0.2, 0.0, 0.5]), np.diag([0.1, 0.02, 0.3, 0.05, 0.01]))
    rng, draws = np.random.default_rng(5), 40_000
    truth = 0.2 + 0.1 * rng.standard_normal((draws, 5))
    x = rng.standard_normal((draws, 5, 5))
    y = np.einsum("rmi,ri->rm", x, truth) + rng.standard_normal((draws, 5)) / 3
    tasks = LinearTasks(x, y, np.full(draws, 5), 1.0, 0.04, beta)
    near(tasks.mean_risk(over, truth, 1.0, 1 / 9), world.transfer(over, beta))


def test_known_scalars_of_the_default_environment():
    k, noise = LinearWorld().posterior_shape(math.sqrt(5))
    assert np.mean(k**2) == pytest.approx(0.86070, abs=3e-4)
    assert 0.04 * k.sum(-1).mean() == pytest.approx(0.184934, abs=5e-5)
    assert noise.sum(-1).mean() == pytest.approx(0.0057222, abs=1e-5)
    per_task_error = LinearWorld().transfer(Gaussian.isotropic(0.0, 0.25, 5), math.sqrt(5))
    assert per_task_error == pytest.approx(1.7128, abs=2e-4)
