"""Targets on a scale on which those of all tasks look Gaussian."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.learners.change import AbstractChange, with_targets
from pacoh.predictive import AbstractPredictive, GaussianMixture
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

    def _back(self, said: AbstractPredictive) -> WarpedMixture:
        assert isinstance(said, GaussianMixture)
        return WarpedMixture(said, self.warp, jnp.zeros(()), jnp.ones(()))


class TargetScale(AbstractChange):
    """One scale for the targets of all tasks together, with one power, mean and sd."""

    warp: YeoJohnson

    @classmethod
    def of(cls, tasks: Dataset) -> "TargetScale":
        """The scale on which they are likeliest as a Gaussian's draws."""
        return cls(YeoJohnson.of(tasks.y, tasks.mask))

    def tasks(self, tasks: Dataset) -> Dataset:
        """Tasks with their targets on the other scale."""
        return with_targets(tasks, self.warp(tasks.y))

    def predictor(self, inner: AbstractPredictor) -> WarpedPredictor:
        """Of the targets themselves."""
        return WarpedPredictor(inner, self.warp)
