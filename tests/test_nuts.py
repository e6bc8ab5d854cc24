"""Laws of NUTS, and the engines against quadrature on a hyper-posterior of four parameters."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.diagnostics import effective_sample_size
from scipy.optimize import minimize

from pacoh.data import stack
from pacoh.errors import PacohError
from pacoh.inference import NUTS, SVGD, VI, AbstractLogDensity, Adam, Problem, run
from pacoh.inference.base import Layout
from pacoh.priors.gp import GPPrior
from pacoh.priors.hyper import GroupGaussian
from pacoh.priors.kernels import SE
from pacoh.priors.means import Constant
from pacoh.registry import Shape, learner
from pacoh.theory import HyperPosterior, hyper_posterior


class Normal(AbstractLogDensity):
    scale: jax.Array

    def __call__(self, phi, key):
        del key
        return -0.5 * ((phi / self.scale) ** 2).sum()


def draw(key):
    return jax.random.normal(key, (2,))


def some_tasks(n=4, m=5):
    random = np.random.default_rng(1)
    x = random.uniform(-2, 2, (n, m, 1))
    y = 0.5 + np.sin(2 * x[..., 0] + random.normal(size=(n, 1))) + 0.2 * random.normal(size=(n, m))
    return stack(list(zip(x, y, strict=True)))


def train(problem: Problem, seed=0):
    lane = jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, problem)
    trained = run(lane, jax.random.split(jax.random.key(seed), 1))
    return jax.tree.map(lambda leaf: leaf[0], trained.state)


ENGINE = NUTS(count=398, warmup=200, thin=2)


@pytest.fixture(scope="module")
def state():
    return train(Problem(ENGINE, Normal(jnp.array([1.0, 10.0])), draw))


def test_draws_are_kept_after_warm_up_at_the_thinning_asked_for(state):
    rows = ENGINE.draws(state, jax.random.key(0))
    assert ENGINE.steps == 200 + 2 * 100
    assert rows.shape == (398, 2)
    np.testing.assert_array_equal(state.kept[:, -1], state.position)  # the last step was kept
    assert (state.kept != 0).all()
    within_error(np.asarray(state.kept), np.zeros(2))
    within_error(np.asarray(state.kept) ** 2, np.array([1.0, 100.0]))


def test_chains_that_have_not_mixed_are_told(state):
    assert ENGINE.complaint(state) is None
    assert ENGINE.diagnostics(state)["r_hat"] < 1.05
    apart = eqx.tree_at(lambda s: s.kept, state, state.kept + 10 * jnp.arange(4.0)[:, None, None])
    assert "not mixed" in (ENGINE.complaint(apart) or "")
    assert "not complete" in (ENGINE.complaint(eqx.tree_at(lambda s: s.t, state, jnp.asarray(3))) or "")


def test_mini_batches_are_refused():
    prior = GPPrior(Constant(), SE())
    hyper = GroupGaussian({"scale": 1.0, "noise": 1.0, "mean": 1.0})(prior.specs(1))
    density = hyper_posterior(prior, hyper, some_tasks(), batch=2)
    with pytest.raises(PacohError, match="exact density"):
        NUTS().init(density, hyper.sample, jax.random.key(0))


def test_a_network_prior_is_refused_with_the_remedy():
    made = learner("pacoh-gp-nuts", Shape(4, 5, 1), mean="network")
    with pytest.raises(PacohError, match=r"mean=linear, kernel=se.*SVGD"):
        made.fit(some_tasks(), jax.random.key(0))


def quadrature(density: HyperPosterior, layout: Layout, start) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariance of a four-parameter density: the trapezoid rule on a grid along its principal axes."""

    def value(vector):
        return density(layout.unflatten(vector), jax.random.key(0))

    downhill = jax.jit(jax.value_and_grad(lambda vector: -value(vector)))
    mode = minimize(downhill, np.asarray(start), jac=True, method="BFGS").x
    mean, covariance = mode, np.linalg.inv(-jax.jit(jax.hessian(value))(mode))
    steps = jnp.stack(jnp.meshgrid(*[jnp.linspace(-9, 9, 23)] * 4, indexing="ij"), -1).reshape(-1, 4)
    values = jax.jit(lambda rows: jax.lax.map(value, rows, batch_size=23**2))
    for _ in range(2):  # the second grid lies along the moments that the first one found
        points = steps @ np.linalg.cholesky(covariance).T + mean
        weights = np.asarray(jax.nn.softmax(values(points)))
        mean = weights @ np.asarray(points)
        covariance = (weights[:, None] * (points - mean)).T @ np.asarray(points - mean)
    edges = weights.reshape((23,) * 4)
    assert max(edges.take(i, a).sum() for i in (0, -1) for a in range(4)) < 1e-6  # nothing lies outside the grid
    return mean, covariance


def four_parameters() -> tuple[HyperPosterior, Layout, jax.Array]:
    prior = GPPrior(Constant(), SE())
    hyper = GroupGaussian({"scale": 1.0, "noise": 1.0, "mean": 1.0})(prior.specs(1))
    density = hyper_posterior(prior, hyper, some_tasks())
    layout = Layout.of(hyper.loc)
    return density, layout, layout.flatten(hyper.loc)


@pytest.mark.slow
def test_nuts_has_the_moments_of_quadrature_and_vi_and_svgd_come_close(capsys):
    with jax.enable_x64(True):
        density, layout, start = four_parameters()
        mean, covariance = quadrature(density, layout, start)
        sd = np.sqrt(np.diag(covariance))
        engines = {
            "NUTS": NUTS(count=4000, warmup=500, thin=1),
            "VI": VI(samples=20, predict=4000, optimizer=Adam(0.02, 2000)),
            "SVGD": SVGD(particles=50, optimizer=Adam(0.05, 1000)),
        }
        rows = {}
        for name, engine in engines.items():
            state = train(Problem(engine, density, density.hyper_prior.sample))
            rows[name] = np.asarray(jax.vmap(layout.flatten)(engine.draws(state, jax.random.key(5))))
            gap, ratio = (rows[name].mean(0) - mean) / sd, rows[name].std(0) / sd
            with capsys.disabled():
                print(f"\n{name}: mean gaps in sds {np.round(gap, 3)}, sd ratios {np.round(ratio, 3)}", end="")
            bound = {"NUTS": (0.1, 0.9, 1.1), "VI": (0.25, 0.6, 1.05), "SVGD": (0.25, 0.6, 1.1)}[name]
            assert np.abs(gap).max() < bound[0]
            assert bound[1] < ratio.min() <= ratio.max() < bound[2]
    chains = rows["NUTS"].reshape(4, 1000, 4)
    within_error(chains, mean)
    within_error((chains - mean) ** 2, sd**2)


def within_error(chains: np.ndarray, truth: np.ndarray) -> None:
    """The mean of every column within four standard errors of the truth, at the chains' effective sample size."""
    pooled = chains.reshape(-1, chains.shape[-1])
    error = pooled.std(0) / np.sqrt(effective_sample_size(chains))
    assert (np.abs(pooled.mean(0) - truth) < 4 * error).all(), (pooled.mean(0), truth, error)
