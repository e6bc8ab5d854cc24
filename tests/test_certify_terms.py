"""The terms of a certificate against direct computation, and the case in which one is given."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from certify_cases import LOSS, LOSSES, draws, lines, ragged
from pacoh.bounds import Gaussian, LinearTasks, Setting, certify, meta_bound
from pacoh.bounds.losses import ClippedAbsolute, ClippedSquared, Outside, loss
from pacoh.certify import FiniteHyperPrior, certify_finite
from pacoh.certify.gibbs import gibbs_losses, posteriors
from pacoh.data import Standardizer, stack
from pacoh.errors import PacohError
from pacoh.priors.gp import GPPrior
from pacoh.priors.kernels import SE, Linear, Matern
from pacoh.priors.means import LinearMean
from pacoh.reading import read
from pacoh.theory import BAYES, CONSISTENT, Rates


@pytest.mark.parametrize("bounded", LOSSES, ids=lambda item: type(item).__name__)
def test_a_mean_loss_is_the_integral_over_the_gaussian(bounded):
    rng = np.random.default_rng(0)
    for gap, sd, noise in [(0.0, 0.3, 0.2), (0.5, 0.4, 0.1), (-3.0, 2.0, 1.0), (0.69, 0.01, 0.3), (40.0, 1e-3, 1.0)]:
        d = gap + sd * rng.standard_normal(400_000)
        values = {
            ClippedAbsolute: np.minimum(np.abs(d) / 0.7, 1),
            ClippedSquared: np.minimum(d**2 / 0.49, 1),
            Outside: (np.abs(d) > 1.6448536269514722 * noise).astype(float),
        }[type(bounded)]
        mean = float(bounded.mean(np.array(gap), np.array(sd), np.array(noise)))
        assert abs(mean - values.mean()) <= 4 * values.std() / math.sqrt(len(d)) + 1e-9


@pytest.mark.parametrize("bounded", LOSSES, ids=lambda item: type(item).__name__)
def test_a_prediction_without_spread_has_the_plain_loss(bounded):
    gaps = np.array([-9.0, -0.5, -0.1, 0.0, 0.3, 1e6])
    plain = {
        ClippedAbsolute: np.minimum(np.abs(gaps) / 0.7, 1),
        ClippedSquared: np.minimum(gaps**2 / 0.49, 1),
        Outside: (np.abs(gaps) > 0.2 * 1.6448536269514722).astype(float),
    }[type(bounded)]
    assert np.allclose(bounded.mean(gaps, np.zeros(6), np.full(6, 0.2)), plain, atol=1e-12)


@pytest.mark.parametrize("rates", [BAYES, CONSISTENT])
def test_the_kl_of_a_gp_posterior_is_that_of_two_gaussians_and_of_the_gibbs_identity(rates):
    prior, units, tasks = GPPrior(LinearMean(), Matern(nu=0.5)), Standardizer.identity(1), read(ragged())
    phis = draws(prior, 3)
    found = posteriors(prior, phis, tasks, units, rates)
    for k in range(3):
        with jax.enable_x64(True):
            phi = jax.tree.map(lambda leaf, k=k: jnp.asarray(np.asarray(leaf[k]), float), phis)
            noise = float(prior.noise_variance(phi))
            for i, (x, y) in enumerate(tasks.pairs()):
                m, beta = len(y), len(y) ** rates.beta_power
                gram = np.asarray(prior.kernel.gram(phi["kernel"], jnp.asarray(x), jnp.asarray(x)))
                mean = np.asarray(prior.mean(phi["mean"], jnp.asarray(x)))
                gain = gram @ np.linalg.inv(gram + noise * m / beta * np.eye(m))
                own, before = Gaussian(mean + gain @ (y - mean), gram - gain @ gram), Gaussian(mean, gram)
                assert found.kl[k, i] == pytest.approx(own.kl(before), rel=1e-8)
                assert np.allclose(found.gap[k, i, :m], y - own.mean, atol=1e-9)
                assert np.allclose(found.sd[k, i, :m] ** 2, np.diag(own.cov), atol=1e-9)
                gaps = found.gap[k, i, :m] ** 2 + found.sd[k, i, :m] ** 2
                nll = 0.5 * math.log(2 * math.pi * noise) + gaps.mean() / (2 * noise)
                assert found.kl[k, i] == pytest.approx(-beta * nll - found.log_z[k, i], abs=1e-8)


def test_terms_are_in_original_units_whatever_the_learner_works_in():
    tasks, prior = read(lines()), GPPrior(LinearMean(), SE())
    phis, units = draws(prior, 2), Standardizer(np.array([3.0]), np.array([2.0]), np.array(5.0), np.array(10.0))
    moved = read([(3 + 2 * x, 5 + 10 * y) for x, y in tasks.pairs()])
    plain = posteriors(prior, phis, tasks, Standardizer.identity(1), BAYES)
    scaled = posteriors(prior, phis, moved, units, BAYES)
    assert np.allclose(plain.kl, scaled.kl, rtol=1e-9)
    assert np.allclose(gibbs_losses(plain, tasks, Outside()), gibbs_losses(scaled, moved, Outside()), atol=1e-9)
    assert np.allclose(
        gibbs_losses(plain, tasks, ClippedAbsolute(0.3)), gibbs_losses(scaled, moved, ClippedAbsolute(3.0)), atol=1e-9
    )


# --- a certificate is given


def candidates(slopes: np.ndarray, sd: float = 0.1, noise: float = 0.2) -> FiniteHyperPrior:
    """Bayesian linear regressions N(slope, sd^2 I) without intercept, in original units."""
    count, d = slopes.shape
    phis = {
        "mean": {"constant": jnp.zeros(count), "slope": jnp.asarray(slopes)},
        "kernel": {"log_slope": jnp.full((count, d), math.log(sd)), "log_intercept": jnp.full(count, -40.0)},
        "log_noise": jnp.full(count, math.log(noise)),
    }
    return FiniteHyperPrior(GPPrior(LinearMean(), Linear()), phis)


def by_hand(tasks, slopes, setting, weights=None):
    """The terms from the linear case study, in its own closed forms: hyper-posterior, bound."""
    study = LinearTasks.of(tasks, 0.04, 0.01, setting.beta)
    log_z = np.stack([study.log_z(mu) for mu in slopes])
    if weights is None:
        weights = np.exp(setting.omega * (log_z.sum(1) - log_z.sum(1).max()))
        weights /= weights.sum()
    kl_hyper = sum(w * math.log(w * len(weights)) for w in weights if w > 0)
    kl_tasks = weights @ np.stack([study.mean_kl(Gaussian(mu, np.zeros((len(mu),) * 2))) for mu in slopes])
    emp = 0.0
    for weight, mu in zip(weights, slopes, strict=True):
        loc, cov = study.posterior(mu)
        for i, (x, y) in enumerate(tasks):
            sd = np.sqrt(np.einsum("mi,ij,mj->m", x, cov[i], x))
            emp += weight * LOSS.mean(y - x @ loc[i], sd, np.zeros(len(y))).mean() / len(tasks)
    return weights, meta_bound((emp, kl_hyper, kl_tasks), setting)


@pytest.mark.parametrize("chosen", [None, [0.0, 0.0, 1.0, 0.0, 0.0]], ids=["optimal", "one candidate"])
def test_a_finite_hyper_prior_gets_a_certificate_with_the_terms_computed_by_hand(chosen):
    tasks = lines(n=40, m=9, d=2)
    slopes = np.linspace(-4, 4, 5)[:, None] * np.ones(2) + 1e-3
    slopes[2] = 2.0
    setting = Setting(40, 9, 40**0.75, 3.0, 0.05)
    weights, bound = by_hand(tasks, slopes, setting, None if chosen is None else np.array(chosen))
    given = None if chosen is None else np.array(chosen)
    report = certify_finite(candidates(slopes), tasks, LOSS, 0.05, Rates(0.75, 0.5), given)
    assert report.certified
    assert report.certificate.bound.certificate
    assert report.certificate.reasons == ()
    assert np.allclose(report.weights, weights, atol=1e-5)  # candidates are held in float32
    for name, value in bound.terms.items():
        assert report.certificate.bound.terms[name] == pytest.approx(value, abs=2e-6), name
    assert report.vacuous is False
    assert str(report).startswith("Certificate: with probability at least 0.95")
    if chosen is not None:
        assert report.kl_hyper == pytest.approx(math.log(5))


def test_a_certificate_is_withdrawn_for_unequal_tasks_and_said_to_be_vacuous_with_few():
    slopes = np.array([[-2.0], [0.0], [2.0]])
    unequal = certify_finite(candidates(slopes), ragged(), LOSS)
    assert len(unequal.certificate.reasons) == 1
    assert "differ in size (3 to 5 points)" in unequal.certificate.reasons[0]
    assert certify_finite(candidates(slopes), ragged(), LOSS, rates=Rates(0.5, 0.0)).certified  # one beta for all
    few = certify_finite(candidates(slopes), lines(n=2), LOSS)
    assert few.certified
    assert few.vacuous
    assert "vacuous" in str(few)


@pytest.mark.parametrize("weights", [[0.5, 0.6], [1.5, -0.5], [1.0], [math.nan, 1.0]])
def test_probabilities_that_are_none_are_refused(weights):
    with pytest.raises(PacohError, match="2 candidates"):
        certify_finite(candidates(np.array([[0.0], [2.0]])), lines(), LOSS, weights=np.array(weights))


def test_the_certified_bound_lies_above_the_loss_on_new_tasks():
    slopes = np.linspace(-4, 4, 9)[:, None]
    hyper, rates = candidates(slopes), Rates(0.75, 0.5)
    report = certify_finite(hyper, lines(200, 16), ClippedAbsolute(1.0), rates=rates)
    new = lines(300, 48, seed=7)
    context = stack([(x[:16], y[:16]) for x, y in new])

    @jax.jit
    @partial(jax.vmap, in_axes=(0, None, None))
    @partial(jax.vmap, in_axes=(None, 0, 0))
    def latent(phi, data, x):
        return hyper.prior.condition(phi, data, rates.betas(data.sizes), jax.random.key(0)).latent(x)

    members = latent(hyper.phis, context, jnp.stack([x[16:] for x, _ in new]))
    gaps = np.stack([y[16:] for _, y in new]) - np.asarray(members.loc)[:, :, 0]
    error = report.weights @ LOSS.mean(gaps, np.asarray(members.scale)[:, :, 0], np.zeros(())).mean((1, 2))
    assert error < report.certificate.bound.total < 0.5


def test_a_kl_that_is_not_known_or_infinite_never_certifies():
    setting = Setting(2, 5, 2.0, 5.0, 0.1)
    for kl_hyper, kl_tasks in [(math.nan, [1, 1]), (1.0, [1, math.nan]), (math.inf, [1, 1]), (1.0, [math.inf, 1])]:
        certificate = certify(([0.1, 0.1], kl_hyper, kl_tasks), setting)
        assert len(certificate.reasons) == 1
        assert math.isinf(certificate.bound.total)


@pytest.mark.parametrize(("name", "clip"), [("0-1", 1.0), ("clipped-absolute", None), ("outside-90", 1.0),
                                            ("clipped-squared", 0.0), ("clipped-absolute", math.nan)])  # fmt: skip
def test_losses_that_cannot_be_meant_are_refused(name, clip):
    with pytest.raises(PacohError):
        loss(name, clip)
