"""Which of two methods is better, paired over seeds and tasks."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

HIGHER = {"log_likelihood", "accuracy"}
"""Metrics of which more is better; `coverage_90` and its like have a target instead, and no best."""
LEVEL = 0.05
Lanes = Mapping[tuple[int, int], np.ndarray]  # (draw, seed) -> a value a task


@dataclass(frozen=True)
class Difference:
    """A mean difference with its standard error, and the degrees of freedom of that."""

    mean: float
    error: float
    freedom: float

    @property
    def p(self) -> float:
        """Two-sided, of no difference, by Student's t; 1 where nothing varies and so nothing can be said."""
        if not np.isfinite(self.mean) or self.error == 0 or self.freedom <= 0:
            return 1.0
        return float(2 * student.sf(abs(self.mean) / self.error, self.freedom))

    def verdict(self, metric: str) -> str:
        """Of the first method: better, worse or not distinguishable."""
        if not np.isfinite(self.mean):
            return "not finite"
        if self.p > LEVEL:
            return "not distinguishable"
        return "better" if (self.mean > 0) == (metric in HIGHER) else "worse"


def paired(first: Lanes, second: Lanes) -> Difference | None:
    """first - second on the same seeds and tasks; None where there is no common draw.

    On one draw seeds and tasks are crossed, and both are samples: se^2 = var(means by seed)/S + var(means by task)/T,
    which counts their interaction twice and so errs on the safe side; degrees of freedom by Satterthwaite. Several
    draws have tasks of their own: their means are the sample. A method without a seed of its own stands for all seeds.
    """
    tables = [
        _table(first, second, draw) for draw in sorted({draw for draw, _ in first} & {draw for draw, _ in second})
    ]
    if not tables:
        return None
    if len(tables) > 1:
        parts = [np.array([table.mean() for table in tables])]
    else:
        parts = [tables[0].mean(1), tables[0].mean(0)]
    terms = [(part.var(ddof=1) / len(part), len(part) - 1) for part in parts if len(part) > 1]
    whole = sum(term for term, _ in terms)
    below = sum(term**2 / freedom for term, freedom in terms)
    mean = float(np.mean([table.mean() for table in tables]))
    return Difference(mean, float(np.sqrt(whole)), float(whole**2 / below) if below > 0 else 0.0)


def middling(first: Lanes, second: Lanes) -> Difference | None:
    """first - second where one seed that ends in huge numbers says nothing; None where there is no common draw.

    The median of the lanes' means, its error from their median absolute deviation and the tasks of the lane in the
    middle. It has no test: degrees of freedom are none.
    """
    draws = sorted({draw for draw, _ in first} & {draw for draw, _ in second})
    lanes = [lane for draw in draws for lane in _table(first, second, draw)]
    if not lanes:
        return None
    means = np.array([lane.mean() for lane in lanes])
    median = float(np.median(means))
    spread = 1.4826 * float(np.median(np.abs(means - median)))
    tasks = lanes[int(np.argmin(np.abs(means - median)))]
    part = tasks.var(ddof=1) / len(tasks) if len(tasks) > 1 else 0.0
    return Difference(median, float(np.sqrt(spread**2 / len(means) + part)), 0.0)


def _table(first: Lanes, second: Lanes, draw: int) -> np.ndarray:
    """Differences (seeds, tasks) on one draw."""
    seeds = [sorted(seed for number, seed in lanes if number == draw) for lanes in (first, second)]
    if len(seeds[0]) > 1 and len(seeds[1]) > 1:
        common = sorted(set(seeds[0]) & set(seeds[1]))
        seeds = [common, common]
    pair = zip((first, second), seeds, strict=True)
    values = [np.stack([np.atleast_1d(lanes[draw, seed]) for seed in each]) for lanes, each in pair]
    return values[0] - values[1]
