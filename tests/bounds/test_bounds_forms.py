"""The forms of the meta-learning bound, on random problems with finitely many hypotheses and priors: all exact."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from pacoh.bounds import (
    Setting,
    amit_meir,
    gibbs_bound,
    improvement,
    meta_bound,
    pacoh_bound,
    pentina_lampert,
    per_task_bound,
)
from pacoh.bounds.meta import bounded, holder, paper, sub_gamma, sub_gaussian, union
from pacoh.errors import PacohError

seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=60, deadline=None)


class Finite:
    """n tasks, J priors over H hypotheses, a hyper-prior over the priors, losses of every hypothesis on every task."""

    def __init__(self, seed: int, shift: float = 0.0):
        rng = np.random.default_rng(seed)
        self.rng = rng
        n, j, h = rng.integers(1, 7), rng.integers(2, 6), rng.integers(2, 8)
        self.loss = rng.uniform(0, 1, (n, h)) + shift
        self.prior = rng.dirichlet(np.ones(h), j)
        self.hyper = rng.dirichlet(np.ones(j))
        self.setting = Setting(
            n, rng.integers(1, 30, n), rng.uniform(0.1, 20), rng.uniform(0.1, 20), rng.uniform(0.01, 0.9)
        )

    @property
    def log_z(self) -> np.ndarray:
        """(n, J)"""
        return logsumexp(-self.setting.beta * self.loss[:, None, :], axis=-1, b=self.prior)

    @property
    def gibbs(self) -> np.ndarray:
        """(n, J, H): the Gibbs posterior of each task under each prior."""
        return self.prior * np.exp(-self.setting.beta * self.loss[:, None, :] - self.log_z[..., None])

    @property
    def log_z2(self) -> float:
        return float(logsumexp(self.setting.omega * self.log_z.sum(0), b=self.hyper))

    @property
    def best(self) -> np.ndarray:
        return self.hyper * np.exp(self.setting.omega * self.log_z.sum(0) - self.log_z2)

    def risk(self, over: np.ndarray, base: np.ndarray) -> tuple[float, float, np.ndarray]:
        """Empirical loss and KLs of a hyper-posterior and a base learner's posteriors."""
        emp = np.einsum("j,njh,nh->n", over, base, self.loss).mean()
        return float(emp), kl(over, self.hyper), kl(base, self.prior) @ over


def kl(q: np.ndarray, p: np.ndarray):
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.maximum(np.where(q > 0, q * np.log(q / p), 0).sum(-1), 0)
    return float(value) if value.ndim == 0 else value


@laws
@given(seeds)
def test_evidence_gibbs_and_theorem_forms_agree_at_the_pacoh(seed):
    p = Finite(seed)
    by_theorem = meta_bound(p.risk(p.best, p.gibbs), p.setting).total
    by_evidence = gibbs_bound(p.log_z @ p.best, kl(p.best, p.hyper), p.setting).total
    by_z2 = pacoh_bound(p.log_z2, p.setting).total
    assert by_theorem == pytest.approx(by_z2, abs=1e-8)
    assert by_evidence == pytest.approx(by_z2, abs=1e-8)


@laws
@given(seeds)
def test_any_hyper_posterior_pays_its_kl_to_the_pacoh(seed):
    p = Finite(seed)
    other = p.rng.dirichlet(np.ones(p.hyper.size))
    gap = gibbs_bound(p.log_z @ other, kl(other, p.hyper), p.setting).total - pacoh_bound(p.log_z2, p.setting).total
    assert gap == pytest.approx(p.setting.pre * kl(other, p.best), abs=1e-8)


@laws
@given(seeds)
def test_any_base_learner_pays_its_kl_to_the_gibbs_posterior(seed):
    p = Finite(seed)
    base = p.rng.dirichlet(np.ones(p.loss.shape[1]), p.gibbs.shape[:2])
    gap = meta_bound(p.risk(p.best, base), p.setting).total - meta_bound(p.risk(p.best, p.gibbs), p.setting).total
    assert gap == pytest.approx(float(np.mean(kl(base, p.gibbs) @ p.best)) / p.setting.beta, abs=1e-8)


@laws
@given(seeds)
def test_improvement_is_the_gap_of_the_bounds_and_a_kl(seed):
    p = Finite(seed)
    delta = improvement(p.log_z2, p.log_z @ p.hyper, p.setting)
    gap = per_task_bound(p.log_z @ p.hyper, p.setting).total - pacoh_bound(p.log_z2, p.setting).total
    assert delta == pytest.approx(gap, abs=1e-8)
    assert delta == pytest.approx(p.setting.pre * kl(p.hyper, p.best), abs=1e-8)
    assert delta >= -1e-12


