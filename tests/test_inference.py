"""Laws of MAP, SVGD and the two loops."""

import blackjax.vi.svgd as blackjax_svgd
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pacoh.data import Dataset, stack
from pacoh.inference import MAP, SVGD, AbstractLogDensity, Adam, Budget, Problem, run, scan
from pacoh.inference.base import Particles
from pacoh.inference.svgd import stein_direction
from pacoh.priors.gp import GPPrior
from pacoh.priors.hyper import GroupGaussian
from pacoh.priors.kernels import SE
from pacoh.priors.means import Constant
from pacoh.theory import HyperPosterior, hyper_posterior, stratified


class Flat(AbstractLogDensity):
    def __call__(self, phi, key):
        del key
        return 0.0 * phi.sum()


class Normal(AbstractLogDensity):
    loc: jax.Array

    def __call__(self, phi, key):
        del key
        return -0.5 * ((phi - self.loc) ** 2).sum()


class Cliff(AbstractLogDensity):
    """Not a number beyond the edge."""

    edge: jax.Array

    def __call__(self, phi, key):
        del key
        return jnp.where(phi[0] < self.edge, phi.sum(), jnp.nan)


def draw(key):
    return jax.random.normal(key, (3,))


def keys(count=1, seed=0):
    return jax.random.split(jax.random.key(seed), count)


def lanes(*numbers):
    return jnp.stack([jnp.full(3, number) for number in numbers])


def problem(engine, density, start=draw, count=1) -> Problem:
    """`count` lanes of one engine; density and starts come with their lanes."""
    return Problem(jax.tree.map(lambda leaf: jnp.stack([leaf] * count), engine), density, start)


def small_prior():
    prior = GPPrior(Constant(), SE())
    return prior, GroupGaussian({"scale": 1.0, "noise": 1.0, "mean": 1.0})(prior.specs(1))


def tasks(n=5, m=4) -> Dataset:
    random = np.random.default_rng(0)
    return stack([(random.normal(size=(m + i % 2, 1)), random.normal(size=m + i % 2)) for i in range(n)])


def test_particles_part_on_a_flat_density():
    runs = [run(problem(SVGD(particles=4, optimizer=Adam(0.05, steps)), Flat()), keys()) for steps in (1, 100)]
    start, end = (float(trained.state.position[0].std(0).min()) for trained in runs)
    assert end > 1.5 * start


def test_restarts_of_map_do_not_feel_each_other():
    rows = jax.random.normal(jax.random.key(0), (1, 3, 3))
    together, alone = (
        run(problem(MAP(Adam(0.05, 50), restarts=count), Normal(lanes(1.0)), Particles(rows[:, :count])), keys())
        for count in (3, 1)
    )
    np.testing.assert_allclose(together.state.position[0, 0], alone.state.position[0, 0], rtol=1e-5)


@pytest.mark.usefixtures("float64")  # Adam magnifies rounding errors
def test_one_stein_particle_is_map():
    prior, hyper = small_prior()
    density = hyper_posterior(prior, hyper, tasks(), batch=2)
    specs = jax.tree.map(lambda leaf: leaf[None], hyper.sample(jax.random.key(7)))
    steps = jax.random.split(jax.random.key(1), 100)
    paths = []
    for engine in (MAP(Adam(0.02, 100)), SVGD(particles=1, optimizer=Adam(0.02, 100))):
        state = engine.init(density, Particles(specs), jax.random.key(0))
        paths.append(scan(engine, density, state, steps)[0].position)
    np.testing.assert_allclose(paths[0], paths[1], rtol=1e-8)


def test_the_order_of_particles_is_irrelevant():
    particles, gradients = jax.random.normal(jax.random.key(0), (2, 7, 5))
    order = jnp.array([3, 1, 6, 0, 2, 5, 4])
    moved = stein_direction(particles[order], gradients[order], None)
    np.testing.assert_allclose(moved, stein_direction(particles, gradients, None)[order], rtol=1e-5, atol=1e-6)


def test_the_stein_direction_is_that_of_blackjax():
    particles = jax.random.normal(jax.random.key(0), (6, 4))
    slope = jax.grad(lambda x: -0.5 * (x**2).sum() + jnp.sin(x).sum())
    step = blackjax_svgd.build_kernel(optax.sgd(1.0))
    state = blackjax_svgd.init(particles, {"length_scale": 2 * 1.7}, optax.sgd(1.0))
    moved = step(state, slope, blackjax_svgd.rbf_kernel).particles - particles
    ours = stein_direction(particles, jax.vmap(slope)(particles), jnp.asarray(1.7))
    np.testing.assert_allclose(ours, moved, rtol=1e-5, atol=1e-5)


