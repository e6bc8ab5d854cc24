"""Learning each task alone: a prior family fitted to the context by MAP, standardised by the context itself."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from pacoh.data import Dataset, Task
from pacoh.inference.base import AbstractInference, Budget, scan
from pacoh.inference.map import MAP
from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel
from pacoh.learners.pacoh import PACOHModel, Start
from pacoh.predictive import AbstractPredictive
from pacoh.priors.base import AbstractHyperPrior, AbstractPredictor, AbstractPrior
from pacoh.priors.bnn import AbstractDrawnPrior
from pacoh.theory import BAYES, HyperPosterior, Rates
from pacoh.types import Key, Params


class Rescaled(AbstractPredictor):
    """A predictor that works in units of its own context."""

    inner: AbstractPredictor
    x_loc: Float[Array, " d"]
    x_scale: Float[Array, " d"]
    y_loc: Float[Array, ""]
    y_scale: Float[Array, ""]

    def __call__(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """Of y."""
        return self.inner((x - self.x_loc) / self.x_scale).affine(self.y_loc, self.y_scale)

    def latent(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """Of f."""
        return self.inner.latent((x - self.x_loc) / self.x_scale).affine(self.y_loc, self.y_scale)

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, " q"]]:
        """One draw of f."""
        draw = self.inner.function(key)
        return lambda x: self.y_loc + self.y_scale * draw((x - self.x_loc) / self.x_scale)


def context_units(context: Dataset) -> tuple[Array, Array, Array, Array]:
    """Mean and scale of a context's inputs and targets; 0 and 1 where there are too few points to tell, or classes."""
    numeric = jnp.issubdtype(context.y.dtype, jnp.floating)
    count = jnp.maximum(context.mask.sum(), 1)
    targets = context.y if numeric else jnp.zeros_like(context.x[:, 0])
    columns = jnp.concatenate([context.x, targets[:, None]], -1)
    kept = jnp.where(context.mask[:, None], columns, 0.0)
    loc = kept.sum(0) / count
    sd = jnp.sqrt((jnp.where(context.mask[:, None], columns - loc, 0.0) ** 2).sum(0) / count)
    scale = jnp.where(sd > 1e-5 * (1 + jnp.abs(loc)), sd, 1.0)
    return loc[:-1], scale[:-1], loc[-1], scale[-1]


def in_units(context: Dataset, units: tuple[Array, Array, Array, Array]) -> Dataset:
    """A context in its own units; class ids as they are."""
    x_loc, x_scale, y_loc, y_scale = units
    numeric = jnp.issubdtype(context.y.dtype, jnp.floating)
    return Dataset((context.x - x_loc) / x_scale, (context.y - y_loc) / y_scale if numeric else context.y, context.mask)


class VanillaModel(AbstractMetaModel):
    """Knows nothing but the family: all learning happens in `adapt`."""

    prior: AbstractPrior
    hyper_prior: Callable[[Any], AbstractHyperPrior]
    inference: AbstractInference
    rates: Rates

    def adapt(self, context: Dataset, key: Key) -> Rescaled:
        """The prior's parameters by the engine on this context's evidence alone, then conditioning on it."""
        key_init, key_steps, key_draws, key_adapt = jax.random.split(key, 4)
        units = context_units(context)
        scaled = in_units(context, units)
        d = context.x.shape[-1]
        hyper_prior = self.hyper_prior(self.prior.specs(d))
        one_task = jax.tree.map(lambda leaf: leaf[None], scaled)
        betas = self.rates.betas(one_task.sizes)
        density = HyperPosterior(self.prior, hyper_prior, one_task, betas, jnp.ones(1), None)  # one task: weight 1
        state = self.inference.init(density, Start(self.prior, d), key_init)
        state, _ = scan(self.inference, density, state, jax.random.split(key_steps, self.inference.steps))
        fitted = PACOHModel(self.prior, self.inference.draws(state, key_draws), self.rates)
        return Rescaled(fitted.adapt(scaled, key_adapt), *units)


