"""How parameters lie in a flat vector, and where training starts."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.types import Key, Params


class Layout(NamedTuple):
    """How a parameter tree lies in a flat vector; equal layouts compile once."""

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(tree: Params) -> "Layout":
        """The layout of `tree`."""
        leaves, treedef = jax.tree.flatten(tree)
        return Layout(treedef, tuple(leaf.shape for leaf in leaves))

    def flatten(self, tree: Params) -> Float[Array, " D"]:
        """All leaves in one vector: fewer, larger operations a step."""
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])

    def repeated(self, numbers: Params) -> Float[Array, " D"]:
        """A number a leaf, at each entry of its leaf. A product, whose derivative is one, too: a gather's is slow."""
        flat, sizes = self.flatten(numbers), [math.prod(shape) for shape in self.shapes]
        owner = np.repeat(np.eye(len(sizes), dtype=flat.dtype), sizes, axis=1)
        return jnp.matmul(flat, owner, precision="highest")

    def unflatten(self, vector: Float[Array, " D"]) -> Params:
        """The tree back."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        parts = jnp.split(vector, ends[:-1])
        leaves = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.treedef, leaves)


class Particles(eqx.Module):
    """Starting points that are given, as the leading axis of `phis`: a fitted model's, to go on from."""

    phis: Params

    def __call__(self, key: Key) -> Params:
        """One of them."""
        chosen = jax.random.randint(key, (), 0, len(jax.tree.leaves(self.phis)[0]))
        return jax.tree.map(lambda leaf: leaf[chosen], self.phis)

    def rows(self, layout: Layout, count: int, key: Key) -> Float[Array, "K D"]:
        """`count` different ones; where there are fewer, copies that are moved a little, so that they can part."""
        rows = jax.vmap(layout.flatten)(self.phis)
        repeated = jnp.arange(count) >= len(rows)
        noise = jax.random.normal(key, (count, rows.shape[1]))
        return rows[jnp.arange(count) % len(rows)] + jnp.where(repeated[:, None], 0.01 * noise, 0.0)


def starts(draw: Callable[[Key], Params], count: int, key: Key) -> tuple[Float[Array, "K D"], Layout]:
    """`count` independent starting points as rows, and their layout."""
    layout = Layout.of(eqx.filter_eval_shape(draw, key))
    if isinstance(draw, Particles):
        return draw.rows(layout, count, key), layout
    return jax.vmap(lambda k: layout.flatten(draw(k)))(jax.random.split(key, count)), layout
