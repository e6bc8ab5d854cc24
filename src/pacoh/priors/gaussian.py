"""The Gaussian log-density and its factor, safe and with a closed-form gradient."""

import math

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Bool, Float

from pacoh.types import Scalar

_SMALL, _LARGE = 16, 32


def cholesky(matrix: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """The lower factor of a positive semi-definite matrix; never NaN for finite input.

    The matrix as it is comes first. Only where that fails in the working precision is the diagonal raised, from one
    unit of rounding on, tenfold each try. The loop runs zero times where nothing fails, also under `vmap`.
    """
    size = matrix.shape[-1]
    number = jnp.finfo(matrix.dtype)
    unit = jnp.maximum(number.eps * jnp.trace(matrix) / size, 1e3 * float(number.tiny))  # a zero matrix has a unit, too

    def failed(carry):
        factor, jitter = carry
        return ~jnp.isfinite(factor[-1, -1]) & jnp.isfinite(jitter)

    def raised(carry):
        _, jitter = carry
        return _factor(matrix + jitter * jnp.eye(len(matrix), dtype=matrix.dtype)), 10 * jitter

    return jax.lax.while_loop(failed, raised, (_factor(matrix), unit))[0]


def _factor(matrix: Float[Array, "m m"]) -> Float[Array, "m m"]:
    return jax.lax.linalg.cholesky(matrix, symmetrize_input=False)


def upper_factor(matrix: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """U with U'U = a symmetric matrix, NaN where it has none. LAPACK counts columns first: neither side is copied."""
    return _factor(matrix.T).T


@jax.custom_jvp
def log_normal(residual: Float[Array, " m"], covariance: Float[Array, "m m"]) -> Scalar:
    """ln N(residual; 0, covariance) + (m/2) ln 2 pi.

    Its gradient is closed: -C^{-1} r for the residual, (C^{-1} r r' C^{-1} - C^{-1})/2 for the covariance, which costs
    one triangular inverse instead of differentiating a factorisation.
    """
    factor = cholesky(covariance)
    whitened = solve_triangular(factor, residual, lower=True)
    return -0.5 * whitened @ whitened - jnp.log(jnp.diagonal(factor)).sum()


@log_normal.defjvp
def _log_normal_jvp(primals, tangents):
    residual, covariance = primals
    d_residual, d_covariance = tangents
    factor = cholesky(covariance)
    inverse_factor = inverse(factor.T).T
    whitened = inverse_factor @ residual
    solved = whitened @ inverse_factor
    slope = 0.5 * (jnp.outer(solved, solved) - _squared(inverse_factor))
    value = -0.5 * whitened @ whitened - jnp.log(jnp.diagonal(factor)).sum()
    return value, (slope * d_covariance).sum() - solved @ d_residual


def tempered_log_normal(
    residual: Float[Array, " m"],
    gram: Float[Array, "m m"],
    mask: Bool[Array, " m"],
    log_noise: Scalar,
    power: Scalar,
) -> Scalar:
    """ln E_f prod N(y; f, sigma^2)^t = ln N(r; 0, K + sigma^2/t) + (m/2)[(1 - t) ln(2 pi sigma^2) - ln t].

    The likelihood to the power t is a Gaussian of variance sigma^2/t times a constant, so tempering is exact
    [theory.md 1.4]. Masked rows get an identity block, which leaves it exact, too.
    """
    variance, constant = tempered(mask, log_noise, power)
    return log_normal(jnp.where(mask, residual, 0.0), noisy(gram, mask, variance)) + constant


def tempered_log_linear(
    residual: Float[Array, " m"],
    scaled: Float[Array, "m p"],
    mask: Bool[Array, " m"],
    log_noise: Scalar,
    power: Scalar,
) -> Scalar:
    """`tempered_log_normal` for K = GG' with fewer columns than rows, G the features in units of their weights' sds.

    With A = I + G'G/v and w = A^{-1} G'r/v, |K + vI| = v^m |A| and r'(K + vI)^{-1} r = |r - Gw|^2/v + |w|^2, which is
    least at w: its derivative needs none of w. No m x m matrix is formed, and no large numbers are subtracted.
    """
    variance, constant = tempered(mask, log_noise, power)
    residual, scaled = jnp.where(mask, residual, 0.0), jnp.where(mask[:, None], scaled, 0.0)
    inner = scaled.T @ scaled / variance + jnp.eye(scaled.shape[-1], dtype=scaled.dtype)
    at = jax.lax.stop_gradient(
        cho_solve((cholesky(jax.lax.stop_gradient(inner)), True), scaled.T @ residual / variance)
    )
    quadratic = ((residual - scaled @ at) ** 2).sum() / variance + at @ at
    volume = log_normal(jnp.zeros_like(at), inner) - 0.5 * mask.sum() * jnp.log(variance)
    return volume - 0.5 * quadratic + constant


def tempered(mask: Bool[Array, " m"], log_noise: Scalar, power: Scalar) -> tuple[Scalar, Scalar]:
    """sigma^2/t, and what tempering and -(m/2) ln 2 pi add to `log_normal` with it."""
    variance = jnp.exp(2 * log_noise) / jnp.where(power > 0, power, 1.0)
    points = mask.sum()
    log_scale = math.log(2 * math.pi) + 2 * log_noise
    constant = 0.5 * points * ((1 - power) * log_scale - jnp.log(jnp.where(points > 0, power, 1.0)))
    return variance, constant - 0.5 * points * math.log(2 * math.pi)


def noisy(gram: Float[Array, "m m"], mask: Bool[Array, " m"], variance: Scalar) -> Float[Array, "m m"]:
    """K + variance I, with masked rows as independent unit variables."""
    both = mask[:, None] & mask[None]
    return jnp.where(both, gram, 0.0) + jnp.diag(jnp.where(mask, variance, 1.0))


def inverse(upper: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """The inverse of an upper-triangular matrix, of large ones by halves: products are faster than solves."""
    size = len(upper)
    if size <= _LARGE:
        return solve_triangular(upper.T, jnp.eye(size, dtype=upper.dtype), lower=True).T
    half = size // 2
    first, last = inverse(upper[:half, :half]), inverse(upper[half:, half:])
    corner = jnp.zeros((size - half, half), upper.dtype)
    return jnp.block([[first, -(first @ upper[:half, half:]) @ last], [corner, last]])


def _squared(factor: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """A'A. Of small matrices as a sum: on a CPU a batch of them costs a call each, more than their arithmetic."""
    if len(factor) > _SMALL:
        return factor.T @ factor
    return (factor[:, :, None] * factor[:, None, :]).sum(0)