def test_adam_is_that_of_optax():
    ours, theirs = Adam(0.05, 8, warmup=2, final=0.1), optax.scale_by_adam()
    slopes = jax.random.normal(jax.random.key(0), (8, 5)) * jnp.array([1e-6, 1.0, 1e3, 0.0, -1.0])
    rates = optax.warmup_cosine_decay_schedule(0.0, 1.0, 0, 8, 0.1)
    moments, state = ours.init(slopes[0]), theirs.init(slopes[0])
    for t, slope in enumerate(slopes):
        update, moments = ours.update(slope, moments, jnp.asarray(t))
        expected, state = theirs.update(slope, state)
        ramp = min((t + 1) / 3, 1.0)
        np.testing.assert_allclose(update, 0.05 * rates(t) * ramp * expected, rtol=1e-5, atol=1e-12)


def test_equal_particles_move_like_one():
    gradient = jnp.array([1.0, -2.0, 0.5])
    together = stein_direction(jnp.ones((4, 3)), jnp.tile(gradient, (4, 1)), None)
    np.testing.assert_allclose(together, jnp.tile(gradient, (4, 1)), rtol=1e-6)


def test_lanes_are_the_single_runs():
    engine = SVGD(particles=3, optimizer=Adam(0.05, 20))
    both = run(problem(engine, Normal(lanes(0.0, 2.0)), count=2), keys(2)).state.position
    for lane, target in enumerate((0.0, 2.0)):
        alone = run(problem(engine, Normal(lanes(target))), keys(2)[lane : lane + 1]).state.position
        np.testing.assert_allclose(both[lane], alone[0], rtol=1e-4, atol=1e-5)


def test_a_step_that_is_not_finite_is_undone_in_its_lane_alone():
    engine = MAP(Adam(0.1, 100, final=1.0))
    start = Particles(jnp.zeros((2, 1, 3)))
    trained = run(problem(engine, Cliff(jnp.array([1.0, 1e9])), start, 2), keys(2), Budget(chunk=30))
    stuck, free = trained.state.position[:, 0, 0]
    assert 0.99 <= stuck <= 1.2  # the last step before the edge was met
    assert free == pytest.approx(10.0, rel=0.05)
    assert trained.skipped[0] > 50
    assert trained.skipped[1] == 0
    complaint = trained.complaint()
    assert complaint is not None
    assert "lane 0" in complaint
    assert "lane 1" not in complaint


def test_progress_tells_the_steps_and_a_time_limit_ends_after_a_chunk():
    seen = []
    budget = Budget(chunk=10, seconds=0.0, progress=lambda *told: seen.append(told[:2]))
    trained = run(problem(MAP(Adam(0.1, 100)), Normal(lanes(0.0))), keys(), budget)
    assert seen == [(10, 100)]
    assert trained.steps == 10


@pytest.mark.parametrize(("n", "batch"), [(6, 2), (7, 3), (5, 4)])
def test_a_stratified_batch_holds_each_index_equally_often(n, batch):
    count = 20_000
    index = jax.vmap(lambda key: stratified(n, batch, key))(keys(count))
    assert index.min() >= 0
    shares = np.bincount(np.ravel(index), minlength=n) / count
    np.testing.assert_allclose(shares, batch / n, atol=4 * np.sqrt(batch / n / count))
    if n % batch == 0:
        assert all(len(set(row)) == batch for row in np.asarray(index[:500]).tolist())


def test_a_mini_batch_is_unbiased():
    prior, hyper = small_prior()
    stack_of_tasks = tasks(5)
    whole = hyper_posterior(prior, hyper, stack_of_tasks)
    part = hyper_posterior(prior, hyper, stack_of_tasks, batch=2)
    phi = hyper.sample(jax.random.key(3))
    values = jax.vmap(lambda key: part.minibatch(key)(phi, key))(keys(20_000))
    error = float(values.std() / np.sqrt(len(values)))
    assert float(values.mean()) == pytest.approx(float(whole(phi, jax.random.key(0))), abs=4 * error)


def test_infinite_temperature_gives_the_hyper_prior_back():
    prior, hyper = small_prior()
    density: HyperPosterior = hyper_posterior(prior, hyper, tasks(), temperature=jnp.inf)
    phi = hyper.sample(jax.random.key(3))
    key = jax.random.key(0)
    assert float(density(phi, key)) == pytest.approx(float(hyper.log_prob(phi, key)), rel=1e-6)


def test_given_starts_are_all_used_and_copies_part():
    rows = jnp.arange(6.0).reshape(1, 2, 3)
    engine = SVGD(particles=4, optimizer=Adam(0.0, 1))
    start = run(problem(engine, Flat(), Particles(rows)), keys()).state.position[0]
    np.testing.assert_array_equal(start[:2], rows[0])
    np.testing.assert_allclose(start[2:], rows[0], atol=0.1)
    assert (start[2:] != rows[0]).all()
