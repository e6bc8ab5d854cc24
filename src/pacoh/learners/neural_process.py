"""Neural processes: a network on sets sums a context up. NP, CNP (Garnelo et al. 2018a, b), ANP (Kim et al. 2019).

No gradient steps on a new task: its points are encoded one by one, pooled, and a decoder reads the pool.
"""

import abc
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from pacoh.data import Dataset
from pacoh.learners.episodic import AbstractRule, check_count, check_share, split
from pacoh.predictive import AbstractPredictive, GaussianMixture
from pacoh.priors.base import AbstractPredictor, Param, leading
from pacoh.priors.likelihoods import AbstractLikelihood, Categorical, GaussianNoise
from pacoh.priors.nets import MLP, AbstractNet
from pacoh.priors.weights import gaussian_kl
from pacoh.types import Key, Params, Scalar

_LEAST = 0.1  # the smallest noise sd, in learner units, as in Kim et al.


class DecodedNoise(AbstractLikelihood):
    """y ~ N(f(x), sigma(x)^2), both of them outputs of the decoder; sigma = least + (1 - least) softplus."""

    outputs: int = eqx.field(static=True, default=2)

    def specs(self) -> dict[str, Param]:
        """Nothing."""
        return {}

    def sd(self, out: Float[Array, "*J m o"]) -> Float[Array, "*J m"]:
        """sigma(x)."""
        return _LEAST + (1 - _LEAST) * jax.nn.softplus(out[..., 1])

    def log_prob(self, own: Params, out: Float[Array, "m o"], y: Num[Array, " m"]) -> Float[Array, " m"]:
        """ln N(y; f(x), sigma(x)^2)."""
        del own
        sd = self.sd(out)
        return -0.5 * ((y - out[:, 0]) / sd) ** 2 - jnp.log(sd) - 0.5 * math.log(2 * math.pi)

    def predictive(self, own: Params, out: Float[Array, "J q o"]) -> GaussianMixture:
        """One normal a draw."""
        del own
        return GaussianMixture(out[..., 0], self.sd(out))

    def latent(self, own: Params, out: Float[Array, "J q o"]) -> GaussianMixture:
        """One value a draw."""
        del own
        return GaussianNoise().latent({}, out[..., :1])

    def function(self, out: Float[Array, "q o"]) -> Float[Array, " q"]:
        """f."""
        return out[:, 0]


def pooled(mask: Array, values: Float[Array, "m r"]) -> Float[Array, " r"]:
    """The mean of the rows that count; zero without any."""
    return jnp.where(mask[:, None], values, 0.0).sum(0) / jnp.maximum(mask.sum(), 1)


class AbstractPath(eqx.Module):
    """How a query reads the encoded points of a context without randomness."""

    @abc.abstractmethod
    def specs(self, d: int, size: int) -> Any:
        """The tree of Param of what is learned, for summaries of `size` numbers."""

    @abc.abstractmethod
    def __call__(self, params: Params, x: Array, context: Dataset, values: Float[Array, "m r"]) -> Float[Array, "q r"]:
        """r at each row of x."""


class Mean(AbstractPath):
    """r = (1/m) sum_i r_i, the same for every query [Garnelo et al. 2018a, section 2.2]."""

    def specs(self, d: int, size: int) -> dict[str, Any]:
        """Nothing."""
        del d, size
        return {}

    def __call__(self, params: Params, x: Array, context: Dataset, values: Float[Array, "m r"]) -> Float[Array, "q r"]:
        """The mean."""
        del params
        return jnp.broadcast_to(pooled(context.mask, values), (len(x), values.shape[-1]))


class Attention(AbstractPath):
    """r(x) = softmax(k(x) k(x_i)' / sqrt w) r_i, for each of `heads` parts of keys and values [Kim et al. 2019]."""

    net: MLP = MLP((32, 32))
    heads: int = eqx.field(static=True, default=4)

    def specs(self, d: int, size: int) -> Any:
        """The network of the keys, one for queries and context."""
        return self.net.specs(d, size)

    def __call__(self, params: Params, x: Array, context: Dataset, values: Float[Array, "m r"]) -> Float[Array, "q r"]:
        """Each head's mean of its values, weighed by its keys; zero without points."""
        asked, keys, parts = (
            part.reshape(len(part), self.heads, -1)
            for part in (self.net(params, x), self.net(params, context.x), values)
        )
        scores = jnp.einsum("qhw,mhw->hqm", asked, keys) / math.sqrt(keys.shape[-1])
        shares = jax.nn.softmax(jnp.where(context.mask, scores, -1e9), -1) * context.mask
        return jnp.einsum("hqm,mhw->qhw", shares, parts).reshape(len(x), -1)


