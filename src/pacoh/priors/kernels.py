"""Covariance functions: SE, Matern and linear with a length-scale an input, their sums, products and network warps."""

import abc
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.errors import PacohError
from pacoh.priors.base import Param
from pacoh.priors.nets import MLP
from pacoh.types import Params, Scalar

_BROADCAST_LIMIT = 8  # up to this many inputs, differences are formed one by one: exact for near-by points
_TURN = 2 * math.pi / math.sqrt(12)  # uniform inputs of sd 1 span sqrt(12)


class AbstractKernel(eqx.Module):
    """A covariance function with parameters."""

    @abc.abstractmethod
    def specs(self, d: int) -> Any:
        """The tree of Param for d inputs."""

    @abc.abstractmethod
    def gram(self, params: Params, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        """k(x_i, z_j)."""

    @abc.abstractmethod
    def diag(self, params: Params, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        """k(x_i, x_i)."""

    def embed(self, params: Params, x: Float[Array, "a d"]) -> tuple[Params, Any]:
        """What is left to do after networks: parameters, and what the kernel sees of x, a row a point."""
        return params, x

    def between(self, params: Params, a: Any, b: Any) -> Float[Array, "a b"]:
        """The covariances of points that were embedded."""
        return self.gram(params, a, b)


def squared_distances(x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
    """|x_i - z_j|^2."""
    if x.shape[-1] <= _BROADCAST_LIMIT:
        columns = zip(x.T, z.T, strict=True)  # one (a, b) array each: a short last axis is slow to sum over
        return sum(((column[:, None] - other[None]) ** 2 for column, other in columns), jnp.zeros(()))
    centre = x.mean(0)
    x, z = x - centre, z - centre
    return jnp.maximum((x**2).sum(-1)[:, None] + (z**2).sum(-1)[None] - 2 * x @ z.T, 0.0)


class AbstractStationary(AbstractKernel):
    """s^2 c(r^2) with r the distance in length-scales; `ard` gives each input its own."""

    ard: eqx.AbstractVar[bool]
    learned: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def profile(self, squared: Array) -> Array:
        """c as a function of the squared scaled distance, with c(0) = 1."""

    def specs(self, d: int) -> Any:
        """The log sd of the output and the log length-scales, about 0 and ln sqrt(d) on standardised inputs."""
        if not self.learned:
            return {}
        scales = Param((d if self.ard else 1,), "scale", loc=0.5 * math.log(d))
        return {"log_sd": Param((), "scale"), "log_length": scales}

    def gram(self, params: Params, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        """s^2 c(|x - z|^2 / l^2)."""
        if not self.learned:
            return 0.5 * self.profile(2 * squared_distances(x, z))
        inverse = jnp.exp(-params["log_length"])
        return self._variance(params) * self.profile(squared_distances(x * inverse, z * inverse))

    def diag(self, params: Params, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        """s^2."""
        return (self._variance(params) if self.learned else 0.5) + 0 * x[:, 0]

    def _variance(self, params: Params) -> Scalar:
        return jnp.exp(2 * params["log_sd"])


class SE(AbstractStationary):
    """s^2 exp(-r^2/2). With learned=False the paper's literal 1/2 exp(-|x - z|^2), without parameters."""

    ard: bool = eqx.field(static=True, default=True)
    learned: bool = eqx.field(static=True, default=True)

    def profile(self, squared: Array) -> Array:
        """exp(-r^2/2)."""
        return jnp.exp(-0.5 * squared)


class Matern(AbstractStationary):
    """The Matern kernel of smoothness nu = 1/2 (exponential), 3/2 or 5/2."""

    nu: float = eqx.field(static=True, default=2.5)
    ard: bool = eqx.field(static=True, default=True)
    learned: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        if self.nu not in (0.5, 1.5, 2.5):
            raise PacohError(f"A Matern kernel has nu = 0.5, 1.5 or 2.5 here; got {self.nu}.")

    def profile(self, squared: Array) -> Array:
        """exp(-t) times 1, 1 + t or 1 + t + t^2/3, t = sqrt(2 nu) r; constant near r = 0, where the root has no slope.

        Near means rounding. Compiled, a distance of 0 may be 0 in one place and a rounding error in another, so that
        nothing here may hang on the difference.
        """
        t = jnp.sqrt(jnp.maximum(2 * self.nu * squared, jnp.finfo(squared.dtype).eps ** 2))
        factor = {0.5: 1.0, 1.5: 1 + t, 2.5: 1 + t + t**2 / 3}[self.nu]
        return factor * jnp.exp(-t)


class Stretched(AbstractKernel):
    """A kernel of x / length: where its length-scales are sought, `length` times as far as without."""

    inner: AbstractKernel
    length: float = eqx.field(static=True)

    def specs(self, d: int) -> Any:
        """The kernel's."""
        return self.inner.specs(d)

    def gram(self, params: Params, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        """The kernel's."""
        near = x / self.length
        return self.inner.gram(params, near, near if x is z else z / self.length)

    def diag(self, params: Params, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        """The kernel's."""
        return self.inner.diag(params, x / self.length)

    def embed(self, params: Params, x: Float[Array, "a d"]) -> tuple[Params, Any]:
        """The kernel's."""
        return self.inner.embed(params, x / self.length)

    def between(self, params: Params, a: Any, b: Any) -> Float[Array, "a b"]:
        """The kernel's."""
        return self.inner.between(params, a, b)


class Linear(AbstractKernel):
    """x'Dz + c^2 with D the squared weights of the inputs: Bayesian linear regression."""

    def specs(self, d: int) -> Any:
        """Log sds of the slopes and of the intercept."""
        return {
            "log_slope": Param((d,), "scale", loc=-0.5 * math.log(d)),
            "log_intercept": Param((), "scale", loc=-1.0),
        }

    def gram(self, params: Params, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        """x'Dz + c^2."""
        slopes = jnp.exp(params["log_slope"])
        return (x * slopes) @ (z * slopes).T + jnp.exp(2 * params["log_intercept"])

    def diag(self, params: Params, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        """x'Dx + c^2."""
        return ((x * jnp.exp(params["log_slope"])) ** 2).sum(-1) + jnp.exp(2 * params["log_intercept"])


class Warped(AbstractKernel):
    """A kernel on the features of a network: k(phi(x), phi(z))."""

    base: AbstractKernel = SE()
    net: MLP = MLP()
    features: int = eqx.field(static=True, default=2)

    def specs(self, d: int) -> Any:
        """The network's parameters and the kernel's on its features."""
        return {"net": self.net.specs(d, self.features), "base": self.base.specs(self.features)}

    def gram(self, params: Params, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        """The base kernel on features; the network runs once where x and z are the same array."""
        base, features = self.embed(params, x)
        return self.between(base, features, features if x is z else self.embed(params, z)[1])

    def diag(self, params: Params, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        """The base kernel's diagonal."""
        return self.base.diag(params["base"], self.net(params["net"], x))

    def embed(self, params: Params, x: Float[Array, "a d"]) -> tuple[Params, Any]:
        """The base kernel's, of the features."""
        return self.base.embed(params["base"], self.net(params["net"], x))

    def between(self, params: Params, a: Any, b: Any) -> Float[Array, "a b"]:
        """The base kernel's."""
        return self.base.between(params, a, b)


class AbstractCombination(AbstractKernel):
    """Several kernels as one; a subclass says how their values combine."""

    parts: eqx.AbstractVar[tuple[AbstractKernel, ...]]

    @abc.abstractmethod
    def combine(self, values: list[Array]) -> Array:
        """One value from the parts' values."""

    def specs(self, d: int) -> Any:
        """The parts' parameters."""
        return [part.specs(d) for part in self.parts]

    def gram(self, params: Params, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        """The parts' values, combined."""
        return self.combine([part.gram(p, x, z) for part, p in zip(self.parts, params, strict=True)])

    def diag(self, params: Params, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        """The parts' diagonals, combined."""
        return self.combine([part.diag(p, x) for part, p in zip(self.parts, params, strict=True)])

    def embed(self, params: Params, x: Float[Array, "a d"]) -> tuple[Params, Any]:
        """The parts', each on its own."""
        pairs = [part.embed(p, x) for part, p in zip(self.parts, params, strict=True)]
        return [p for p, _ in pairs], [seen for _, seen in pairs]

    def between(self, params: Params, a: Any, b: Any) -> Float[Array, "a b"]:
        """The parts', combined."""
        return self.combine([part.between(*each) for part, *each in zip(self.parts, params, a, b, strict=True)])


class Sum(AbstractCombination):
    """k_1 + k_2 + ..."""

    parts: tuple[AbstractKernel, ...]

    def combine(self, values: list[Array]) -> Array:
        """The sum."""
        return sum(values[1:], values[0])


class Product(AbstractCombination):
    """k_1 k_2 ..."""

    parts: tuple[AbstractKernel, ...]

    def combine(self, values: list[Array]) -> Array:
        """The product."""
        return math.prod(values[1:], start=values[0])


class Waves(AbstractKernel):
    """sum_q s_q^2 cos(w_q (x - z)) along each input: waves of shared frequencies, a phase and an amplitude a task.

    Frequencies start evenly, a turn over standardised inputs apart, and are learned. So are the s_q as they are, not
    their logarithms: a wave that is not needed can vanish.
    """

    count: int = eqx.field(static=True, default=12)

    def specs(self, d: int) -> Any:
        """The sds, and how far frequencies are from where they start, as a share of the distance between two."""
        return {
            "sd": Param((self.count, d), "scale", unit=0.2, start=1.0),
            "shift": Param((self.count, d), "scale", unit=0.2),
        }

    def gram(self, params: Params, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        """The inner product of sines and cosines."""
        features = self._features(params, x)
        return features @ (features if x is z else self._features(params, z)).T

    def diag(self, params: Params, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        """The sum of variances."""
        return (params["sd"] ** 2).sum() + 0 * x[:, 0]

    def _features(self, params: Params, x: Array) -> Array:
        angles = _TURN * (1 + jnp.arange(self.count)[:, None] + params["shift"]) * x[:, None]
        waves = jnp.concatenate([params["sd"] * jnp.cos(angles), params["sd"] * jnp.sin(angles)], -1)
        return waves.reshape(len(x), -1)
