"""Families of distributions over hypotheses: a network's weights and what the likelihood adds."""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.inference.starts import Layout
from pacoh.priors.base import Param, normal_rows
from pacoh.priors.hyper import Gaussian
from pacoh.types import Key, Params, Scalar


@jax.custom_vjp
def _spread(loc: Array, sd: Array, noise: Array) -> Array:
    """loc + sd z for draws z along a leading axis.

    Its derivative adds the draws up by halves: XLA's reduction over a leading axis takes several times as long (CPU).
    """
    return loc + sd * noise


def _spread_forward(loc: Array, sd: Array, noise: Array) -> tuple[Array, Array]:
    return _spread(loc, sd, noise), noise


def _spread_backward(noise: Array, slope: Array) -> tuple[Array, Array, None]:
    return _total(slope), _total(slope * noise), None


def _total(terms: Array) -> Array:
    """The sum over a leading axis."""
    odd = jnp.zeros_like(terms[0])
    while len(terms) > 1:
        half = len(terms) // 2
        odd = odd + terms[-1] if len(terms) % 2 else odd
        terms = terms[:half] + terms[half : 2 * half]
    return terms[0] + odd


_spread.defvjp(_spread_forward, _spread_backward)


class AbstractWeights(eqx.Module):
    """{P_phi} over hypotheses h. Reparametrised draws and a log-density are all that is needed of a family."""

    @abc.abstractmethod
    def specs(self, hypothesis: Any) -> Any:
        """The tree of Param of phi, from the tree of Param that a hypothesis follows."""

    @abc.abstractmethod
    def sample(self, phi: Params, key: Key) -> Params:
        """h ~ P_phi, differentiable in phi."""

    @abc.abstractmethod
    def log_prob(self, phi: Params, h: Params) -> Scalar:
        """ln P_phi(h)."""

    def samples(self, phi: Params, count: int, key: Key) -> Params:
        """`count` independent draws, along a leading axis."""
        return jax.vmap(lambda k: self.sample(phi, k))(jax.random.split(key, count))

    def log_prob_in_units(self, phi: Params, h: Params, z: Float[Array, " D"]) -> Scalar:
        """ln P_phi(h) up to a constant, where h is loc + scale z, (loc, scale) the place of phi."""
        del z
        return self.log_prob(phi, h)

    def place(self, phi: Params) -> tuple[Params, Params]:
        """Where P_phi lies and how wide it is, as trees like h: units to move hypotheses in (default: 0 and 1)."""
        like = jax.eval_shape(self.sample, phi, jax.random.key(0))
        return tuple(jax.tree.map(lambda p, v=v: jnp.full(p.shape, v, p.dtype), like) for v in (0.0, 1.0))


class DiagonalGaussian(AbstractWeights):
    """h ~ N(loc, diag sd^2), ln sd = ln spread + level + log_sd; phi = {"loc", "log_sd", "level"}.

    A level is shared by all weights of an array: one number moves them together, which the evidence of few tasks can
    pay for; log sds of single weights live about their units (1/sqrt(fan-in)).
    """

    spread: Float[Array, ""] = eqx.field(converter=lambda value: jnp.asarray(value, float), default=0.1)

    def specs(self, hypothesis: Any) -> Any:
        """Means in the groups of the hypothesis' parameters, log sds in the group "spread", levels in "level"."""
        return {
            "loc": hypothesis,
            "log_sd": jax.tree.map(lambda p: Param(p.shape, "spread", loc=math.log(p.unit)), hypothesis),
            "level": jax.tree.map(lambda _: Param((), "level"), hypothesis),
        }

    def sample(self, phi: Params, key: Key) -> Params:
        """loc + sd z."""
        return Gaussian(*self.place(phi)).sample(key)

    def samples(self, phi: Params, count: int, key: Key) -> Params:
        """The same, `count` times."""
        layout = Layout.of(phi["loc"])
        loc, log_sd = layout.flatten(phi["loc"]), layout.flatten(phi["log_sd"])
        sd = self._sd(log_sd, layout.repeated(phi["level"]))  # in one array
        return jax.vmap(layout.unflatten)(_spread(loc, sd, normal_rows(count, len(loc), key)))

    def log_prob(self, phi: Params, h: Params) -> Scalar:
        """sum ln N(h; loc, sd^2)."""
        return Gaussian(*self.place(phi)).log_density(h)

    def log_prob_in_units(self, phi: Params, h: Params, z: Float[Array, " D"]) -> Scalar:
        """-|z|^2/2."""
        del phi, h
        return -0.5 * (z**2).sum()

    def place(self, phi: Params) -> tuple[Params, Params]:
        """loc and sd."""
        return phi["loc"], jax.tree.map(self._sd, phi["log_sd"], phi["level"])

    def _sd(self, log_sd: Array, level: Array) -> Array:
        return self.spread * jnp.exp(level + log_sd)


def gaussian_kl(q: tuple[Params, Params], p: tuple[Params, Params]) -> Scalar:
    """KL(q || p) = sum ln(s_p / s_q) + (s_q^2 + (m_q - m_p)^2) / (2 s_p^2) - 1/2 of diagonal Gaussians (means, sds)."""
    terms = jax.tree.map(
        lambda m, s, at, width: (jnp.log(width / s) + (s**2 + (m - at) ** 2) / (2 * width**2) - 0.5).sum(), *q, *p
    )
    return sum(jax.tree.leaves(terms), jnp.zeros(()))
