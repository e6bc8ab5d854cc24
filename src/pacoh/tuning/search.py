"""Random search: a batch of settings trains in one `vmap`, and the best validation score wins."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pacoh.categorical import AbstractClasses, CategoricalMixture
from pacoh.inference.base import Budget
from pacoh.learners.base import AbstractMetaLearner, fit_each
from pacoh.predictive import AbstractDistribution
from pacoh.tuning.folds import Fold
from pacoh.types import Key


@dataclass(frozen=True)
class Range:
    """A continuous setting between two values, drawn uniformly or (log=True) uniformly in its logarithm."""

    low: float
    high: float
    log: bool = True

    def at(self, share: float) -> float:
        """The value at a share of the way."""
        if self.log:
            return float(np.exp(np.log(self.low) + share * (np.log(self.high) - np.log(self.low))))
        return self.low + share * (self.high - self.low)


@dataclass(frozen=True)
class Report:
    """What was tried and how it scored: arrays (settings, folds), higher `score` is better."""

    settings: list[dict[str, float]]
    log_likelihood: np.ndarray
    rmse: np.ndarray
    seconds: float

    @property
    def score(self) -> np.ndarray:
        """The mean validation log-likelihood of each setting; -inf where a fold gave no number."""
        mean = self.log_likelihood.mean(1)
        return np.where(np.isfinite(mean), mean, -np.inf)

    @property
    def best(self) -> dict[str, float]:
        """The setting with the best score."""
        return self.settings[int(np.argmax(self.score))]

    def record(self) -> dict[str, Any]:
        """What was chosen and why, as plain values."""
        index = int(np.argmax(self.score))
        return {
            "chosen": self.best,
            "by": "mean validation log-likelihood",
            "score": float(self.score[index]),
            "rmse": float(self.rmse[index].mean()),
            "settings_tried": len(self.settings),
            "folds": int(self.rmse.shape[1]),
            "seconds": round(self.seconds, 1),
        }


def draw_settings(space: Mapping[str, Range], count: int, seed: int) -> list[dict[str, float]]:
    """`count` random settings, spread evenly along each axis (a Latin hypercube)."""
    random = np.random.default_rng(seed)
    columns = {
        name: [axis.at(share) for share in (random.permutation(count) + random.uniform(size=count)) / count]
        for name, axis in sorted(space.items())
    }
    return [{name: columns[name][i] for name in columns} for i in range(count)]


@dataclass(frozen=True)
class Effort:
    """How a search is driven: lanes in one `vmap`, seconds at most, who is told of (tried, in all, the best).

    `score_at_once` lanes are scored together: predictions take more memory than training.
    """

    at_once: int = 256
    seconds: float | None = None
    progress: Callable[[int, int, float], None] | None = None
    score_at_once: int = 8


def search(
    make: Callable[..., AbstractMetaLearner],
    settings: Sequence[dict[str, float]],
    fold: Fold,
    seed: int = 0,
    effort: Effort | None = None,
) -> Report:
    """Trains `make(**setting)` on every fold for every setting, batch by batch in one `vmap`, and scores them.

    All settings train with the same keys. With a budget in seconds no batch begins that would end after them if it took
    as long as the one before (the first, which compiles, tells nothing of the next); one batch at least is tried.
    """
    effort = effort or Effort()
    began = time.monotonic()
    count = len(fold.y_scale)
    batch = min(max(1, effort.at_once // count), len(settings))
    repeats = np.tile(np.arange(count), batch)
    stacked = jax.tree.map(lambda leaf: leaf[repeats], fold)
    keys = jax.random.split(jax.random.key(seed), count)[repeats]
    scores, tried = np.zeros((2, 0, count)), 0
    while tried < len(settings):
        batch_began = time.monotonic()
        some = [*settings[tried : tried + batch], *settings][:batch]  # the last batch is filled up: nothing compiles
        learners = [make(**setting) for setting in some for _ in range(count)]
        models, _ = fit_each(learners, stacked.train, keys, Budget(chunk=10**6))
        found = np.asarray(score_lanes(models, stacked, keys, effort.score_at_once)).reshape(2, batch, count)
        scores = np.concatenate([scores, found], 1)[:, : len(settings)]
        tried = scores.shape[1]
        now = time.monotonic()
        if effort.progress is not None:
            effort.progress(tried, len(settings), float(Report([], scores[0], scores[1], 0.0).score.max()))
        expected = now - batch_began if tried > batch else 0.0
        if effort.seconds is not None and now - began + expected > effort.seconds:
            break
    log_likelihood, rmse = scores
    return Report(list(settings[:tried]), log_likelihood, rmse, time.monotonic() - began)


@eqx.filter_jit
def score_lanes(models: Any, fold: Fold, keys: Key, at_once: int = 8) -> Array:
    """Validation log-likelihood and RMSE of each lane in original units, `at_once` lanes a time to bound memory.

    Of classes: log-probability and the share of wrong ones. Learners of points have minus the error for a likelihood.
    """
    dynamic, static = eqx.partition(models, eqx.is_array)

    def lane(args):
        leaves, one, key = args
        model = eqx.combine(leaves, static)
        tasks = len(one.valid.context.mask)

        def task(context, query, key):
            predictive = model.adapt(context, key)(query.x)
            classes = isinstance(predictive, AbstractClasses)
            gaps = (predictive.mode != query.y) * 1.0 if classes else (predictive.mean - query.y) ** 2
            likely = isinstance(predictive, AbstractDistribution | CategoricalMixture)
            count = jnp.maximum(query.mask.sum(), 1)
            log_prob = predictive.log_prob(query.y) if likely else -gaps
            density, gap = (jnp.where(query.mask, values, 0.0).sum() / count for values in (log_prob, gaps))
            return density, gap if classes else jnp.sqrt(gap)

        density, error = jax.vmap(task)(one.valid.context, one.valid.query, jax.random.split(key, tasks))
        return jnp.stack([density.mean() - jnp.log(one.y_scale), error.mean() * one.y_scale])

    return jax.lax.map(lane, (dynamic, fold, keys), batch_size=at_once).T
