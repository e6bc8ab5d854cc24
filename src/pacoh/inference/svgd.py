"""Stein variational gradient descent (Liu & Wang 2016): particles that climb and repel each other."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.inference.base import AbstractAscent, AbstractLogDensity, Adam, AscentState, scores, starts
from pacoh.types import Key, Params, Scalar


def median_bandwidth(squared: Float[Array, "K K"]) -> Scalar:
    """ell = median |phi_k - phi_l|^2 / (2 ln(K + 1)) over pairs k < l; 1 where all particles coincide."""
    count = squared.shape[0]
    if count == 1:
        return jnp.ones((), squared.dtype)
    each = jnp.sort(squared[np.triu_indices(count, 1)])
    median = 0.5 * (each[(len(each) - 1) // 2] + each[len(each) // 2])
    return jnp.where(median > 0, median, 1.0) / (2 * jnp.log(count + 1.0))


def stein_direction(
    particles: Float[Array, "K D"], gradients: Float[Array, "K D"], bandwidth: Scalar | None
) -> Float[Array, "K D"]:
    """(1/K) sum_l [k(l, k) grad ln q(phi_l) + grad_{phi_l} k(phi_l, phi_k)], k = exp(-|.|^2/(2 ell))."""
    others = particles[1:] - particles[0]  # small numbers, so that the products below lose no digits
    products = jnp.pad(jnp.einsum("kd,ld->kl", others, others), (1, 0))  # no transposed copy, also under `vmap`
    norms = jnp.diag(products)
    squared = jnp.maximum(norms[:, None] + norms[None] - 2 * products, 0.0)
    ell = median_bandwidth(squared) if bandwidth is None else bandwidth
    kernel = jnp.exp(-squared / (2 * ell))
    repulsion = (jnp.diag(kernel.sum(1)) - kernel) / ell
    shares = jnp.concatenate([kernel, repulsion[:, 1:]], 1) / len(particles)
    return shares @ jnp.concatenate([gradients, others])  # one product: fewer passes over all particles


class SVGD(AbstractAscent):
    """K interacting particles; `bandwidth` is the squared length ell, None for the median heuristic."""

    particles: int = eqx.field(static=True, default=10)
    optimizer: Adam = eqx.field(default_factory=Adam)
    bandwidth: Float[Array, ""] | None = eqx.field(
        converter=lambda value: None if value is None else jnp.asarray(value, float), default=None
    )

    def init(self, log_density: AbstractLogDensity, draw: Callable[[Key], Params], key: Key) -> AscentState:
        """One start a particle."""
        del log_density
        return self.start(*starts(draw, self.particles, key))

    def ascent(self, log_density: AbstractLogDensity, state: AscentState, key: Key) -> tuple[Array, Scalar]:
        """The Stein direction."""
        values, gradients = scores(log_density, state, key)
        return stein_direction(state.position, gradients, self.bandwidth), values.mean()

    def draws(self, state: AscentState, key: Key) -> Params:
        """The particles."""
        del key
        return jax.vmap(state.layout.unflatten)(state.position)
