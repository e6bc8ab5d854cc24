"""ln N(r; 0, K + variance I) of a Gaussian process; at many points with its gradient at once, task after task."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax.linalg import triangular_solve
from jaxtyping import Array, Bool, Float

from pacoh.priors.gaussian import inverse, log_normal, noisy, upper_factor
from pacoh.priors.kernels import AbstractKernel
from pacoh.threads import single
from pacoh.types import Params, Scalar

_MANY = 64
_TOGETHER = 400  # points whose matrices are in the cache of a core at once


class Points(eqx.Module):
    """What a kernel sees of the inputs (`AbstractKernel.embed`), the targets less the mean, and which of them count."""

    seen: Any
    residual: Float[Array, " m"]
    mask: Bool[Array, " m"]


def process_log_normal(kernel: AbstractKernel, params: Params, points: Points, variance: Scalar) -> Scalar:
    """ln N(r; 0, K + variance I) + (m/2) ln 2 pi over the points of the mask."""
    return (_few if len(points.mask) < _MANY else _many)(kernel, params, points, variance)


def _few(kernel: AbstractKernel, params: Params, points: Points, variance: Scalar) -> Scalar:
    gram = kernel.between(params, points.seen, points.seen)
    return log_normal(jnp.where(points.mask, points.residual, 0.0), noisy(gram, points.mask, variance))


@eqx.filter_custom_jvp
def _many(kernel: AbstractKernel, params: Params, points: Points, variance: Scalar) -> Scalar:
    """As of few points, but the gradient is taken where the value is, and only the gradient leaves.

    Matrices of one task stay in the cache of one core, where a batch of them would pass through memory a dozen times.
    """
    return _few(kernel, params, points, variance)


@_many.def_jvp
def _many_jvp(primals, tangents):
    arrays, rest = eqx.partition(primals, eqx.is_array)

    def whole(arrays):
        return _value_and_slopes(*eqx.combine(arrays, rest))

    in_turn = single() and jax.default_backend() == "cpu"
    compute = _in_turn(whole, max(_TOGETHER // len(primals[2].mask), 1)) if in_turn else whole
    value, slopes = compute(arrays)
    changes = jax.tree.map(
        lambda change, slope: None if change is None else jnp.vdot(slope, change),
        tangents,
        slopes,
        is_leaf=lambda leaf: leaf is None,
    )
    return value, sum(jax.tree.leaves(changes), jnp.zeros_like(value))


def _in_turn(compute: Callable[[Any], Any], most: int) -> Callable[[Any], Any]:
    """`compute`, whose batches, however nested, are done in equal parts of at most `most`, one after another."""

    @jax.custom_batching.custom_vmap
    def one(arrays):
        return compute(arrays)

    @jax.custom_batching.custom_vmap
    def all_of(arrays):
        count = len(jax.tree.leaves(arrays)[0])
        part = max(size for size in range(1, most + 1) if count % size == 0)
        return jax.lax.map(compute, arrays, batch_size=part)

    def laid(size, batched, arrays):
        return jax.tree.map(lambda a, has: a if has else jnp.broadcast_to(a, (size, *a.shape)), arrays, batched)

    @one.def_vmap
    def _(size, batched, arrays):
        found = all_of(laid(size, batched[0], arrays))
        return found, jax.tree.map(lambda _: True, found)

    @all_of.def_vmap
    def _(size, batched, arrays):
        rows = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), laid(size, batched[0], arrays))
        found = jax.tree.map(lambda a: a.reshape(size, -1, *a.shape[1:]), all_of(rows))
        return found, jax.tree.map(lambda _: True, found)

    return one


def _value_and_slopes(kernel: AbstractKernel, params: Params, points: Points, variance: Scalar) -> tuple[Scalar, Any]:
    """The value, and its derivative for each array of numbers among the arguments.

    Where the factorisation fails in the working precision the diagonal is raised, from one unit of rounding on,
    tenfold each try. All tries are rounds of one loop, the first too, which is compiled once; and XLA joins nothing
    across its border, where the slices of a loop over tasks would keep it from vector instructions.
    """
    primals = kernel, params, points, variance
    number = jnp.finfo(points.residual.dtype)

    def failed(carry):
        half_log_det, _, jitter = carry
        return ~jnp.isfinite(half_log_det) & jnp.isfinite(jitter)

    def again(carry):
        here, jitter = jax.lax.optimization_barrier((eqx.filter(primals, eqx.is_array), carry[-1]))  # stay in the loop
        kernel, params, points, variance = eqx.combine(here, primals)
        half_log_det, trace, result = _attempt(kernel, params, points, variance + jitter)
        unit = number.eps * trace / len(points.mask)
        unit = jnp.maximum(unit, 1e3 * float(number.tiny))  # a zero matrix has one, too
        return half_log_det, result, jnp.where(jitter > 0, 10 * jitter, unit)

    nothing = jnp.full((), jnp.nan, number.dtype)
    blank = jax.tree.map(jnp.zeros_like, eqx.filter(primals, eqx.is_inexact_array))
    return jax.lax.while_loop(failed, again, (nothing, (nothing, blank), jnp.zeros_like(variance)))[1]


def _attempt(kernel: AbstractKernel, params: Params, points: Points, variance: Scalar) -> tuple[Scalar, Scalar, Any]:
    """ln det U, the trace, and (value, slopes), from C = U'U in halves; NaN where C is not positive definite.

    The slopes are -C^{-1} r for the residual and S = (C^{-1} r r' C^{-1} - C^{-1})/2 for the covariance. Only three of
    the four blocks of these matrices are formed.
    """
    half = len(points.mask) // 2
    a, b = (jax.tree.map(lambda leaf, part=part: leaf[part], points) for part in (slice(half), slice(half, None)))

    def blocks(kernel, params, a, b):
        return kernel.between(params, a, a), kernel.between(params, a, b), kernel.between(params, b, b)

    (k_a, k_ab, k_b), pull = eqx.filter_vjp(blocks, kernel, params, a.seen, b.seen)
    both = a.mask[:, None] & b.mask
    c_a, c_b = noisy(k_a, a.mask, variance), noisy(k_b, b.mask, variance)
    u_a = upper_factor(c_a)
    u_ab = triangular_solve(u_a, jnp.where(both, k_ab, 0.0).T, left_side=False).T  # U_a' U_ab = C_ab
    u_b = upper_factor(c_b - u_ab.T @ u_ab)
    v_a, v_b = inverse(u_a), inverse(u_b)
    v_ab = -(v_a @ u_ab) @ v_b
    r_a, r_b = (jnp.where(part.mask, part.residual, 0.0) for part in (a, b))
    w_a, w_b = r_a @ v_a, r_a @ v_ab + r_b @ v_b
    s_a, s_b = v_a @ w_a + v_ab @ w_b, v_b @ w_b  # C^{-1} r
    half_log_det = jnp.log(jnp.diagonal(u_a)).sum() + jnp.log(jnp.diagonal(u_b)).sum()
    value = -0.5 * (w_a @ w_a + w_b @ w_b) - half_log_det

    slope_a = jnp.where(_pairs(a.mask), 0.5 * (jnp.outer(s_a, s_a) - v_a @ v_a.T - v_ab @ v_ab.T), 0.0)
    slope_b = jnp.where(_pairs(b.mask), 0.5 * (jnp.outer(s_b, s_b) - v_b @ v_b.T), 0.0)
    slope_ab = jnp.where(both, jnp.outer(s_a, s_b) - v_ab @ v_b.T, 0.0)  # counts twice
    d_kernel, d_params, d_a, d_b = pull((slope_a, slope_ab, slope_b))
    d_seen = jax.tree.map(lambda *parts: jnp.concatenate(parts), d_a, d_b)
    d_points = eqx.filter(Points(d_seen, -jnp.concatenate([s_a, s_b]), points.mask), eqx.is_inexact_array)
    d_variance = jnp.trace(slope_a) + jnp.trace(slope_b)
    return half_log_det, jnp.trace(c_a) + jnp.trace(c_b), (value, (d_kernel, d_params, d_points, d_variance))


def _pairs(mask: Bool[Array, " m"]) -> Bool[Array, "m m"]:
    return mask[:, None] & mask
