"""Fully connected networks as plain functions of a parameter tree."""

import itertools
from collections.abc import Callable

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


class MLP(eqx.Module):
    """A network with the given hidden widths.

    `reach` is how finely it starts to look at its inputs: the sd of the first layer's weights and biases. A Glorot
    start is nearly linear on few inputs, and training then finds fine structure late or never.
    """

    widths: tuple[int, ...] = eqx.field(static=True, default=(32, 32, 32, 32))
    activation: str = eqx.field(static=True, default="tanh")
    reach: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        if self.activation not in ACTIVATIONS:
            raise PacohError(f"An activation is one of {', '.join(ACTIVATIONS)}; got {self.activation!r}.")

    def specs(self, d: int, out: int) -> list[dict[str, Param]]:
        """A weight matrix and a bias a layer: groups "input" (the first layer), "weight" and "bias" (the others)."""
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
        return layers

    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, "m out"]:
        """The outputs at the rows of x."""
        activate = ACTIVATIONS[self.activation]
        *hidden, last = params
        for layer in hidden:
            x = activate(x @ layer["w"] + layer["b"])
        return x @ last["w"] + last["b"]
