"""One landscape that tasks are moved on: its covariance, its evidence, its guard."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import pacoh
from pacoh.data import Dataset, pad, stack
from pacoh.errors import PacohError
from pacoh.learners.guard import Guarded
from pacoh.learners.moved import (
    Moved,
    MovedModel,
    MovedPredictor,
    even_normals,
    left_out,
    log_mixture,
    log_shares_of,
    log_standard,
    resampled,
)
from pacoh.learners.multitask import Rows
from pacoh.priors.means import Basins
from pacoh.registry import Shape, learner
from pacoh.testing import ragged_tasks

KEY = jax.random.key(3)
RANDOM = np.random.default_rng(0)
SHIFTS = RANDOM.uniform(-0.5, 0.5, 6)
STRETCHES = RANDOM.uniform(0.6, 1.6, 6)


def wave(x, shift=0.0, stretch=1.0):
    return stretch * (np.sin(2.5 * (x + shift)) + 0.5 * (x + shift))[:, 0]


def moved_tasks() -> Dataset:
    """Noisy, so that single precision tells their covariance apart from a singular one."""
    xs = [RANDOM.uniform(-1.7, 1.7, (12, 1)) for _ in SHIFTS]
    moves = zip(xs, SHIFTS, STRETCHES, strict=True)
    return stack([(x, wave(x, *move) + 0.03 * RANDOM.normal(size=len(x))) for x, *move in moves])


TASKS = moved_tasks()
MODEL: MovedModel = learner("moved-gp", Shape(6, 12, 1), steps=300).fit(TASKS, KEY)  # type: ignore[assignment]
KIND = jnp.array([0.3, 0.5])  # sizes of what a new task has for itself, and of its noise
CONTEXT = pad(x := np.array([[-0.5], [0.4], [1.3]]), wave(x, 0.3, 1.2), 4)


def test_shifts_and_scales_are_found_up_to_what_all_tasks_share():
    assert np.corrcoef(MODEL.theta["shift"][:, 0], SHIFTS)[0, 1] > 0.99
    assert np.corrcoef(MODEL.theta["log_stretch"], np.log(STRETCHES))[0, 1] > 0.99


def test_a_prediction_under_a_move_is_that_of_one_gaussian_over_all_points_of_all_tasks():
    z, x = jnp.array([0.4, -0.7]), jnp.array([[-1.0], [0.1], [0.9]])
    shift, stretch = MODEL.move(z)
    keep = np.asarray(CONTEXT.mask)
    points = jnp.concatenate([TASKS.x.reshape(-1, 1), CONTEXT.x[keep], x])
    ids = np.concatenate([np.repeat(np.arange(6), 12), np.full(keep.sum() + len(x), 6)])
    shifts = jnp.concatenate([MODEL.theta["shift"], shift[None]])[ids]
    scales = jnp.concatenate([jnp.exp(MODEL.theta["log_stretch"]), stretch[None]])[ids]
    common = MODEL.prior.common.gram(MODEL.theta["common"], points + shifts, points + shifts)
    own = MODEL.prior.apart(MODEL.theta, points, points)
    left = KIND[0] ** 2 * (ids[:, None] == 6) * (ids == 6) * common
    gram = np.asarray(scales[:, None] * scales * common + left + (ids[:, None] == ids) * own, np.float64)
    seen = len(ids) - len(x)
    y = np.concatenate([TASKS.y.reshape(-1), CONTEXT.y[keep]]) - float(MODEL.theta["level"])
    noise = np.exp(2 * float(MODEL.theta["log_noise"])) * np.diag(np.where(ids[:seen] == 6, 0.25, 1.0))
    solve = np.linalg.solve(gram[:seen, :seen] + noise, gram[:seen, seen:])
    said = MovedPredictor.of(MODEL, (z[None], KIND[None]), CONTEXT).latent(x)
    np.testing.assert_allclose(said.mean, float(MODEL.theta["level"]) + y @ solve, atol=0.02)
    wanted = np.sqrt(np.diag(gram[seen:, seen:] - gram[seen:, :seen] @ solve))
    np.testing.assert_allclose(said.std, wanted, atol=0.02)


@pytest.mark.slow
def test_the_evidence_is_its_integral_over_moves():
    context = Dataset(CONTEXT.x, CONTEXT.y, jnp.arange(4) < 2)
    side = jnp.linspace(-5, 5, 201)
    grid = jnp.stack(jnp.meshgrid(side, side), -1).reshape(-1, 2)
    each = jax.vmap(lambda z: jax.vmap(lambda kind: MODEL.log_evidence(z, kind, context))(MODEL.kinds))
    logs = jax.nn.logsumexp(jax.jit(each)(grid) + MODEL.log_shares, 1) + log_standard(grid)
    wanted = jax.nn.logsumexp(logs) + 2 * np.log(side[1] - side[0])
    weigh = jax.jit(lambda key: MODEL.weigh(context, key)[1])
    found = jax.vmap(weigh)(jax.random.split(KEY, 16))
    assert float(jax.nn.logsumexp(found) - np.log(16)) == pytest.approx(float(wanted), abs=0.35)


def test_a_mixture_of_gaussians_has_the_density_of_scipy():
    factors = np.array([[[1.0, 0.0], [0.5, 0.7]], [[0.2, 0.1], [0.0, 0.4]]])
    locs, z = np.array([[0.0, 1.0], [-1.0, 0.3]]), np.array([[0.2, 0.5], [-0.9, 0.2]])
    counts = np.array([[True, True], [True, False]])
    parts = [multivariate_normal(loc, factor @ factor.T).pdf(z) for loc, factor in zip(locs, factors, strict=True)]
    said = log_mixture(*map(jnp.asarray, (z, locs, factors, counts)))
    np.testing.assert_allclose(said, np.log(np.mean(counts * parts, 0)), rtol=1e-4)


@pytest.mark.slow
def test_climbing_ends_where_the_posterior_is_highest():
    side = jnp.linspace(-3, 3, 121)
    grid = jnp.stack(jnp.meshgrid(side, side), -1).reshape(-1, 2)
    density = jax.jit(jax.vmap(lambda z: MODEL.log_evidence(z, KIND, CONTEXT) + log_standard(z)))
    ends = jax.jit(jax.vmap(lambda z: MODEL.climb(z, KIND, CONTEXT)[0]))(MODEL.standard[:32])
    assert float(density(ends).max()) > float(density(grid).max()) - 0.1


def test_a_task_left_out_is_as_likely_as_under_the_gaussian_of_all_points_given_the_others():
    rows = Rows.of(TASKS)
    noise = float(MODEL.prior.noise_variance(MODEL.theta))
    gram = np.asarray(MODEL.prior.gram(MODEL.theta, rows), np.float64) + noise * np.eye(72)
    y = np.asarray(TASKS.y, np.float64).reshape(-1) - float(MODEL.theta["level"])
    mine = np.arange(72) // 12 == 2
    solve = np.linalg.solve(gram[np.ix_(~mine, ~mine)], gram[np.ix_(~mine, mine)])
    common = np.asarray(MODEL.prior.common.gram(MODEL.theta["common"], TASKS.x[2], TASKS.x[2]), np.float64)
    covariance = (
        gram[np.ix_(mine, mine)] - gram[np.ix_(mine, ~mine)] @ solve + 0.25 * common - 0.75 * noise * np.eye(12)
    )
    wanted = multivariate_normal(y[~mine] @ solve, covariance).logpdf(y[mine]) + 6 * np.log(2 * np.pi)
    found = left_out(MODEL.prior, MODEL.theta, TASKS, (MODEL.inverse, MODEL.solved), jnp.array([[0.5, 0.5]]))
    assert float(found[2, 0]) == pytest.approx(wanted, abs=0.1)


def test_shares_of_kinds_are_where_their_likelihood_has_no_slope():
    logs = np.random.default_rng(1).normal(size=(6, 3)) * 2
    shares = np.exp(np.asarray(log_shares_of(jnp.asarray(logs))))
    assert shares.sum() == pytest.approx(1, abs=1e-4)
    ratio = np.exp(logs) / (np.exp(logs) @ shares)[:, None]
    slope = ratio.sum(0) + 1 / (3 * shares)  # of the sum of logs, with the log of each share counted a third
    np.testing.assert_allclose(slope, slope.mean(), rtol=0.05)


def test_members_come_as_often_as_their_weights_say():
    shares = jnp.array([0.5, 0.05, 0.45])
    drawn = jax.vmap(lambda key: jnp.bincount(resampled(jnp.log(shares), 8, key), length=3))(jax.random.split(KEY, 400))
    assert ((drawn >= np.floor(8 * shares)) & (drawn <= np.ceil(8 * shares))).all()
    np.testing.assert_allclose(drawn.mean(0), 8 * shares, atol=0.1)


def test_the_draws_of_moves_are_standard_normal():
    drawn = even_normals(256, 3)
    np.testing.assert_allclose(drawn.mean(0), 0, atol=0.02)
    np.testing.assert_allclose(drawn.std(0), 1, atol=0.03)


def two_basins(x, shift=0.0, stretch=1.0):
    """Basins of different widths at (-1, .5) and (.8, -.4)."""
    u = x + shift
    first = 2 * np.exp(-((u[:, 0] + 1) ** 2) / 0.5 - (u[:, 1] - 0.5) ** 2)
    second = 3 * np.exp(-((u[:, 0] - 0.8) ** 2) / 0.8 - (u[:, 1] + 0.4) ** 2 / 0.3)
    return -stretch * (first + second)


def basin_tasks() -> tuple[Dataset, np.ndarray, np.ndarray]:
    random = np.random.default_rng(4)
    shifts, stretches = random.uniform(-0.4, 0.4, (6, 2)), random.uniform(0.6, 1.6, 6)
    xs = random.uniform(-1.7, 1.7, (6, 12, 2))
    pairs = [(x, two_basins(x, *move)) for x, *move in zip(xs, shifts, stretches, strict=True)]
    return stack(pairs), shifts, stretches


BASIN_TASKS, BASIN_SHIFTS, BASIN_STRETCHES = basin_tasks()


@functools.cache
def with_basins() -> MovedModel:
    made = learner("moved-gp", Shape(6, 12, 2), steps=100, basins=3)
    return made.fit(BASIN_TASKS, KEY)  # type: ignore[return-value]


def test_basins_are_the_sum_of_their_bells():
    random = np.random.default_rng(2)
    mean, x = Basins(2), random.normal(size=(5, 3))
    centre, log_length, height = random.normal(size=(2, 3)), random.normal(size=(2, 3)), np.array([1.5, -2.0])
    bells = [norm(c, np.exp(s)).pdf(x) / norm(c, np.exp(s)).pdf(c) for c, s in zip(centre, log_length, strict=True)]
    wanted = sum(h * bell.prod(1) for h, bell in zip(height, bells, strict=True))
    params = {"centre": centre, "log_length": log_length, "height": height}
    np.testing.assert_allclose(mean(jax.tree.map(jnp.asarray, params), jnp.asarray(x)), wanted, rtol=1e-4)


def test_shifts_scales_and_basins_of_a_landscape_of_basins_are_found():
    model = with_basins()
    found = np.asarray(model.theta["shift"])
    for axis in range(2):
        assert np.corrcoef(found[:, axis], BASIN_SHIFTS[:, axis])[0, 1] > 0.99
    assert np.corrcoef(model.theta["log_stretch"], np.log(BASIN_STRETCHES))[0, 1] > 0.99


def test_training_leaves_fitted_basins_and_moves_alone_and_learns_the_rest():
    made = learner("moved-gp", Shape(6, 12, 2), steps=100, basins=3)
    assert isinstance(made, Moved)
    problem = made.problem(BASIN_TASKS)
    slopes = jax.grad(lambda theta: problem.log_density(theta, KEY))(with_basins().theta)
    for name in ("basins", "shift", "log_stretch"):
        assert all((leaf == 0).all() for leaf in jax.tree.leaves(slopes[name]))
    assert all((leaf != 0).all() for leaf in jax.tree.leaves([slopes["own"], slopes["common"], slopes["log_level"]]))


def test_what_is_open_about_basins_and_moves_is_their_linear_effect():
    model, h = with_basins(), 1e-2
    prior, theta, x = model.prior, model.theta, jnp.array([[0.3, -0.2], [1.1, 0.4], [-0.9, 0.6]])
    units = {"centre": 1.4, "log_length": 0.8, "height": 3.0}
    columns = []
    for name in sorted(units):
        for at in np.ndindex(theta["basins"][name].shape):
            up, down = (
                theta | {"basins": theta["basins"] | {name: theta["basins"][name].at[at].add(step)}} for step in (h, -h)
            )
            columns.append(0.3 * units[name] * (prior.shape(up, x) - prior.shape(down, x)) / (2 * h))
    slopes = np.stack(columns, 1)
    plain = prior.common.gram(theta["common"], x, x)
    np.testing.assert_allclose(prior.shared(theta, x, x), plain + slopes @ slopes.T, atol=5e-3)
    np.testing.assert_allclose(prior.shared_diag(theta, x), np.diag(prior.shared(theta, x, x)), rtol=1e-3)
    moved = [(prior.shape(theta, x + h * e) - prior.shape(theta, x - h * e)) / (2 * h) for e in jnp.eye(2)]
    wanted = 0.3 * np.stack([0.3 * moved[0], 0.3 * moved[1], 0.4 * prior.shape(theta, x)], 1)
    np.testing.assert_allclose(prior.move_slopes(theta, x), wanted, atol=5e-3)


def test_a_prediction_with_basins_is_that_of_one_gaussian_over_all_points_of_all_tasks():
    model = with_basins()
    prior, theta, z = model.prior, model.theta, jnp.array([0.4, -0.7, 0.2])
    shift, stretch = model.move(z)
    context = pad(x := np.array([[-0.5, 0.2], [0.4, -0.6], [1.3, 0.9]]), two_basins(x, 0.1, 1.2), 4)
    query = jnp.array([[-1.0, 0.3], [0.7, -0.5]])
    rows = Rows.of(BASIN_TASKS)
    mine = jnp.concatenate([jnp.asarray(x), query])
    places = jnp.concatenate([rows.x + theta["shift"][rows.task], mine + shift])
    scales = jnp.concatenate([jnp.exp(theta["log_stretch"])[rows.task], jnp.full(5, stretch)])
    gram = np.array(scales[:, None] * scales * prior.shared(theta, places, places), np.float64)
    gram[:72, :72] = prior.gram(theta, rows)
    gram[72:, 72:] += np.asarray(
        prior.apart(theta, mine, mine) + KIND[0] ** 2 * prior.common.gram(theta["common"], places[72:], places[72:])
    )
    noise = float(prior.noise_variance(theta)) * np.r_[np.ones(72), np.full(3, float(KIND[1]) ** 2)]
    mean = np.asarray(theta["level"] + scales * prior.shape(theta, places), np.float64)
    y = np.concatenate([BASIN_TASKS.y.reshape(-1), context.y[:3]]) - mean[:75]
    solve = np.linalg.solve(gram[:75, :75] + np.diag(noise), gram[:75, 75:])
    said = MovedPredictor.of(model, (z[None], KIND[None]), context).latent(query)
    np.testing.assert_allclose(said.mean, mean[75:] + y @ solve, atol=0.03)
    np.testing.assert_allclose(said.std, np.sqrt(np.diag(gram[75:, 75:] - gram[75:, :75] @ solve)), atol=0.03)


def test_five_points_tell_where_the_basins_of_a_new_task_lie():
    x = np.array([[-0.6, 0.3], [0.9, -0.1], [0.2, -0.8], [-1.2, 0.9], [1.4, -0.9]])
    context, query = pad(x, two_basins(x, 0.25, 1.3), 8), np.random.default_rng(5).uniform(-1.5, 1.5, (40, 2))
    said = jax.jit(lambda: with_basins().adapt(context, KEY).latent(jnp.asarray(query, float)))()
    errors = np.asarray(said.mean) - two_basins(query, 0.25, 1.3)
    assert np.sqrt((errors**2).mean()) < 0.15  # the values' sd is near 1
    assert np.sqrt(((errors / np.asarray(said.std)) ** 2).mean()) < 3


@pytest.mark.slow
def test_three_points_tell_where_a_new_task_lies():
    x = np.linspace(-1.5, 1.5, 20)[:, None]
    said = jax.jit(lambda: MODEL.adapt(CONTEXT, KEY)(jnp.asarray(x, float)).mean)()
    assert np.abs(said - wave(x, 0.3, 1.2)).max() < 0.1


@pytest.mark.slow
def test_a_task_of_another_kind_is_left_to_the_guard():
    tasks = [(np.asarray(task_x, float), np.asarray(y, float)) for task_x, y in zip(TASKS.x, TASKS.y, strict=True)]
    model = pacoh.fit(tasks, "moved-gp", steps=300, guard=True)
    meta = model.meta
    assert isinstance(meta, Guarded)
    x = np.array([[-0.5], [0.4], [1.3]])
    for y, share in ((wave(x, 0.3, 1.2), 1.0), (30 + 5 * x[:, 0] ** 2, 0.0)):
        context = pad(model.units.inputs(x), model.units.targets(y), 4)
        shares = jax.jit(lambda context: meta.adapt(context, KEY).log_shares)(context)
        assert float(jnp.exp(shares[0])) == pytest.approx(share, abs=0.05)


def test_more_points_than_a_matrix_holds_are_refused():
    x = np.random.default_rng(0).normal(size=(4000, 1))
    with pytest.raises(PacohError, match="at most 3000"):
        pacoh.fit([(x, x[:, 0]), (x, -x[:, 0])], "moved-gp")


def test_classes_are_refused():
    with pytest.raises(PacohError, match="targets that are numbers"):
        learner("moved-gp", Shape(2, 5, 1, 3))


@pytest.mark.slow
def test_tasks_of_different_sizes_are_padded_without_a_trace():
    tasks = stack(ragged_tasks(d=2))
    wider = jax.tree.map(lambda leaf: jnp.concatenate([leaf, jnp.zeros_like(leaf[:, :3])], 1), tasks)
    made = learner("moved-gp", Shape(4, 5, 2), steps=5)
    assert isinstance(made, Moved)
    start = made.restart(made.fit(tasks, KEY))  # type: ignore[arg-type]
    theta = jax.tree.map(lambda leaf: leaf[0], start.phis)
    context = jax.tree.map(lambda leaf: leaf[0], tasks)
    densities, evidences = [], []
    for each in (tasks, wider):
        problem = made.problem(each)
        densities.append(float(problem.log_density(theta, KEY)))
        model = made.model(problem.engine.init(problem.log_density, start, KEY), each, KEY)
        evidences.append(float(model.log_evidence(jnp.ones(3), KIND, context)))
    assert densities[0] == pytest.approx(densities[1], rel=1e-4)
    assert evidences[0] == pytest.approx(evidences[1], abs=1e-3)
