"""Predictive distributions of a target at q query points.

Every kind is written for arrays with any leading axes, in jax (inside compiled code) or NumPy (what users get: float64
in original units, so that a small spread on a large offset survives).
"""

import abc
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy import special as jax_special
from jaxtyping import Array, Float

from pacoh.errors import PacohError
from pacoh.types import Key

_LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)
_NODES = 32  # of the quadrature, on either side of y


def spaces(array) -> tuple[ModuleType, ModuleType]:
    """The array and special-function modules that `array` belongs to.

    >>> import numpy as np
    >>> from pacoh.predictive import spaces
    >>> spaces(np.zeros(1))[0].__name__
    'numpy'
    """
    return (jnp, jax_special) if isinstance(array, jax.Array) else (np, scipy.special)


def mean_absolute(loc, scale):
    """E|Y| of Y ~ N(loc, scale^2).

    >>> import numpy as np
    >>> from pacoh.predictive import mean_absolute
    >>> mean_absolute(np.array([0.0, 5.0]), 1.0).round(4)  # sqrt(2/pi); nearly 5
    array([0.7979, 5.    ])
    """
    xp, special = spaces(loc)
    z = loc / scale
    return scale * (2 * xp.exp(-0.5 * z**2 - _LOG_ROOT_TWO_PI) + z * (2 * special.ndtr(z) - 1))


class AbstractPredictive(eqx.Module):
    """What is said of y at each query point: a number or a class, with or without a distribution.

    >>> import pacoh
    >>> from pacoh.predictive import AbstractPredictive
    >>> from pacoh.testing import ragged_tasks
    >>> isinstance(pacoh.fit(ragged_tasks(), "pooled-ridge").adapt()([0.5]), AbstractPredictive)
    True
    """

    @abc.abstractmethod
    def affine(self, loc, scale) -> "AbstractPredictive":
        """The distribution of loc + scale * y."""

    @abc.abstractmethod
    def first(self, count: int) -> "AbstractPredictive":
        """The same at the first `count` query points alone."""

    def numpy(self) -> "AbstractPredictive":
        """The same distribution in NumPy's float64."""
        return jax.tree.map(lambda leaf: np.asarray(leaf).astype(np.float64), self)


def to_host(predictive: AbstractPredictive, count: int, loc, scale) -> AbstractPredictive:
    """The first `count` query points in NumPy and in the units loc + scale * y.

    Methods are called through their class: a module's bound method costs more than this arithmetic.

    >>> import jax.numpy as jnp
    >>> from pacoh.predictive import Point, to_host
    >>> to_host(Point(jnp.array([0.5, 1.0, 0.0])), 2, 100.0, 10.0).mean
    array([105., 110.])
    """
    kind = type(predictive)
    return kind.affine(kind.first(kind.numpy(predictive), count), loc, scale)


class AbstractNumeric(AbstractPredictive):
    """A predictive of a number.

    >>> import pacoh
    >>> from pacoh.predictive import AbstractNumeric
    >>> from pacoh.testing import ragged_tasks
    >>> isinstance(pacoh.fit(ragged_tasks(), "pooled-ridge").adapt()([0.5]), AbstractNumeric)
    True
    """

    @property
    @abc.abstractmethod
    def mean(self) -> Float[Array, "*n q"]:
        """The predictive mean."""


class AbstractDistribution(AbstractNumeric):
    """A predictive of a number with a density, quantiles and draws.

    >>> import pacoh
    >>> from pacoh.predictive import AbstractDistribution
    >>> from pacoh.testing import ragged_tasks
    >>> isinstance(pacoh.fit(ragged_tasks(), "pooled-ridge").adapt()([0.5]), AbstractDistribution)  # it predicts points
    False
    """

    @property
    @abc.abstractmethod
    def std(self) -> Float[Array, "*n q"]:
        """The predictive standard deviation."""

    @abc.abstractmethod
    def log_prob(self, y) -> Float[Array, "*n q"]:
        """The log-density at y, point by point."""

    @abc.abstractmethod
    def cdf(self, y) -> Float[Array, "*n q"]:
        """The probability of a value at or below y."""

    @abc.abstractmethod
    def quantile(self, p) -> Float[Array, "*n q"]:
        """The value below which a share p lies."""

    @abc.abstractmethod
    def sample(self, count: int, key: Key) -> Float[Array, "count *n q"]:
        """`count` independent draws at each query point."""

    @abc.abstractmethod
    def crps(self, y) -> Float[Array, "*n q"]:
        """The continuous ranked probability score at y; smaller is better."""

    def interval(self, level: float) -> tuple[Float[Array, "*n q"], Float[Array, "*n q"]]:
        """The central interval that holds a share `level`."""
        return self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)


