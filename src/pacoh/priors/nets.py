"""Networks as plain functions of a parameter tree."""

import abc
import itertools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.errors import PacohError
from pacoh.priors.base import Param
from pacoh.types import Params

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "sin": jnp.sin,
}


_FEW = 8  # rows


class AbstractNet(eqx.Module):
    """A network for any number of inputs and outputs."""

    @abc.abstractmethod
    def specs(self, d: int, out: int) -> Any:
        """The tree of Param of its weights."""

    @abc.abstractmethod
    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, "m out"]:
        """The outputs at the rows of x."""

    def alone(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, "m out"]:
        """The same for parameters that serve these rows and no others, which may make for cheaper derivatives."""
        return self(params, x)


class AbstractHeaded(AbstractNet):
    """A network whose last layer is linear, and the last entry of its parameters."""

    @abc.abstractmethod
    def features(self, hidden: Params, x: Float[Array, "m d"]) -> Float[Array, "m p"]:
        """What the last layer sees, and a one for its bias."""

    def head(self, last: Params) -> Float[Array, "p out"]:
        """The last layer's weights in the order of the features."""
        return jnp.concatenate([last["w"], last["b"][None]])


def _shared_product(x: Float[Array, "m d"], w: Float[Array, "d out"]) -> Float[Array, "m out"]:
    """xw for many rows. Of one input it is no product of matrices, whose rows XLA would lay out last (CPU)."""
    return x * w if x.shape[-1] == 1 else x @ w


def _alone(rows: int) -> Callable[[Array, Array], Array]:
    """The product for weights that serve so many rows and no others."""
    return _own_product if rows <= _FEW else jnp.matmul


@jax.custom_vjp
def _own_product(x: Float[Array, "m d"], w: Float[Array, "d out"]) -> Float[Array, "m out"]:
    """xw for few rows. The derivative for w is a sum of outer products: XLA's product takes ten times as long (CPU)."""
    return x @ w


def _own_product_forward(x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return _own_product(x, w), (x, w)


def _own_product_backward(kept: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    x, w = kept
    return slope @ w.T, (x[:, :, None] * slope[:, None]).sum(0)


_own_product.defvjp(_own_product_forward, _own_product_backward)


class MLP(AbstractHeaded):
    """A network with the given hidden widths.

    `reach` is how finely it starts to look at its inputs: the sd of the first layer's weights and biases. A Glorot
    start is nearly linear on few inputs, and training then finds fine structure late or never.

    `waves` sine units of the inputs may stand beside the deep part, seen by the last layer alone. Random sines with
    Gaussian weights are a smooth random function: they give a prior over networks the means to differ locally from
    task to task, which deep features learned for what tasks have in common do not. `length` is the length-scale about
    which theirs are sought, in standardised inputs. Distances grow with the root of the number of inputs, and so should
    it: waves much shorter than the distances between points are noise.
    """

    widths: tuple[int, ...] = eqx.field(static=True, default=(32, 32, 32, 32))
    activation: str = eqx.field(static=True, default="tanh")
    reach: float = eqx.field(static=True, default=1.0)
    waves: int = eqx.field(static=True, default=0)
    length: float = eqx.field(static=True, default=0.5)

    def __check_init__(self):
        if self.activation not in ACTIVATIONS:
            raise PacohError(f"An activation is one of {', '.join(ACTIVATIONS)}; got {self.activation!r}.")
        if self.waves and not self.widths:
            raise PacohError("Sine units stand beside hidden layers: give the network one or more, or no waves.")

    def specs(self, d: int, out: int) -> list[dict[str, Param]]:
        """A weight matrix and a bias a layer: groups "input" (the first layer), "weight" and "bias" (the others).

        With waves, "wave" (frequencies and phases), "length" (log length-scales) and "share" (their output weights).
        """
        first = self.widths[0] if self.widths else out
        layers = [
            {
                "w": Param((d, first), "input", unit=d**-0.5, start=self.reach),
                "b": Param((first,), "input", start=self.reach if self.widths else 0.0),
            }
        ]
        for fan_in, fan_out in itertools.pairwise((*self.widths, out) if self.widths else ()):
            glorot = (2 * fan_in / (fan_in + fan_out)) ** 0.5
            weights = Param((fan_in, fan_out), "weight", unit=fan_in**-0.5, start=glorot)
            layers.append({"w": weights, "b": Param((fan_out,), "bias")})
        if self.waves:
            layers[0] |= {
                "frequency": Param((d, self.waves), "wave", start=1.0),
                "phase": Param((self.waves,), "wave", start=math.pi),
                "log_length": Param((d,), "length", loc=math.log(self.length)),
            }
            layers[-1] |= {"share": Param((self.waves, out), "share", unit=(2 / self.waves) ** 0.5)}
        return layers

    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, "m out"]:
        """The outputs at the rows of x."""
        return self._outputs(params, x, _shared_product)

    def alone(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, "m out"]:
        """The same, with products that suit few rows."""
        return self._outputs(params, x, _alone(len(x)))

    def features(self, hidden: Params, x: Float[Array, "m d"]) -> Float[Array, "m p"]:
        """What the last layer sees, and a one for its bias; of parameters that serve these rows alone."""
        deep = self._deep(hidden, x, _alone(len(x)))
        waves = [self._waves(hidden, x)] if self.waves else []
        return jnp.concatenate([deep, jnp.ones_like(deep[:, :1]), *waves], -1)

    def head(self, last: Params) -> Float[Array, "p out"]:
        """The last layer's weights in the order of the features."""
        return jnp.concatenate([super().head(last), *([last["share"]] if self.waves else [])])

    def _outputs(self, params: Params, x: Array, product: Callable[[Array, Array], Array]) -> Array:
        *hidden, last = params
        out = product(self._deep(hidden, x, product), last["w"]) + last["b"]
        return out + self._waves(hidden, x) @ last["share"] if self.waves else out

    def _deep(self, layers: Params, x: Array, product: Callable[[Array, Array], Array]) -> Array:
        activate = ACTIVATIONS[self.activation]
        for layer in layers:
            x = activate(product(x, layer["w"]) + layer["b"])
        return x

    def _waves(self, layers: Params, x: Array) -> Array:
        first = layers[0]
        return jnp.sin((x * jnp.exp(-first["log_length"])) @ first["frequency"] + first["phase"])


class Skipping(AbstractHeaded):
    """A network whose last layer sees the inputs, too: beyond what the tasks showed it goes on along a line.

    The slopes start at zero and share the group and the hyper-prior of the other weights.
    """

    inner: AbstractHeaded

    def specs(self, d: int, out: int) -> Any:
        """Those of the inner network, and the slopes in its last layer."""
        *hidden, last = self.inner.specs(d, out)
        return [*hidden, {**last, "slope": Param((d, out), "weight", unit=d**-0.5)}]

    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, "m out"]:
        """The outputs at the rows of x."""
        return self.inner(params, x) + x @ params[-1]["slope"]

    def alone(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, "m out"]:
        """The same, with products that suit few rows."""
        return self.inner.alone(params, x) + _alone(len(x))(x, params[-1]["slope"])

    def features(self, hidden: Params, x: Float[Array, "m d"]) -> Float[Array, "m p"]:
        """What the last layer of the inner network sees, and the inputs."""
        return jnp.concatenate([self.inner.features(hidden, x), x], -1)

    def head(self, last: Params) -> Float[Array, "p out"]:
        """The last layer's weights in the order of the features."""
        return jnp.concatenate([self.inner.head(last), last["slope"]])
