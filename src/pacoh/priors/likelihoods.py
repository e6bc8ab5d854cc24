"""What a network's outputs say about y."""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from pacoh.categorical import CategoricalMixture
from pacoh.predictive import AbstractPredictive, GaussianMixture
from pacoh.priors.base import Param
from pacoh.types import Params

_SHARP = 1e-6  # the sd of a function's value, which has none


class AbstractLikelihood(eqx.Module):
    """p(y | outputs, own), with parameters of its own that are part of the hypothesis."""

    outputs: eqx.AbstractVar[int]

    @abc.abstractmethod
    def specs(self) -> dict[str, Param]:
        """The tree of Param of its own parameters."""

    @abc.abstractmethod
    def log_prob(self, own: Params, out: Float[Array, "m o"], y: Num[Array, " m"]) -> Float[Array, " m"]:
        """ln p(y | outputs), point by point."""

    @abc.abstractmethod
    def predictive(self, own: Params, out: Float[Array, "J q o"]) -> AbstractPredictive:
        """Of y: the mixture over J hypotheses (`own` has a leading axis J, too)."""

    @abc.abstractmethod
    def latent(self, own: Params, out: Float[Array, "J q o"]) -> AbstractPredictive:
        """Of f: the spread over the hypotheses alone."""

    @abc.abstractmethod
    def function(self, out: Float[Array, "q o"]) -> Array:
        """f at the query points, from one hypothesis' outputs."""


class AbstractGaussian(AbstractLikelihood):
    """Targets that are the outputs with normal noise of one sd: a linear last layer can be integrated out.

    `noise` is the sd about which its log is learned, `unit` how far it moves.
    """

    noise: eqx.AbstractVar[float]
    unit: eqx.AbstractVar[float]

    def specs(self) -> dict[str, Param]:
        """The log noise sd."""
        return {"log_noise": Param((), "noise", loc=math.log(self.noise), unit=self.unit)}

    @abc.abstractmethod
    def targets(self, y: Num[Array, " m"]) -> Float[Array, "m o"]:
        """What the outputs are to be."""

    @abc.abstractmethod
    def marginal(
        self, loc: Float[Array, "J q o"], variance: Float[Array, "J q o"], noise: Float[Array, " J"]
    ) -> AbstractPredictive:
        """Of y, where the outputs are normal given each hypothesis; `noise` is the variance of the targets."""

    def latent_marginal(
        self, loc: Float[Array, "J q o"], variance: Float[Array, "J q o"], noise: Float[Array, " J"]
    ) -> AbstractPredictive:
        """Of f: the same without noise."""
        return self.marginal(loc, variance, jnp.zeros_like(noise))


class GaussianNoise(AbstractGaussian):
    """y = f + noise, in learner units."""

    noise: float = eqx.field(static=True, default=0.2)
    outputs: int = eqx.field(static=True, default=1)
    unit: float = eqx.field(static=True, default=1.0)

    def targets(self, y: Num[Array, " m"]) -> Float[Array, "m o"]:
        """y itself."""
        return y[:, None]

    def marginal(
        self, loc: Float[Array, "J q o"], variance: Float[Array, "J q o"], noise: Float[Array, " J"]
    ) -> GaussianMixture:
        """One normal a hypothesis."""
        total = jnp.maximum(variance[..., 0] + noise[:, None], jnp.finfo(loc.dtype).tiny)
        return GaussianMixture(loc[..., 0], jnp.sqrt(total))

    def log_prob(self, own: Params, out: Float[Array, "m o"], y: Num[Array, " m"]) -> Float[Array, " m"]:
        """ln N(y; f, sigma^2)."""
        z = (y - out[:, 0]) * jnp.exp(-own["log_noise"])
        return -0.5 * z**2 - own["log_noise"] - 0.5 * math.log(2 * math.pi)

    def predictive(self, own: Params, out: Float[Array, "J q o"]) -> GaussianMixture:
        """One normal a hypothesis."""
        loc = out[..., 0]
        return GaussianMixture(loc, jnp.broadcast_to(jnp.exp(own["log_noise"])[:, None], loc.shape))

    def latent(self, own: Params, out: Float[Array, "J q o"]) -> GaussianMixture:
        """One value a hypothesis."""
        del own
        return GaussianMixture(out[..., 0], jnp.full_like(out[..., 0], _SHARP))

    def function(self, out: Float[Array, "q o"]) -> Float[Array, " q"]:
        """The output itself."""
        return out[:, 0]


