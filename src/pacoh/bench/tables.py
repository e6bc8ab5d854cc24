"""From records to tables: ours beside the published numbers, what is best, what is missing, what the claims come to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pacoh.bench.cells import Record
from pacoh.bench.compare import HIGHER, Difference, Lanes, middling, paired
from pacoh.bench.spec import Cell, Claim, Column, Experiment, Row, Table, published
from pacoh.bench.store import Store
from pacoh.environments.base import PUBLISHED

LABELS = {
    "rmse": "RMSE",
    "pooled_rmse": "RMSE, all points pooled",
    "log_likelihood": "log-likelihood a point",
    "calibration_error": "calibration error",
    "calibration_error_rms": "calibration error, root mean square over levels",
    "pooled_calibration_error": "calibration error, all points pooled",
    "coverage_90": "90 % coverage",
    "coverage_95": "95 % coverage",
    "crps": "CRPS",
    "accuracy": "accuracy",
    "ece": "expected calibration error",
    "ece_by_task": "expected calibration error by task",
}
LISTS = {
    "test": "",
    "unused": ", unseen points of the meta-train tasks",
    "valid": ", validation tasks (on which settings may have been chosen)",
}
UNLIKELY = "its log-likelihood is worse than learning alone"
CALIBRATION = ("calibration_error", "calibration_error_rms", "pooled_calibration_error", "ece", "ece_by_task")
_TARGETS = ("coverage_90", "coverage_95")


class Published(NamedTuple):
    """A published number; some have no sd."""

    mean: float
    sd: float | None = None


@dataclass(frozen=True)
class Entry:
    """One cell of a table. `state` is empty, or says why there is no number."""

    mean: float = float("nan")
    sd: float | None = None  # over seeds and draws
    lanes: int = 0
    published: Published | None = None
    best: bool = False
    counts: bool = True  # False: a calibration whose log-likelihood is worse than learning alone gives
    state: str = ""

    @property
    def gap(self) -> float | None:
        """(ours - published) in published sds; None where there is none."""
        if self.state or self.published is None or self.published.sd is None:
            return None
        return (self.mean - self.published.mean) / self.published.sd

    def limit(self, metric: str) -> float | None:
        """The published mean and one sd, on the worse side of it; None where nothing was published."""
        if self.published is None:
            return None
        sd = self.published.sd or 0.0
        return self.published.mean - sd if metric in HIGHER else self.published.mean + sd

    def reaches(self, metric: str) -> bool | None:
        """Whether ours is at the published mean or better, or within one sd of it; None where nothing was published."""
        limit = self.limit(metric)
        if limit is None:
            return None
        return not self.state and bool(self.mean >= limit if metric in HIGHER else self.mean <= limit)

    def holds(self, metric: str) -> bool | None:
        """Whether it reaches the published number and counts."""
        reaches = self.reaches(metric)
        return None if reaches is None else reaches and self.counts


@dataclass(frozen=True)
class Results:
    """The records of an experiment, cell by cell."""

    experiment: Experiment
    store: Store

    @cached_property
    def cells(self) -> dict[tuple[str, str], Cell]:
        """By row and column."""
        return {(cell.row, cell.column): cell for cell in self.experiment.cells()}

    @cached_property
    def known(self) -> dict[tuple[str, str], list[Record]]:
        """The records of finished cells."""
        found = {place: self.store.records(cell) for place, cell in self.cells.items()}
        return {place: records for place, records in found.items() if records is not None}

    @cached_property
    def failures(self) -> dict[tuple[str, str], str]:
        """Why cells failed."""
        reasons = {place: self.store.failure(cell) for place, cell in self.cells.items()}
        return {place: reason for place, reason in reasons.items() if reason is not None}

    @property
    def missing(self) -> list[tuple[str, str]]:
        """Cells that nobody computed."""
        return [place for place in self.cells if place not in self.known and place not in self.failures]

    def values(self, row: str, column: str, metric: str, where: str = "test") -> np.ndarray | None:
        """The metric of each lane; None where the method has none, or there are no records."""
        found = [record["scores"].get(where, {}).get(metric) for record in self.known.get((row, column), ())]
        return None if not found or found[0] is None else np.array([float(value) for value in found])

    def lanes(self, row: str, column: str, metric: str, where: str = "test") -> Lanes | None:
        """The metric of each lane task by task; where it is no average over tasks, the lane's own value."""
        made = {}
        for record in self.known.get((row, column), ()):
            one = record["by_task"].get(where, {}).get(metric, record["scores"].get(where, {}).get(metric))
            if one is None:
                return None
            made[record["draw"], record["seed"]] = np.array(one, float)
        return made or None

    def difference(
        self, column: str, claim: Claim, where: str = "test", way: Callable[[Lanes, Lanes], Difference | None] = paired
    ) -> Difference | None:
        """Of the claim's two rows in a column."""
        pair = [self.lanes(row, column, claim.metric, where) for row in (claim.method, claim.against)]
        return None if pair[0] is None or pair[1] is None else way(pair[0], pair[1])

    def entry(self, row: Row, column: Column, table: Table) -> Entry | None:
        """A cell of a table, not yet compared with the others; None where the experiment has no such cell."""
        place = (row.key, column.key)
        if place not in self.cells:
            return None
        numbers = self._published(row, column, table)
        if place in self.failures:
            return Entry(published=numbers, state="failed")
        if place not in self.known:
            return Entry(published=numbers, state="missing")
        values = self.values(row.key, column.key, table.metric, table.list)
        if values is None:
            return Entry(published=numbers, state="n/a")
        sd = float(values.std(ddof=1)) if len(values) > 1 else None
        return Entry(float(values.mean()), sd, len(values), numbers, counts=self._counts(row, column, table))

    def _published(self, row: Row, column: Column, table: Table) -> Published | None:
        comparable = column.published and self.experiment.draws == (PUBLISHED,) and not row.varied
        if table.published is None or not comparable:
            return None
        numbers = published(table.published).get(column.key, {}).get(row.name)
        return None if numbers is None else Published(*numbers)

    def _counts(self, row: Row, column: Column, table: Table) -> bool:
        """Whether a calibration counts: the log-likelihood is no worse than that of learning each task alone."""
        if table.metric not in CALIBRATION or row.part == "oracle":
            return True
        likelihoods = [self.values(key, column.key, "log_likelihood", table.list) for key in (row.key, row.alone)]
        if likelihoods[1] is None:
            return True
        return likelihoods[0] is not None and bool(likelihoods[0].mean() >= likelihoods[1].mean())

    def table(self, table: Table) -> dict[tuple[str, str], Entry]:
        """All entries, the best of each column marked with those within one standard error of it."""
        found: dict[tuple[str, str], Entry] = {}
        for column in self.experiment.columns:
            mine = {row.key: self.entry(row, column, table) for row in self.experiment.rows}
            there = {key: entry for key, entry in mine.items() if entry is not None}
            best = self._best(column.key, table, there)
            found |= {(key, column.key): _with_best(entry, key in best) for key, entry in there.items()}
        return found

    def _best(self, column: str, table: Table, entries: dict[str, Entry]) -> set[str]:
        """The best row and those whose paired difference from it is at most one standard error; no oracle.

        One seed that ends in huge numbers makes the standard error huge, so the difference without such counts, too.
        """
        metric = table.metric
        if metric in _TARGETS:
            return set()
        rivals = [key for key, one in entries.items() if not one.state and one.counts and np.isfinite(one.mean)]
        rivals = [key for key in rivals if self.experiment.row(key).part != "oracle"]
        if not rivals:
            return set()
        sign = -1 if metric in HIGHER else 1
        first = min(rivals, key=lambda key: sign * entries[key].mean)
        near = {first}
        for key in rivals:
            claim = Claim(metric, key, first)
            gaps = [self.difference(column, claim, table.list), self.difference(column, claim, table.list, middling)]
            if all(gap is not None and sign * gap.mean <= gap.error for gap in gaps):
                near.add(key)
        return near

    def leaders(self, column: Column) -> tuple[str, str, str, Difference] | None:
        """The metric, the best PACOH row, the best naive one, and their difference; None where one is missing."""
        metric = "rmse" if column.targets == "numbers" else "accuracy"
        best = [self._leader(column.key, metric, part) for part in ("pacoh", "naive")]
        if best[0] is None or best[1] is None:
            return None
        gap = self.difference(column.key, Claim(metric, best[0], best[1]))
        return None if gap is None else (metric, best[0], best[1], gap)

    def _leader(self, column: str, metric: str, part: str) -> str | None:
        rows = [row.key for row in self.experiment.rows if row.part == part]
        means = {key: values.mean() for key in rows if (values := self.values(key, column, metric)) is not None}
        means = {key: mean for key, mean in means.items() if np.isfinite(mean)}
        sign = -1 if metric in HIGHER else 1
        return min(means, key=lambda key: sign * means[key]) if means else None


def _with_best(entry: Entry, best: bool) -> Entry:
    return replace(entry, best=best)


def number(value: float | None, digits: int = 4) -> str:
    """A number as tables show it."""
    return "n/a" if value is None else f"{value:.{digits}g}"


def with_sd(mean: float, sd: float | None) -> str:
    """Mean and sd to the digits that the sd warrants; seeds that differ by rounding alone have none."""
    if sd is None or not np.isfinite(sd) or sd <= 1e-6 * abs(mean):
        return number(mean)
    places = int(np.clip(1 - np.floor(np.log10(sd)), 0, 6))
    return f"{mean:.{places}f} ± {sd:.{places}f}"


def sequence(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
