"""Variational inference: the independent Gaussian that is nearest to the density."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.inference.base import AbstractAscent, AbstractLogDensity, Adam, AscentState, Particles, scores, starts
from pacoh.types import Key, Params, Scalar


def antithetic(count: int, size: int, key: Key) -> Float[Array, "K D"]:
    """Standard normals in pairs z, -z (an odd last one alone): the linear part of any average over them is exact."""
    half = jax.random.normal(key, (-(-count // 2), size))
    return jnp.concatenate([half, -half])[:count]


class VI(AbstractAscent):
    """argmin_q KL(q || density) over q = N(mean, diag sd^2), with `predict` draws of q at the end.

    A step takes `samples` reparametrised draws. `sd` is every parameter's at the start: small, so that training sets
    out like MAP, and each grows to what the density leaves open. How much that is, is the density's temperature.
    """

    samples: int = eqx.field(static=True, default=10)
    predict: int = eqx.field(static=True, default=100)
    optimizer: Adam = eqx.field(default_factory=Adam)
    sd: Float[Array, ""] = eqx.field(converter=lambda value: jnp.asarray(value, float), default=0.01)

    def init(self, log_density: AbstractLogDensity, draw: Callable[[Key], Params], key: Key) -> AscentState:
        """Two rows: the mean at a start, and ln sd. Draws of a fitted q to go on from give its moments."""
        del log_density
        if isinstance(draw, Particles) and self.predict > 1:
            fitted, layout = starts(draw, self.predict, key)
            return self.start(jnp.stack([fitted.mean(0), jnp.log(fitted.std(0) + 1e-6)]), layout)
        mean, layout = starts(draw, 1, key)
        return self.start(jnp.concatenate([mean, jnp.full_like(mean, jnp.log(self.sd))]), layout)

    def ascent(self, log_density: AbstractLogDensity, state: AscentState, key: Key) -> tuple[Array, Scalar]:
        """The gradient of E_q[ln density] + entropy through the draws, and its value."""
        key_noise, key_scores = jax.random.split(key)
        mean, log_sd = state.position
        noise = antithetic(self.samples, mean.size, key_noise)
        draws = mean + jnp.exp(log_sd) * noise
        values, gradients = scores(log_density, AscentState(draws, None, state.t, state.layout), key_scores)
        direction = jnp.stack([gradients.mean(0), (gradients * noise).mean(0) * jnp.exp(log_sd) + 1])
        entropy = (log_sd + 0.5 * jnp.log(2 * jnp.pi * jnp.e)).sum()
        return direction, values.mean() + entropy

    def draws(self, state: AscentState, key: Key) -> Params:
        """`predict` draws of q."""
        mean, log_sd = state.position
        rows = mean + jnp.exp(log_sd) * antithetic(self.predict, mean.size, key)
        return jax.vmap(state.layout.unflatten)(rows)
