"""Classes as round clouds of points: a reference with probabilities that needs no training."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.categorical import CategoricalMixture
from pacoh.data import Dataset, Task
from pacoh.inference.base import Budget
from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel
from pacoh.learners.naive_classes import class_sums
from pacoh.learners.vanilla import context_units
from pacoh.priors.base import AbstractPredictor
from pacoh.types import Key, Scalar

_WIDTHS = np.geomspace(0.05, 2.0, 9)
_DISTANCES = np.geomspace(0.1, 3.0, 7)


class Clouds(AbstractPredictor):
    """p(c | x) ~ share_c N(x; place_c, spread_c^2 I) under each of J settings, which are weighed.

    Inputs are taken about `centre` and in units of `scale`.
    """

    centre: Float[Array, " d"]
    scale: Float[Array, " d"]
    places: Float[Array, "J C d"]
    spreads: Float[Array, "J C"]
    shares: Float[Array, " C"]
    log_weights: Float[Array, " J"]

    def __call__(self, x: Float[Array, "q d"]) -> CategoricalMixture:
        """Of the class."""
        each = jax.vmap(lambda places, spreads: self._log_probs((x - self.centre) / self.scale, places, spreads))
        logs = each(self.places, self.spreads) + jax.nn.log_softmax(self.log_weights)[:, None, None]
        return CategoricalMixture(jax.nn.logsumexp(logs, 0)[None])

    def latent(self, x: Float[Array, "q d"]) -> CategoricalMixture:
        """The same: the classes' probabilities."""
        return self(x)

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, "q C"]]:
        """The probabilities under one setting."""
        one = jax.random.categorical(key, self.log_weights)
        return lambda x: jnp.exp(self._log_probs((x - self.centre) / self.scale, self.places[one], self.spreads[one]))

    def _log_probs(self, x: Array, places: Array, spreads: Array) -> Float[Array, "q C"]:
        squares = ((x[:, None] - places) ** 2).sum(-1)
        logs = jnp.log(self.shares) - 0.5 * squares / spreads**2 - x.shape[-1] * jnp.log(spreads)
        return jax.nn.log_softmax(logs)


class CloudsModel(AbstractMetaModel):
    """Settings (width s, distance t) of x | c ~ N(mu_c, s^2 I), mu_c ~ N(0, t^2 I), and the logs of their weights.

    `pseudo` counts of the classes are added to those of a context. With `own` inputs are in the context's units, else
    about its mean in the units of all tasks.
    """

    widths: Float[Array, " J"]
    distances: Float[Array, " J"]
    log_weights: Float[Array, " J"]
    pseudo: Float[Array, " C"]
    own: bool = eqx.field(static=True, default=True)

    def adapt(self, context: Dataset, key: Key) -> Clouds:
        """The posterior of the clouds under each setting, weighed by the evidence of the inputs given the classes."""
        del key
        centre, scale, counts, sums = self._placed(context)
        s, t = self.widths[:, None], self.distances[:, None]
        kept = t**2 / (s**2 + counts * t**2)  # J C: of the sum of a class's points, in its cloud's place
        spreads = s * jnp.sqrt(1 + kept)
        weights = self.log_weights + self.log_evidences(context)
        return Clouds(centre, scale, kept[..., None] * sums, spreads, counts + self.pseudo, weights)

    def log_evidences(self, context: Dataset) -> Float[Array, " J"]:
        """ln p(inputs | classes) under each setting: normal in closed form, up to a constant."""
        centre, scale, counts, sums = self._placed(context)
        x = jnp.where(context.mask[:, None], (context.x - centre) / scale, 0.0)
        d, total = x.shape[-1], (x**2).sum()

        def one(s: Scalar, t: Scalar) -> Scalar:
            explained = ((sums**2).sum(-1) * t**2 / (s**2 + counts * t**2)).sum()
            volume = d * jnp.log1p(counts * t**2 / s**2).sum() + 2 * d * counts.sum() * jnp.log(s)
            return -0.5 * ((total - explained) / s**2 + volume)

        return jax.vmap(one)(self.widths, self.distances)

    def _placed(self, context: Dataset) -> tuple[Array, Array, Array, Array]:
        """Centre and scale of the inputs, and with these the counts of the classes and the sums of their points."""
        centre, scale, *_ = context_units(context)
        scale = scale if self.own else jnp.ones_like(scale)
        counts, sums = class_sums(Dataset((context.x - centre) / scale, context.y, context.mask), len(self.pseudo))
        return centre, scale, counts, sums


def averaged_clouds(classes: int) -> CloudsModel:
    """The clouds of a task alone, averaged over 63 widths and distances."""
    widths, distances = (jnp.asarray(some.ravel(), float) for some in np.meshgrid(_WIDTHS, _DISTANCES))
    return CloudsModel(widths, distances, jnp.zeros(len(widths)), jnp.ones(classes))


class LearnedClouds(AbstractMetaLearner):
    """Clouds whose width, distance and shares of the points are those of the meta-train tasks, and nothing else."""

    classes: int = eqx.field(static=True)

    def fit(self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None) -> CloudsModel:
        """Weighs each setting by the evidence of all tasks."""
        del key, valid, budget
        alone = averaged_clouds(self.classes)
        even = CloudsModel(alone.widths, alone.distances, alone.log_weights, self._pseudo(tasks), own=False)
        return eqx.tree_at(lambda model: model.log_weights, even, jax.vmap(even.log_evidences)(tasks).sum(0))

    def _pseudo(self, tasks: Dataset) -> Float[Array, " C"]:
        counts, _ = jax.vmap(lambda task: class_sums(task, self.classes))(tasks)
        return self.classes * (1 + counts.sum(0)) / (self.classes + counts.sum())
