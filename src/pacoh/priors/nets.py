"""Fully connected networks as plain functions of a parameter tree."""

import itertools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.priors.base import Param
from pacoh.types import PacohError, Params

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "sin": jnp.sin,
}


class MLP(eqx.Module):
    """A network with the given hidden widths."""

    widths: tuple[int, ...] = eqx.field(static=True, default=(32, 32, 32, 32))
    activation: str = eqx.field(static=True, default="tanh")

    def __check_init__(self):
        if self.activation not in ACTIVATIONS:
            raise PacohError(f"An activation is one of {', '.join(ACTIVATIONS)}; got {self.activation!r}.")

    def specs(self, d: int, out: int) -> list[dict[str, Param]]:
        """A weight matrix and a bias a layer; weights start as Glorot normals, biases at zero."""
        sizes = (d, *self.widths, out)
        return [
            {
                "w": Param(
                    (fan_in, fan_out), "weight", unit=fan_in**-0.5, start=(2 * fan_in / (fan_in + fan_out)) ** 0.5
                ),
                "b": Param((fan_out,), "bias"),
            }
            for fan_in, fan_out in itertools.pairwise(sizes)
        ]

    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, "m out"]:
        """The outputs at the rows of x."""
        activate = ACTIVATIONS[self.activation]
        *hidden, last = params
        for layer in hidden:
            x = activate(x @ layer["w"] + layer["b"])
        return x @ last["w"] + last["b"]
