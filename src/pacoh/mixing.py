"""Predictives of several models as one."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.categorical import CategoricalMixture
from pacoh.errors import PacohError
from pacoh.predictive import AbstractPredictive, GaussianMixture, Point


def mixture(components: AbstractPredictive, log_weights: Float[Array, " K"] | None = None) -> AbstractPredictive:
    """One mixture from a stack of K mixtures of J components each (axes: K, ..., J, q), with weights over the K."""
    if isinstance(components, GaussianMixture):
        loc, scale = (_joined(part, -2) for part in (components.loc, components.scale))
        inner = _weights(components.log_weights, log_weights, *_counts(components.loc, -2))
        return GaussianMixture(loc, scale, inner)
    if isinstance(components, CategoricalMixture):
        logits = _joined(components.logits, -3)
        inner = _weights(components.log_weights, log_weights, *_counts(components.logits, -3))
        return CategoricalMixture(logits, inner, components.classes)
    if isinstance(components, Point):
        shares = jax.nn.softmax(jnp.zeros(len(components.loc)) if log_weights is None else log_weights)
        return Point(jnp.tensordot(shares, components.loc, 1))
    raise PacohError(f"Predictions of kind {type(components).__name__} cannot be mixed.")


def _joined(stack: Array, axis: int) -> Array:
    """The leading axis K and the axis J as one. (Joining K slices instead compiles a program of K parts.)"""
    moved = jnp.moveaxis(stack, 0, axis - 1)
    *_, k, j = moved.shape[: axis + 1]
    return moved.reshape(*moved.shape[: axis - 1], k * j, *moved.shape[axis + 1 :])


def _counts(stack: Array, axis: int) -> tuple[int, int]:
    return stack.shape[0], stack.shape[axis]


def _weights(inner: Array | None, outer: Array | None, k: int, j: int) -> Array | None:
    """ln of the K * J weights that sum to one; None where all are equal."""
    if inner is None and outer is None:
        return None
    within = jnp.full((k, j), -jnp.log(j)) if inner is None else jax.nn.log_softmax(inner)
    between = jnp.full(k, -jnp.log(k)) if outer is None else jax.nn.log_softmax(outer)
    return (within + between[:, None]).reshape(-1)
