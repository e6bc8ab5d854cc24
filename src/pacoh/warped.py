"""Targets on a scale on which they look Gaussian, and what is said of them there in their own units."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from pacoh.predictive import AbstractDistribution, GaussianMixture, crps_by_quadrature, spaces
from pacoh.types import Key

_POWERS = np.linspace(0.05, 1.95, 39)  # 1 is among them; at 0 and 2 the scale is a logarithm, beyond it ends somewhere
_NODES = 32  # of the quadrature of a component's moments


class YeoJohnson(eqx.Module):
    """w(u) = (psi(u) - loc) / scale, psi(u) = ((1 + u)^p - 1)/p for u >= 0, -((1 - u)^(2 - p) - 1)/(2 - p) below.

    Yeo & Johnson (2000). A power p below 1 draws in a long tail above, one over 1 a tail below; with 1 nothing bends.
    Between 0 and 2 every number has its place on either scale.

    >>> import numpy as np
    >>> from pacoh.warped import YeoJohnson
    >>> warp = YeoJohnson(np.float64(0.5), np.float64(0.0), np.float64(1.0))
    >>> warp(np.array([-1.0, 0.0, 8.0])).round(3)
    array([-1.219,  0.   ,  4.   ])
    >>> warp.inverse(warp(np.array([-1.0, 0.0, 8.0]))).round(6)
    array([-1.,  0.,  8.])
    """

    power: Float[Array, "*n"]
    loc: Float[Array, "*n"]
    scale: Float[Array, "*n"]

    @staticmethod
    def of(values: Float[Array, "*n m"], mask: Bool[Array, "*n m"]) -> "YeoJohnson":
        """The power of 39 under which all values together are likeliest as a Gaussian's draws; 1 for equal values."""
        values, count = jnp.where(mask, values, 0.0), jnp.maximum(mask.sum(), 1)

        def under(power):
            psi = _psi(values, power, jnp)
            loc = jnp.where(mask, psi, 0.0).sum() / count
            scale = jnp.sqrt(jnp.where(mask, (psi - loc) ** 2, 0.0).sum() / count)
            slopes = jnp.where(mask, _log_bend(values, power, jnp), 0.0)
            return slopes.sum() - count * jnp.log(scale), YeoJohnson(power, loc, scale)

        likely, warps = jax.vmap(under)(jnp.asarray(_POWERS, values.dtype))
        best = jax.tree.map(lambda leaf: leaf[jnp.argmax(likely)], warps)
        tells = best.scale > 1e-6
        one, zero = jnp.ones((), values.dtype), jnp.zeros((), values.dtype)
        return jax.tree.map(lambda a, b: jnp.where(tells, a, b), best, YeoJohnson(one, zero, one))

    def __call__(self, u: Float[Array, "*n q"]) -> Float[Array, "*n q"]:
        """On the scale on which values look Gaussian."""
        xp, _ = spaces(u)
        power, loc, scale = self._columns(xp)
        return (_psi(u, power, xp) - loc) / scale

    def inverse(self, z: Float[Array, "*n q"]) -> Float[Array, "*n q"]:
        """Back."""
        xp, _ = spaces(z)
        power, loc, scale = self._columns(xp)
        psi = loc + scale * z
        own = xp.where(psi >= 0, power, 2 - power)
        return xp.sign(psi) * xp.expm1(xp.log1p(own * xp.abs(psi)) / own)

    def log_slope(self, u: Float[Array, "*n q"]) -> Float[Array, "*n q"]:
        """ln dw/du."""
        xp, _ = spaces(u)
        power, _, scale = self._columns(xp)
        return _log_bend(u, power, xp) - xp.log(scale)

    def _columns(self, xp):
        return (xp.asarray(part)[..., None] for part in (self.power, self.loc, self.scale))


def _psi(u, power, xp):
    own = xp.where(u >= 0, power, 2 - power)
    return xp.sign(u) * xp.expm1(own * xp.log1p(xp.abs(u))) / own


