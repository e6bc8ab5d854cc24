"""Tasks unlike the rest, found by priors learned from random parts of the tasks.

One odd task among the meta-train tasks can spoil a prior so that nothing looks odd under it. As in robust regression by
random subsets, many priors are learned from some of the tasks each; those that explain most of the others best were
most likely learned without an odd one, and these judge every task.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from pacoh.api import Model
from pacoh.data import bucket, stack
from pacoh.describe import describe
from pacoh.describe.odd import robust_scores, threshold
from pacoh.learners.base import lanes
from pacoh.learners.guard import Guarded, log_evidences
from pacoh.reading import Tasks
from pacoh.transfer.scores import Scores

PARTS = 16
"""Random parts of the tasks."""
SHARE = 0.4
"""The share of the tasks in a part."""
LEAST = 8
"""With fewer tasks there is no telling what is usual."""
_JUDGES = 3  # parts whose median judges a task
_ODDS = np.log(19)  # a task is of the family with probability 0.95 before its points are seen


@dataclass(frozen=True)
class Unlike:
    """A task unlike the others: why, and by how much the others' error grows when it is learned from.

    `evidence` is the log of how much more probable its points are under the prior learned from others than under one
    that knows nothing; None where a figure (its level, its spread) tells it apart.
    """

    task: str
    why: str
    evidence: float | None
    harm: float | None


def evidences(models: Sequence[Model], tasks: Tasks) -> np.ndarray | None:
    """ln(Z learned / Z weak) a point of each task under each model; None where a model has no closed evidence."""
    if not all(isinstance(model.meta, Guarded) for model in models):
        return None
    size = bucket(max(tasks.sizes))
    stacks = lanes([stack([model.units(x, y) for x, y in tasks.pairs()], size) for model in models])
    return np.asarray(_evidences(lanes([model.meta for model in models]), stacks)) / np.array(tasks.sizes)


@eqx.filter_jit
def _evidences(metas: Any, stacks: Any) -> jax.Array:
    def mean(prior: Any, phis: Any, task: Any) -> jax.Array:
        values = log_evidences(prior, phis, task, jax.random.key(0))
        return jax.nn.logsumexp(values) - np.log(len(values))

    def lane(given: Any) -> jax.Array:
        leaves, tasks = given
        one = eqx.combine(leaves, static)

        def ratio(task: Any) -> jax.Array:
            return mean(one.learned.prior, one.learned.phis, task) - mean(one.weak_prior, one.weak_phis, task)

        return jax.vmap(ratio)(tasks)

    dynamic, static = eqx.partition(metas, eqx.is_array)
    return jax.lax.map(lane, (dynamic, stacks))


def predicted(learned: Scores, weak: Scores) -> np.ndarray:
    """What stands for the evidence a point where there is none: the log-likelihood of predictions, or their errors."""
    if learned.log_likelihood is None or weak.log_likelihood is None:
        return np.log(np.maximum(weak.error, 1e-12)) - np.log(np.maximum(learned.error, 1e-12))
    return learned.log_likelihood - weak.log_likelihood


def find(tasks: Tasks, gains: np.ndarray, error: np.ndarray, parts: Sequence[np.ndarray]) -> list[Unlike]:
    """The tasks unlike the rest, by gains and errors (parts, tasks) and by their figures."""
    told, sizes = judged(gains), np.array(tasks.sizes)
    figures = by_figures(tasks)
    found = stand_out(told, sizes).tolist()
    found += [i for i, name in enumerate(tasks.names) if name in figures and i not in found]
    usual = float(np.nanmedian(told))
    named = []
    for place, harm in zip(found, harms(error, parts, found), strict=True):
        name, weight = tasks.names[place], float(told[place] * sizes[place])
        why = (
            f"its points are e^{-weight:.0f} times less probable under the prior of the others than under one that "
            f"knows nothing ({told[place]:.2g} a point; usually {usual:+.2g})"
        )
        shows = weight < -_ODDS
        reasons = [*([why] if shows else []), *([figures[name]] if name in figures else [])]
        named.append(Unlike(name, "; ".join(reasons), weight if shows else None, harm))
    return named


def judged(gains: np.ndarray) -> np.ndarray:
    """A gain a task, from gains (parts, tasks) that are NaN where a part has the task: the median of its best judges.

    The best judges are the parts with the greatest median gain over the tasks that they leave out.
    """
    quality = np.array([np.median(row[np.isfinite(row)]) for row in gains])
    found = np.full(gains.shape[1], np.nan)
    for task, column in enumerate(gains.T):
        able = np.flatnonzero(np.isfinite(column))
        best = able[np.argsort(-quality[able], kind="stable")][:_JUDGES]
        found[task] = np.median(column[best]) if len(best) else np.nan
    return found


def stand_out(gains: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Tasks that are more probably of another kind, and whose gain a point is far below the usual; worst first.

    `gains` are logs of Bayes factors a point. Where more than a quarter is so, there is no rest to be unlike of.
    """
    foreign = gains * sizes < -_ODDS
    low = (robust_scores(gains) > threshold(len(gains), 1)) & (gains < np.nanmedian(gains))
    found = np.flatnonzero(foreign & low)
    return found[np.argsort(gains[found])] if len(found) <= len(gains) // 4 else found[:0]


def by_figures(tasks: Tasks) -> dict[str, str]:
    """Tasks that `pacoh describe` tells apart by a level or a spread, with its reason."""
    odd = [one for one in describe(tasks).odd if one.criterion != "number of points"]
    return {one.task: f"its {one.criterion} is {one.value:.4g}, usually {one.usual:.4g}" for one in odd}


def harms(error: np.ndarray, chosen: Sequence[np.ndarray], named: Sequence[int]) -> list[float | None]:
    """For each named task how much larger the others' error is under parts that have it, beside parts with none.

    `error` (parts, tasks) is NaN where a part has the task itself.
    """
    has = np.array([[task in part for task in named] for part in chosen])
    others = np.setdiff1d(np.arange(error.shape[1]), named)
    logs = np.log(np.maximum(error[:, others], np.finfo(float).tiny))
    clean = ~has.any(1)
    found: list[float | None] = []
    for place in range(len(named)):
        with_it = has[:, place] & (has.sum(1) == 1) if (has[:, place] & (has.sum(1) == 1)).any() else has[:, place]
        if not clean.any() or not with_it.any():
            found.append(None)
            continue
        apart = np.nanmean(logs[with_it], 0) - np.nanmean(logs[clean], 0)
        found.append(float(np.expm1(np.nanmean(apart))) if np.isfinite(apart).any() else None)
    return found
