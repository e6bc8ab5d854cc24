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
from pacoh.predictive import AbstractPredictive
from pacoh.priors.base import AbstractPredictor, leading, likelihood_power
from pacoh.priors.bnn import AbstractDrawnPrior, adaptation
from pacoh.priors.gaussian import cholesky, tempered_log_linear, tempered_log_normal
from pacoh.priors.likelihoods import AbstractGaussian, GaussianNoise
from pacoh.priors.nets import MLP, AbstractHeaded
from pacoh.priors.weights import AbstractWeights, DiagonalGaussian
from pacoh.types import Key, Params, Scalar


class LastLayerPredictor(AbstractPredictor):
    """J hidden networks, each with the exact posterior of its last layer."""

    net: AbstractHeaded
    likelihood: AbstractGaussian
    hypotheses: Params
    mean: Float[Array, "J o p"]
    factor: Float[Array, "J o p p"]  # of the covariance of the last layer's weights

    def __call__(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """Of y."""
        return self.likelihood.marginal(*self._outputs(x), self._noise())

    def latent(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """Of f."""
        return self.likelihood.latent_marginal(*self._outputs(x), self._noise())

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Array]:
        """One hidden network with one draw of its last layer."""
        key_which, key_weights = jax.random.split(key)
        chosen = jax.random.randint(key_which, (), 0, leading(self.hypotheses))
        net = jax.tree.map(lambda leaf: leaf[chosen], self.hypotheses["net"])
        noise = jax.random.normal(key_weights, self.mean.shape[1:])
        weights = self.mean[chosen] + jnp.einsum("opr,or->op", self.factor[chosen], noise)
        return lambda x: self.likelihood.function(self.net.features(net, x) @ weights.T)

    def _outputs(self, x: Array) -> tuple[Float[Array, "J q o"], Float[Array, "J q o"]]:
        """Mean and variance of the outputs."""
        features = jax.vmap(lambda h: self.net.features(h["net"], x))(self.hypotheses)
        loc = jnp.einsum("jqp,jop->jqo", features, self.mean)
        return loc, (jnp.einsum("jqp,jopr->jqor", features, self.factor) ** 2).sum(-1)

    def _noise(self) -> Float[Array, " J"]:
        return jnp.exp(2 * self.hypotheses["own"]["log_noise"])


class LastLayerBNN(AbstractDrawnPrior):
    """The Gaussian prior over a network's weights with Gaussian noise, its last layer never drawn.

    Given the hidden layers and the noise, the targets are Gaussian: exp(-beta Lh) is integrated over the last layer
    exactly, so the L draws need only find hidden layers that suit a task.
    """

    net: AbstractHeaded = MLP()
    likelihood: AbstractGaussian = GaussianNoise()
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
        return self.weights.specs({"net": self.net.specs(d, self.likelihood.outputs), "own": self.likelihood.specs()})

    def drawn(self, phi: Params) -> Params:
        """All but the last layer's."""
        return {part: {"net": phi[part]["net"][:-1], "own": phi[part]["own"]} for part in phi}

    def log_weights(self, phi: Params, h: Params, tasks: Dataset, betas: Float[Array, " n"]) -> Float[Array, " n"]:
        """ln E exp(-beta Lh) over the last layer: ln N(y; F mu, F S F' + sigma^2/t) and the constant of tempering.

        Of several outputs, which are independent given the hidden layers, the sum.
        """
        means, variances = self._head(phi)
        rows = tasks.x.reshape(-1, tasks.x.shape[-1])
        features = self.net.features(h["net"], rows).reshape(*tasks.mask.shape, -1)

        def of_task(features, y, mask, beta):
            def of_output(target, mean, variance):
                residual, power = target - features @ mean, likelihood_power(mask, beta)
                if len(features) > features.shape[-1]:
                    scaled = features * jnp.sqrt(variance)
                    return tempered_log_linear(residual, scaled, mask, h["own"]["log_noise"], power)
                gram = jnp.einsum("mp,lp->ml", features * variance, features)
                return tempered_log_normal(residual, gram, mask, h["own"]["log_noise"], power)

            return jax.vmap(of_output)(self.likelihood.targets(y).T, means, variances).sum()

        return jax.vmap(of_task)(features, tasks.y, tasks.mask, betas)

    def predictor(self, phis: Params, hypotheses: Params, data: Dataset, beta: Scalar) -> LastLayerPredictor:
        """The hidden networks, and the last layer given each under the one prior there is."""
        means, variances = (part[0] for part in jax.vmap(self._head)(phis))
        power = likelihood_power(data.mask, beta)
        targets = self.likelihood.targets(data.y).T

        def condition(h):
            return jax.vmap(lambda mean, variance, y: self._posterior(mean, variance, h, data, y, power))(
                means, variances, targets
            )

        return LastLayerPredictor(self.net, self.likelihood, hypotheses, *jax.vmap(condition)(hypotheses))

    def _posterior(
        self, mean: Array, variance: Array, h: Params, data: Dataset, y: Array, power: Scalar
    ) -> tuple[Array, Array]:
        """Mean and factor of an output's weights: ridge regression on the features, in units of the prior."""
        precision = power * jnp.exp(-2 * h["own"]["log_noise"])
        features = jnp.where(data.mask[:, None], self.net.features(h["net"], data.x), 0.0)
        scaled = features * jnp.sqrt(variance)
        inverse = jnp.eye(len(mean)) + precision * scaled.T @ scaled
        lower = cholesky(inverse)
        half = jax.scipy.linalg.solve_triangular(lower, jnp.eye(len(mean)), lower=True)
        residual = jnp.where(data.mask, y - features @ mean, 0.0)
        change = half.T @ (half @ (precision * scaled.T @ residual))
        return mean + jnp.sqrt(variance) * change, jnp.sqrt(variance)[:, None] * half.T

    def _head(self, phi: Params) -> tuple[Float[Array, "o p"], Float[Array, "o p"]]:
        """Means and variances of the last layer's weights and biases under P_phi, output by output."""
        loc, sd = (self.net.head(part["net"][-1]).T for part in self.weights.place(phi))
        return loc, sd**2
