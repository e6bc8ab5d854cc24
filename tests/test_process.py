"""The log-density of a process at many points, its gradient taken at once: against the formula written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pacoh.data import pad, stack
from pacoh.priors import MLP, SE, GPPrior, LinearMean, Matern, Sum, Warped
from pacoh.priors.base import draw_start

KEY = jax.random.key(0)
SIZE = 71  # odd: halves of two sizes
NET = MLP((4,), "tanh")
KERNELS = {"matern": Matern(nu=1.5), "sum": Sum((SE(), Warped(SE(), NET, 2)))}


def task(m=SIZE, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(m, 2))
    return x, np.sin(x[:, 0]) + 0.1 * random.normal(size=m)


def phis_of(prior, count=2):
    return jax.vmap(lambda key: draw_start(prior.specs(2), key))(jax.random.split(KEY, count))


def evidence(prior, phi, data):
    return prior.log_evidence(phi, data, jnp.asarray(float(SIZE)), KEY)


def written_out(prior, phi, data):
    """The same, left to automatic differentiation."""
    x, y = data.x[:SIZE], data.y[:SIZE]
    gram = prior.kernel.gram(phi["kernel"], x, x) + jnp.exp(2 * phi["log_noise"]) * jnp.eye(SIZE)
    factor = jnp.linalg.cholesky(gram)
    half = jax.scipy.linalg.solve_triangular(factor, y - prior.mean(phi["mean"], x), lower=True)
    return -0.5 * half @ half - jnp.log(jnp.diagonal(factor)).sum() - 0.5 * SIZE * jnp.log(2 * jnp.pi)


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("name", "threads"), [("matern", "4"), ("sum", "1")])  # a batch; in turn
def test_value_and_gradient_are_those_of_the_formula_with_padding_too(name, threads, monkeypatch):
    monkeypatch.setenv("NPROC", threads)
    prior = GPPrior(LinearMean(), KERNELS[name])
    tasks = stack([task(seed=seed) for seed in range(2)], SIZE + 3)

    def total(of, phi):
        return jax.vmap(lambda data: of(prior, phi, data))(tasks).sum()

    ours, theirs = (
        jax.jit(jax.vmap(jax.value_and_grad(lambda phi, of=of: total(of, phi))))(phis_of(prior))
        for of in (evidence, written_out)
    )
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-11)
    np.testing.assert_allclose(flat(ours[1]), flat(theirs[1]), rtol=1e-8, atol=1e-9 * np.abs(flat(theirs[1])).max())


@pytest.mark.usefixtures("float64")
def test_the_gradient_has_the_derivative_of_the_formulas():
    prior = GPPrior(LinearMean(), SE())
    phi, data = jax.tree.map(lambda leaf: leaf[0], phis_of(prior)), pad(*task())
    along = jax.tree.map(jnp.ones_like, phi)
    ours, theirs = (
        jax.jit(lambda phi, of=of: jax.jvp(jax.grad(lambda p: of(prior, p, data)), (phi,), (along,))[1])(phi)
        for of in (evidence, written_out)
    )
    np.testing.assert_allclose(flat(ours), flat(theirs), rtol=1e-7)


@pytest.mark.parametrize("threads", ["1", "4"])
def test_single_precision_is_raised_out_of_singularity_task_by_task(threads, monkeypatch):
    monkeypatch.setenv("NPROC", threads)
    prior = GPPrior(LinearMean(), SE())
    phi = jax.tree.map(lambda leaf: leaf[0], phis_of(prior)) | {"log_noise": jnp.asarray(-12.0)}
    x, y = task()
    singular, plain = (np.full_like(x, 0.3), y), (20 * x, y)
    both = stack([singular, plain], SIZE)
    scores = jax.jit(jax.vmap(jax.value_and_grad(lambda phi, data: evidence(prior, phi, data)), (None, 0)))
    values, gradient = scores(phi, both)
    assert np.isfinite(values).all()
    assert np.isfinite(flat(gradient)).all()
    alone = scores(phi, stack([plain, plain], SIZE))  # untouched by what its neighbour needs
    np.testing.assert_allclose(values[1], alone[0][0], rtol=1e-6)
    here, there = jax.tree.map(lambda leaf: leaf[1], gradient), jax.tree.map(lambda leaf: leaf[0], alone[1])
    np.testing.assert_allclose(flat(here), flat(there), rtol=1e-5)