class Categorical(AbstractLikelihood):
    """y is one of `outputs` classes, its probabilities the softmax of the outputs."""

    outputs: int = eqx.field(static=True)

    def specs(self) -> dict[str, Param]:
        """Nothing."""
        return {}

    def log_prob(self, own: Params, out: Float[Array, "m o"], y: Num[Array, " m"]) -> Float[Array, " m"]:
        """ln softmax(outputs)_y, written without an index: a gather is slower."""
        del own
        return (jax.nn.one_hot(y, self.outputs, dtype=out.dtype) * jax.nn.log_softmax(out)).sum(-1)

    def predictive(self, own: Params, out: Float[Array, "J q o"]) -> CategoricalMixture:
        """One categorical a hypothesis."""
        del own
        return CategoricalMixture(out)

    def latent(self, own: Params, out: Float[Array, "J q o"]) -> CategoricalMixture:
        """The same: the classes' probabilities are all that the hypotheses differ in."""
        return self.predictive(own, out)

    def function(self, out: Float[Array, "q o"]) -> Float[Array, "q o"]:
        """The classes' probabilities."""
        return jax.nn.softmax(out)


class Coded(AbstractGaussian):
    """y is one of `outputs` classes; its code e_y (a one among zeros) is the outputs with normal noise.

    As sums of squares stand in for the categorical likelihood in least-squares classification: a class is as probable
    as its code is dense, p(c) ~ N(e_c; outputs, sigma^2). The last layer has a closed-form posterior then, and what the
    layers below are worth to a task whose labels mean nothing to another can be learned.
    """

    outputs: int = eqx.field(static=True)
    noise: float = eqx.field(static=True, default=0.3)
    unit: float = eqx.field(static=True, default=1.0)

    def targets(self, y: Num[Array, " m"]) -> Float[Array, "m o"]:
        """The codes."""
        return jax.nn.one_hot(y, self.outputs)

    def log_prob(self, own: Params, out: Float[Array, "m o"], y: Num[Array, " m"]) -> Float[Array, " m"]:
        """ln N(e_y; outputs, sigma^2 I)."""
        z = (self.targets(y) - out) * jnp.exp(-own["log_noise"])
        return -0.5 * (z**2).sum(-1) - self.outputs * (own["log_noise"] + 0.5 * math.log(2 * math.pi))

    def predictive(self, own: Params, out: Float[Array, "J q o"]) -> CategoricalMixture:
        """One categorical a hypothesis."""
        return self.marginal(out, jnp.zeros_like(out), jnp.exp(2 * own["log_noise"]))

    def latent(self, own: Params, out: Float[Array, "J q o"]) -> CategoricalMixture:
        """The same: the classes' probabilities are all that the hypotheses differ in."""
        return self.predictive(own, out)

    def marginal(
        self, loc: Float[Array, "J q o"], variance: Float[Array, "J q o"], noise: Float[Array, " J"]
    ) -> CategoricalMixture:
        """ln N(e_c; loc, variance + noise) up to what classes share: (loc_c - 1/2) / (variance_c + noise)."""
        return CategoricalMixture((loc - 0.5) / (variance + noise[:, None, None]))

    def latent_marginal(
        self, loc: Float[Array, "J q o"], variance: Float[Array, "J q o"], noise: Float[Array, " J"]
    ) -> CategoricalMixture:
        """The same: the classes' probabilities."""
        return self.marginal(loc, variance, noise)

    def function(self, out: Float[Array, "q o"]) -> Float[Array, "q o"]:
        """The classes' probabilities, at the noise that is expected before any is learned."""
        return jax.nn.softmax(out / self.noise**2)
