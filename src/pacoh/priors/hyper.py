"""Hyper-priors: distributions over prior parameters, one sd for each parameter group."""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.errors import PacohError
from pacoh.inference.starts import Layout
from pacoh.priors.base import AbstractHyperPrior, Param, draw_start, standard_normal
from pacoh.types import Key, Params, Scalar


class Gaussian(AbstractHyperPrior):
    """Independent normals with the trees `loc` and `sd`."""

    loc: Params
    sd: Params

    def sample(self, key: Key) -> Params:
        """One phi."""
        noise = standard_normal(self.loc, key)
        return jax.tree.map(lambda m, s, z: m + s * z, self.loc, self.sd, noise)

    def log_prob(self, phi: Params, key: Key) -> Scalar:
        """sum ln N(phi; loc, sd^2)."""
        del key
        return self.log_density(phi)

    def log_density(self, phi: Params) -> Scalar:
        """The same: it needs no draws."""
        flatten = Layout.of(self.loc).flatten
        sd = flatten(jax.tree.map(lambda m, s: jnp.broadcast_to(s, m.shape), self.loc, self.sd))
        z = (flatten(phi) - flatten(self.loc)) / sd
        return (-0.5 * z**2 - jnp.log(sd) - 0.5 * math.log(2 * math.pi)).sum()


class Flat(AbstractHyperPrior):
    """No preference (improper): its hyper-posterior is the evidence alone. Draws are training starts."""

    specs: Any = eqx.field(static=True)

    def sample(self, key: Key) -> Params:
        """A training start."""
        return draw_start(jax.tree.unflatten(self.specs[0], self.specs[1]), key)

    def log_prob(self, phi: Params, key: Key) -> Scalar:
        """Zero."""
        del phi, key
        return jnp.zeros(())


class GroupGaussian(eqx.Module):
    """Makes a Gaussian hyper-prior for any prior family: an sd for each group of parameters, in the group's units.

    A weight w on a Gaussian's log-density equals sds divided by sqrt(w), so there is no weight to set. With
    `exact=True` units are ignored and every group has loc 0: the literal N(0, s^2 I).
    """

    sds: dict[str, Float[Array, ""]]
    exact: bool = eqx.field(static=True)

    def __init__(self, sds: Mapping[str, float], exact: bool = False):
        self.sds = {group: jnp.asarray(sd, float) for group, sd in sorted(sds.items())}
        self.exact = exact

    def __call__(self, specs: Any) -> Gaussian:
        """The hyper-prior over the parameters that `specs` describes."""
        missing = {p.group for p in jax.tree.leaves(specs)} - set(self.sds)
        if missing:
            raise PacohError(
                f"The hyper-prior has sds for {', '.join(sorted(self.sds))}, but the prior has the parameter groups "
                f"{', '.join(sorted(missing))}: give an sd for each."
            )

        def loc(p: Param):
            return jnp.full(p.shape, 0.0 if self.exact else p.loc)

        def sd(p: Param):
            return self.sds[p.group] * (1.0 if self.exact else p.unit)

        return Gaussian(jax.tree.map(loc, specs), jax.tree.map(sd, specs))


class NoHyperPrior(eqx.Module):
    """Makes a Flat hyper-prior for any prior family."""

    def __call__(self, specs: Any) -> Flat:
        """No preference over the parameters that `specs` describes."""
        leaves, treedef = jax.tree.flatten(specs)
        return Flat((treedef, tuple(leaves)))
