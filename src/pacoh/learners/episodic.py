"""Learners that meet a task as an episode: learn from some of its points, be judged on the others.

A rule says what a family does with one task; training is MAP on the mean of the rule's values over tasks.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from pacoh.data import Dataset
from pacoh.errors import PacohError
from pacoh.inference.base import AbstractLogDensity, Particles, Problem
from pacoh.inference.map import MAP
from pacoh.learners.base import AbstractMetaModel, AbstractTrainedLearner
from pacoh.learners.pacoh import Start
from pacoh.priors.base import AbstractPredictor
from pacoh.theory import stratified
from pacoh.types import Key, Params, Scalar


class AbstractRule(eqx.Module):
    """How a task is learned from parameters that all tasks share: what a family of learners differs in."""

    @abc.abstractmethod
    def specs(self, d: int) -> Any:
        """The tree of Param of the shared parameters, for d inputs."""

    @abc.abstractmethod
    def value(self, theta: Params, task: Dataset, key: Key) -> Scalar:
        """What training climbs on one task: minus its outer loss, or a lower bound on its log-likelihood."""

    @abc.abstractmethod
    def adapt(self, theta: Params, context: Dataset, key: Key) -> AbstractPredictor:
        """The predictor of a new task; without points that of the shared parameters."""

    def shared(self, theta: Params) -> Scalar:
        """What training climbs besides, once for all tasks: minus a penalty."""
        del theta
        return jnp.zeros(())


def check_share(share: float | None) -> None:
    """Refuses shares that leave no context or no query."""
    if share is not None and not (isinstance(share, int | float) and 0 < share < 1):
        raise PacohError(f"The share of points in a context is between 0 and 1, or None for any; got {share!r}.")


def check_count(name: str, value: int, least: int = 0) -> None:
    """Refuses what is no whole number of `least` or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise PacohError(f"The setting {name} is a whole number of {least} or more; got {value!r}.")


def split(task: Dataset, share: float | None, key: Key) -> tuple[Dataset, Dataset]:
    """Context and query as two masks over the points of one task: round(share m) random points, and the others.

    The context has 1 to m - 1 points (none where m = 1), so that none of m >= 2 is without a query; with share None any
    number from 0 to m - 1, all equally likely. Padding changes no draw.
    """
    key_order, key_count = jax.random.split(key)
    m = task.sizes
    if share is None:
        count = jax.random.randint(key_count, (), 0, jnp.maximum(m, 1))
    else:
        count = jnp.clip(jnp.round(share * m), jnp.minimum(1, m - 1), m - 1)
    order = jnp.where(task.mask, jax.random.uniform(key_order, task.mask.shape), 2.0)
    chosen = task.mask & (jnp.argsort(jnp.argsort(order)) < count)
    return masked(task, chosen), masked(task, task.mask & ~chosen)


def masked(task: Dataset, mask: Bool[Array, " m"]) -> Dataset:
    """The same points under another mask."""
    return Dataset(task.x, task.y, mask)


def mean_over(mask: Bool[Array, " m"], values: Array) -> Scalar:
    """The mean of the values that count; 0 without any."""
    return jnp.where(mask, values, 0.0).sum() / jnp.maximum(mask.sum(), 1)


class Shuffled(AbstractRule):
    """A rule for tasks whose labels are their own: an episode renames the classes at random.

    With fixed names few tasks are memorised, drawing by drawing, and nothing is learned from a context.
    """

    rule: AbstractRule
    classes: int = eqx.field(static=True)

    def specs(self, d: int) -> Any:
        """The rule's."""
        return self.rule.specs(d)

    def value(self, theta: Params, task: Dataset, key: Key) -> Scalar:
        """The rule's, under other names of the classes."""
        key_names, key_value = jax.random.split(key)
        names = jax.random.permutation(key_names, self.classes).astype(task.y.dtype)
        return self.rule.value(theta, Dataset(task.x, names[task.y], task.mask), key_value)

    def adapt(self, theta: Params, context: Dataset, key: Key) -> AbstractPredictor:
        """The rule's."""
        return self.rule.adapt(theta, context, key)

    def shared(self, theta: Params) -> Scalar:
        """The rule's."""
        return self.rule.shared(theta)


class Episodes(AbstractLogDensity):
    """(1/n) sum_i value(theta, S_i) + shared(theta) - decay/2 |theta|^2; a mini-batch of tasks gives it unbiased.

    The weights of |theta|^2 are counted in their units about their places (`Param`): one decay serves all layers.
    """

    rule: AbstractRule
    tasks: Dataset
    decay: Scalar
    batch: int | None = eqx.field(static=True)

    def minibatch(self, key: Key) -> "Episodes":
        """The density on `batch` tasks, drawn in O(batch)."""
        n = len(self.tasks.mask)
        if self.batch is None or self.batch >= n:
            return self
        index = stratified(n, self.batch, key)
        return Episodes(self.rule, jax.tree.map(lambda leaf: leaf[index], self.tasks), self.decay, None)

    def __call__(self, phi: Params, key: Key) -> Scalar:
        """The mean over the tasks, with draws of its own for each."""
        keys = jax.random.split(key, len(self.tasks.mask))
        mean = jax.vmap(self.rule.value, (None, 0, 0))(phi, self.tasks, keys).mean()
        specs = self.rule.specs(self.tasks.x.shape[-1])
        squares = jax.tree.map(lambda p, w: (((w - p.loc) / p.unit) ** 2).sum(), specs, phi)
        return mean + self.rule.shared(phi) - 0.5 * self.decay * sum(jax.tree.leaves(squares), jnp.zeros(()))


class EpisodicModel(AbstractMetaModel):
    """A rule and the parameters that it learned."""

    rule: AbstractRule
    theta: Params

    def adapt(self, context: Dataset, key: Key) -> AbstractPredictor:
        """What the rule makes of a context."""
        return self.rule.adapt(self.theta, context, key)


class Episodic(AbstractTrainedLearner):
    """MAP on the episodes of a rule, `batch` tasks a step (None: all); `decay` keeps few tasks from being memorised."""

    rule: AbstractRule
    inference: MAP = eqx.field(default_factory=MAP)
    batch: int | None = eqx.field(static=True, default=None)
    decay: Float[Array, ""] = eqx.field(converter=lambda decay: jnp.asarray(decay, float), default=0.0)

    def problem(self, tasks: Dataset) -> Problem:
        """The engine on the episodes."""
        episodes = Episodes(self.rule, tasks, self.decay, self.batch)
        return Problem(self.inference, episodes, Start(self.rule, tasks.x.shape[-1]))

    def model(self, state: Any, tasks: Dataset, key: Key) -> EpisodicModel:
        """The parameters at the end of training; nothing of the tasks is kept."""
        del tasks
        theta = jax.tree.map(lambda leaf: leaf[0], self.inference.draws(state, key))
        return EpisodicModel(self.rule, theta)

    def restart(self, model: EpisodicModel) -> Particles:
        """The fitted parameters."""
        return Particles(jax.tree.map(lambda leaf: leaf[None], model.theta))