class Point(AbstractNumeric):
    """A prediction without a distribution: everything but the mean is refused.

    >>> import numpy as np
    >>> from pacoh.predictive import Point
    >>> Point(np.array([1.0, 2.0])).affine(10.0, 2.0).mean
    array([12., 14.])
    >>> Point(np.array([1.0, 2.0])).std
    Traceback (most recent call last):
        ...
    pacoh.errors.PacohError: This method predicts points, not distributions: there is no 'std'. Use `mean`, ...
    """

    loc: Float[Array, "*n q"]

    @property
    def mean(self) -> Float[Array, "*n q"]:
        """The predicted value."""
        return self.loc

    def affine(self, loc, scale) -> "Point":
        """The value in other units."""
        return Point(loc + scale * self.loc)

    def first(self, count: int) -> "Point":
        """The values at the first `count` query points."""
        return Point(self.loc[..., :count])

    def __getattr__(self, name: str):
        if name in ("std", "log_prob", "cdf", "quantile", "interval", "sample", "crps"):
            raise PacohError(
                f"This method predicts points, not distributions: there is no {name!r}. "
                "Use `mean`, or a method that predicts distributions."
            )
        raise AttributeError(name)


class GaussianMixture(AbstractDistribution):
    """sum_k w_k N(loc_k, scale_k^2) at each query point; equal weights unless `log_weights` says otherwise.

    >>> import numpy as np
    >>> from pacoh.predictive import GaussianMixture
    >>> said = GaussianMixture(loc=np.array([[-1.0], [1.0]]), scale=np.full((2, 1), 0.1))  # two components, one query
    >>> said.mean, said.std.round(3), said.quantile(0.9).round(3)
    (array([0.]), array([1.005]), array([1.084]))
    >>> said.cdf(np.array([0.0])), said.log_prob(np.array([1.0])).round(3)
    (array([0.5]), array([0.69]))
    >>> [end.round(2).tolist() for end in said.interval(0.5)]
    [[-1.0], [1.0]]
    """

    loc: Float[Array, "*n K q"]
    scale: Float[Array, "*n K q"]
    log_weights: Float[Array, "*n K"] | None = None

    @property
    def weights(self) -> Float[Array, "*n K 1"]:
        """Mixture weights that sum to one, ready to multiply with `loc`."""
        xp, special = spaces(self.loc)
        if self.log_weights is None:
            return xp.full((*self.loc.shape[:-1], 1), 1.0 / self.loc.shape[-2])
        return (
            special.softmax(self.log_weights, -1)[..., None]
            if xp is np
            else jax.nn.softmax(self.log_weights)[..., None]
        )

    @property
    def mean(self) -> Float[Array, "*n q"]:
        """The predictive mean."""
        return (self.weights * self.loc).sum(-2)

    @property
    def std(self) -> Float[Array, "*n q"]:
        """The predictive standard deviation: within and between components."""
        xp, _ = spaces(self.loc)
        spread = self.loc - self.mean[..., None, :]
        return xp.sqrt((self.weights * (self.scale**2 + spread**2)).sum(-2))

    def log_prob(self, y: Float[Array, "*n q"]) -> Float[Array, "*n q"]:
        """The log-density at y, point by point."""
        xp, special = spaces(self.loc)
        z = (y[..., None, :] - self.loc) / self.scale
        terms = xp.log(self.weights) - 0.5 * z**2 - xp.log(self.scale) - _LOG_ROOT_TWO_PI
        return special.logsumexp(terms, -2)

    def cdf(self, y: Float[Array, "*n q"]) -> Float[Array, "*n q"]:
        """The probability of a value at or below y."""
        _, special = spaces(self.loc)
        return (self.weights * special.ndtr((y[..., None, :] - self.loc) / self.scale)).sum(-2)

    def quantile(self, p) -> Float[Array, "*n q"]:
        """The value below which a share p lies: bisection between the smallest and the largest component quantile."""
        xp, special = spaces(self.loc)
        by_component = self.loc + self.scale * special.ndtri(xp.asarray(p, self.loc.dtype))
        low, high = by_component.min(-2), by_component.max(-2)

        def halve(_, bracket):
            low, high = bracket
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < p
            return xp.where(below, middle, low), xp.where(below, high, middle)

        halvings = 60 if self.loc.dtype == np.float64 else 30
        if xp is jnp:
            low, high = jax.lax.fori_loop(0, halvings, halve, (low, high))
        else:
            for step in range(halvings):
                low, high = halve(step, (low, high))
        return 0.5 * (low + high)

    def sample(self, count: int, key: Key) -> Float[Array, "count *n q"]:
        """`count` independent draws at each query point."""
        xp, _ = spaces(self.loc)
        key_component, key_noise = jax.random.split(key)
        shape = (count, *self.mean.shape)
        logits = jnp.log(jnp.asarray(self.weights[..., 0]))[..., None, :]
        chosen = jax.random.categorical(key_component, logits, shape=shape)[..., None, :]
        loc, scale = (
            xp.take_along_axis(xp.broadcast_to(part, (count, *part.shape)), xp.asarray(chosen), -2)[..., 0, :]
            for part in (self.loc, self.scale)
        )
        return loc + scale * xp.asarray(jax.random.normal(key_noise, shape))

    def crps(self, y: Float[Array, "*n q"]) -> Float[Array, "*n q"]:
        """E|Y - y| - E|Y - Y'|/2, the continuous ranked probability score; smaller is better.

        Up to 64 components in closed form; with more, where all pairs cost more than a quadrature, by one.
        """
        return self._crps_of_pairs(y) if self.loc.shape[-2] <= 2 * _NODES else crps_by_quadrature(self, y)

    def _crps_of_pairs(self, y):
        xp, _ = spaces(self.loc)
        first = (self.weights * mean_absolute(self.loc - y[..., None, :], self.scale)).sum(-2)
        second = xp.zeros_like(first)
        for k in range(self.loc.shape[-2]):
            spread = xp.sqrt(self.scale**2 + self.scale[..., k : k + 1, :] ** 2)
            gaps = mean_absolute(self.loc - self.loc[..., k : k + 1, :], spread)
            second = second + self.weights[..., k, :] * (self.weights * gaps).sum(-2)
        return first - 0.5 * second

    def affine(self, loc, scale) -> "GaussianMixture":
        """The distribution of loc + scale * y, for a positive scale."""
        return GaussianMixture(loc + scale * self.loc, scale * self.scale, self.log_weights)

    def first(self, count: int) -> "GaussianMixture":
        """The same at the first `count` query points alone."""
        return GaussianMixture(self.loc[..., :count], self.scale[..., :count], self.log_weights)


