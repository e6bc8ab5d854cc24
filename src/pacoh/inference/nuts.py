"""The No-U-Turn sampler (Hoffman & Gelman 2014; numpyro's kernel): exact draws for small parameter vectors."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.errors import PacohError
from pacoh.inference.base import AbstractInference, AbstractLogDensity, AbstractState, Layout, starts
from pacoh.types import Key, Params, Scalar

_LIMIT = 200  # parameters; beyond, the chains of a run of this length do not get anywhere
_R_HAT = 1.05


class NUTSState(AbstractState):
    """Where the chains are, how they move, and the draws kept so far."""

    position: Float[Array, "chains D"]
    chains: Any  # numpyro's state, with a leading axis of chains
    kept: Float[Array, "chains kept D"]
    diverged: Array
    t: Array
    layout: Layout = eqx.field(static=True)


class NUTS(AbstractInference):
    """`count` draws in all from `chains` chains that run side by side, every `thin`-th state after `warmup` steps.

    It needs the exact density, so mini-batches are refused; a density that is estimated by draws is sampled with one
    set of draws for the whole run. Chains start scattered by `spread`, so that r-hat can tell whether they have met.
    """

    count: int = eqx.field(static=True, default=100)
    warmup: int = eqx.field(static=True, default=500)
    thin: int = eqx.field(static=True, default=5)
    chains: int = eqx.field(static=True, default=4)
    spread: float = eqx.field(static=True, default=0.3)

    @property
    def kept(self) -> int:
        """The draws that a chain keeps."""
        return -(-self.count // self.chains)

    @property
    def steps(self) -> int:
        """Warm-up, then `thin` steps a kept draw."""
        return self.warmup + self.thin * self.kept

    def init(self, log_density: AbstractLogDensity, draw: Callable[[Key], Params], key: Key) -> NUTSState:
        """A start a chain."""
        key_batch, key_start, key_spread, key_chains = jax.random.split(key, 4)
        if log_density.minibatch(key_batch) is not log_density:
            raise PacohError(
                "NUTS needs the exact density: leave out `batch`, or take another engine for mini-batches."
            )
        points, layout = starts(draw, self.chains, key_start)
        size = points.shape[1]
        if size > _LIMIT:
            raise PacohError(
                f"NUTS is for priors of up to {_LIMIT} parameters, and this one has {size}: take a constant or linear "
                "mean with kernels on the inputs (mean=linear, kernel=se), or an engine for networks (MAP, SVGD, VI)."
            )
        points = points + self.spread * jax.random.normal(key_spread, points.shape)
        start = self._kernel(log_density, layout)[0]
        chains = jax.vmap(start)(points, jax.random.split(key_chains, self.chains))
        kept = jnp.zeros((self.chains, self.kept, size), points.dtype)
        return NUTSState(points, chains, kept, jnp.zeros((), int), jnp.zeros((), int), layout)

    def step(self, log_density: AbstractLogDensity, state: NUTSState, key: Key) -> tuple[NUTSState, Scalar]:
        """One trajectory a chain."""
        start, move = self._kernel(log_density, state.layout)
        jax.eval_shape(start, state.position[0], key)  # numpyro's kernel learns its settings when it starts
        chains = jax.vmap(move)(state.chains._replace(rng_key=jax.random.split(key, self.chains)))
        after = state.t - self.warmup
        slot = jnp.clip(after // self.thin, 0, self.kept - 1)
        keep = (after >= 0) & (after % self.thin == self.thin - 1)
        kept = state.kept.at[:, slot].set(jnp.where(keep, chains.z, state.kept[:, slot]))
        diverged = state.diverged + jnp.where(after >= 0, chains.diverging.sum(), 0)
        return NUTSState(chains.z, chains, kept, diverged, state.t + 1, state.layout), -chains.potential_energy.mean()

    def draws(self, state: NUTSState, key: Key) -> Params:
        """The draws kept, chain after chain."""
        del key
        return jax.vmap(state.layout.unflatten)(state.kept.reshape(-1, state.kept.shape[-1])[: self.count])

    def diagnostics(self, state: NUTSState) -> dict[str, float]:
        """The worst split r-hat, the smallest effective sample size and the divergences, of one lane."""
        from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

        kept = np.asarray(state.kept, np.float64)
        return {
            "r_hat": float(np.max(split_gelman_rubin(kept))),
            "effective_draws": float(np.min(effective_sample_size(kept))),
            "divergences": int(state.diverged),
        }

    def complaint(self, state: NUTSState) -> str | None:
        """Says where the chains have not mixed."""
        if int(state.t) < self.steps:
            return f"NUTS was stopped after {int(state.t)} of {self.steps} steps: its draws are not complete."
        if self.kept < 4:
            return None
        found = self.diagnostics(state)
        if found["r_hat"] <= _R_HAT and found["divergences"] <= 0.02 * self.chains * (self.steps - self.warmup):
            return None
        return (
            f"The chains of NUTS have not mixed well (r-hat {found['r_hat']:.2f}, {found['divergences']} divergences, "
            f"{found['effective_draws']:.0f} effective draws): more warm-up or more thinning helps."
        )

    def _kernel(self, log_density: AbstractLogDensity, layout: Layout) -> tuple[Callable, Callable]:
        """How a chain starts, from a point and a key, and how it moves."""
        from numpyro.infer.hmc import hmc  # half a second to import: only where it is used

        def potential(vector):
            return -log_density(layout.unflatten(vector), jax.random.key(0))

        start, move = hmc(potential, algo="NUTS")
        return lambda point, key: start(point, self.warmup, dense_mass=True, rng_key=key), move
