"""A Bayesian network whose last layer is integrated out in closed form: the same prior, a far better evidence."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
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

_HEAD = 5.0  # the sd of exchangeable outputs' weights at the start, by that of other weights


class ByWeights(eqx.Module):
    """A root of the covariance of p weights: S^{1/2} C^{-T}, CC' = I + P'P, P the scaled points."""

    sd: Float[Array, " p"]
    inverse: Float[Array, "p p"]

    @staticmethod
    def of(
        scaled: Float[Array, "m p"], residual: Float[Array, " m"], sd: Float[Array, " p"]
    ) -> tuple["ByWeights", Array]:
        """The root, and the weights' mean less that of the prior."""
        size = scaled.shape[-1]
        lower = cholesky(jnp.eye(size) + scaled.T @ scaled)
        inverse = solve_triangular(lower, jnp.eye(size), lower=True)
        return ByWeights(sd, inverse), sd * (inverse.T @ (inverse @ (scaled.T @ residual)))

    def __call__(self, z: Float[Array, " p"]) -> Float[Array, " p"]:
        """The root times a vector."""
        return self.sd * (self.inverse.T @ z)

    def variances(self, features: Float[Array, "q p"]) -> Float[Array, " q"]:
        """Of the output at each row of features."""
        return (((features * self.sd) @ self.inverse.T) ** 2).sum(-1)


class ByPoints(eqx.Module):
    """The same for fewer points than weights: S^{1/2} (I - P' L^{-T} (I + L)^{-1} P), LL' = I + PP'.

    Its square is S^{1/2} (I - P'(I + PP')^{-1} P) S^{1/2}, and nothing large is subtracted from a variance. Rows of
    zeros change nothing.
    """

    sd: Float[Array, " p"]
    left: Float[Array, "m p"]
    right: Float[Array, "m p"]

    @staticmethod
    def of(
        scaled: Float[Array, "m p"], residual: Float[Array, " m"], sd: Float[Array, " p"]
    ) -> tuple["ByPoints", Array]:
        """The root, and the weights' mean less that of the prior."""
        size = len(scaled)
        lower = cholesky(jnp.eye(size) + scaled @ scaled.T)
        left = solve_triangular(lower, scaled, lower=True)
        right = solve_triangular(lower + jnp.eye(size), scaled, lower=True)
        return ByPoints(sd, left, right), sd * (left.T @ solve_triangular(lower, residual, lower=True))

    def __call__(self, z: Float[Array, " p"]) -> Float[Array, " p"]:
        """The root times a vector."""
        return self.sd * (z - self.left.T @ (self.right @ z))

    def variances(self, features: Float[Array, "q p"]) -> Float[Array, " q"]:
        """Of the output at each row of features."""
        scaled = features * self.sd
        return ((scaled - (scaled @ self.left.T) @ self.right) ** 2).sum(-1)


class LastLayerPredictor(AbstractPredictor):
    """J hidden networks, each with the exact posterior of its last layer: a mean, and a root of the covariance.

    Leaves of `roots` have the axes (J, s), s being o, or 1 where all outputs have one covariance.
    """

    net: AbstractHeaded
    likelihood: AbstractGaussian
    hypotheses: Params
    mean: Float[Array, "J o p"]
    roots: ByWeights | ByPoints

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
        roots = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[chosen], (len(noise), *leaf.shape[2:])), self.roots)
        weights = self.mean[chosen] + jax.vmap(lambda root, z: root(z))(roots, noise)
        return lambda x: self.likelihood.function(self.net.features(net, x) @ weights.T)

    def _outputs(self, x: Array) -> tuple[Float[Array, "J q o"], Float[Array, "J q o"]]:
        """Mean and variance of the outputs."""
        features = jax.vmap(lambda h: self.net.features(h["net"], x))(self.hypotheses)
        loc = jnp.einsum("jqp,jop->jqo", features, self.mean)
        of_outputs = jax.vmap(lambda root, rows: root.variances(rows), (0, None), 1)
        return loc, jnp.broadcast_to(jax.vmap(of_outputs)(self.roots, features), loc.shape)

    def _noise(self) -> Float[Array, " J"]:
        return jnp.exp(2 * self.hypotheses["own"]["log_noise"])


