"""What tasks look like before anything is learned from them. Gaps and text are counted here, not refused."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pacoh import files
from pacoh.describe.columns import Column, as_numbers, column, told_by_others
from pacoh.describe.odd import LEAST, Odd, odd, threshold
from pacoh.encoding import Table, counted, listed, missing
from pacoh.errors import PacohError
from pacoh.reading import Tasks, raw_tables

__all__ = ["Column", "Description", "Odd", "describe"]


@dataclass(frozen=True, eq=False)
class Description:
    """Tasks in figures. `tables` are the rows themselves, for the picture."""

    sizes: dict[str, int]
    inputs: tuple[Column, ...]
    target: Column
    gaps: dict[str, int]  # tasks with missing cells, and how many
    odd: tuple[Odd, ...]
    tables: tuple[Table, ...]
    told: tuple[str, ...] = ()  # inputs that the other inputs nearly tell

    def record(self) -> dict[str, Any]:
        """Lists, strings and numbers only."""
        sizes = np.array(list(self.sizes.values()))
        limit = threshold(len(sizes), 1 + 2 * sum(_telling(one) for one in (*self.inputs, self.target)))
        return {
            "tasks": len(self.sizes),
            "points": {
                "least": int(sizes.min()),
                "median": float(np.median(sizes)),
                "most": int(sizes.max()),
                "in_all": int(sizes.sum()),
            },
            "inputs": [asdict(one) for one in self.inputs],
            "target": asdict(self.target),
            "missing": {"cells": sum(self.gaps.values()), "tasks": self.gaps},
            "nearly_constant": {one.name: one.constant for one in (*self.inputs, self.target) if one.constant},
            "nearly_told_by_the_others": list(self.told),
            "unlike_the_others": [asdict(one) for one in self.odd],
            "criterion": (
                f"|value - median| over 1.4826 MAD above {limit:.1f}; number of points and spreads on a log scale"
                if len(sizes) >= LEAST
                else f"none: fewer than {LEAST} tasks"
            ),
        }

    def notes(self) -> list[str]:
        """What a reader should know, a sentence each."""
        said = []
        cells = sum(self.gaps.values())
        if cells:
            said.append(
                f"{counted(cells, 'cell')} missing, in {counted(len(self.gaps), 'task')} ({listed(list(self.gaps))}): "
                "drop such rows, fill them in, or leave the column out."
            )
        said += [
            f"{one.name!r} has {counted(one.infinite, 'infinite value')}: drop these rows, or cap the values."
            for one in (*self.inputs, self.target)
            if one.infinite
        ]
        constant = [one for one in (*self.inputs, self.target) if one.constant]
        if len(constant) > 5:
            said.append(f"Nearly constant: {listed([one.name for one in constant])}.")
        else:
            said += [f"{one.name!r} is nearly constant: {one.constant}." for one in constant]
        if self.told:
            said.append(
                f"{listed(self.told)} say nearly the same: the other inputs tell 99 % of each. What little tells them "
                "apart is learned sooner with whiten=True."
            )
        texts = [one.name for one in self.inputs if one.kind == "text"]
        if texts:
            said.append(f"Text stands in {listed(texts)}: name such inputs as categorical, or turn them into numbers.")
        if self.target.kind == "text":
            said.append(f"The target has {self.target.distinct} labels: read it with classes=True (--classes).")
        said += [
            f"Task {one.task!r} looks unlike the others by the {one.criterion}: {one.value:.4g}, usually "
            f"{one.usual:.4g} (robust z {one.score:.1f})" + (f"; also by the {listed(one.also)}." if one.also else ".")
            for one in self.odd
        ]
        return said

    def draw(self, path: str | Path) -> None:
        """Writes the picture."""
        from pacoh.describe.picture import draw

        ys = [as_numbers(table.y) for table in self.tables]
        if self.target.kind == "text":
            labels = sorted({str(label) for table in self.tables for label in table.y})
            ys = [np.array([float(labels.index(str(label))) for label in table.y]) for table in self.tables]
        inputs = _numbers(self.tables, self.inputs)
        kept = [y for y in ys if y is not None]
        draw(Path(path), list(self.sizes), inputs, (self.target.name, kept), {one.task for one in self.odd})


def describe(source: Any, *, task: str | None = None, target: str | None = None) -> Description:
    """The figures of tasks in any form that `pacoh.read` takes; values may be missing."""
    if isinstance(source, Tasks):
        rows = zip(source.names, source.x, source.y, strict=True)
        tables = [Table(name, x, y, source.columns) for name, x, y in rows]
    else:
        tables = raw_tables(source, files.Roles(task, target))
    if not tables:
        raise PacohError("There are no tasks to describe: the source is empty.")
    names = tables[0].names()
    for table in tables:
        if len(table.names()) != len(names):
            raise PacohError(
                f"Task {table.name!r} has {counted(len(table.names()), 'input column')} and task {tables[0].name!r} "
                f"has {len(names)}: every task needs the same inputs."
            )
    inputs = tuple(column(name, [np.asarray(table.x[:, j]) for table in tables]) for j, name in enumerate(names))
    outcome = column(target or "y", [np.asarray(table.y) for table in tables])
    gaps = {table.name: count for table in tables if (count := _gaps(table))}
    columns = _numbers(tables, inputs, only_telling=True)
    if _telling(outcome):
        columns[outcome.name] = [found for table in tables if (found := as_numbers(table.y)) is not None]
    sizes = {table.name: len(table.y) for table in tables}
    unlike = odd(list(sizes), list(sizes.values()), columns)
    telling = _numbers(tables, inputs, only_telling=True)
    told = told_by_others({name: np.concatenate(parts) for name, parts in telling.items()})
    return Description(sizes, inputs, outcome, gaps, tuple(unlike), tuple(tables), told)


def _telling(one: Column) -> bool:
    """Whether tasks can be compared by a column."""
    return one.kind == "number" and one.constant is None


def _numbers(tables: Any, inputs: tuple[Column, ...], only_telling: bool = False) -> dict[str, list[np.ndarray]]:
    """The numbers of each input that holds some, by task."""
    return {
        one.name: [as_numbers(np.asarray(table.x[:, j])) for table in tables]
        for j, one in enumerate(inputs)
        if one.kind == "number" and (_telling(one) or not only_telling)
    }  # pyright: ignore[reportReturnType]


def _gaps(table: Table) -> int:
    """How many cells of a task are missing."""
    parts = (np.asarray(table.x), np.asarray(table.y))
    plain = [part for part in parts if part.dtype.kind in "biuf"]
    other = [part for part in parts if part.dtype.kind not in "biuf"]
    return sum(int(np.isnan(part).sum()) for part in plain) + sum(missing(cell) for part in other for cell in part.flat)
