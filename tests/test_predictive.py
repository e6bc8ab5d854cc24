"""A mixture is one distribution: density, cdf, quantiles, draws and scores agree, in NumPy and in jax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from pacoh.errors import PacohError
from pacoh.mixing import mixture
from pacoh.predictive import GaussianMixture, Point

LEVELS = np.array([1e-4, 0.05, 0.3, 0.5, 0.8, 0.95, 0.9999])


def example(seed: int = 0, tasks: tuple[int, ...] = (), weighted: bool = True) -> GaussianMixture:
    """Three components at four query points, far apart and of unequal widths."""
    random = np.random.default_rng(seed)
    loc, scale = 3 * random.normal(size=(*tasks, 3, 4)), random.uniform(0.2, 2, size=(*tasks, 3, 4))
    return GaussianMixture(loc, scale, random.normal(size=(*tasks, 3)) if weighted else None)


def in_jax(predictive: GaussianMixture) -> GaussianMixture:
    return jax.tree.map(jnp.asarray, predictive)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("level", LEVELS)
def test_the_cdf_inverts_the_quantile(level, weighted):
    predictive = example(weighted=weighted)
    np.testing.assert_allclose(predictive.cdf(predictive.quantile(level)), level, rtol=1e-9)


def test_quantiles_of_a_single_component_are_the_normal_ones():
    normal = GaussianMixture(np.array([[2.0]]), np.array([[3.0]]))
    for level in LEVELS:
        np.testing.assert_allclose(normal.quantile(level), scipy.stats.norm(2, 3).ppf(level), rtol=1e-12)


@pytest.mark.parametrize("weighted", [True, False])
def test_the_density_integrates_to_one_and_to_the_cdf(weighted):
    predictive = example(weighted=weighted)
    grid = np.linspace(-30, 30, 6001)
    density = np.exp(np.stack([predictive.log_prob(np.full(4, t)) for t in grid]))
    np.testing.assert_allclose(scipy.integrate.simpson(density, x=grid, axis=0), 1, rtol=1e-6)
    below = scipy.integrate.simpson(density[:3101], x=grid[:3101], axis=0)
    np.testing.assert_allclose(below, predictive.cdf(np.full(4, grid[3100])), atol=1e-6)


@pytest.mark.parametrize("weighted", [True, False])
def test_mean_and_std_are_the_moments_of_the_density(weighted):
    predictive = example(weighted=weighted)
    grid = np.linspace(-30, 30, 20001)
    for index in range(4):
        weights = np.ravel(predictive.weights)
        density = weights @ scipy.stats.norm(predictive.loc[:, [index]], predictive.scale[:, [index]]).pdf(grid)
        mean = scipy.integrate.simpson(grid * density, x=grid)
        variance = scipy.integrate.simpson((grid - mean) ** 2 * density, x=grid)
        np.testing.assert_allclose([predictive.mean[index], predictive.std[index]], [mean, variance**0.5], rtol=1e-6)


def closed_form_crps(predictive: GaussianMixture, y: np.ndarray) -> np.ndarray:
    """E|Y - y| - E|Y - Y'|/2, with E|N(m, s^2)| = 2 s pdf(m/s) + m (2 cdf(m/s) - 1)."""

    def absolute(m, s):
        return 2 * s * scipy.stats.norm.pdf(m / s) + m * (2 * scipy.stats.norm.cdf(m / s) - 1)

    w = np.ravel(predictive.weights)
    first = np.einsum("k,kq->q", w, absolute(predictive.loc - y, predictive.scale))
    gaps = predictive.loc[:, None] - predictive.loc[None]
    spreads = np.sqrt(predictive.scale[:, None] ** 2 + predictive.scale[None] ** 2)
    return first - 0.5 * np.einsum("k,l,klq->q", w, w, absolute(gaps, spreads))


@pytest.mark.parametrize("y", [0.0, -1.5, 4.0, 40.0, -200.0])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_crps_is_its_closed_form(weighted, y):
    predictive = example(weighted=weighted)
    targets = y + np.arange(4.0)
    np.testing.assert_allclose(predictive.crps(targets), closed_form_crps(predictive, targets), rtol=1e-9)


@pytest.mark.parametrize("y", [-300.0, -1.0, 0.0, 2.0])
def test_the_crps_of_many_components_is_close_to_its_closed_form(y):
    random = np.random.default_rng(0)
    predictive = GaussianMixture(random.normal(size=(100, 4)), random.uniform(0.1, 1, size=(100, 4)))
    targets = np.full(4, y)
    np.testing.assert_allclose(predictive.crps(targets), closed_form_crps(predictive, targets), rtol=1e-3)


