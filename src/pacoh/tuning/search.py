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
from pacoh.learners.episodic import mean_over
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
    """What was tried and how it scored: arrays (settings, folds), higher `score` is better.

    A method that predicts points has no log-likelihood, and is judged by its error. `by_task` is what the score is the
    mean of, (settings, validation tasks of all folds): differences of settings are paired by task.
    """

    settings: list[dict[str, float]]
    log_likelihood: np.ndarray | None
    rmse: np.ndarray
    seconds: float
    by_task: np.ndarray | None = None

    @property
    def score(self) -> np.ndarray:
        """The mean validation log-likelihood of each setting, or minus its RMSE; -inf where a fold gave no number."""
        mean = (-self.rmse if self.log_likelihood is None else self.log_likelihood).mean(1)
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
            "by": "minus the mean validation RMSE" if self.log_likelihood is None else "mean validation log-likelihood",
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

    `score_at_once` lanes at most are scored together: predictions take more memory than training. `training` drives the
    training of each batch (default: in one chunk).
    """

    at_once: int = 256
    seconds: float | None = None
    progress: Callable[[int, int, float], None] | None = None
    score_at_once: int = 8
    training: Budget | None = None


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
    likelihoods, errors, by_task, tried = [], [], [], 0
    while True:
        batch_began = time.monotonic()
        some = [*settings[tried : tried + batch], *settings][:batch]  # the last batch is filled up: nothing compiles
        learners = [make(**setting) for setting in some for _ in range(count)]
        models, _ = fit_each(learners, stacked.train, keys, effort.training or Budget(chunk=10**6))
        log_likelihood, rmse = score_lanes(models, stacked, keys, min(batch * count, effort.score_at_once))
        errors.extend(_by_fold(rmse, batch, count).mean(-1))
        likelihoods.extend([] if log_likelihood is None else _by_fold(log_likelihood, batch, count).mean(-1))
        judged = -rmse if log_likelihood is None else log_likelihood
        by_task.extend(_by_fold(judged, batch, count).reshape(batch, -1))
        tried = min(tried + batch, len(settings))
        now = time.monotonic()
        known = np.array(likelihoods[:tried]) if likelihoods else None
        report = Report(list(settings[:tried]), known, np.array(errors[:tried]), now - began, np.array(by_task[:tried]))
        if effort.progress is not None:
            effort.progress(tried, len(settings), float(report.score.max()))
        expected = now - batch_began if tried > batch else 0.0
        late = effort.seconds is not None and now - began + expected > effort.seconds
        if tried == len(settings) or late:
            return report


def _by_fold(scores: Array, batch: int, count: int) -> np.ndarray:
    """(settings, folds, tasks) of scores by lane."""
    return np.asarray(scores).reshape(batch, count, -1)


@eqx.filter_jit
def score_lanes(models: Any, fold: Fold, keys: Key, at_once: int = 8) -> tuple[Array | None, Array]:
    """Validation log-likelihood (None of points) and RMSE, (lanes, tasks), in original units; `at_once` lanes a time.

    Of classes the share of wrong ones stands for the RMSE.
    """
    dynamic, static = eqx.partition(models, eqx.is_array)

    def lane(args):
        leaves, one, key = args
        model = eqx.combine(leaves, static)
        tasks = len(one.valid.context.mask)

        def task(context, query, key):
            predictive = model.adapt(context, key)(query.x)
            if isinstance(predictive, AbstractClasses):
                error = mean_over(query.mask, predictive.mode != query.y)
            else:
                error = jnp.sqrt(mean_over(query.mask, (predictive.mean - query.y) ** 2))
            if not isinstance(predictive, AbstractDistribution | CategoricalMixture):
                return None, error
            return mean_over(query.mask, predictive.log_prob(query.y)), error

        density, error = jax.vmap(task)(one.valid.context, one.valid.query, jax.random.split(key, tasks))
        known = None if density is None else density - jnp.log(one.y_scale)
        return known, error * one.y_scale

    return jax.lax.map(lane, (dynamic, fold, keys), batch_size=at_once)
