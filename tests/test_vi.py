"""Laws of variational inference."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pacoh.data import stack
from pacoh.inference import VI, AbstractLogDensity, Adam, Problem, run
from pacoh.inference.base import Particles
from pacoh.inference.vi import antithetic
from pacoh.registry import Shape, learner
from pacoh.theory import hyper_posterior


class Gaussian(AbstractLogDensity):
    """Normalised, with covariance."""

    covariance: jax.Array

    def __call__(self, phi, key):
        del key
        return jax.scipy.stats.multivariate_normal.logpdf(phi, jnp.array([1.0, -2.0]), self.covariance)


def train(density, draw, engine, seed=0):
    lane = jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, Problem(engine, density, draw))
    trained = run(lane, jax.random.split(jax.random.key(seed), 1))
    return trained, jax.tree.map(lambda leaf: leaf[0], trained.state)


def draw(key):
    return jax.random.normal(key, (2,))


ENGINE = VI(samples=10, predict=4000, optimizer=Adam(0.05, 1500))


def test_an_independent_gaussian_is_found_with_its_evidence():
    trained, state = train(Gaussian(jnp.diag(jnp.array([4.0, 0.01]))), draw, ENGINE)
    np.testing.assert_allclose(state.position[0], [1.0, -2.0], atol=0.02)
    np.testing.assert_allclose(jnp.exp(state.position[1]), [2.0, 0.1], rtol=0.05)
    assert trained.curve[0, -1] == pytest.approx(0.0, abs=0.05)  # ELBO = ln Z where q is the density


def test_a_correlated_gaussian_gets_the_conditional_sds_and_the_gap_in_evidence():
    rho = 0.8
    trained, state = train(Gaussian(jnp.array([[1.0, rho], [rho, 1.0]])), draw, ENGINE)
    np.testing.assert_allclose(jnp.exp(state.position[1]), np.sqrt(1 - rho**2), rtol=0.05)
    assert trained.curve[0, -20:].mean() == pytest.approx(0.5 * np.log(1 - rho**2), abs=0.1)  # -KL(q || density)


def test_draws_follow_the_gaussian():
    _, state = train(Gaussian(jnp.diag(jnp.array([4.0, 0.01]))), draw, ENGINE)
    rows = ENGINE.draws(state, jax.random.key(1))
    assert rows.shape == (4000, 2)
    np.testing.assert_allclose(rows.mean(0), state.position[0], rtol=1e-4)  # pairs: the mean is exact
    np.testing.assert_allclose(rows.std(0), jnp.exp(state.position[1]), rtol=0.06)


@pytest.mark.parametrize("count", [1, 7, 10])
def test_antithetic_draws_are_normal_and_cancel_in_pairs(count):
    rows = antithetic(count, 5, jax.random.key(0))
    assert rows.shape == (count, 5)
    np.testing.assert_array_equal(rows[: count // 2], -rows[-(-count // 2) :][: count // 2])
    many = antithetic(20_001, 1, jax.random.key(1))
    np.testing.assert_allclose([many.mean(), many.std()], [0, 1], atol=0.03)


def test_infinite_temperature_gives_the_hyper_prior_back():
    made = learner("pacoh-gp-vi", Shape(2, 3, 1), mean="constant", kernel="se", steps=1500, rate=0.05)
    tasks = stack([(np.zeros((3, 1)), np.zeros(3))] * 2)
    problem = made.problem(tasks)
    density = hyper_posterior(made.prior, problem.log_density.hyper_prior, tasks, temperature=jnp.inf)
    _, state = train(density, problem.draw, made.inference)
    mean, sd = (state.layout.unflatten(row) for row in (state.position[0], jnp.exp(state.position[1])))
    for found, wanted in ((mean, density.hyper_prior.loc), (sd, density.hyper_prior.sd)):
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b * jnp.ones_like(a), atol=0.1, rtol=0.1)


def test_training_goes_on_from_the_moments_of_fitted_draws():
    rows = jnp.array([1.0, -2.0]) + jnp.array([0.5, 0.1]) * antithetic(100, 2, jax.random.key(0))
    engine = VI(predict=100, optimizer=Adam(0.0, 1))
    state = engine.init(Gaussian(jnp.eye(2)), Particles(rows), jax.random.key(1))
    np.testing.assert_allclose(state.position[0], [1.0, -2.0], atol=1e-4)
    np.testing.assert_allclose(jnp.exp(state.position[1]), rows.std(0), rtol=1e-3)
