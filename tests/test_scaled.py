"""Gaussian processes whose tasks have a scale of their own, against quadrature, finite differences and Student's t."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import invgamma, kstest, multivariate_normal
from scipy.stats import t as student

import pacoh
from pacoh.bounds.losses import loss
from pacoh.certify import certify_model
from pacoh.data import pad
from pacoh.errors import PacohError
from pacoh.priors import SE, GPPrior, LinearMean, ScaledGPPrior
from pacoh.priors.base import draw_start
from pacoh.testing import CHECKS, check, prepare

KEY = jax.random.key(0)
SD = 0.35
A = 1 / (4 * SD**2)


def data(m, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(m, 2))
    return x, np.sin(x[:, 0]) + 0.3 * random.normal(size=m)


@pytest.fixture
def prior(float64):
    return ScaledGPPrior(GPPrior(LinearMean(), SE()), SD)


@pytest.fixture
def phi(prior):
    return draw_start(prior.specs(2), KEY)


def covariance(prior, phi, x):
    return np.asarray(prior.gp.kernel.gram(phi["kernel"], jnp.asarray(x), jnp.asarray(x)))


def residual(prior, phi, x, y):
    return y - np.asarray(prior.gp.mean(phi["mean"], jnp.asarray(x)))


@pytest.mark.parametrize("size", [1, 6, 70])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_the_evidence_is_the_integral_over_the_scale(prior, phi, size, power):
    x, y = data(size)
    gram, left = covariance(prior, phi, x), residual(prior, phi, x, y)
    noise, grid = float(prior.gp.noise_variance(phi)), np.linspace(-8, 8, 4001)

    def of_scale(log_square):  # the likelihood to the power t is a Gaussian of variance noise / t times a constant
        square = np.exp(log_square)
        tempered = multivariate_normal(cov=square * (gram + noise / power * np.eye(size))).logpdf(left)
        return tempered + 0.5 * size * ((1 - power) * np.log(2 * np.pi * square * noise) - np.log(power))

    logs = np.array([of_scale(u) for u in grid]) + invgamma.logpdf(np.exp(grid), A, scale=A) + grid
    theirs = logsumexp(logs) + np.log(grid[1] - grid[0])
    ours = prior.log_evidence(phi, pad(x, y, size + 3), jnp.asarray(power * size), KEY)
    assert float(ours) == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("size", [5, 70])
@pytest.mark.parametrize("group", ["mean", "kernel", "log_noise"])
def test_the_gradient_is_that_of_the_integral(prior, phi, size, group):
    task, beta = pad(*data(size)), jnp.asarray(0.7 * size)
    leaves, treedef = jax.tree.flatten(phi[group])

    def evidence(change):
        moved = jax.tree.unflatten(treedef, [leaf + change for leaf in leaves])
        return prior.log_evidence(phi | {group: moved}, task, beta, KEY)

    differences = (evidence(1e-5) - evidence(-1e-5)) / 2e-5
    assert float(jax.grad(evidence)(0.0)) == pytest.approx(float(differences), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("size", [0, 1, 8, 70])
def test_predictions_are_students_t(prior, phi, size):
    x, y = data(size)
    said = prior.condition(phi, pad(x, y, size + 2), jnp.asarray(float(size)), KEY)(jnp.asarray(data(3, seed=1)[0]))
    x_new = data(3, seed=1)[0]
    both = np.concatenate([x, x_new])
    gram, left = covariance(prior, phi, both), residual(prior, phi, x, y)
    noise = float(prior.gp.noise_variance(phi))
    inner, cross = gram[:size, :size] + noise * np.eye(size), gram[size:, :size]
    mean = np.asarray(prior.gp.mean(phi["mean"], jnp.asarray(x_new))) + cross @ np.linalg.solve(inner, left)
    variance = np.diagonal(gram[size:, size:] - cross @ np.linalg.solve(inner, cross.T)) + noise
    shape, rate = A + size / 2, A + left @ np.linalg.solve(inner, left) / 2
    theirs = student(2 * shape, mean, np.sqrt(variance * rate / shape))
    np.testing.assert_allclose(said.mean, mean, rtol=1e-9)
    for away in (0.0, 1.0, -2.0, 4.0):
        at = mean + away * np.sqrt(variance * rate / shape)
        np.testing.assert_allclose(said.log_prob(jnp.asarray(at)), theirs.logpdf(at), atol=0.01)
        np.testing.assert_allclose(said.cdf(jnp.asarray(at)), theirs.cdf(at), atol=1e-3)


def test_drawn_functions_scatter_as_the_predictions_do(prior, phi):
    predictor = prior.condition(phi, pad(*data(4)), jnp.asarray(4.0), KEY)
    at = jnp.asarray(data(2, seed=1)[0])
    draws = jax.vmap(lambda key: predictor.function(key)(at))(jax.random.split(KEY, 4000))
    said = predictor.latent(at)
    for i in range(2):
        levels = np.asarray(jax.vmap(said.cdf)(draws))[:, i]
        assert kstest(levels, "uniform").pvalue > 1e-3


def noisy_lines(seed, count=12, points=24):
    """Lines; half of the tasks have ten times the noise of the others."""
    random = np.random.default_rng(seed)
    made = []
    for i in range(count):
        x = random.uniform(-1, 1, (points, 1))
        made.append((x, x[:, 0] * random.normal(1, 0.3) + (0.05, 0.5)[i % 2] * random.normal(size=points)))
    return made


def test_tasks_that_differ_in_noise_are_predicted_and_calibrated_better_with_scales_of_their_own():
    settings = {"mean": "linear", "kernel": "linear", "steps": 200, "rate": 0.05}
    test = pacoh.read(noisy_lines(1, 30, 60)).split(20)
    plain, own = (
        pacoh.fit(noisy_lines(0), "pacoh-gp-map", own_scale=own, **settings).evaluate(test) for own in (0.0, 0.5)
    )
    assert own["log_likelihood"] > plain["log_likelihood"] + 0.3
    assert own["calibration_error"] < 0.7 * plain["calibration_error"]


def test_a_guarded_model_with_scales_of_tasks_predicts_and_is_kept_in_a_file(tmp_path):
    model = pacoh.fit(noisy_lines(0), "pacoh-gp-map", own_scale=0.4, guard=True, kernel="se", mean="linear", steps=20)
    model.save(tmp_path / "model.pacoh")
    x, y = noisy_lines(2)[0]
    again = pacoh.load(tmp_path / "model.pacoh")
    np.testing.assert_array_equal(model.adapt(x, y)(x).std, again.adapt(x, y)(x).std)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_a_learner_with_scales_of_tasks_passes_the_suite(name):
    reason = check(name, prepare("pacoh-gp-map", settings={"steps": 20, "own_scale": 0.4}))
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("guard", [False, True])
def test_a_certificate_says_that_the_posteriors_are_no_gaussians(guard):
    tasks = noisy_lines(0)
    model = pacoh.fit(tasks, "pacoh-gp-map", own_scale=0.4, kernel="se", mean="linear", steps=20, guard=guard)
    report = certify_model(model, tasks, loss("clipped-absolute", clip=1.0))
    assert not report.certified
    assert "`own_scale`" in report.certificate.reasons[0]


@pytest.mark.parametrize(("value", "message"), [(0.7, "at most 0.5"), (-0.1, "zero or a positive number; got -0.1")])
def test_scales_without_a_variance_are_refused(value, message):
    with pytest.raises(PacohError, match=message):
        pacoh.fit(noisy_lines(0), "mll-gp", own_scale=value)