class Vanilla(AbstractMetaLearner):
    """The baseline without transfer: `fit` learns nothing from the tasks."""

    prior: AbstractPrior
    hyper_prior: Callable[[Any], AbstractHyperPrior]
    inference: AbstractInference = eqx.field(default_factory=MAP)
    rates: Rates = BAYES

    def fit(self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None) -> VanillaModel:
        """Passes the settings on."""
        del tasks, key, valid, budget
        return self.model()

    def model(self) -> VanillaModel:
        """The model, which needs no tasks."""
        return VanillaModel(self.prior, self.hyper_prior, self.inference, self.rates)


class FixedModel(AbstractMetaModel):
    """A prior that nobody learned, conditioned on a context in its own units or in those of all tasks."""

    prior: AbstractDrawnPrior
    rates: Rates
    own_units: Bool[Array, ""]
    reach: Float[Array, ""]
    head: Float[Array, ""]

    def centre(self, d: int) -> Params:
        """The parameters of the family's central prior, the sds of its first and last layers apart."""
        centre = jax.tree.map(lambda p: jnp.full(p.shape, p.loc), self.prior.specs(d))
        layers = centre["level"]["net"]
        for place, factor in ((0, self.reach), (-1, self.head)):
            layers[place] = jax.tree.map(lambda level, by=factor: level + jnp.log(by), layers[place])
        return centre

    def adapt(self, context: Dataset, key: Key) -> Rescaled:
        """The posterior under the central prior."""
        centre = self.centre(context.x.shape[-1])
        pairs = zip(context_units(context), (0.0, 1.0, 0.0, 1.0), strict=True)
        x_loc, x_scale, y_loc, y_scale = (jnp.where(self.own_units, own, shared) for own, shared in pairs)
        units = x_loc, x_scale, y_loc, y_scale
        return Rescaled(
            self.prior.condition(centre, in_units(context, units), self.rates.betas(context.sizes), key), *units
        )


def levels_share(tasks: Dataset) -> Float[Array, ""]:
    """The share of the tasks' levels in the variance of targets: var(means) less what chance gives, over the whole."""
    counts = jnp.maximum(tasks.sizes, 1)
    means = jnp.where(tasks.mask, tasks.y, 0.0).sum(-1) / counts
    squares = jnp.where(tasks.mask, (tasks.y - means[:, None]) ** 2, 0.0).sum(-1)
    within = squares.sum() / jnp.maximum((counts - 1).sum(), 1)
    between = jnp.maximum(means.var() - (within / counts).mean(), 0.0)
    return between / jnp.maximum(between + within, jnp.finfo(between.dtype).tiny)


class Fixed(AbstractMetaLearner):
    """The baseline without transfer for a network of zero-centred weights: the Vanilla BNN.

    `reach` and `head` are factors on the prior sds of the first layer, which looks at the inputs, and of the last,
    which makes the outputs.

    Inputs and targets are measured in the context's own units, or in those of the meta-train tasks (`own_units` False):
    their mean and scale are then all that tasks share. None: in their own where the tasks' levels make more than three
    tenths of the variance.
    """

    prior: AbstractDrawnPrior
    rates: Rates = BAYES
    own_units: bool | None = eqx.field(static=True, default=True)
    reach: Float[Array, ""] = eqx.field(converter=lambda value: jnp.asarray(value, float), default=1.0)
    head: Float[Array, ""] = eqx.field(converter=lambda value: jnp.asarray(value, float), default=1.0)

    def fit(self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None) -> FixedModel:
        """Looks at the tasks' levels at most."""
        del key, valid, budget
        own = levels_share(tasks) > 0.3 if self.own_units is None else jnp.asarray(self.own_units)
        return FixedModel(self.prior, self.rates, own, self.reach, self.head)
