"""Any learner in other coordinates, which the meta-train tasks choose: the learner knows nothing of it."""

import abc
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp

from pacoh.data import Dataset, Task
from pacoh.inference.base import Budget, Particles, Problem
from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel, AbstractTrainedLearner
from pacoh.priors.base import AbstractPredictor
from pacoh.types import Key


class AbstractChange(eqx.Module):
    """Other coordinates of inputs or targets."""

    @classmethod
    @abc.abstractmethod
    def of(cls, tasks: Dataset) -> "AbstractChange":
        """What suits the points of all tasks together."""

    @abc.abstractmethod
    def tasks(self, tasks: Dataset) -> Dataset:
        """Tasks in the new coordinates; padding stays zero."""

    @abc.abstractmethod
    def predictor(self, inner: AbstractPredictor) -> AbstractPredictor:
        """A predictor in the new coordinates, for those who know the old ones."""


class ChangedModel(AbstractMetaModel):
    """A model of changed tasks, and the change."""

    learned: AbstractMetaModel
    change: AbstractChange

    def adapt(self, context: Dataset, key: Key) -> AbstractPredictor:
        """The learned model's predictor, given the changed context."""
        return self.change.predictor(self.learned.adapt(self.change.tasks(context), key))


class Changed(AbstractMetaLearner):
    """A learner that is no engine on a log-density, on changed tasks."""

    learner: AbstractMetaLearner
    kind: type[AbstractChange] = eqx.field(static=True)

    def fit(self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None) -> ChangedModel:
        """The learner's model of changed tasks."""
        change = self.kind.of(tasks)
        if valid is not None:
            valid = Task(change.tasks(valid.context), change.tasks(valid.query))
        return ChangedModel(self.learner.fit(change.tasks(tasks), key, valid, budget), change)


class ChangedTraining(AbstractTrainedLearner):
    """A learner that is an engine on a log-density, on changed tasks."""

    learner: AbstractTrainedLearner
    kind: type[AbstractChange] = eqx.field(static=True)

    def problem(self, tasks: Dataset) -> Problem:
        """The learner's."""
        return self.learner.problem(self.kind.of(tasks).tasks(tasks))

    def model(self, state: object, tasks: Dataset, key: Key) -> ChangedModel:
        """The learner's model and the change."""
        change = self.kind.of(tasks)
        return ChangedModel(self.learner.model(state, change.tasks(tasks), key), change)

    def restart(self, model: ChangedModel) -> Particles:
        """The learner's; the change is that of the tasks it goes on with."""
        return self.learner.restart(model.learned)

    def check(self, tasks: Dataset) -> None:
        """The learner's."""
        self.learner.check(tasks)


def changed(learner: AbstractMetaLearner, kind: type[AbstractChange]) -> Changed | ChangedTraining:
    """The learner on changed tasks."""
    return ChangedTraining(learner, kind) if isinstance(learner, AbstractTrainedLearner) else Changed(learner, kind)


def only(mask: jax.Array, values: jax.Array) -> jax.Array:
    """Rows that count; zeros for padding."""
    return jnp.where(mask.reshape(*mask.shape, *(1,) * (values.ndim - mask.ndim)), values, 0.0)


def with_inputs(tasks: Dataset, x: jax.Array) -> Dataset:
    """Tasks with other inputs; padding stays zero."""
    return replace(tasks, x=only(tasks.mask, x))


def with_targets(tasks: Dataset, y: jax.Array) -> Dataset:
    """Tasks with other targets; padding stays zero."""
    return replace(tasks, y=only(tasks.mask, y))
