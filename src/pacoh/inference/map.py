"""Maximum a posteriori: gradient ascent on the log-density."""

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array

from pacoh.inference.base import AbstractAscent, AbstractLogDensity, Adam, AscentState, scores, starts
from pacoh.types import Key, Params, Scalar


class MAP(AbstractAscent):
    """argmax ln q(phi), as one draw. With `restarts`, independent ascents, all kept as draws."""

    optimizer: Adam = eqx.field(default_factory=Adam)
    restarts: int = eqx.field(static=True, default=1)

    def init(self, log_density: AbstractLogDensity, draw: Callable[[Key], Params], key: Key) -> AscentState:
        """One start a restart."""
        del log_density
        return self.start(*starts(draw, self.restarts, key))

    def ascent(self, log_density: AbstractLogDensity, state: AscentState, key: Key) -> tuple[Array, Scalar]:
        """grad ln q."""
        values, gradients = scores(log_density, state, key)
        return gradients, values.mean()

    def draws(self, state: AscentState, key: Key) -> Params:
        """The modes found."""
        del key
        return eqx.filter_vmap(state.layout.unflatten)(state.position)