@laws
@given(seeds)
def test_no_improvement_when_all_priors_have_the_same_evidence(seed):
    p = Finite(seed)
    p.prior = np.broadcast_to(p.prior[0], p.prior.shape)
    assert improvement(p.log_z2, p.log_z @ p.hyper, p.setting) == pytest.approx(0, abs=1e-12)


@laws
@given(seeds)
def test_rates_and_kl_identities(seed):
    p = Finite(seed)
    s = p.setting
    assert s.pre * s.omega * s.n * s.beta == pytest.approx(1, rel=1e-12)
    assert 0 < s.omega < 1
    assert kl(p.best, p.hyper) == pytest.approx(s.omega * float((p.log_z @ p.best).sum()) - p.log_z2, abs=1e-9)


@laws
@given(seeds)
def test_small_lam_gives_the_per_task_bound_back(seed):
    p = Finite(seed)
    s = p.setting
    p.setting = Setting(s.n, s.m, 1e-7, s.beta, s.delta)
    np.testing.assert_allclose(p.best, p.hyper, atol=1e-4)
    assert improvement(p.log_z2, p.log_z @ p.hyper, p.setting) == pytest.approx(0, abs=1e-4)


@laws
@given(seeds)
def test_small_beta_gives_the_prior_back(seed):
    p = Finite(seed)
    s = p.setting
    p.setting = Setting(s.n, s.m, s.lam, 1e-7, s.delta)
    np.testing.assert_allclose(p.gibbs, np.broadcast_to(p.prior, p.gibbs.shape), atol=1e-6)
    np.testing.assert_allclose(-p.log_z / 1e-7, p.loss @ p.prior.T, atol=1e-5)


@laws
@given(seeds, st.floats(-3, 3))
def test_a_constant_on_the_loss_moves_every_bound_by_it(seed, c):
    p, moved = Finite(seed), Finite(seed, c)
    for form in (
        lambda q: meta_bound(q.risk(q.best, q.gibbs), q.setting),
        lambda q: pacoh_bound(q.log_z2, q.setting),
        lambda q: per_task_bound(q.log_z @ q.hyper, q.setting),
    ):
        assert form(moved).total - form(p).total == pytest.approx(c, abs=1e-7)
    gains = [improvement(q.log_z2, q.log_z @ q.hyper, q.setting) for q in (p, moved)]
    assert gains[0] == pytest.approx(gains[1], abs=1e-7)


@laws
@given(seeds)
def test_the_order_of_tasks_changes_nothing(seed):
    p = Finite(seed)
    before = meta_bound(p.risk(p.best, p.gibbs), p.setting).total, p.log_z2
    order = p.rng.permutation(p.setting.n)
    s = p.setting
    p.loss, p.setting = p.loss[order], Setting(s.n, [s.m[i] for i in order], s.lam, s.beta, s.delta)
    assert (meta_bound(p.risk(p.best, p.gibbs), p.setting).total, p.log_z2) == pytest.approx(before, abs=1e-9)


@laws
@given(seeds)
def test_a_bound_is_the_sum_of_its_terms_and_never_below_the_empirical_error(seed):
    p = Finite(seed)
    bound = meta_bound(p.risk(p.best, p.gibbs), p.setting)
    assert bound.total == pytest.approx(sum(bound.terms.values()), rel=1e-12)
    assert bound.total >= bound.emp
    assert bound.emp <= 1
    assert bound.certificate


risks = st.tuples(st.floats(0, 1), st.floats(0, 50), st.lists(st.floats(0, 50), min_size=1, max_size=8))


@laws
@given(risks, st.integers(1, 40), st.floats(0.01, 0.99))
def test_gaps_to_earlier_bounds_are_the_closed_ones(risk, m, delta):
    n = len(risk[2])
    s = Setting(n, m, math.sqrt(n), math.sqrt(m), delta)
    by = {conf: meta_bound(risk, s, conf=conf).total for conf in ("holder", "union", "paper")}
    earlier = pentina_lampert(risk, s).total
    assert earlier == pytest.approx(by["union"], rel=1e-12)
    assert earlier - by["holder"] == pytest.approx(s.pre * math.log(2), abs=1e-9)
    assert earlier - by["paper"] == pytest.approx(
        math.log(2) / math.sqrt(n) + math.log(2 / delta) / (n * math.sqrt(m)), abs=1e-9
    )
    assert by["holder"] - by["paper"] == pytest.approx(math.log(1 / delta) / (n * math.sqrt(m)), abs=1e-9)


@laws
@given(risks, st.integers(2, 40), st.floats(0.01, 0.4))
def test_every_bound_falls_as_delta_grows(risk, m, delta):
    n = len(risk[2])
    small, large = (Setting(n, m, 1.5, 2.5, d) for d in (delta, 2 * delta))
    for form in (meta_bound, pentina_lampert):
        assert form(risk, large).total < form(risk, small).total
    assert amit_meir(risk, large).total < amit_meir(risk, small).total or n == 1


