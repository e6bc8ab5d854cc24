"""Targets on another scale: the scale itself, distributions on it, and learners that work there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import pacoh
from pacoh.bounds.losses import loss
from pacoh.certify import certify_model
from pacoh.data import stack
from pacoh.errors import PacohError
from pacoh.learners.warp import TargetScale
from pacoh.optimize import Optimizer, Real, Space
from pacoh.predictive import GaussianMixture
from pacoh.registry import Shape, learner
from pacoh.testing import CHECKS, check, prepare, ragged_tasks
from pacoh.warped import WarpedMixture, YeoJohnson

KEY = jax.random.key(0)
POWERS = [0.05, 0.4, 1.0, 1.7]


def skewed(seed: int, tasks: int, points: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Tasks whose logarithms are sines with offsets of their own."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(tasks):
        x, offset = random.uniform(-2, 2, points), random.normal(0, 0.6)
        made.append((x, np.exp(np.sin(2 * x) + offset + 0.15 * random.normal(size=points))))
    return made


def example(power: float, tasks: tuple[int, ...] = ()) -> WarpedMixture:
    """Three components at two query points, in units of their own."""
    random = np.random.default_rng(3)
    base = GaussianMixture(random.normal(size=(*tasks, 3, 2)), random.uniform(0.2, 0.8, size=(*tasks, 3, 2)))
    warp = YeoJohnson(np.full(tasks, power), np.full(tasks, -0.2), np.full(tasks, 0.9))
    return WarpedMixture(base, warp, np.zeros(tasks), np.ones(tasks)).affine(10.0, 3.0)


def places(said: WarpedMixture, count: int) -> np.ndarray:
    """Values from far below to far above all that is likely, the same at each query point."""
    low, high = (said.base.loc - 12 * said.base.scale).min(), (said.base.loc + 12 * said.base.scale).max()
    grid = 10 + 3 * said.warp.inverse(np.linspace(low, high, count))
    return np.repeat(grid[:, None], said.base.loc.shape[-1], 1)


@pytest.mark.parametrize("power", POWERS)
def test_the_scale_is_that_of_yeo_and_johnson_and_its_inverse_inverts_it(power):
    u = np.linspace(-4, 6, 41)
    warp = YeoJohnson(np.float64(power), np.float64(0.3), np.float64(2.0))
    np.testing.assert_allclose(warp(u), (scipy.stats.yeojohnson(u, power) - 0.3) / 2, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(warp.inverse(warp(u)), u, rtol=1e-9, atol=1e-10)
    slopes = (warp(u + 1e-6) - warp(u - 1e-6)) / 2e-6
    np.testing.assert_allclose(np.exp(warp.log_slope(u)), slopes, rtol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_the_power_is_the_likeliest(seed):
    values = scipy.stats.skewnorm(6).rvs(400, random_state=seed).reshape(8, 50)
    values = (values - values.mean()) / values.std()
    mask = np.random.default_rng(seed).uniform(size=values.shape) < 0.7
    found = YeoJohnson.of(jnp.asarray(np.where(mask, values, 99.0)), jnp.asarray(mask))
    kept = values[mask]
    np.testing.assert_allclose(found.power, scipy.stats.yeojohnson(kept)[1], atol=0.03)  # the grid has steps of .05
    there = np.asarray(found(jnp.asarray(kept)))
    np.testing.assert_allclose([there.mean(), there.std()], [0, 1], atol=1e-4)


def test_equal_targets_leave_the_scale_as_it_is():
    found = YeoJohnson.of(jnp.full((2, 3), 0.7), jnp.ones((2, 3), bool))
    assert (found.power, found.loc, found.scale) == (1, 0, 1)


@pytest.mark.parametrize("power", POWERS)
def test_density_cdf_quantiles_and_moments_are_of_one_distribution(power):
    said = example(power)
    for level in (0.01, 0.3, 0.5, 0.97):
        np.testing.assert_allclose(said.cdf(said.quantile(level)), level, rtol=1e-8)
    grid = places(said, 8001)
    density = np.exp(np.stack([said.log_prob(t) for t in grid]))
    mass = scipy.integrate.cumulative_trapezoid(density, grid, axis=0)
    np.testing.assert_allclose(mass[4000], said.cdf(grid[4001]), atol=1e-4)
    mean = np.trapezoid(grid * density, grid, axis=0)
    variance = np.trapezoid((grid - mean) ** 2 * density, grid, axis=0)
    np.testing.assert_allclose(said.mean, mean, rtol=1e-3)
    np.testing.assert_allclose(said.std, np.sqrt(variance), rtol=1e-2)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("level", [1e-20, 0.2, 0.8])
def test_the_crps_is_the_integral_of_the_squared_gap_between_cdfs(power, level):
    said = example(power)
    y = said.quantile(level)
    grid = places(said, 20001)
    gaps = (np.stack([said.cdf(t) for t in grid]) - (grid >= y)) ** 2
    np.testing.assert_allclose(said.crps(y), np.trapezoid(gaps, grid, axis=0), rtol=3e-3)


def test_draws_have_the_quantiles():
    said = jax.tree.map(jnp.asarray, example(0.4))
    drawn = np.asarray(said.sample(20_000, KEY))
    for level in (0.1, 0.5, 0.9):
        np.testing.assert_allclose((drawn <= said.quantile(level)).mean(0), level, atol=0.01)


def test_with_the_power_one_it_is_the_mixture_in_other_units():
    said, y = example(1.0), np.array([8.0, 11.0])
    plain = said.base.affine(-0.2, 0.9).affine(10.0, 3.0)
    for name in ("log_prob", "cdf", "crps"):
        np.testing.assert_allclose(getattr(said, name)(y), getattr(plain, name)(y), rtol=1e-5)
    np.testing.assert_allclose([said.mean, said.std], [plain.mean, plain.std], rtol=1e-9)
    np.testing.assert_allclose(said.quantile(0.2), plain.quantile(0.2), rtol=1e-9)


def test_many_tasks_are_each_as_alone_in_numpy_and_in_jax():
    many, y = example(0.4, (5,)), np.array([9.0, 12.0])
    for i in range(5):
        alone = jax.tree.map(lambda leaf, i=i: leaf[i] if np.ndim(leaf) else leaf, many)
        for name in ("log_prob", "cdf", "crps"):
            whole = getattr(many, name)(np.broadcast_to(y, (5, 2)))
            np.testing.assert_allclose(whole[i], getattr(alone, name)(y), rtol=1e-12)
        np.testing.assert_allclose(many.mean[i], alone.mean, rtol=1e-12)
        said = jax.tree.map(jnp.asarray, alone).first(1)
        np.testing.assert_allclose(said.std, alone.std[:1], rtol=1e-4)


def test_a_learner_on_another_scale_is_the_learner_of_warped_tasks():
    tasks, contexts = (stack([(x[:, None], y) for x, y in skewed(*sizes)]) for sizes in ((0, 4, 6), (1, 1, 5)))
    context = jax.tree.map(lambda leaf: leaf[0], contexts)
    for method in ("vanilla-gp", "mll-gp"):  # without a training of its own, and with one
        shape, settings = Shape(len(tasks.mask), 5.0, tasks.x.shape[-1]), {"steps": 20}
        change = TargetScale.of(tasks)
        there = learner(method, shape, **settings).fit(change.tasks(tasks), KEY)
        made = learner(method, shape, warp=True, **settings).fit(tasks, KEY)
        x = context.x
        wanted = there.adapt(change.tasks(context), KEY)(x)
        said = made.adapt(context, KEY)(x)
        np.testing.assert_allclose(said.quantile(0.8), change.warp.inverse(wanted.quantile(0.8)), rtol=1e-3, atol=1e-4)


def test_skewed_targets_are_predicted_better_and_never_below_what_can_be():
    tasks, new = skewed(0, 12, 15), skewed(1, 20, 40)
    scores = {}
    for warp in (False, True):
        model = pacoh.fit(tasks, "pacoh-gp-map", steps=300, warp=warp)
        said = [model.adapt(x[:8], y[:8])(x[8:]) for x, y in new]
        scores[warp] = np.mean([one.log_prob(y[8:]).mean() for one, (_, y) in zip(said, new, strict=True)])
    assert scores[True] > scores[False] + 0.2


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_a_learner_on_another_scale_passes_the_suite(name):
    reason = check(name, prepare("vanilla-gp", settings={"steps": 20, "warp": True}))
    if reason is not None:
        pytest.skip(reason)


def test_what_cannot_be_on_another_scale_is_refused():
    with pytest.raises(PacohError, match="classes"):
        learner("vanilla-bnn", Shape(4, 5, 1, 2), warp=True)
    with pytest.raises(PacohError, match="maml predicts points"):
        learner("maml", Shape(4, 5, 1), warp=True)
    tasks = ragged_tasks()
    model = pacoh.fit(tasks, "pacoh-gp-map", steps=10, warp=True)
    with pytest.raises(PacohError, match="`warp`"):
        certify_model(model, tasks, loss("clipped-absolute", clip=1.0))
    with pytest.raises(PacohError, match="`warp`"):
        Optimizer(model, Space({"a": Real(0.0, 1.0)})).ask()