def crps_by_quadrature(said: GaussianMixture, y, scale=lambda z: z, slope=lambda z: 1 + 0 * z):
    """int (F(z) - 1{z >= y})^2 dt(z) by Gauss-Legendre on either side of y; t is another `scale` with this `slope`.

    >>> import numpy as np
    >>> from pacoh.predictive import GaussianMixture, crps_by_quadrature
    >>> said = GaussianMixture(loc=np.array([[0.0]]), scale=np.array([[1.0]]))
    >>> crps_by_quadrature(said, np.array([0.5])).round(6), said.crps(np.array([0.5])).round(6)
    (array([0.331404]), array([0.331404]))
    """
    xp, _ = spaces(said.loc)
    low, high = (said.loc - 8 * said.scale).min(-2), (said.loc + 8 * said.scale).max(-2)
    inside = xp.clip(y, low, high)
    y, beyond = inside, xp.abs(scale(y) - scale(inside))  # outside, the integrand is 1
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    below = above = xp.zeros_like(y)
    for node, weight in zip(0.5 * (1 + nodes), 0.5 * weights, strict=True):
        left, right = low + node * (y - low), y + node * (high - y)
        below = below + weight * said.cdf(left) ** 2 * slope(left)
        above = above + weight * (1 - said.cdf(right)) ** 2 * slope(right)
    return (y - low) * below + (high - y) * above + beyond
