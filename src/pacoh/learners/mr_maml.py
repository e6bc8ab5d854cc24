"""MR-MAML (Yin et al. 2020): MAML with an information bottleneck, so that tasks cannot be memorised.

An encoder z = f_theta(x) is shared by all tasks; a decoder that starts at phi_0 learns each task by gradient steps.
What the encoder may know is bounded: by noise on its weights (W) or on what it says (A), with beta times a KL
divergence as the price. A new task meets encoders and encodings at their means: a prediction is one point.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.learners.episodic import AbstractRule, check_share, mean_over, split
from pacoh.learners.maml import Inner, descend
from pacoh.learners.points import AbstractLoss, PointPredictor, Squared
from pacoh.priors.base import Param
from pacoh.priors.nets import MLP, AbstractNet
from pacoh.priors.weights import DiagonalGaussian, gaussian_kl
from pacoh.types import Key, Params, Scalar


class Coder(AbstractNet):
    """A network in two parts: z, the first `features` outputs of the encoder, and the decoder on z."""

    encoder: AbstractNet = MLP((32, 32, 32))
    decoder: AbstractNet = MLP((32,))
    features: int = eqx.field(static=True, default=32)

    def specs(self, d: int, out: int, codes: int | None = None) -> dict[str, list[dict[str, Param]]]:
        """Both parts' weights; the encoder has `codes` outputs (default: the features alone)."""
        return {
            "encoder": self.encoder.specs(d, codes or self.features),
            "decoder": self.decoder.specs(self.features, out),
        }

    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, "m out"]:
        """The decoder's outputs."""
        return self.decoder(params["decoder"], self.encoder(params["encoder"], x)[:, : self.features])


class AbstractMRMAML(AbstractRule):
    """What both bottlenecks share: gradient steps of the decoder on the encoded context."""

    net: eqx.AbstractVar[Coder]
    loss: eqx.AbstractVar[AbstractLoss]
    inner: eqx.AbstractVar[Inner]
    beta: eqx.AbstractVar[Float[Array, ""]]
    share: eqx.AbstractVar[float]

    def __check_init__(self):
        check_share(self.share)

    def risk(self, decoder: Params, codes: Array, data: Dataset) -> Scalar:
        """The mean loss of a decoder on encoded points."""
        return mean_over(data.mask, self.loss.each(self.net.decoder(decoder, codes), data.y))

    def learned(self, decoder: Params, codes: Array, context: Dataset, steps: int) -> Params:
        """phi = phi_0 - alpha' grad L(phi_0; z, y), `steps` times [algorithm 2]."""
        return descend(lambda now: self.risk(now, codes, context), decoder, self.inner.rate, steps, self.inner.longest)

    def predictor(self, encoder: Params, decoder: Params, context: Dataset) -> PointPredictor:
        """The decoder learned from the whole context, behind a fixed encoder."""
        codes = self.net.encoder(encoder, context.x)[:, : self.net.features]
        learned = self.learned(decoder, codes, context, self.inner.test_steps)
        return PointPredictor(self.net, self.loss, {"encoder": encoder, "decoder": learned})


class MRMAMLWeights(AbstractMRMAML):
    """min (1/n) sum_i E_{theta ~ q} L(phi_i; f_theta(query_i)) + beta KL(q(theta) || N(0, 1)), q a diagonal Gaussian.

    [Yin et al., section 4.2 and algorithm 2: the bottleneck on weights]. One draw of theta a task and step.
    """

    net: Coder = Coder()
    loss: AbstractLoss = Squared()
    inner: Inner = eqx.field(default_factory=Inner)
    beta: Float[Array, ""] = eqx.field(converter=lambda beta: jnp.asarray(beta, float), default=1e-6)
    share: float = eqx.field(static=True, default=0.5)
    weights: DiagonalGaussian = eqx.field(default_factory=DiagonalGaussian)

    def specs(self, d: int) -> Any:
        """Means and log sds of the encoder's weights; the decoder's start."""
        parts = self.net.specs(d, self.loss.outputs)
        return {"encoder": self.weights.specs(parts["encoder"]), "decoder": parts["decoder"]}

    def value(self, theta: Params, task: Dataset, key: Key) -> Scalar:
        """-L(phi_i; f_theta(query)), theta ~ q."""
        key_split, key_draw = jax.random.split(key)
        context, query = split(task, self.share, key_split)
        codes = self.net.encoder(self.weights.sample(theta["encoder"], key_draw), task.x)
        return -self.risk(self.learned(theta["decoder"], codes, context, self.inner.steps), codes, query)

    def shared(self, theta: Params) -> Scalar:
        """-beta KL(q || N(0, 1))."""
        loc, sd = self.weights.place(theta["encoder"])
        standard = (jax.tree.map(jnp.zeros_like, loc), jax.tree.map(jnp.ones_like, loc))
        return -self.beta * gaussian_kl((loc, sd), standard)

    def adapt(self, theta: Params, context: Dataset, key: Key) -> PointPredictor:
        """With the encoder's mean weights."""
        del key
        return self.predictor(theta["encoder"]["loc"], theta["decoder"], context)


class MRMAMLActivations(AbstractMRMAML):
    """min (1/n) sum_i E_z L(phi_i; z*) + beta mean_query KL(q(z* | x*, theta) || N(0, 1)), z ~ N(mu(x), sigma(x)^2).

    [Yin et al., section 4.1: the bottleneck on activations]. One draw of z a point and step.
    """

    net: Coder = Coder()
    loss: AbstractLoss = Squared()
    inner: Inner = eqx.field(default_factory=Inner)
    beta: Float[Array, ""] = eqx.field(converter=lambda beta: jnp.asarray(beta, float), default=1e-4)
    share: float = eqx.field(static=True, default=0.5)
    spread: float = eqx.field(static=True, default=0.1)  # about which the encoder's sds start

    def specs(self, d: int) -> Any:
        """The weights of an encoder with a mean and a log sd a feature, and of the decoder."""
        return self.net.specs(d, self.loss.outputs, 2 * self.net.features)

    def codes(self, encoder: Params, x: Float[Array, "m d"]) -> tuple[Array, Array]:
        """mu(x) and sigma(x)."""
        loc, raw = jnp.split(self.net.encoder(encoder, x), 2, -1)
        return loc, self.spread * jnp.exp(raw)

    def value(self, theta: Params, task: Dataset, key: Key) -> Scalar:
        """-L(phi_i; z*) - beta KL, z drawn for context and query alike."""
        key_split, key_draw = jax.random.split(key)
        context, query = split(task, self.share, key_split)
        loc, sd = self.codes(theta["encoder"], task.x)
        codes = loc + sd * jax.random.normal(key_draw, loc.shape)
        price = jax.vmap(lambda loc, sd: gaussian_kl((loc, sd), (jnp.zeros_like(loc), jnp.ones_like(loc))))(loc, sd)
        learned = self.learned(theta["decoder"], codes, context, self.inner.steps)
        return -self.risk(learned, codes, query) - self.beta * mean_over(query.mask, price)

    def adapt(self, theta: Params, context: Dataset, key: Key) -> PointPredictor:
        """With the encodings' means."""
        del key
        return self.predictor(theta["encoder"], theta["decoder"], context)