class NeuralProcess(AbstractRule):
    """p(y | x, S) = E_{z ~ q(z | S)} p(y | x, r(x, S), z): with a latent z, a deterministic path r, or both.

    NP has z alone, CNP r alone, ANP both with attention. Each step draws a context of any size from 0 to m - 1 points
    (or a `share`). Training climbs `bound`; `whole` counts the context among its targets.
    """

    encoder: MLP = MLP((32, 32))
    decoder: AbstractNet = MLP((32, 32, 32))
    likelihood: AbstractLikelihood = DecodedNoise()
    path: AbstractPath | None = None
    size: int = eqx.field(static=True, default=32)
    codes: int = eqx.field(static=True, default=16)  # of z; 0 for none
    whole: bool = eqx.field(static=True, default=False)
    draws: int = eqx.field(static=True, default=20)
    share: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_share(self.share)
        check_count("draws", self.draws, 1)

    def specs(self, d: int) -> Any:
        """Encoders and decoder."""
        pair = d + (self.likelihood.outputs if isinstance(self.likelihood, Categorical) else 1)
        parts: dict[str, Any] = {}
        if self.codes:
            parts["latent"] = self.encoder.specs(pair, self.size)
            parts["head"] = MLP((self.size,), self.encoder.activation).specs(self.size, 2 * self.codes)
        if self.path is not None:
            parts["points"] = self.encoder.specs(pair, self.size)
            parts["path"] = self.path.specs(d, self.size)
        read = d + self.codes + (0 if self.path is None else self.size)
        return parts | {"decoder": self.decoder.specs(read, self.likelihood.outputs)}

    def pairs(self, data: Dataset) -> Float[Array, "m c"]:
        """(x_i, y_i) as one row; a class as a one among zeros."""
        if isinstance(self.likelihood, Categorical):
            return jnp.concatenate([data.x, jax.nn.one_hot(data.y, self.likelihood.outputs, dtype=data.x.dtype)], -1)
        return jnp.concatenate([data.x, data.y[:, None]], -1)

    def posterior(self, theta: Params, data: Dataset) -> tuple[Array, Array]:
        """q(z | S) = N(mu(s), sigma(s)^2), s the mean of the encoded points; sigma = 0.1 + 0.9 sigmoid."""
        summary = pooled(data.mask, self.encoder(theta["latent"], self.pairs(data)))
        head = MLP((self.size,), self.encoder.activation)
        loc, raw = jnp.split(head(theta["head"], summary[None])[0], 2)
        return loc, 0.1 + 0.9 * jax.nn.sigmoid(raw)

    def outputs(self, theta: Params, context: Dataset, z: Float[Array, " z"], x: Array) -> Float[Array, "q o"]:
        """The decoder on (x, r(x, context), z)."""
        parts = [x, jnp.broadcast_to(z, (len(x), len(z)))]
        if self.path is not None:
            values = self.encoder(theta["points"], self.pairs(context))
            parts.append(self.path(theta["path"], x, context, values))
        return self.decoder(theta["decoder"], jnp.concatenate(parts, -1))

    def value(self, theta: Params, task: Dataset, key: Key) -> Scalar:
        """The bound for a random split."""
        key_split, key_draw = jax.random.split(key)
        context, query = split(task, self.share, key_split)
        return self.bound(theta, context, task if self.whole else query, task, key_draw)

    def bound(self, theta: Params, context: Dataset, targets: Dataset, task: Dataset, key: Key) -> Scalar:
        """E_{z ~ q(z | S)} sum_targets ln p(y | x, r, z) - KL(q(z | S) || q(z | context)), by one draw of z.

        At most ln p(targets | context) [Garnelo et al. 2018b, equation 9]; without z that itself [2018a, equation 4].
        """
        z, price = jnp.zeros(0), jnp.zeros(())
        if self.codes:
            loc, sd = self.posterior(theta, task)
            z = loc + sd * jax.random.normal(key, loc.shape)
            price = gaussian_kl((loc, sd), self.posterior(theta, context))
        return self.log_likelihood(theta, context, z, targets) - price

    def log_likelihood(self, theta: Params, context: Dataset, z: Float[Array, " z"], targets: Dataset) -> Scalar:
        """sum_targets ln p(y | x, r(x, context), z)."""
        each = self.likelihood.log_prob({}, self.outputs(theta, context, z, targets.x), targets.y)
        return jnp.where(targets.mask, each, 0.0).sum()

    def adapt(self, theta: Params, context: Dataset, key: Key) -> "NPPredictor":
        """Draws of z given the context, one empty one where there is none."""
        if not self.codes:
            return NPPredictor(self, theta, context, jnp.zeros((1, 0)))
        loc, sd = self.posterior(theta, context)
        return NPPredictor(self, theta, context, loc + sd * jax.random.normal(key, (self.draws, self.codes)))


class NPPredictor(AbstractPredictor):
    """A neural process given a context, as a mixture over draws of z."""

    rule: NeuralProcess
    theta: Params
    context: Dataset
    z: Float[Array, "J z"]

    def __call__(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """Of y."""
        return self.rule.likelihood.predictive({}, self._outputs(x))

    def latent(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """Of f: the spread over z."""
        return self.rule.likelihood.latent({}, self._outputs(x))

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Array]:
        """The function of one z."""
        z = self.z[jax.random.randint(key, (), 0, leading(self.z))]
        return lambda x: self.rule.likelihood.function(self.rule.outputs(self.theta, self.context, z, x))

    def _outputs(self, x: Array) -> Float[Array, "J q o"]:
        return jax.vmap(lambda z: self.rule.outputs(self.theta, self.context, z, x))(self.z)