class LastLayerBNN(AbstractDrawnPrior):
    """The Gaussian prior over a network's weights with Gaussian noise, its last layer never drawn.

    Given the hidden layers and the noise, the targets are Gaussian: exp(-beta Lh) is integrated over the last layer
    exactly, so the L draws need only find hidden layers that suit a task.

    Outputs that are `exchangeable`, as classes whose labels are each task's own, share one mean and one sd for each
    feature. With means of their own the meta-train tasks teach which label comes with which of their drawings, and
    nothing that helps the next task. The last layer's means start at zero then, its sds at five times the others'.
    """

    net: AbstractHeaded = MLP()
    likelihood: AbstractGaussian = GaussianNoise()
    weights: AbstractWeights = eqx.field(default_factory=DiagonalGaussian)
    adaptation: AbstractInference = eqx.field(default_factory=adaptation)
    draws: int = eqx.field(static=True, default=10)
    points: int | None = eqx.field(static=True, default=None)
    average: bool = eqx.field(static=True, default=False)
    coupled: bool = eqx.field(static=True, default=False)
    exchangeable: bool = eqx.field(static=True, default=False)

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
        net = self.net.specs(d, 1 if self.exchangeable else self.likelihood.outputs)
        if not self.exchangeable:
            return self.weights.specs({"net": net, "own": self.likelihood.specs()})
        net = [*net[:-1], {name: replace(param, start=0.0) for name, param in net[-1].items()}]
        specs = self.weights.specs({"net": net, "own": self.likelihood.specs()})
        levels = specs["level"]["net"]
        levels[-1] = {name: replace(param, loc=math.log(_HEAD)) for name, param in levels[-1].items()}
        return specs

    def drawn(self, phi: Params) -> Params:
        """All but the last layer's."""
        return {part: {"net": phi[part]["net"][:-1], "own": phi[part]["own"]} for part in phi}

    def log_weights(self, phi: Params, h: Params, tasks: Dataset, betas: Float[Array, " n"]) -> Float[Array, " n"]:
        """ln E exp(-beta Lh) over the last layer: ln N(y; F mu, F S F' + sigma^2/t) and the constant of tempering.

        Of several outputs, which are independent given the hidden layers, the sum.
        """
        head, axes = self._head(phi)
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

            targets = self.likelihood.targets(y).T
            if len(targets) == 1:  # without an axis of one: jaxlib 0.10.2 crashes on sums of arrays of many such axes
                return of_output(
                    targets[0], *(part if axis is None else part[0] for part, axis in zip(head, axes, strict=True))
                )
            return jax.vmap(of_output, (0, *axes))(targets, *head).sum()

        return jax.vmap(of_task)(features, tasks.y, tasks.mask, betas)

    def predictor(self, phis: Params, hypotheses: Params, data: Dataset, beta: Scalar) -> LastLayerPredictor:
        """The hidden networks, and the last layer given each under the one prior there is."""
        head, axes = self._head(jax.tree.map(lambda leaf: leaf[0], phis))
        power = likelihood_power(data.mask, beta)
        targets = self.likelihood.targets(data.y).T

        def condition(h):
            features = jnp.where(data.mask[:, None], self.net.features(h["net"], data.x), 0.0)
            weight = jnp.sqrt(power) * jnp.exp(-h["own"]["log_noise"])
            kind = ByPoints if len(features) < features.shape[-1] else ByWeights

            def of_output(y, mean, variance):
                sd, residual = jnp.sqrt(variance), jnp.where(data.mask, y - features @ mean, 0.0)
                root, change = kind.of(weight * features * sd, weight * residual, sd)
                return mean + change, root

            mean, root = jax.vmap(of_output, (0, *axes), (0, axes[0]))(targets, *head)
            return mean, jax.tree.map(lambda leaf: leaf[None], root) if self.exchangeable else root

        return LastLayerPredictor(self.net, self.likelihood, hypotheses, *jax.vmap(condition)(hypotheses))

    def _head(self, phi: Params) -> tuple[tuple[Array, Array], tuple[int | None, int | None]]:
        """Means and variances of the last layer's weights and biases under P_phi, and their axes of outputs.

        Of exchangeable outputs there is none: all have the same covariance then, which is factorised once.
        """
        loc, sd = (self.net.head(part["net"][-1]).T for part in self.weights.place(phi))
        return ((loc[0], sd[0] ** 2), (None, None)) if self.exchangeable else ((loc, sd**2), (0, 0))
