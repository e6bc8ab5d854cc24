"""Sinusoid: sines of one frequency with random amplitude, phase, offset and slope."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.data import Dataset, Task
from pacoh.environments.base import AbstractSynthetic, Pair
from pacoh.inference.base import Budget
from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel
from pacoh.predictive import GaussianMixture
from pacoh.priors.base import AbstractPredictor
from pacoh.types import Key

FREQUENCY, NOISE = 1.5, 0.1
AMPLITUDE, PHASE, OFFSET, SLOPE = (0.7, 1.3), (0.0, 0.1), (5.0, 0.1), (0.5, 0.2)
_COARSE, _FINE, _REACH = (
    40,
    16,
    4.5,
)  # nodes an axis of the oracle's two grids; half-width of the second in posterior sds


class Sinusoid(AbstractSynthetic):
    """f(x) = b1 x + a sin(1.5 (x - b)) + c on x ~ U(-5, 5); noise sd 0.1.

    a ~ U(.7, 1.3), b ~ N(0, .1^2), c ~ N(5, .1^2), b1 ~ N(.5, .2^2).
    """

    n: int = eqx.field(static=True, default=20)
    m: int = eqx.field(static=True, default=5)
    tests: int = eqx.field(static=True, default=20)
    valids: int = eqx.field(static=True, default=20)
    query: int = eqx.field(static=True, default=200)

    def task(self, random: np.random.RandomState, points: int) -> Pair:
        """Amplitude, phase, offset, slope, a uniform that the fixed frequency leaves unused, inputs, noise."""
        a, b, c, b1 = random.uniform(*AMPLITUDE), random.normal(*PHASE), random.normal(*OFFSET), random.normal(*SLOPE)
        frequency = random.uniform(FREQUENCY, FREQUENCY)
        x = random.uniform(-5, 5, size=(points, 1))
        f = b1 * x[:, 0] + a * np.sin(frequency * (x[:, 0] - b)) + c
        return x, f + NOISE * random.normal(size=points)

    def oracle(self) -> "SinusoidOracle":
        """The Bayes-optimal predictor by quadrature over amplitude and phase."""
        return SinusoidOracle()


class SinusoidPosterior(AbstractPredictor):
    """A node of (a, b) each with its weight, and the exact Gaussian posterior of (c, b1) given it."""

    waves: Float[Array, "J 2"]  # (a, b)
    log_weights: Float[Array, " J"]
    coefficients: Float[Array, "J 2"]  # posterior means of (c, b1)
    factor: Float[Array, "2 2"]  # of their covariance, the same for all nodes

    def __call__(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of y."""
        latent = self.latent(x)
        return GaussianMixture(latent.loc, jnp.sqrt(latent.scale**2 + NOISE**2), self.log_weights)

    def latent(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of f."""
        basis = _basis(x)
        loc = _wave(self.waves, x) + self.coefficients @ basis.T
        scale = jnp.sqrt(((basis @ self.factor) ** 2).sum(-1))
        return GaussianMixture(loc, jnp.broadcast_to(scale, loc.shape), self.log_weights)

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, " q"]]:
        """One draw of f."""
        key_node, key_line = jax.random.split(key)
        node = jax.random.categorical(key_node, self.log_weights)
        line = self.coefficients[node] + self.factor @ jax.random.normal(key_line, (2,))
        return lambda x: _wave(self.waves[node][None], x)[0] + _basis(x) @ line


class SinusoidOracleModel(AbstractMetaModel):
    """The true prior over (a, b, c, b1)."""

    def adapt(self, context: Dataset, key: Key) -> SinusoidPosterior:
        """Bayes' rule by quadrature: a coarse grid over (a, b) finds the posterior, a second one lies there."""
        del key
        low = jnp.asarray([AMPLITUDE[0], PHASE[0] - 5 * PHASE[1]])
        high = jnp.asarray([AMPLITUDE[1], PHASE[0] + 5 * PHASE[1]])
        waves, log_measure = _grid(low, high, _COARSE)
        weights = jnp.exp(_given_waves(waves, log_measure, context).log_weights)
        centre = weights @ waves
        reach = _REACH * jnp.sqrt(weights @ (waves - centre) ** 2)
        waves, log_measure = _grid(jnp.maximum(low, centre - reach), jnp.minimum(high, centre + reach), _FINE)
        return _given_waves(waves, log_measure, context)


def _given_waves(waves: Float[Array, "J 2"], log_measure: Float[Array, " J"], context: Dataset) -> SinusoidPosterior:
    """The exact posterior of the line at each node of (a, b), and the node's weight: prior times evidence."""
    basis = jnp.where(context.mask[:, None], _basis(context.x), 0.0)
    prior_mean = jnp.asarray([OFFSET[0], SLOPE[0]])
    precision = jnp.diag(jnp.asarray([OFFSET[1] ** -2, SLOPE[1] ** -2])) + basis.T @ basis / NOISE**2
    residual = jnp.where(context.mask, context.y - _wave(waves, context.x) - _basis(context.x) @ prior_mean, 0.0)
    moment = residual @ basis / NOISE**2
    covariance = jnp.linalg.inv(precision)
    change = moment @ covariance
    log_prior = -0.5 * ((waves[:, 1] - PHASE[0]) / PHASE[1]) ** 2
    log_evidence = -0.5 * (residual**2).sum(-1) / NOISE**2 + 0.5 * (change * moment).sum(-1)
    log_weights = jax.nn.log_softmax(log_measure + log_prior + log_evidence)
    return SinusoidPosterior(waves, log_weights, prior_mean + change, jnp.linalg.cholesky(covariance))


class SinusoidOracle(AbstractMetaLearner):
    """Knows the environment; `fit` learns nothing."""

    def fit(
        self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None
    ) -> SinusoidOracleModel:
        """The true prior."""
        del tasks, key, valid, budget
        return SinusoidOracleModel()


def _wave(waves: Float[Array, "J 2"], x: Float[Array, "m d"]) -> Float[Array, "J m"]:
    """a sin(1.5 (x - b)) for each node."""
    return waves[:, :1] * jnp.sin(FREQUENCY * (x[:, 0] - waves[:, 1:]))


def _basis(x: Float[Array, "m d"]) -> Float[Array, "m 2"]:
    return jnp.stack([jnp.ones_like(x[:, 0]), x[:, 0]], -1)


def _grid(
    low: Float[Array, " 2"], high: Float[Array, " 2"], nodes: int
) -> tuple[Float[Array, "J 2"], Float[Array, " J"]]:
    """Gauss-Legendre nodes in a box, and the logs of their measures up to a constant."""
    unit, weights = np.polynomial.legendre.leggauss(nodes)
    square = np.stack(np.meshgrid(0.5 * (1 + unit), 0.5 * (1 + unit), indexing="ij"), -1).reshape(-1, 2)
    return low + (high - low) * jnp.asarray(square), jnp.asarray(np.log(np.outer(weights, weights)).ravel())
