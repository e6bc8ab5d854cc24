"""Tasks that look unlike the others: by size, by the level and spread of the target, by those of each input."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

LEAST = 5
"""With fewer tasks there is no telling what is usual."""
_EFFICIENCY = 0.37  # of the median absolute deviation, beside the standard deviation of normal values


@dataclass(frozen=True)
class Odd:
    """A task and the criterion by which it stands out most, with the usual value (the median) and the distance.

    `also` are the other criteria by which it does.
    """

    task: str
    criterion: str
    value: float
    usual: float
    score: float
    also: tuple[str, ...] = ()


def odd(names: Sequence[str], sizes: Sequence[int], columns: dict[str, list[np.ndarray]]) -> list[Odd]:
    """Tasks whose robust z-score passes the threshold by some criterion, worst first, each once.

    `columns` are the numbers of each column by task. Sizes and spreads are compared on a log scale.
    """
    if len(names) < LEAST:
        return []
    criteria: dict[str, tuple[np.ndarray, bool]] = {"number of points": (np.asarray(sizes, float), True)}
    for name, parts in columns.items():
        kept = [part[np.isfinite(part)] for part in parts]
        criteria[f"mean of {name}"] = (np.array([part.mean() if len(part) else np.nan for part in kept]), False)
        criteria[f"spread of {name}"] = (np.array([part.std() if len(part) > 2 else np.nan for part in kept]), True)
    limit = threshold(len(names), len(criteria))
    found: dict[str, list[Odd]] = {}
    for criterion, (values, logarithmic) in criteria.items():
        scores = robust_scores(np.log(np.where(values > 0, values, np.nan)) if logarithmic else values)
        for i in np.flatnonzero(scores > limit).tolist():
            usual = float(np.nanmedian(values))
            found.setdefault(names[i], []).append(Odd(names[i], criterion, float(values[i]), usual, float(scores[i])))
    ranked = [sorted(some, key=lambda one: -one.score) for some in found.values()]
    worst = [
        Odd(first.task, first.criterion, first.value, first.usual, first.score, tuple(one.criterion for one in rest))
        for first, *rest in ranked
    ]
    return sorted(worst, key=lambda one: -one.score)


def threshold(tasks: int, criteria: int, share: float = 0.01) -> float:
    """The score that chance passes in a share of sets of alike tasks, over all tasks and criteria.

    Student's t, with as many degrees of freedom as the median absolute deviation of so many tasks is worth.
    """
    return max(3.5, float(t.isf(0.5 * share / (tasks * criteria), _EFFICIENCY * (tasks - 1))))


def robust_scores(values: np.ndarray) -> np.ndarray:
    """|v - median| / (1.4826 MAD); 0 where there is no value. The mean deviation serves where most are equal."""
    there = np.isfinite(values)
    scores = np.zeros(len(values))
    if there.sum() < LEAST:
        return scores
    away = np.abs(values[there] - np.median(values[there]))
    scale = 1.4826 * np.median(away) or 1.2533 * away.mean()
    if scale > 1e-9 * np.abs(values[there]).max():
        scores[there] = away / scale
    return scores
