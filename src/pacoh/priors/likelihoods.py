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


class GaussianNoise(AbstractLikelihood):
    """y = f + noise; `noise` is the sd about which its log is learned, in learner units, `unit` how far it moves."""

    noise: float = eqx.field(static=True, default=0.2)
    outputs: int = eqx.field(static=True, default=1)
    unit: float = eqx.field(static=True, default=1.0)

    def specs(self) -> dict[str, Param]:
        """The log noise sd."""
        return {"log_noise": Param((), "noise", loc=math.log(self.noise), unit=self.unit)}

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