def answer(predictive: GaussianMixture, name: str, *arguments):
    """An attribute, or a method at its arguments in the predictive's own kind of array."""
    if not arguments:
        return getattr(predictive, name)
    own = jnp.asarray if isinstance(predictive.loc, jax.Array) else np.asarray
    result = getattr(predictive, name)(*(own(a) if isinstance(a, np.ndarray) else a for a in arguments))
    return result[1] if isinstance(result, tuple) else result


@pytest.mark.parametrize("weighted", [True, False])
def test_numpy_and_jax_agree(weighted):
    host = example(tasks=(2,), weighted=weighted)
    device = in_jax(host)
    y = np.linspace(-3, 3, 8).reshape(2, 4)
    names = ["mean", "std", "log_prob", "cdf", "quantile", "crps", "interval"]
    for name, arguments in zip(names, [(), (), (y,), (y,), (0.3,), (y,), (0.8,)], strict=True):
        ours, theirs = (answer(p, name, *arguments) for p in (host, device))
        assert isinstance(ours, np.ndarray)
        assert isinstance(theirs, jax.Array)
        np.testing.assert_allclose(theirs, ours, rtol=2e-4, atol=2e-4)


def test_an_affine_change_moves_every_answer_with_it():
    before = example()
    after = before.affine(1e6, 50.0)
    y = np.linspace(-2, 2, 4)
    np.testing.assert_allclose(after.mean, 1e6 + 50 * before.mean)
    np.testing.assert_allclose(after.std, 50 * before.std)
    np.testing.assert_allclose(after.quantile(0.2), 1e6 + 50 * before.quantile(0.2))
    np.testing.assert_allclose(after.cdf(1e6 + 50 * y), before.cdf(y), rtol=1e-8)
    np.testing.assert_allclose(after.log_prob(1e6 + 50 * y), before.log_prob(y) - np.log(50), rtol=1e-7)
    np.testing.assert_allclose(after.crps(1e6 + 50 * y), 50 * before.crps(y), rtol=1e-6)


@pytest.mark.parametrize("tasks", [(), (2,)])
def test_draws_follow_the_distribution(tasks):
    predictive = example(tasks=tasks)
    draws = predictive.sample(20_000, jax.random.key(0))
    assert draws.shape == (20_000, *tasks, 4)
    np.testing.assert_allclose(draws.mean(0), predictive.mean, atol=5 * predictive.std.max() / 20_000**0.5)
    np.testing.assert_allclose(draws.std(0), predictive.std, rtol=0.05)
    for level in (0.1, 0.5, 0.9):
        np.testing.assert_allclose((draws <= predictive.quantile(level)).mean(0), level, atol=0.015)


def test_an_interval_holds_its_share_with_equal_tails():
    predictive = example()
    low, high = predictive.interval(0.8)
    np.testing.assert_allclose(predictive.cdf(low), 0.1)
    np.testing.assert_allclose(predictive.cdf(high), 0.9)


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("outer", [None, [0.3, -1.0]])
def test_a_mixture_of_mixtures_averages_their_cdfs(inner, outer):
    parts = [in_jax(example(seed, weighted=inner)) for seed in (1, 2)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
    whole = mixture(stacked, None if outer is None else jnp.asarray(outer))
    weights = np.full(2, 0.5) if outer is None else np.exp(outer) / np.exp(outer).sum()
    assert whole.loc.shape == (6, 4)
    for y in (-2.0, 0.0, 1.0):
        average = sum(w * np.asarray(part.cdf(jnp.full(4, y))) for w, part in zip(weights, parts, strict=True))
        np.testing.assert_allclose(whole.cdf(jnp.full(4, y)), average, atol=1e-5)


def test_weights_may_be_unnormalised():
    plain = example()
    shifted = GaussianMixture(plain.loc, plain.scale, plain.log_weights + 5)
    np.testing.assert_allclose(shifted.log_prob(np.zeros(4)), plain.log_prob(np.zeros(4)))


def test_a_component_of_weight_zero_says_nothing():
    plain = GaussianMixture(np.zeros((1, 1)), np.ones((1, 1)))
    padded = GaussianMixture(np.array([[0.0], [50.0]]), np.ones((2, 1)), np.array([0.0, -np.inf]))
    y = np.array([0.3])
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(padded.log_prob(y), plain.log_prob(y))
    np.testing.assert_allclose(padded.quantile(0.9), plain.quantile(0.9))


@pytest.mark.parametrize("asked", ["std", "log_prob", "cdf", "quantile", "interval", "sample", "crps"])
def test_a_point_refuses_what_only_distributions_have(asked):
    with pytest.raises(PacohError, match=f"predicts points, not distributions: there is no '{asked}'"):
        getattr(Point(np.zeros(3)), asked)


def test_a_point_moves_with_its_units():
    np.testing.assert_allclose(Point(np.array([1.0, 2.0])).affine(10, 3).mean, [13, 16])
