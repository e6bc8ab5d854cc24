"""Any learner of numbers, on a scale on which the targets of all tasks look Gaussian."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.data import Dataset, Task
from pacoh.inference.base import Budget, Particles, Problem
from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel, AbstractTrainedLearner
from pacoh.predictive import GaussianMixture
from pacoh.priors.base import AbstractPredictor
from pacoh.types import Key
from pacoh.warped import WarpedMixture, YeoJohnson


class WarpedPredictor(AbstractPredictor):
    """A predictor of warped targets, of the targets themselves."""

    inner: AbstractPredictor
    warp: YeoJohnson

    def __call__(self, x: Float[Array, "q d"]) -> WarpedMixture:
        """Of y."""
        return self._back(self.inner(x))

    def latent(self, x: Float[Array, "q d"]) -> WarpedMixture:
        """Of f."""
        return self._back(self.inner.latent(x))

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Array]:
        """One draw of f."""
        draw = self.inner.function(key)
        return lambda x: self.warp.inverse(draw(x))

    def _back(self, said: Any) -> WarpedMixture:
        assert isinstance(said, GaussianMixture)
        return WarpedMixture(said, self.warp, jnp.zeros(()), jnp.ones(()))


class WarpedModel(AbstractMetaModel):
    """A model of warped targets, and their scale."""

    learned: AbstractMetaModel
    warp: YeoJohnson

    def adapt(self, context: Dataset, key: Key) -> WarpedPredictor:
        """The learned model's predictor, given the warped context."""
        return WarpedPredictor(self.learned.adapt(warped(self.warp, context), key), self.warp)


def warped(warp: YeoJohnson, tasks: Dataset) -> Dataset:
    """Tasks with their targets on the other scale; padding stays zero."""
    return replace(tasks, y=jnp.where(tasks.mask, warp(tasks.y), 0.0))


def scale_of(tasks: Dataset) -> YeoJohnson:
    """The scale of all targets together, with one power, mean and sd."""
    return YeoJohnson.of(tasks.y, tasks.mask)


class Warped(AbstractMetaLearner):
    """A learner that is no engine on a log-density, on warped targets."""

    learner: AbstractMetaLearner

    def fit(self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None) -> WarpedModel:
        """The learner's model of warped tasks."""
        warp = scale_of(tasks)
        if valid is not None:
            valid = Task(warped(warp, valid.context), warped(warp, valid.query))
        return WarpedModel(self.learner.fit(warped(warp, tasks), key, valid, budget), warp)


class WarpedTraining(AbstractTrainedLearner):
    """A learner that is an engine on a log-density, on warped targets."""

    learner: AbstractTrainedLearner

    def problem(self, tasks: Dataset) -> Problem:
        """The learner's."""
        return self.learner.problem(warped(scale_of(tasks), tasks))

    def model(self, state: Any, tasks: Dataset, key: Key) -> WarpedModel:
        """The learner's model and the scale."""
        warp = scale_of(tasks)
        return WarpedModel(self.learner.model(state, warped(warp, tasks), key), warp)

    def restart(self, model: WarpedModel) -> Particles:
        """The learner's; the scale is that of the tasks it goes on with."""
        return self.learner.restart(model.learned)

    def check(self, tasks: Dataset) -> None:
        """The learner's."""
        self.learner.check(tasks)


def warp(learner: AbstractMetaLearner) -> Warped | WarpedTraining:
    """The learner on warped targets."""
    return WarpedTraining(learner) if isinstance(learner, AbstractTrainedLearner) else Warped(learner)
