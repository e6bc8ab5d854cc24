"""Tasks unlike the rest, found by priors learned from random parts of the tasks.

One odd task among the meta-train tasks can spoil a prior so that nothing looks odd under it. As in robust regression by
random subsets, many priors are learned from some of the tasks each; those that explain most of the others best were
most likely learned without an odd one, and these judge every task.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from scipy.stats import norm

from pacoh.api import Model
from pacoh.data import bucket, stack
from pacoh.describe import describe
from pacoh.describe.odd import robust_scores, threshold
from pacoh.learners.base import lanes
from pacoh.learners.guard import Guarded, log_evidences
from pacoh.reading import Tasks
from pacoh.transfer.contexts import Contexts
from pacoh.transfer.scores import Scores

THIRDS = 5
"""How often the tasks are divided into three random parts: of each three, two odd tasks leave one without."""
LEAST = 8
"""With fewer tasks there is no telling what is usual."""
MOST = 128
"""Points of a task that are asked at most."""
LEVEL = 0.05


@dataclass(frozen=True)
class Unlike:
    """A task unlike the others: why, and by how much the others' error grows when it is learned from.

    `evidence` is the log of how much more probable its points are under the prior learned from others than under one
    that knows nothing.
    """

    task: str
    why: str
    evidence: float
    harm: float | None


def heard(tasks: Tasks) -> np.ndarray:
    """How many points of each task are asked for the evidence."""
    return np.minimum(tasks.sizes, MOST)


class Told(NamedTuple):
    """What priors say of tasks that they were not learned from: arrays (priors, tasks) or (tasks,), NaN of others.

    `gain` is ln(Z learned / Z weak) a point. `surprise` is how much farther from the prior a task lies than one drawn
    from it would, as a standard normal score.
    """

    gain: np.ndarray
    surprise: np.ndarray

    @staticmethod
    def of(gain: np.ndarray) -> "Told":
        """Where there is no closed evidence, nothing surprises."""
        return Told(gain, np.zeros_like(gain))

    def only(self, asked: np.ndarray) -> "Told":
        """The same where `asked`."""
        return Told(*(np.where(asked, values, np.nan) for values in self))


def evidences(models: Sequence[Model], contexts: Contexts) -> Told | None:
    """What each model says of each task; None where a model has no closed evidence."""
    if not all(isinstance(model.meta, Guarded) for model in models):
        return None
    tasks = contexts.thinned(MOST)
    size = bucket(max(tasks.sizes))
    stacks = lanes([stack([model.units(x, y) for x, y in tasks.pairs()], size) for model in models])
    ratios, distances = map(np.asarray, _evidences(lanes([model.meta for model in models]), stacks))
    sizes = np.array(tasks.sizes)
    return Told(ratios / sizes, normal_score(distances, sizes))


def normal_score(squares: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """A chi-squared value as a standard normal one, by the cube root of Wilson and Hilferty (1931)."""
    spread = 2 / (9 * freedom)
    return (np.cbrt(squares / freedom) - 1 + spread) / np.sqrt(spread)


@eqx.filter_jit
def _evidences(metas: Any, stacks: Any) -> tuple[jax.Array, jax.Array]:
    """ln(Z learned / Z weak), and the squared distance of a task from the learned GP: 2 ln(Z at its mean / Z)."""

    def mean(prior: Any, phis: Any, task: Any) -> jax.Array:
        values = log_evidences(prior, phis, task, jax.random.key(0))
        return jax.nn.logsumexp(values) - np.log(len(values))

    def distance(prior: Any, phis: Any, task: Any) -> jax.Array:
        def at_mean(phi: Any) -> jax.Array:
            usual = replace(task, y=prior.mean(phi["mean"], task.x))
            one = jax.tree.map(lambda leaf: leaf[None], phi)
            return log_evidences(prior, one, usual, jax.random.key(0))[0]

        squares = 2 * (jax.vmap(at_mean)(phis) - log_evidences(prior, phis, task, jax.random.key(0)))
        return squares.min()

    def lane(given: Any) -> tuple[jax.Array, jax.Array]:
        leaves, tasks = given
        one = eqx.combine(leaves, static)

        def told(task: Any) -> tuple[jax.Array, jax.Array]:
            learned = (one.learned.prior, one.learned.phis, task)
            return mean(*learned) - mean(one.weak_prior, one.weak_phis, task), distance(*learned)

        return jax.lax.map(told, tasks, batch_size=16)

    dynamic, static = eqx.partition(metas, eqx.is_array)
    return jax.lax.map(lane, (dynamic, stacks))


def predicted(learned: Scores, weak: Scores) -> np.ndarray:
    """What stands for the evidence a point where there is none: the log-likelihood of predictions, or their errors."""
    if learned.log_likelihood is None or weak.log_likelihood is None:
        return np.log(np.maximum(weak.error, 1e-12)) - np.log(np.maximum(learned.error, 1e-12))
    return learned.log_likelihood - weak.log_likelihood


def named(tasks: Tasks, found: Sequence[int], told: Told, harms: Sequence[float | None]) -> list[Unlike]:
    """The tasks found, with the reasons: what the prior of the others says, and figures."""
    gains, surprise = told
    figures, usual = by_figures(tasks), float(np.nanmedian(gains))
    said = []
    for place, harm in zip(found, harms, strict=True):
        name, weight = tasks.names[place], float(gains[place] * heard(tasks)[place])
        reasons = [figures[name]] if name in figures else []
        if weight < 0:
            reasons.insert(
                0,
                f"its points are e^{-weight:.0f} times less probable under the prior of the others than under one that "
                f"knows nothing ({gains[place]:.2g} a point; usually {usual:+.2g})",
            )
        elif surprise[place] > norm.isf(LEVEL / len(gains)):
            reasons.insert(
                0,
                f"it lies farther from the prior of the others than tasks of their kind would: {surprise[place]:.1f} "
                f"standard deviations (usually {np.nanmedian(surprise):.1f})",
            )
        said.append(Unlike(name, "; ".join(reasons) or "it spoils the prior of the others", weight, harm))
    return said


def judged(told: Told) -> Told:
    """What is said of a task, from what parts say that left it out: the median of its judges.

    A part is worth its median gain over the tasks that it leaves out. Judges are the parts that are worth more than the
    middle between the best and the usual one; where none of them leaves the task out, the best of those that do.
    """
    worth = np.array([np.median(row[np.isfinite(row)]) for row in told.gain])
    enough = (worth.max() + np.median(worth)) / 2
    found = np.full((2, told.gain.shape[1]), np.nan)
    for task, column in enumerate(told.gain.T):
        able = np.flatnonzero(np.isfinite(column))
        judges = able[worth[able] >= enough]
        best = judges if len(judges) else able[np.argsort(-worth[able])][:1]
        found[:, task] = [np.median(values[best, task]) for values in told] if len(best) else np.nan
    return Told(*found)


def stand_out(told: Told, sizes: np.ndarray) -> list[int]:
    """Tasks whose points speak against the prior of the others, and more so than is usual; worst first.

    Either by a Bayes factor: the prior being right, chance makes one of n / LEVEL against it in at most a share LEVEL
    of sets of n tasks (Markov). Or by the distance from the prior, which chance makes so large in as few sets. As no
    prior is quite right, it must also be far from the others' by a robust score; that of distances has 1 as its least
    scale. Where more than a quarter is so, or where the prior usually gains nothing, there is no rest to be unlike of.
    """
    n, gains, surprise = len(sizes), *told
    if not np.nanmedian(gains) > 0:
        return []
    against = (-gains * sizes > np.log(n / LEVEL)) & (robust_scores(gains) > threshold(n, 1))
    beyond = surprise - np.nanmedian(surprise)
    apart = beyond / np.maximum(1.0, 1.4826 * np.nanmedian(np.abs(beyond)))
    away = (surprise > norm.isf(LEVEL / n)) & (apart > threshold(n, 1, 0.05))
    found = np.flatnonzero((against & (gains < np.nanmedian(gains))) | away)
    return found[np.argsort(gains[found])].tolist() if len(found) <= n // 4 else []


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
        told = np.isfinite(logs[with_it]).any(0) & np.isfinite(logs[clean]).any(0)
        apart = np.nanmean(logs[with_it][:, told], 0) - np.nanmean(logs[clean][:, told], 0)
        found.append(float(np.expm1(apart.mean())) if told.any() else None)
    return found