def test_amit_meir_is_infinite_for_one_task_or_one_point():
    assert amit_meir((0.1, 1.0, [1.0]), Setting(1, 5, 1, 1, 0.1)).total == math.inf
    assert amit_meir((0.1, 1.0, [1.0, 2.0]), Setting(2, [5, 1], 1, 1, 0.1)).total == math.inf


def test_amit_meir_divides_the_whole_numerator():
    s = Setting(3, 4, 1, 1, 0.1)
    expected = 0.2 + math.sqrt((1 + 2 + math.log(2 * 3 * 4 / 0.1)) / 6) + math.sqrt((1 + math.log(60)) / 4)
    assert amit_meir((0.2, 1.0, [2.0] * 3), s).total == pytest.approx(expected, rel=1e-13)


@laws
@given(st.floats(0.1, 5), st.floats(0.1, 5), st.integers(1, 20), st.integers(1, 20))
def test_sub_gamma_meets_sub_gaussian_and_infinity_at_its_ends(s1, s2, n, m):
    s = Setting(n, m, 1.3, 0.7, 0.1)
    plain = sub_gaussian(s, s1, s2)
    assert (plain.psi1, plain.psi2) == pytest.approx((s.beta * s1 / (2 * m), s.lam * s2 / (2 * n)), rel=1e-12)
    assert sub_gamma(s, (s1, 0.0), (s2, 0.0)) == plain
    assert sub_gamma(s, (s1, 1.0001 * m / s.beta), (s2, 0.0)).psi1 == math.inf
    assert sub_gamma(s, (s1, 0.0), (s2, n / s.lam * 1.01)).psi2 == math.inf
    assert sub_gamma(s, (s1, 0.5 * m / s.beta), (s2, 0.0)).psi1 == pytest.approx(2 * plain.psi1)


def test_unequal_sizes_enter_the_bounded_cgf_by_their_harmonic_mean():
    s = Setting(3, [4, 8, 24], 3, 2, 0.1)
    assert bounded(s).psi1 == pytest.approx(2 / 8 * (1 / 4 + 1 / 8 + 1 / 24) / 3)
    assert bounded(s).psi1 == pytest.approx(bounded(Setting(3, 1, 3, 2, 0.1)).psi1 / 7.2)


def test_equal_sizes_given_one_by_one_are_one_size():
    risk = (0.1, 2.0, [1.0, 2.0, 3.0])
    one, each = Setting(3, 5, 2, 3, 0.1), Setting(3, [5, 5, 5], 2, 3, 0.1)
    for form in (meta_bound, pentina_lampert, amit_meir):
        assert form(risk, one).total == form(risk, each).total


def test_only_proved_confidence_terms_certify():
    s = Setting(4, 5, 1.0, 2, 0.1)
    risk = (0.1, 1.0, [1.0] * 4)
    assert meta_bound(risk, s, conf="holder").certificate
    assert meta_bound(risk, s, conf="union").certificate
    printed = meta_bound(risk, s, conf="paper")
    assert not printed.certificate
    assert "lam >= sqrt(n)" in printed.why
    assert (holder(s), union(s), paper(s)) == pytest.approx(
        (s.pre * math.log(10), s.pre * math.log(20), math.log(10) / 2), rel=1e-14
    )


@pytest.mark.parametrize(
    "arguments",
    [
        (0, 5, 1, 1, 0.1),
        (2.5, 5, 1, 1, 0.1),
        (2, 5, 0, 1, 0.1),
        (2, 5, 1, -1, 0.1),
        (2, 5, 1, 1, 1.0),
        (2, [5], 1, 1, 0.1),
    ],
)
def test_impossible_settings_are_refused(arguments):
    with pytest.raises(PacohError):
        Setting(*arguments)


def test_the_holder_term_survives_remainders_that_share_a_sample_and_the_printed_one_does_not():
    """n = m = beta = lam = 1 and one coin for both remainders, u1 = u2 = +-1/2: the printed proof needs
    E e^{u1 + u2} <= e^{Psi1 + Psi2}, Hoelder needs E e^{(u1 + u2)/pre} <= e^{(Psi1 + Psi2)/pre}."""
    s = Setting(1, 1, 1, 1, 0.1)
    psi = bounded(s).psi1 + bounded(s).psi2
    assert psi == pytest.approx(1 / 4)
    assert np.mean([math.exp(u) for u in (-1, 1)]) > math.exp(psi)
    assert np.mean([math.exp(u / s.pre) for u in (-1, 1)]) <= math.exp(psi / s.pre)
