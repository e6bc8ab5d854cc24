"""Bayesian-network priors against quadrature, closed forms and brute force."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal, norm

from pacoh.data import Dataset, pad, stack
from pacoh.errors import PacohError
from pacoh.inference.base import Adam, scan
from pacoh.inference.svgd import SVGD
from pacoh.learners.vanilla import levels_share
from pacoh.priors import BNNPrior, Categorical, DiagonalGaussian, GaussianNoise, LastLayerBNN
from pacoh.priors.base import Param, draw_start, log_mean_exp, standard_normals
from pacoh.priors.bnn import TaskPosterior
from pacoh.priors.gaussian import tempered_log_linear, tempered_log_normal
from pacoh.priors.last_layer import ByPoints, ByWeights
from pacoh.priors.nets import MLP, Skipping
from pacoh.priors.weights import AbstractWeights
from pacoh.registry import Shape, learner

pytestmark = pytest.mark.usefixtures("float64")
KEY = jax.random.key(0)
NOISE = 0.3
TINY = -30.0  # a log sd that is none
LINE = MLP((), "tanh")  # y = w x + b: two weights


def points(m=4, d=1, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(m, d))
    return x, 0.7 * x[:, 0] - 0.2 + NOISE * random.normal(size=m)


def line_phi(prior, w=(0.5, 0.8), b=(0.1, 0.6), d=1):
    """P_phi with N(mean, sd^2) of every slope and of the intercept, and a known noise."""
    phi = jax.tree.map(lambda p: jnp.full(p.shape, p.loc), prior.specs(d))
    phi["loc"]["net"][-1] |= {"w": jnp.full((d, 1), w[0]), "b": jnp.full(1, b[0])}
    phi["log_sd"]["net"][-1] |= {"w": jnp.full((d, 1), math.log(w[1])), "b": jnp.full(1, math.log(b[1]))}
    phi["log_sd"]["own"] = jax.tree.map(lambda leaf: jnp.full_like(leaf, TINY), phi["log_sd"]["own"])
    return phi


def line_prior(kind=BNNPrior, **settings):
    return kind(net=LINE, likelihood=GaussianNoise(noise=NOISE), weights=DiagonalGaussian(spread=1.0), **settings)


def line_evidence(x, y, beta, w=(0.5, 0.8), b=(0.1, 0.6)):
    """ln E exp(-beta Lh) by the trapezoidal rule over slope and intercept, exact to rounding for such integrands."""
    z = np.linspace(-9, 9, 601)
    slope, shift = w[0] + w[1] * z[:, None], b[0] + b[1] * z[None]
    mean_log = np.mean([norm.logpdf(t, slope * u + shift, NOISE) for u, t in zip(x[:, 0], y, strict=True)], 0)
    measure = norm.logpdf(z)[:, None] + norm.logpdf(z)[None] + 2 * np.log(z[1] - z[0])
    return float(np.logaddexp.reduce((measure + beta * mean_log).ravel()))


@pytest.mark.parametrize(("d", "rows"), [(1, 5), (3, 5), (1, 40)])
def test_a_network_of_one_data_set_has_the_values_and_gradients_of_any(d, rows):
    net, x = MLP((4, 3), "tanh"), jnp.asarray(points(rows, d)[0])
    params = draw_start(net.specs(d, 2), KEY)

    def total(call):
        return jax.jit(jax.value_and_grad(lambda p, x: jnp.sin(call(p, x)).sum(), (0, 1)))(params, x)

    def written_out(params, x):
        *hidden, last = params
        for layer in hidden:
            x = jnp.tanh(jnp.einsum("md,dp->mp", x, layer["w"]) + layer["b"])
        return jnp.einsum("md,dp->mp", x, last["w"]) + last["b"]

    expected = jax.tree.leaves(total(written_out))
    for call in (net, net.alone):
        for ours, theirs in zip(jax.tree.leaves(total(call)), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("beta", [1.0, 2.0, 4.0])
def test_the_estimate_lies_below_the_evidence_and_rises_to_it_with_more_draws(beta):
    x, y = points()
    truth = line_evidence(x, y, beta)
    task, keys = pad(x, y, size=5), jax.random.split(KEY, 4000)
    means, errors = [], []
    for draws in (1, 4, 16, 64):
        prior = line_prior(draws=draws)
        phi = line_phi(prior)
        values = np.asarray(jax.vmap(lambda k: prior.log_evidence(phi, task, jnp.asarray(beta), k))(keys))  # noqa: B023
        means.append(values.mean())
        errors.append(values.std() / len(keys) ** 0.5)
    assert np.all(np.diff(means) > 3 * np.hypot(errors[1:], errors[:-1]))
    assert np.all(np.array(means) < truth + 3 * np.array(errors))
    assert truth - means[-1] < 0.15 * (truth - means[0])


@pytest.mark.parametrize("beta", [0.5, 2.0, 4.0])
def test_a_linear_network_without_draws_of_its_last_layer_has_the_exact_evidence(beta):
    x, y = points()
    prior = line_prior(LastLayerBNN, draws=3)
    value = prior.log_evidence(line_phi(prior), pad(x, y, size=6), jnp.asarray(beta), KEY)
    np.testing.assert_allclose(value, line_evidence(x, y, beta), rtol=1e-9)


def test_at_beta_m_it_is_the_marginal_likelihood_of_bayesian_linear_regression():
    x, y = points(6, d=3)
    prior = line_prior(LastLayerBNN)
    design = np.column_stack([x, np.ones(6)])
    mean, covariance = np.array([0.5] * 3 + [0.1]), np.diag([0.8**2] * 3 + [0.6**2])
    expected = multivariate_normal(design @ mean, design @ covariance @ design.T + NOISE**2 * np.eye(6)).logpdf(y)
    value = prior.log_evidence(line_phi(prior, d=3), pad(x, y), jnp.asarray(6.0), KEY)
    np.testing.assert_allclose(value, expected, rtol=1e-9)


@pytest.mark.parametrize("power", [0.3, 1.0, 4.0])
def test_the_evidence_by_features_is_the_one_by_points_with_its_slopes(power):
    key_features, key_residual = jax.random.split(KEY)
    scaled, residual = jax.random.normal(key_features, (20, 5)), jax.random.normal(key_residual, (20,))
    mask, rest = jnp.arange(20) < 15, (jnp.asarray(-0.7), jnp.asarray(power))

    def by_points(residual, scaled, log_noise, power):
        return tempered_log_normal(residual, scaled @ scaled.T, mask, log_noise, power)

    def by_features(residual, scaled, log_noise, power):
        return tempered_log_linear(residual, scaled, mask, log_noise, power)

    for one, other in zip(
        *(jax.value_and_grad(f, (0, 1, 2, 3))(residual, scaled, *rest) for f in (by_points, by_features)), strict=True
    ):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10), one, other)


@pytest.mark.parametrize("length", [0.5, 6.7])
def test_waves_start_at_their_length(length):
    first = MLP((4,), waves=3, length=length).specs(2, 1)[0]
    np.testing.assert_allclose(np.exp(first["log_length"].loc), length)


@pytest.mark.parametrize("inner", [MLP((5, 4), "tanh", waves=3), MLP((4,)), MLP(())])
def test_a_skipping_network_adds_a_line_that_its_last_layer_holds(inner):
    net = Skipping(inner)
    params = draw_start(net.specs(3, 2), KEY)
    assert not np.any(params[-1]["slope"])  # it starts as the inner network
    slope = jnp.asarray([[1.0, -2.0], [0.5, 0.0], [0.0, 3.0]])
    params = [*params[:-1], params[-1] | {"slope": slope}]
    x = jax.random.normal(jax.random.key(1), (6, 3))
    np.testing.assert_allclose(net(params, x), inner(params, x) + x @ slope, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(net.alone(params, x), net(params, x), rtol=1e-5, atol=1e-5)
    features = net.features(params[:-1], x)
    np.testing.assert_allclose(features @ net.head(params[-1]), net(params, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("net", [MLP((5, 4), "tanh", waves=3), Skipping(MLP((4,), "tanh"))])
def test_integrating_the_last_layer_is_the_mean_over_its_draws(net):
    exact = LastLayerBNN(net=net, likelihood=GaussianNoise(noise=0.5), weights=DiagonalGaussian(spread=0.4))
    drawn = BNNPrior(net=net, likelihood=GaussianNoise(noise=0.5), weights=DiagonalGaussian(spread=0.4))
    phi = draw_start(exact.specs(1), jax.random.key(3))
    hidden = exact.weights.sample(exact.drawn(phi), jax.random.key(4))
    tasks = stack([points(3), points(5, seed=1)])
    betas = jnp.asarray([2.0, 5.0])

    def logs(key):
        h = drawn.weights.sample(phi, key)
        h = {"net": [*hidden["net"], h["net"][-1]], "own": hidden["own"]}
        return drawn.log_weights(phi, h, tasks, betas)

    values = jax.vmap(logs)(jax.random.split(KEY, 200_000))
    np.testing.assert_allclose(log_mean_exp(values), exact.log_weights(phi, hidden, tasks, betas), atol=0.02)


def test_the_last_layers_posterior_is_ridge_regression():
    x, y = points(5, d=2)
    prior = line_prior(LastLayerBNN)
    predictive = prior.condition(line_phi(prior, d=2), pad(x, y, size=8), jnp.asarray(5.0), KEY)(jnp.asarray(x))
    design = np.column_stack([x, np.ones(5)])
    precision = np.diag([0.8**-2, 0.8**-2, 0.6**-2]) + design.T @ design / NOISE**2
    covariance = np.linalg.inv(precision)
    mean = covariance @ (np.array([0.5, 0.5, 0.1]) * [0.8**-2, 0.8**-2, 0.6**-2] + design.T @ y / NOISE**2)
    np.testing.assert_allclose(predictive.mean, design @ mean, rtol=1e-7)
    spread = np.sqrt((design @ covariance * design).sum(1) + NOISE**2)
    np.testing.assert_allclose(predictive.std, spread, rtol=1e-7)


def test_stein_particles_find_the_posterior_of_a_linear_network():
    x, y = points(5)
    prior = line_prior(adaptation=SVGD(particles=60, optimizer=Adam(0.05, 1500)))
    exact = line_prior(LastLayerBNN)
    task, query = pad(x, y), jnp.linspace(-2, 2, 7)[:, None]
    found = prior.condition(line_phi(prior), task, jnp.asarray(5.0), KEY).latent(query)
    best = exact.condition(line_phi(exact), task, jnp.asarray(5.0), KEY).latent(query)
    np.testing.assert_allclose(found.mean, best.mean, atol=0.02)
    np.testing.assert_allclose(found.std, best.std, rtol=0.25)


def small(kind=BNNPrior, **settings):
    net = MLP((6, 6), "tanh", waves=4)
    engine = SVGD(particles=4, optimizer=Adam(0.03, 40))
    return kind(net=net, adaptation=engine, weights=DiagonalGaussian(spread=0.3), **settings)


def two_priors(prior, d=2):
    return jax.vmap(lambda key: draw_start(prior.specs(d), key))(jax.random.split(KEY, 2))


@pytest.mark.parametrize("kind", [BNNPrior, LastLayerBNN])
def test_priors_do_not_interact_unless_coupled(kind):
    x, y = points(5, d=2)
    prior, task = small(kind), pad(x, y)
    phis = two_priors(prior)
    others = jax.tree.map(lambda leaf: leaf.at[1].add(0.5), phis)
    beta, query = jnp.asarray(5.0), jnp.asarray(x)

    def first(prior, phis):
        return prior.condition_all(phis, task, beta, KEY)(query).loc[:4]

    np.testing.assert_array_equal(first(prior, phis), first(prior, others))
    if kind is LastLayerBNN:
        with pytest.raises(PacohError, match="exact=False"):
            small(kind, coupled=True)
        return
    coupled = small(kind, coupled=True)
    assert np.abs(first(coupled, phis) - first(coupled, others)).max() > 1e-3


@pytest.mark.parametrize("kind", [BNNPrior, LastLayerBNN])
def test_tasks_of_a_stack_share_their_draws_and_padding_counts_for_nothing(kind):
    prior = small(kind)
    phi = draw_start(prior.specs(2), KEY)
    one, two = points(3, 2), points(6, 2, seed=1)
    betas = jnp.asarray([3.0, 6.0])
    together = prior.log_evidences(phi, stack([one, two], 9), betas, KEY)
    alone = [prior.log_evidence(phi, pad(*task), beta, KEY) for task, beta in zip((one, two), betas, strict=True)]
    np.testing.assert_allclose(together, alone, rtol=1e-8)


def test_one_draw_pools_the_tasks_and_the_average_forgets_that_they_differ():
    prior, one = small(draws=7, average=True), small(draws=1)
    phi = draw_start(prior.specs(1), KEY)
    tasks, betas = stack([points(3), points(5, seed=1)]), jnp.asarray([3.0, 5.0])
    hypotheses = prior.weights.samples(phi, 7, jax.random.split(KEY)[0])
    logs = jax.vmap(lambda h: prior.log_weights(phi, h, tasks, betas))(hypotheses)
    np.testing.assert_allclose(prior.log_evidences(phi, tasks, betas, KEY), logs.mean(0), rtol=1e-8)
    np.testing.assert_allclose(small(draws=7).log_evidences(phi, tasks, betas, KEY), log_mean_exp(logs), rtol=1e-8)
    pooled = replace(one, average=True)
    np.testing.assert_allclose(
        one.log_evidences(phi, tasks, betas, KEY), pooled.log_evidences(phi, tasks, betas, KEY), rtol=1e-12
    )


def test_the_mean_loss_of_some_points_is_that_of_all_points_on_average():
    prior = small(draws=1, points=2)
    still = replace(prior, weights=DiagonalGaussian(spread=1e-9))
    whole = replace(still, points=None)
    phi = draw_start(prior.specs(1), KEY)
    tasks, betas = stack([points(3), points(7, seed=1)]), jnp.asarray([3.0, 7.0])
    keys = jax.random.split(KEY, 4000)
    values = jax.vmap(lambda k: still.log_evidences(phi, tasks, betas, k))(keys)
    error = np.asarray(values.std(0)) / len(keys) ** 0.5
    truth = np.asarray(whole.log_evidences(phi, tasks, betas, KEY))
    assert np.all(np.abs(np.asarray(values.mean(0)) - truth) < 4 * error)


@pytest.mark.parametrize("kind", [BNNPrior, LastLayerBNN])
def test_without_points_the_posterior_is_the_prior(kind):
    prior = line_prior(kind, adaptation=SVGD(particles=80, optimizer=Adam(0.05, 400)))
    nothing = Dataset(jnp.zeros((2, 1)), jnp.zeros(2), jnp.zeros(2, bool))
    latent = prior.condition(line_phi(prior), nothing, jnp.asarray(1.0), KEY).latent(jnp.asarray([[0.0], [1.0]]))
    np.testing.assert_allclose(latent.mean, [0.1, 0.6], atol=0.1)
    np.testing.assert_allclose(latent.std, [0.6, 1.0], rtol=0.2)


class Laplace(AbstractWeights):
    """Double-exponential weights: only draws and a density."""

    def specs(self, hypothesis):
        return {"loc": hypothesis, "log_b": jax.tree.map(lambda p: Param(p.shape, "spread"), hypothesis)}

    def sample(self, phi, key):
        leaves, treedef = jax.tree.flatten(phi["loc"])
        keys = jax.tree.unflatten(treedef, list(jax.random.split(key, len(leaves))))
        return jax.tree.map(
            lambda m, s, k: m + jnp.exp(s) * jax.random.laplace(k, m.shape), phi["loc"], phi["log_b"], keys
        )

    def log_prob(self, phi, h):
        terms = jax.tree.map(
            lambda w, m, s: (-jnp.abs(w - m) * jnp.exp(-s) - s - math.log(2)).sum(), h, phi["loc"], phi["log_b"]
        )
        return sum(jax.tree.leaves(terms), jnp.zeros(()))


def test_another_family_needs_draws_and_a_density_alone():
    engine = SVGD(particles=100, optimizer=Adam(0.05, 1500))
    prior = BNNPrior(net=LINE, likelihood=GaussianNoise(noise=NOISE), weights=Laplace(), adaptation=engine, draws=20000)
    phi = jax.tree.map(lambda p: jnp.full(p.shape, p.loc), prior.specs(1))
    phi["log_b"]["net"][0]["w"] = jnp.full((1, 1), math.log(0.5))
    phi["log_b"]["net"][0]["b"] = jnp.full(1, TINY)
    phi["log_b"]["own"] = {"log_noise": jnp.asarray(TINY)}
    x, y = points(3)
    slopes = np.linspace(-8, 8, 40001)
    density = np.exp(-np.abs(slopes) / 0.5) / (2 * 0.5)
    likelihood = np.exp(sum(norm.logpdf(t, slopes * u, NOISE) for u, t in zip(x[:, 0], y, strict=True)))
    truth = np.trapezoid(density * likelihood, slopes)
    value = prior.log_evidence(phi, pad(x, y), jnp.asarray(3.0), KEY)
    np.testing.assert_allclose(value, np.log(truth), atol=0.05)
    wide = jax.tree.map(lambda leaf: jnp.maximum(leaf, math.log(0.05)), phi["log_b"])  # a density SVGD can climb
    found = prior.condition(phi | {"log_b": wide}, pad(x, y), jnp.asarray(3.0), KEY).latent(jnp.asarray([[1.0]]))
    mean = np.trapezoid(slopes * density * likelihood, slopes) / truth
    np.testing.assert_allclose(found.mean, mean, atol=0.1)


def test_only_gaussian_weights_can_be_integrated_out():
    with pytest.raises(PacohError, match="Gaussian weights"):
        LastLayerBNN(net=LINE, weights=Laplace())


def test_classes_have_a_categorical_likelihood_and_mixtures_of_probabilities():
    likelihood = Categorical(3)
    prior = small(likelihood=likelihood)
    phi = draw_start(prior.specs(2), KEY)
    x, _ = points(6, d=2)
    y = np.array([0, 1, 2, 0, 1, 2])
    out = jnp.asarray(np.random.default_rng(0).normal(size=(6, 3)))
    expected = np.asarray(out)[np.arange(6), y] - np.log(np.exp(out).sum(1))
    np.testing.assert_allclose(likelihood.log_prob({}, out, jnp.asarray(y)), expected, rtol=1e-10)
    predictor = prior.condition(phi, pad(x, y), jnp.asarray(6.0), KEY)
    probs = predictor(jnp.asarray(x)).probs
    each = jnp.stack([predictor.function(jax.random.key(i))(jnp.asarray(x)) for i in range(60)])
    members = jax.nn.softmax(predictor(jnp.asarray(x)).logits)
    np.testing.assert_allclose(probs, members.mean(0), rtol=1e-8)
    assert all(np.isclose(members, one[None]).all((1, 2)).any() for one in np.asarray(each))


def test_normals_of_sixteen_bits_are_normal_and_independent_of_each_other():
    like = {"a": jnp.zeros((3, 5)), "b": jnp.zeros(4)}
    drawn = standard_normals(like, 20_001, KEY)
    assert jax.tree.map(jnp.shape, drawn) == {"a": (20_001, 3, 5), "b": (20_001, 4)}
    flat = np.concatenate([np.asarray(part).reshape(20_001, -1) for part in drawn.values()], 1)
    assert kstest(flat.ravel(), norm.cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(flat.T) - np.eye(19)).max() < 5 / 20_001**0.5
    assert np.unique(flat).size > 60_000
    assert abs(flat).max() == pytest.approx(norm.ppf(1 - 2.0**-17))


def test_many_draws_move_with_their_prior_as_single_ones_do():
    weights = DiagonalGaussian(spread=0.3)
    phi = {"loc": [jnp.ones((2, 3))], "log_sd": [jnp.full((2, 3), -0.5)], "level": [jnp.asarray(0.2)]}
    noise = jax.tree.map(lambda p: (p - 1) / (0.3 * math.exp(-0.3)), weights.samples(phi, 4, KEY))[0]

    def by_hand(phi):
        return jnp.sin(phi["loc"][0] + 0.3 * jnp.exp(phi["level"][0] + phi["log_sd"][0]) * noise).sum()

    def drawn(phi):
        return jnp.sin(weights.samples(phi, 4, KEY)[0]).sum()

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), jax.grad(drawn)(phi), jax.grad(by_hand)(phi))


def alone(**settings):
    shape = Shape(4, 8.0, 1)
    return learner("vanilla-bnn", shape, layers=1, width=4, hypotheses=6, adapt_steps=30, **settings).fit(None, KEY)


def test_networks_that_move_together_stay_as_different_as_they_were_drawn():
    task = pad(*points(8), size=8)
    for together in (True, False):
        model = alone(together=together, own_units=False)
        centre = jax.tree.map(lambda p: jnp.full(p.shape, p.loc), model.prior.specs(1))
        density = TaskPosterior.of(model.prior, jax.tree.map(lambda leaf: leaf[None], centre), task, jnp.asarray(8.0))
        engine = model.prior.adaptation
        state = engine.init(density, density.draw, KEY)
        moved, _ = scan(engine, density, state, jax.random.split(KEY, 30))
        step = np.asarray(moved.position - state.position)
        assert np.abs(step).max() > 0.03
        assert (np.ptp(step, 0).max() < 1e-6) == together


def test_a_task_in_its_own_units_is_learned_alike_wherever_it_lies():
    x, y = points(8)
    for own_units in (True, False):
        model, at = alone(own_units=own_units), jnp.linspace(-2, 2, 5)[:, None]
        here, there = (np.asarray(model.adapt(pad(x, t, size=8), KEY)(at).mean) for t in (y, 3 * y + 5))
        gap = np.abs(there - (3 * here + 5)).max()
        assert (gap < 1e-6) == own_units


def test_the_noise_of_a_network_alone_is_as_uncertain_as_its_unit_says():
    prior = alone(spread=1.5, noise=0.4, noise_unit=0.2, own_units=True).prior
    centre = jax.tree.map(lambda p: jnp.full(p.shape, p.loc), prior.specs(1))
    drawn = np.asarray(prior.weights.samples(centre, 4000, KEY)["own"]["log_noise"])
    assert drawn.mean() == pytest.approx(math.log(0.4), abs=0.02)
    assert drawn.std() == pytest.approx(0.3, rel=0.05)


def test_a_network_alone_looks_as_finely_and_speaks_as_loudly_as_it_is_told():
    shape, x = Shape(4, 8.0, 1), jnp.asarray([[-1.0], [0.5]])
    settings = {
        "layers": 1,
        "width": 64,
        "exact": True,
        "waves": 0,
        "own_units": False,
        "spread": 0.5,
        "hypotheses": 50,
        "adapt_steps": 1,
    }

    def prior_sd(**more):
        model = learner("vanilla-bnn", shape, **settings, **more).fit(None, KEY)
        return np.asarray(model.adapt(pad(np.zeros((0, 1)), np.zeros(0), size=1), KEY).latent(x).std)

    def first(**more):
        model = learner("vanilla-bnn", shape, **settings, **more).fit(None, KEY)
        return model.prior.weights.place(model.centre(1))[1]["net"][0]["w"]

    np.testing.assert_allclose(prior_sd(head=3.0), 3 * prior_sd(), rtol=1e-5)  # the output is linear in the last layer
    np.testing.assert_allclose(first(reach=4.0), 4 * first(), rtol=1e-6)
    assert np.all(prior_sd(reach=4.0) > 1.02 * prior_sd())  # units nearer to their limits; most is the last bias
    with pytest.raises(PacohError, match="reach is a positive number"):
        learner("vanilla-bnn", shape, reach=0.0)
    with pytest.raises(PacohError, match="leave out draws, points"):
        learner("vanilla-bnn", shape, points=5, draws=3)


def test_tasks_of_levels_of_their_own_are_measured_in_their_own_units():
    random = np.random.default_rng(0)
    shape = Shape(20, 15.0, 1)
    for between, share in ((0.0, 0.0), (2.0, 0.8)):  # the share of levels in the variance: between^2 / (1 + between^2)
        y = between * random.normal(size=(20, 1)) + random.normal(size=(20, 15))
        tasks = stack([(random.normal(size=(m, 1)), row[:m]) for m, row in zip([15, 9] * 10, y, strict=True)])
        assert levels_share(tasks) == pytest.approx(share, abs=0.12)
        assert bool(learner("vanilla-bnn", shape, own_units=None).fit(tasks, KEY).own_units) == (between > 0)


@pytest.mark.parametrize(("points", "weights"), [(3, 8), (8, 3)])
def test_the_last_layer_is_the_same_by_points_and_by_weights(points, weights):
    keys = jax.random.split(KEY, 4)
    scaled = jax.random.normal(keys[0], (points, weights)).at[-1].set(0.0)  # a masked row
    residual, sd = (
        jax.random.normal(keys[1], (points,)).at[-1].set(0.0),
        jnp.exp(jax.random.normal(keys[2], (weights,))),
    )
    features = jax.random.normal(keys[3], (5, weights))
    covariance = sd[:, None] * jnp.linalg.inv(jnp.eye(weights) + scaled.T @ scaled) * sd
    for kind in (ByPoints, ByWeights):
        root, change = kind.of(scaled, residual, sd)
        columns = jax.vmap(root)(jnp.eye(weights)).T
        np.testing.assert_allclose(columns @ columns.T, covariance, atol=1e-4)
        np.testing.assert_allclose(change, covariance @ ((scaled / sd).T @ residual), atol=1e-4)
        expected = jnp.einsum("qp,pr,qr->q", features, covariance, features)
        np.testing.assert_allclose(root.variances(features), expected, rtol=1e-3)
