"""Mean functions of Gaussian processes."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.priors.base import Param
from pacoh.priors.nets import MLP
from pacoh.types import Params


class AbstractMean(eqx.Module):
    """A mean function with parameters."""

    @abc.abstractmethod
    def specs(self, d: int) -> Any:
        """The tree of Param for d inputs."""

    @abc.abstractmethod
    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The mean at the rows of x."""


class Constant(AbstractMean):
    """m(x) = c."""

    def specs(self, d: int) -> Any:
        """One number."""
        del d
        return {"constant": Param((), "mean")}

    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The constant at each row."""
        return params["constant"] + 0 * x[:, 0]


class LinearMean(AbstractMean):
    """m(x) = c + a'x."""

    def specs(self, d: int) -> Any:
        """Intercept and slopes."""
        return {"constant": Param((), "mean"), "slope": Param((d,), "mean", unit=d**-0.5)}

    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The line at each row."""
        return params["constant"] + x @ params["slope"]


class Network(AbstractMean):
    """m(x) is a network's output."""

    net: MLP = MLP()

    def specs(self, d: int) -> Any:
        """The network's parameters."""
        return self.net.specs(d, 1)

    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The output at each row."""
        return self.net(params, x)[:, 0]


class Basins(AbstractMean):
    """m(x) = sum_k height_k exp(-1/2 sum_j ((x_j - centre_kj) / length_kj)^2): basins and hills."""

    count: int = eqx.field(static=True, default=6)

    def specs(self, d: int) -> Any:
        """Of each: where it lies, how wide it is along each input, how high (a basin: below zero)."""
        return {
            "centre": Param((self.count, d), "basin", unit=1.4),
            "log_length": Param((self.count, d), "basin", unit=0.8),
            "height": Param((self.count,), "basin", unit=3.0),
        }

    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The sum at each row."""
        away = (x[:, None] - params["centre"]) * jnp.exp(-params["log_length"])
        return jnp.exp(-0.5 * (away**2).sum(-1)) @ params["height"]


class SumMean(AbstractMean):
    """m_1(x) + m_2(x) + ..."""

    parts: tuple[AbstractMean, ...]

    def specs(self, d: int) -> Any:
        """The parts' parameters."""
        return [part.specs(d) for part in self.parts]

    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The sum at each row."""
        values = [part(p, x) for part, p in zip(self.parts, params, strict=True)]
        return sum(values[1:], values[0])
