"""Gaussian-process priors against tinygp, finite differences and brute force."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tinygp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from pacoh.data import pad
from pacoh.errors import PacohError
from pacoh.priors import (
    MLP,
    SE,
    Constant,
    GPPrior,
    Linear,
    LinearMean,
    Matern,
    Network,
    Product,
    Sum,
    SumMean,
    Warped,
    Waves,
    paper_gp,
)
from pacoh.priors.base import draw_start
from pacoh.priors.gaussian import cholesky, log_normal
from pacoh.priors.kernels import Stretched
from pacoh.recipes.gp import gp_prior

pytestmark = pytest.mark.usefixtures("float64")
KEY = jax.random.key(0)
NET = MLP((8, 8), "tanh")
KERNELS = {
    "se": SE(),
    "se-shared": SE(ard=False),
    "matern12": Matern(nu=0.5),
    "matern32": Matern(nu=1.5),
    "matern52": Matern(nu=2.5),
    "linear": Linear(),
    "network": Warped(SE(), NET, 2),
    "sum": Sum((SE(), Linear())),
    "product": Product((Matern(nu=1.5), Linear())),
    "waves": Waves(3),
}


def data(m, d=2, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(m, d))
    return x, np.sin(x[:, 0]) + 0.1 * random.normal(size=m)


def phi_of(prior, d=2, seed=0):
    phi = draw_start(prior.specs(d), jax.random.key(seed))
    leaves, treedef = jax.tree.flatten(phi)
    random = np.random.default_rng(seed)
    return jax.tree.unflatten(treedef, [leaf + 0.3 * random.normal(size=leaf.shape) for leaf in leaves])


def tiny_process(prior, phi, x):
    """The same process in tinygp: its kernel is given the features and scales, nothing else of ours."""
    if isinstance(prior.kernel, Warped):
        x, params = prior.kernel.net(phi["kernel"]["net"], x), phi["kernel"]["base"]
    else:
        params = phi["kernel"]
    length, variance = jnp.exp(params["log_length"]), jnp.exp(2 * params["log_sd"])
    base = prior.kernel.base if isinstance(prior.kernel, Warped) else prior.kernel
    distance = tinygp.kernels.distance.L2Distance()
    kinds = {
        SE: tinygp.kernels.ExpSquared(),
        0.5: tinygp.kernels.Exp(distance=distance),
        1.5: tinygp.kernels.Matern32(distance=distance),
        2.5: tinygp.kernels.Matern52(distance=distance),
    }
    kernel = variance * tinygp.transforms.Linear(1 / length, kinds[getattr(base, "nu", type(base))])
    return tinygp.GaussianProcess(kernel, x, diag=jnp.exp(2 * phi["log_noise"])), x


@pytest.mark.parametrize("name", ["se", "matern12", "matern32", "matern52", "network"])
@pytest.mark.parametrize("padding", [0, 3])
def test_evidence_is_tinygps_padded_or_not(name, padding):
    prior = GPPrior(Network(NET), KERNELS[name])
    x, y = data(9)
    phi = phi_of(prior)
    ours = prior.log_evidence(phi, pad(x, y, 9 + padding), jnp.asarray(9.0), KEY)
    process, _ = tiny_process(prior, phi, jnp.asarray(x))
    theirs = process.log_probability(jnp.asarray(y) - prior.mean(phi["mean"], jnp.asarray(x)))
    assert abs(float(ours - theirs)) < 1e-10 * abs(float(theirs))


@pytest.mark.parametrize("name", ["se", "matern32"])
def test_predictions_are_tinygps(name):
    prior = GPPrior(Constant(), KERNELS[name])
    x, y = data(9)
    x_new, _ = data(5, seed=1)
    phi = phi_of(prior)
    predictive = prior.condition(phi, pad(x, y, 12), jnp.asarray(9.0), KEY).latent(jnp.asarray(x_new))
    process, _ = tiny_process(prior, phi, jnp.asarray(x))
    centred = jnp.asarray(y) - phi["mean"]["constant"]
    _, conditioned = process.condition(centred, jnp.asarray(x_new), diag=jnp.zeros(5))
    np.testing.assert_allclose(predictive.loc[0], conditioned.loc + phi["mean"]["constant"], rtol=1e-9)
    np.testing.assert_allclose(predictive.scale[0] ** 2, conditioned.variance, rtol=1e-7)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_positive_semi_definite_with_their_diagonal(name):
    kernel = KERNELS[name]
    x = jnp.asarray(data(12, seed=2)[0])
    params = phi_of(GPPrior(Constant(), kernel), seed=3)["kernel"]
    gram = kernel.gram(params, x, x)
    np.testing.assert_allclose(jnp.diagonal(gram), kernel.diag(params, x), rtol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-10 * np.trace(gram)


@pytest.mark.parametrize("name", ["se", "matern12", "matern32", "matern52"])
def test_compiled_with_their_gradient_kernels_keep_their_diagonal(name):
    kernel = KERNELS[name]
    x = jnp.asarray(np.stack([data(5, seed=seed)[0] for seed in range(2)]))
    params = phi_of(GPPrior(Constant(), kernel), seed=3)["kernel"]

    def grams(params):
        found = jax.vmap(lambda x: kernel.gram(params, x, x))(x)
        return (found * jnp.sin(jnp.arange(5))).sum(), found

    found = jax.jit(jax.value_and_grad(grams, has_aux=True))(params)[0][1]
    np.testing.assert_allclose(
        jnp.diagonal(found, axis1=1, axis2=2), jax.vmap(lambda x: kernel.diag(params, x))(x), rtol=1e-12
    )


def test_waves_are_the_covariance_of_sinusoids_of_random_phase_and_amplitude():
    random, kernel = np.random.default_rng(0), Waves(2)
    params = phi_of(GPPrior(Constant(), kernel), d=1)["kernel"]
    x = np.array([[-0.7], [0.1], [1.3]])
    omega = 2 * np.pi / np.sqrt(12) * (np.array([1, 2]) + params["shift"][:, 0])
    radius = np.asarray(params["sd"][:, 0]) * np.sqrt(random.chisquare(2, (400000, 2)))
    waves = radius[:, None] * np.cos(omega * x + 2 * np.pi * random.uniform(size=(400000, 1, 2)))
    f = waves.sum(-1)
    np.testing.assert_allclose(kernel.gram(params, jnp.asarray(x), jnp.asarray(x)), f.T @ f / len(f), atol=2e-3)


def test_means_add_up():
    x = jnp.asarray(data(4)[0])
    line, net = LinearMean(), Network(NET)
    params = draw_start(SumMean((line, net)).specs(2), KEY)
    np.testing.assert_array_equal(SumMean((line, net))(params, x), line(params[0], x) + net(params[1], x))


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_finite_at_repeated_points(name):
    prior = GPPrior(LinearMean(), KERNELS[name])
    x, y = data(6)
    x[3] = x[2]
    gradient = jax.grad(lambda phi: prior.log_evidence(phi, pad(x, y), jnp.asarray(6.0), KEY))(phi_of(prior))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_closed_form_gradient_is_the_differentiated_cholesky():
    def plain(residual, covariance):
        factor = jnp.linalg.cholesky(covariance)
        half = jax.scipy.linalg.solve_triangular(factor, residual, lower=True)
        return -0.5 * half @ half - jnp.log(jnp.diagonal(factor)).sum()

    random = np.random.default_rng(0)
    a = random.normal(size=(7, 7))
    args = jnp.asarray(random.normal(size=7)), jnp.asarray(a @ a.T + np.eye(7))
    assert float(log_normal(*args)) == pytest.approx(float(plain(*args)), rel=1e-12)
    symmetric = [jax.grad(f, 1)(*args) for f in (log_normal, plain)]
    np.testing.assert_allclose(symmetric[0], 0.5 * (symmetric[1] + symmetric[1].T), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(jax.grad(log_normal)(*args), jax.grad(plain)(*args), rtol=1e-10)


def test_tempered_evidence_is_the_integral_of_the_tempered_likelihood():
    # one function value, linear kernel at x = 1 without intercept: f ~ N(mean, s^2)
    prior = GPPrior(Constant(), SE())
    phi = {
        "mean": {"constant": jnp.asarray(0.3)},
        "kernel": {"log_sd": jnp.asarray(-0.2), "log_length": jnp.zeros(1)},
        "log_noise": jnp.asarray(-0.7),
    }
    y = np.array([0.4, -0.1, 0.9])
    x = np.zeros((3, 1))  # the same input thrice: one latent value
    for beta in (0.5, 3**0.5, 3.0, 7.0):
        ours = float(prior.log_evidence(phi, pad(x, y, 5), jnp.asarray(beta), KEY))
        sd, noise = np.exp(-0.2), np.exp(-0.7)

        def integrand(f, beta=beta, sd=sd, noise=noise):
            return norm.pdf(f, 0.3, sd) * np.exp(beta * norm.logpdf(y, f, noise).mean())

        theirs = np.log(quad(integrand, 0.3 - 12 * sd, 0.3 + 12 * sd, epsabs=1e-13, epsrel=1e-12, limit=300)[0])
        assert ours == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("kernel", [SE(), Matern(nu=0.5), Sum((SE(), Matern(nu=1.5)))])
def test_a_stretched_kernel_is_the_kernel_with_length_scales_so_many_times_as_long(kernel):
    params, x, z = draw_start(kernel.specs(2), KEY), *(jnp.asarray(data(4, seed=seed)[0]) for seed in (0, 1))
    longer = jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf + np.log(3.0) if "log_length" in jax.tree_util.keystr(path) else leaf, params
    )
    stretched = Stretched(kernel, 3.0)
    assert jax.tree.structure(stretched.specs(2)) == jax.tree.structure(kernel.specs(2))
    np.testing.assert_allclose(stretched.gram(params, x, z), kernel.gram(longer, x, z), rtol=1e-12)
    np.testing.assert_allclose(stretched.diag(params, x), np.diagonal(stretched.gram(params, x, x)), rtol=1e-9)
    left, seen = stretched.embed(params, x)
    np.testing.assert_allclose(stretched.between(left, seen, seen), kernel.gram(longer, x, x), rtol=1e-12)


def test_a_length_goes_to_the_kernels_that_have_one():
    made = gp_prior(kernel="se*linear+network", length=2.0).kernel
    product, network = made.parts
    assert product.parts == (Stretched(SE(), 2.0), Linear())
    assert network == gp_prior(kernel="network").kernel
    assert gp_prior(kernel="se").kernel == SE()
    with pytest.raises(PacohError, match="the kernel 'network\\+linear' has none: leave it out"):
        gp_prior(kernel="network+linear", length=2.0)


@pytest.mark.parametrize("size", [6, 70])
def test_evidence_with_a_factor_on_the_mean_is_the_integral_over_the_factor(size):
    prior, plain = (GPPrior(LinearMean(), SE(), own=own) for own in (0.7, 0.0))
    phi, task = phi_of(prior), pad(*data(size), size + 2)
    beta = jnp.asarray(0.5 * size)

    def scaled(factor):
        of_factor = phi | {"mean": jax.tree.map(lambda leaf: factor * leaf, phi["mean"])}
        return plain.log_evidence(of_factor, task, beta, KEY)

    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    theirs = jax.scipy.special.logsumexp(jax.vmap(scaled)(1 + 0.7 * jnp.asarray(nodes)), b=weights / weights.sum())
    assert float(prior.log_evidence(phi, task, beta, KEY)) == pytest.approx(float(theirs), rel=1e-8)


@pytest.mark.parametrize("size", [5, 70])
def test_the_gradient_knows_the_factor_on_the_mean(size):
    prior = GPPrior(LinearMean(), SE(), own=0.7)
    phi, task = phi_of(prior), pad(*data(size))

    def evidence(change):
        moved = phi | {"mean": phi["mean"] | {"slope": phi["mean"]["slope"] + change}}
        return prior.log_evidence(moved, task, jnp.asarray(float(size)), KEY)

    step = jnp.asarray([1e-5, 0.0])
    assert float(jax.grad(evidence)(jnp.zeros(2))[0]) == pytest.approx(
        float(evidence(step) - evidence(-step)) / 2e-5, rel=1e-6
    )


def test_predictions_with_a_factor_on_the_mean_are_those_of_one_joint_normal():
    prior = GPPrior(LinearMean(), SE(), own=0.7)
    phi, (x, y), (x_new, _) = phi_of(prior), data(6), data(3, seed=1)
    both = jnp.asarray(np.concatenate([x, x_new]))
    mean = np.asarray(prior.mean(phi["mean"], both))
    joint = np.asarray(prior.kernel.gram(phi["kernel"], both, both)) + 0.7**2 * np.outer(mean, mean)
    gain = np.linalg.solve(joint[:6, :6] + float(prior.noise_variance(phi)) * np.eye(6), joint[:6, 6:]).T
    covariance = joint[6:, 6:] - gain @ joint[:6, 6:]
    predictor = prior.condition(phi, pad(x, y, 8), jnp.asarray(6.0), KEY)
    latent = predictor.latent(jnp.asarray(x_new))
    np.testing.assert_allclose(latent.loc[0], mean[6:] + gain @ (y - mean[:6]), rtol=1e-9)
    np.testing.assert_allclose(latent.scale[0] ** 2, np.diagonal(covariance), rtol=1e-7)
    draws = jax.vmap(lambda key: predictor.function(key)(jnp.asarray(x_new)))(jax.random.split(KEY, 20_000))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.03 * covariance.max())


def test_tempered_posterior_at_beta_m_is_bayes_and_at_beta_0_is_the_prior():
    prior = GPPrior(Constant(), SE())
    phi = phi_of(prior, d=1)
    x, y = data(5, d=1)
    grid = jnp.linspace(-1, 1, 4)[:, None]
    nothing = prior.condition(phi, pad(np.empty((0, 1)), np.empty(0), 8), jnp.asarray(1.0), KEY)(grid)
    faint = prior.condition(phi, pad(x, y), jnp.asarray(1e-12), KEY)(grid)
    np.testing.assert_allclose(faint.loc, nothing.loc, atol=1e-9)
    np.testing.assert_allclose(faint.scale, nothing.scale, rtol=1e-9)
    covariance = prior.kernel.gram(phi["kernel"], jnp.asarray(x), jnp.asarray(x)) + jnp.exp(
        2 * phi["log_noise"]
    ) * np.eye(5)
    exact = multivariate_normal(np.full(5, phi["mean"]["constant"]), covariance).logpdf(y)
    assert float(prior.log_evidence(phi, pad(x, y), jnp.asarray(5.0), KEY)) == pytest.approx(exact, rel=1e-12)


def test_an_empty_task_has_evidence_one_and_no_gradient():
    prior = GPPrior(Network(NET), KERNELS["network"])
    phi = phi_of(prior)
    empty = pad(np.empty((0, 2)), np.empty(0), 4)
    value, gradient = jax.value_and_grad(lambda p: prior.log_evidence(p, empty, jnp.asarray(1.0), KEY))(phi)
    assert float(value) == 0.0
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(gradient))


def test_the_paper_option_is_literal():
    prior = paper_gp()
    assert {p.group for p in jax.tree.leaves(prior.specs(3))} == {"input", "weight", "bias", "noise"}
    phi = phi_of(prior, d=3)
    x = jnp.asarray(data(4, d=3)[0])
    features = prior.kernel.net(phi["kernel"]["net"], x)
    literal = 0.5 * np.exp(-((features[:, None] - features[None]) ** 2).sum(-1))
    np.testing.assert_allclose(prior.kernel.gram(phi["kernel"], x, x), literal, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    size=st.sampled_from([1, 2, 5, 20]),
    rank=st.integers(0, 5),
    exponent=st.integers(-20, 10),
    noise=st.sampled_from([0.0, 1e-14, 1e-9, 1e-4]),
    single=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_cholesky_never_fails_and_leaves_a_definite_matrix_alone(size, rank, exponent, noise, single, seed):
    low = np.random.default_rng(seed).normal(size=(size, rank))
    matrix = 10.0**exponent * (low @ low.T + noise * np.eye(size))
    dtype = np.float32 if single else np.float64
    with jax.enable_x64(not single):
        given_matrix = jnp.asarray(matrix.astype(dtype))
        factor = np.asarray(cholesky(given_matrix))
        plain = np.asarray(jnp.linalg.cholesky(given_matrix))
    assert np.isfinite(factor).all()
    if np.isfinite(plain).all():
        np.testing.assert_array_equal(factor, plain)
    allowed = 1e3 * np.finfo(dtype).eps * size * max(np.trace(matrix), 1e-30)
    assert np.abs(factor.astype(float) @ factor.astype(float).T - matrix).max() <= allowed


@pytest.mark.parametrize("where", [(0, 0), (0, 1)])
def test_cholesky_of_a_matrix_that_is_not_finite_ends(where):
    matrix = jnp.eye(3).at[where].set(jnp.nan).at[where[::-1]].set(jnp.nan)
    assert np.isnan(np.asarray(cholesky(matrix))).any()


def test_a_task_too_large_is_refused_with_the_size_that_fits():
    prior = GPPrior(Constant(), SE())
    huge = jax.eval_shape(lambda: pad(np.zeros((4, 1)), np.zeros(4)))
    stacked = eqx.tree_at(
        lambda s: (s.x, s.mask),
        huge,
        (jax.ShapeDtypeStruct((1, 50_000, 1), jnp.float32), jax.ShapeDtypeStruct((1, 50_000), bool)),
    )
    with pytest.raises(PacohError, match=r"Up to \d+ points a task fit"):
        prior.check(stacked, 10)


def test_a_joint_draw_of_the_posterior_has_its_moments():
    prior = GPPrior(Constant(), SE())
    phi = phi_of(prior, d=1)
    x, y = data(4, d=1)
    predictor = prior.condition(phi, pad(x, y), jnp.asarray(4.0), KEY)
    grid = jnp.linspace(-2, 2, 3)[:, None]
    draws = jax.vmap(lambda key: predictor.function(key)(grid))(jax.random.split(KEY, 20_000))
    latent = predictor.latent(grid)
    np.testing.assert_allclose(draws.mean(0), latent.loc[0], atol=4 * float(latent.scale.max()) / 20_000**0.5)
    np.testing.assert_allclose(draws.std(0), latent.scale[0], rtol=0.03)
