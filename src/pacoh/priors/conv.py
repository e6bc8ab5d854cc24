"""A convolutional network on images that come as flat rows."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.errors import PacohError
from pacoh.priors.base import Param
from pacoh.priors.nets import ACTIVATIONS, AbstractHeaded
from pacoh.types import Params

KERNEL, STRIDE = 3, 2
_IMAGES = 32  # at a time: patches of an image are 20 times as large as the image, for each of many networks and tasks


class ConvNet(AbstractHeaded):
    """3 x 3 convolutions, one for each number of `channels`, then a linear layer on what is left.

    Rows of x are images of `side` x `side` pixels with `depth` values each, row by row. Zeros pad the border, and a
    layer halves the side, rounding up: with `pool` it takes the largest of each 2 x 2 block of a convolution at every
    pixel, else it has stride 2. Drawings of a letter are never in the same place: on five letters of Omniglot's
    meta-train alphabets, ridge regressions on three random layers of 32 (three networks) tell .67 and .80 of the
    drawings from two and five shots where they pool, .50 and .61 where they stride, for a quarter of the arithmetic.
    `reach` is the sd of the first layer's weights and biases at the start.
    """

    side: int = eqx.field(static=True)
    channels: tuple[int, ...] = eqx.field(static=True, default=(32, 32, 32, 32))
    activation: str = eqx.field(static=True, default="gelu")
    reach: float = eqx.field(static=True, default=1.0)
    depth: int = eqx.field(static=True, default=1)
    pool: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if self.activation not in ACTIVATIONS:
            raise PacohError(f"An activation is one of {', '.join(ACTIVATIONS)}; got {self.activation!r}.")
        if not self.channels:
            raise PacohError("A convolutional network needs one layer or more.")

    @property
    def seen(self) -> int:
        """How many numbers the linear layer sees."""
        side = self.side
        for _ in self.channels:
            side = -(-side // STRIDE)
        return side**2 * self.channels[-1]

    def specs(self, d: int, out: int) -> list[dict[str, Param]]:
        """Kernels and a bias a layer: groups "input" (the first), "weight" and "bias" (the others), units by fan-in."""
        if d != self.side**2 * self.depth:
            raise PacohError(
                f"Images of {self.side} x {self.side} x {self.depth} are {self.side**2 * self.depth} inputs; got {d}."
            )
        layers = []
        for place, (fan, channels) in enumerate(itertools.pairwise((self.depth, *self.channels))):
            shape, unit = (KERNEL, KERNEL, fan, channels), (KERNEL**2 * fan) ** -0.5
            if place == 0:
                weights, bias = (
                    Param(shape, "input", unit=unit, start=self.reach),
                    Param((channels,), "input", start=self.reach),
                )
            else:
                weights, bias = Param(shape, "weight", unit=unit, start=1.0), Param((channels,), "bias")
            layers.append({"w": weights, "b": bias})
        glorot = (2 * self.seen / (self.seen + out)) ** 0.5
        last = Param((self.seen, out), "weight", unit=self.seen**-0.5, start=glorot)
        return [*layers, {"w": last, "b": Param((out,), "bias")}]

    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, "m out"]:
        """The outputs at the rows of x."""
        *hidden, last = params
        return self._deep(hidden, x) @ last["w"] + last["b"]

    def features(self, hidden: Params, x: Float[Array, "m d"]) -> Float[Array, "m p"]:
        """What the last layer sees, and a one for its bias."""
        deep = self._deep(hidden, x)
        return jnp.concatenate([deep, jnp.ones_like(deep[:, :1])], -1)

    def _deep(self, layers: Params, x: Array) -> Array:
        if len(x) <= _IMAGES:
            return self._deep_few(layers, x)
        parts = -(-len(x) // _IMAGES)
        size = -(-len(x) // parts)
        padded = jnp.pad(x, ((0, parts * size - len(x)), (0, 0))).reshape(parts, size, -1)
        return jax.lax.map(lambda few: self._deep_few(layers, few), padded).reshape(parts * size, -1)[: len(x)]

    def _deep_few(self, layers: Params, x: Array) -> Array:
        images = x.reshape(-1, self.side, self.side, self.depth)
        layer_of = jax.checkpoint(self._layer) if self.pool else self._layer  # patches of every pixel are large
        for layer in layers:
            images = layer_of(layer, images)
        return images.reshape(len(x), -1)

    def _layer(self, layer: Params, images: Array) -> Array:
        seen = largest(convolution(images, layer["w"], 1)) if self.pool else convolution(images, layer["w"])
        return ACTIVATIONS[self.activation](seen + layer["b"])


def convolution(
    images: Float[Array, "m s s c"], kernels: Float[Array, "k k c o"], stride: int = STRIDE
) -> Float[Array, "m t t o"]:
    """sum_{u, v, c} images[ri + u - p, rj + v - p, c] kernels[u, v, c] for a stride r, zeros outside.

    p = 1 for odd s or stride 1, else 0. As a product of patches with kernels: many networks at a time are then one
    batched product, where XLA's own convolution goes by groups (the gradient of 40 networks on 25 images: .36 s instead
    of 65 s on a core).
    """
    side = -(-images.shape[1] // stride)
    short = max((side - 1) * stride + KERNEL - images.shape[1], 0)
    pad = (short // 2, short - short // 2)
    padded = jnp.pad(images, ((0, 0), pad, pad, (0, 0)))
    last = stride * (side - 1) + 1
    shifts = itertools.product(range(KERNEL), repeat=2)
    patches = jnp.concatenate([padded[:, u : u + last : stride, v : v + last : stride] for u, v in shifts], -1)
    return patches @ kernels.reshape(-1, kernels.shape[-1])


def largest(images: Float[Array, "m s s c"]) -> Float[Array, "m t t c"]:
    """The largest of each 2 x 2 block, of fewer at the end of an odd side."""
    m, side, _, channels = images.shape
    half = -(-side // STRIDE)
    pad = (0, STRIDE * half - side)
    padded = jnp.pad(images, ((0, 0), pad, pad, (0, 0)), constant_values=-jnp.inf)
    return padded.reshape(m, half, STRIDE, half, STRIDE, channels).max((2, 4))


def image_net(d: int, channels: tuple[int, ...], activation: str, reach: float, *, pool: bool = False) -> ConvNet:
    """The network for inputs that are the pixels of a square image."""
    side = math.isqrt(d)
    if side**2 != d or side < 4:
        raise PacohError(
            f'net="conv" is for square images of 4 x 4 pixels or more, one image a row; {d} inputs are none. '
            'Use net="mlp".'
        )
    return ConvNet(side, channels, activation, reach, pool=pool)
