"""Networks that predict a number or a class, and nothing of how sure they are."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from pacoh.categorical import PointClass
from pacoh.predictive import AbstractPredictive, Point
from pacoh.priors.base import AbstractPredictor
from pacoh.priors.likelihoods import Categorical
from pacoh.priors.nets import AbstractNet
from pacoh.types import Key, Params


class AbstractLoss(eqx.Module):
    """What a network's outputs cost, and the point that they predict."""

    outputs: eqx.AbstractVar[int]

    @abc.abstractmethod
    def each(self, out: Float[Array, "m o"], y: Num[Array, " m"]) -> Float[Array, " m"]:
        """The loss, point by point."""

    @abc.abstractmethod
    def predictive(self, out: Float[Array, "q o"]) -> AbstractPredictive:
        """The prediction, without a distribution."""

    @abc.abstractmethod
    def function(self, out: Float[Array, "q o"]) -> Array:
        """f at the query points."""


class Squared(AbstractLoss):
    """(y - f(x))^2."""

    outputs: int = eqx.field(static=True, default=1)

    def each(self, out: Float[Array, "m o"], y: Num[Array, " m"]) -> Float[Array, " m"]:
        """(y - f)^2."""
        return (y - out[:, 0]) ** 2

    def predictive(self, out: Float[Array, "q o"]) -> Point:
        """f."""
        return Point(out[:, 0])

    def function(self, out: Float[Array, "q o"]) -> Float[Array, " q"]:
        """f."""
        return out[:, 0]


class CrossEntropy(AbstractLoss):
    """-ln softmax(f(x))_y over `outputs` classes. Its softmax was trained as a loss: no probability is claimed."""

    outputs: int = eqx.field(static=True)

    def each(self, out: Float[Array, "m o"], y: Num[Array, " m"]) -> Float[Array, " m"]:
        """-ln softmax(f)_y."""
        return -Categorical(self.outputs).log_prob({}, out, y)

    def predictive(self, out: Float[Array, "q o"]) -> PointClass:
        """The class of the largest output."""
        return PointClass(jnp.argmax(out, -1))

    def function(self, out: Float[Array, "q o"]) -> Float[Array, "q o"]:
        """The softmax."""
        return jax.nn.softmax(out)


class PointPredictor(AbstractPredictor):
    """One network."""

    net: AbstractNet
    loss: AbstractLoss
    weights: Params

    def __call__(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """The prediction."""
        return self.loss.predictive(self.net(self.weights, x))

    def latent(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """The same: a point has no noise to take away."""
        return self(x)

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Array]:
        """The one function there is."""
        del key
        return lambda x: self.loss.function(self.net(self.weights, x))
