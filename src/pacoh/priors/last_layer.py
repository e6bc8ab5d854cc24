"""A Bayesian network whose last layer is integrated out in closed form: the same prior, a far better evidence."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.errors import PacohError
from pacoh.inference.base import AbstractInference
from pacoh.predictive import GaussianMixture
from pacoh.priors.base import AbstractPredictor, leading, likelihood_power
from pacoh.priors.bnn import AbstractDrawnPrior, adaptation
from pacoh.priors.gaussian import cholesky, tempered_log_normal
from pacoh.priors.likelihoods import GaussianNoise
from pacoh.priors.nets import MLP
from pacoh.priors.weights import AbstractWeights, DiagonalGaussian
from pacoh.types import Key, Params, Scalar


class LastLayerPredictor(AbstractPredictor):
    """J hidden networks, each with the exact posterior of its last layer."""

    net: MLP
    hypotheses: Params
    mean: Float[Array, "J p"]
    factor: Float[Array, "J p p"]  # of the covariance of the last layer's weights

    def __call__(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of y."""
        latent = self.latent(x)
        noise = jnp.exp(2 * self.hypotheses["own"]["log_noise"])[:, None]
        return GaussianMixture(latent.loc, jnp.sqrt(latent.scale**2 + noise))

    def latent(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of f."""
        features = jax.vmap(lambda h: self.net.features(h["net"], x))(self.hypotheses)
        loc = jnp.einsum("jqp,jp->jq", features, self.mean)
        variance = (jnp.einsum("jqp,jpr->jqr", features, self.factor) ** 2).sum(-1)
        return GaussianMixture(loc, jnp.sqrt(jnp.maximum(variance, jnp.finfo(loc.dtype).tiny)))

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, " q"]]:
        """One hidden network with one draw of its last layer."""
        key_which, key_weights = jax.random.split(key)
        chosen = jax.random.randint(key_which, (), 0, leading(self.hypotheses))
        net = jax.tree.map(lambda leaf: leaf[chosen], self.hypotheses["net"])
        weights = self.mean[chosen] + self.factor[chosen] @ jax.random.normal(key_weights, self.mean.shape[1:])
        return lambda x: self.net.features(net, x) @ weights


class LastLayerBNN(AbstractDrawnPrior):
    """The Gaussian prior over a network's weights with Gaussian noise, its last layer never drawn.

    Given the hidden layers and the noise, y is Gaussian: exp(-beta Lh) is integrated over the last layer exactly, so
    the L draws need only find hidden layers that suit a task.
    """

    net: MLP = MLP()
    likelihood: GaussianNoise = GaussianNoise()
    weights: AbstractWeights = eqx.field(default_factory=DiagonalGaussian)
    adaptation: AbstractInference = eqx.field(default_factory=adaptation)
    draws: int = eqx.field(static=True, default=10)
    points: int | None = eqx.field(static=True, default=None)
    average: bool = eqx.field(static=True, default=False)
    coupled: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if not isinstance(self.weights, DiagonalGaussian):
            raise PacohError(
                f"The last layer is integrated out under Gaussian weights; got {type(self.weights).__name__}. "
                "BNNPrior draws all layers and takes any family."
            )
        if self.coupled:
            raise PacohError("Priors adapt in one coupled run where all layers are drawn: use BNNPrior (exact=False).")

    def specs(self, d: int) -> Any:
        """The parameters of the distribution over networks and noise."""
        return self.weights.specs({"net": self.net.specs(d, 1), "own": self.likelihood.specs()})

    def drawn(self, phi: Params) -> Params:
        """All but the last layer's."""
        return {part: {"net": phi[part]["net"][:-1], "own": phi[part]["own"]} for part in phi}

    def log_weights(self, phi: Params, h: Params, tasks: Dataset, betas: Float[Array, " n"]) -> Float[Array, " n"]:
        """ln E exp(-beta Lh) over the last layer: ln N(y; F mu, F S F' + sigma^2/t) and the constant of tempering."""
        mean, variance = self._head(phi)
        rows = tasks.x.reshape(-1, tasks.x.shape[-1])
        features = self.net.features(h["net"], rows).reshape(*tasks.mask.shape, -1)

        def of_task(features, y, mask, beta):
            gram = jnp.einsum("mp,lp->ml", features * variance, features)
            return tempered_log_normal(
                y - features @ mean, gram, mask, h["own"]["log_noise"], likelihood_power(mask, beta)
            )

        return jax.vmap(of_task)(features, tasks.y, tasks.mask, betas)

    def predictor(self, phis: Params, hypotheses: Params, data: Dataset, beta: Scalar) -> LastLayerPredictor:
        """The hidden networks, and the last layer given each under the one prior there is."""
        mean, variance = (part[0] for part in jax.vmap(self._head)(phis))
        power = likelihood_power(data.mask, beta)
        condition = jax.vmap(lambda h: self._posterior(mean, variance, h, data, power))
        return LastLayerPredictor(self.net, hypotheses, *condition(hypotheses))

    def _posterior(self, mean: Array, variance: Array, h: Params, data: Dataset, power: Scalar) -> tuple[Array, Array]:
        """Mean and factor of the last layer's weights: ridge regression on the features, in units of the prior."""
        precision = power * jnp.exp(-2 * h["own"]["log_noise"])
        features = jnp.where(data.mask[:, None], self.net.features(h["net"], data.x), 0.0)
        scaled = features * jnp.sqrt(variance)
        inverse = jnp.eye(len(mean)) + precision * scaled.T @ scaled
        lower = cholesky(inverse)
        half = jax.scipy.linalg.solve_triangular(lower, jnp.eye(len(mean)), lower=True)
        residual = jnp.where(data.mask, data.y - features @ mean, 0.0)
        change = half.T @ (half @ (precision * scaled.T @ residual))
        return mean + jnp.sqrt(variance) * change, jnp.sqrt(variance)[:, None] * half.T

    def _head(self, phi: Params) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Means and variances of the last layer's weights and bias under P_phi."""
        loc, sd = (self.net.head(part["net"][-1])[:, 0] for part in self.weights.place(phi))
        return loc, sd**2