def _log_bend(u, power, xp):
    """ln dpsi/du."""
    return (power - 1) * xp.sign(u) * xp.log1p(xp.abs(u))


class WarpedMixture(AbstractDistribution):
    """place + unit * u, where w(u) is a mixture of Gaussians.

    Density, cdf and quantiles are exact; mean, sd and CRPS are quadratures.

    >>> import numpy as np
    >>> from pacoh.predictive import GaussianMixture
    >>> from pacoh.warped import WarpedMixture, YeoJohnson
    >>> warp = YeoJohnson(np.float64(0.5), np.float64(0.0), np.float64(1.0))
    >>> base = GaussianMixture(np.array([[1.0]]), np.array([[0.5]]))
    >>> said = WarpedMixture(base, warp, np.float64(0.0), np.float64(1.0)).affine(100.0, 10.0)
    >>> said.quantile(0.5), said.mean.round(3), said.std.round(3)  # skewed: the mean lies above the median
    (array([112.5]), array([113.124]), array([7.554]))
    """

    base: GaussianMixture
    warp: YeoJohnson
    place: Float[Array, "*n"]
    unit: Float[Array, "*n"]

    @property
    def mean(self) -> Float[Array, "*n q"]:
        """The predictive mean."""
        return self._out(self._moment(lambda u: u))

    @property
    def std(self) -> Float[Array, "*n q"]:
        """The predictive standard deviation."""
        xp, _ = spaces(self.base.loc)
        mean = self._moment(lambda u: u)[..., None, :]
        return self._columns()[1] * xp.sqrt(self._moment(lambda u: (u - mean) ** 2))

    def log_prob(self, y: Float[Array, "*n q"]) -> Float[Array, "*n q"]:
        """The log-density at y, point by point."""
        xp, _ = spaces(self.base.loc)
        u = self._in(y)
        return self.base.log_prob(self.warp(u)) + self.warp.log_slope(u) - xp.log(self._columns()[1])

    def cdf(self, y: Float[Array, "*n q"]) -> Float[Array, "*n q"]:
        """The probability of a value at or below y."""
        return self.base.cdf(self.warp(self._in(y)))

    def quantile(self, p) -> Float[Array, "*n q"]:
        """The value below which a share p lies."""
        return self._out(self.warp.inverse(self.base.quantile(p)))

    def sample(self, count: int, key: Key) -> Float[Array, "count *n q"]:
        """`count` independent draws at each query point."""
        return self._out(self.warp.inverse(self.base.sample(count, key)))

    def crps(self, y: Float[Array, "*n q"]) -> Float[Array, "*n q"]:
        """The continuous ranked probability score at y; smaller is better."""
        xp, _ = spaces(self.base.loc)
        inverse = self.warp.inverse
        gaps = crps_by_quadrature(
            self.base, self.warp(self._in(y)), inverse, lambda z: xp.exp(-self.warp.log_slope(inverse(z)))
        )
        return self._columns()[1] * gaps

    def affine(self, loc, scale) -> "WarpedMixture":
        """The distribution of loc + scale * y, for a positive scale."""
        return WarpedMixture(self.base, self.warp, loc + scale * self.place, scale * self.unit)

    def first(self, count: int) -> "WarpedMixture":
        """The same at the first `count` query points alone."""
        return WarpedMixture(self.base.first(count), self.warp, self.place, self.unit)

    def _columns(self):
        xp, _ = spaces(self.base.loc)
        return xp.asarray(self.place)[..., None], xp.asarray(self.unit)[..., None]

    def _in(self, y):
        place, unit = self._columns()
        return (y - place) / unit

    def _out(self, u):
        place, unit = self._columns()
        return place + unit * u

    def _moment(self, of):
        """E of(u): by Gauss-Hermite in each component."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        total = 0.0 * self.base.loc[..., 0, :]
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            z = self.base.loc + node * self.base.scale
            u = self.warp.inverse(z.reshape(*z.shape[:-2], -1)).reshape(z.shape)
            total = total + weight * (self.base.weights * of(u)).sum(-2)
        return total
