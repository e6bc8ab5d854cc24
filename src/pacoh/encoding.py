"""Cells of any kind to numbers: plain columns, categorical levels and class labels."""

import datetime
import numbers as number_types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse

from pacoh.errors import PacohError

LARGEST = 1e30  # the squares of larger numbers leave float32
_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


@dataclass(frozen=True)
class Table:
    """The rows of one task as they came: `x` and `y` may hold cells of any kind.

    `rows` and `place` say what a row is called where it came from; `words` are the columns whose type declares text.
    """

    name: str
    x: Any
    y: Any = None
    columns: tuple[str, ...] | None = None
    context: Any = None
    rows: Sequence | None = None
    place: str = "row {}"
    words: frozenset[str] = frozenset()

    def at(self, row: int) -> str:
        """Where a row is to be found."""
        return self.place.replace("{}", str(row if self.rows is None else self.rows[row]), 1)

    def names(self) -> tuple[str, ...]:
        """Names of the columns: x0, x1, ... when they have none."""
        return self.columns or default_columns(self.x.shape[1])

    def refuse(self, row: int, column: str, problem: str, remedy: str) -> PacohError:
        """The error of one cell."""
        return PacohError(f"Task {self.name!r}, column {column!r}, {self.at(row)}: {problem}. {remedy}")


def default_columns(d: int) -> tuple[str, ...]:
    """x0, x1, ...: the names of d inputs that came without."""
    return tuple(f"x{j}" for j in range(d))


def missing(cell: Any) -> bool:
    """Whether a cell says that there is no value."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, Decimal):
        return cell.is_nan()
    return isinstance(cell, (float, np.floating)) and bool(cell != cell)


def array(value: Any, name: str, what: str) -> np.ndarray:
    """Any array-like as a NumPy array; numbers beside text stay numbers."""
    if scipy.sparse.issparse(value):
        raise PacohError(f"Task {name!r}: {what} is a sparse matrix. Pass {what}.toarray().")
    try:
        if np.ma.is_masked(value):
            value = np.where(np.ma.getmaskarray(value), None, value.data)
        plain = np.asarray(value)
        mixed = plain.dtype.kind in "US" and not isinstance(value, np.ndarray)
        return np.array(value, dtype=object) if mixed else plain
    except (ValueError, TypeError, OverflowError, RuntimeError):
        raise PacohError(
            f"Task {name!r}: {what} ({type(value).__name__}) is no array: its rows differ in length or hold objects. "
            "Pass one row of numbers for each point, all of the same length."
        ) from None


def numbers(values: np.ndarray, table: Table, columns: tuple[str, ...]) -> np.ndarray:
    """Cells (m, d) as finite float64, or the error of the first cell that is none."""
    if values.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            found = values.astype(np.float64)
    else:
        dated = values.dtype.kind in "mM"  # as objects, these would turn into whole numbers
        found = np.empty(values.shape)
        for row, j in np.ndindex(values.shape):
            found[row, j] = _number(values[row, j] if dated else values.item(row, j), table, row, columns[j])
    if not np.abs(found).max(initial=0.0) <= LARGEST:
        raise _not_finite(found, table, columns)
    return found


def _number(cell: Any, table: Table, row: int, column: str) -> float:
    if missing(cell):
        return np.nan
    if isinstance(cell, (number_types.Real, Decimal, np.bool_)):
        try:
            return float(cell)
        except OverflowError:
            return 10 * LARGEST
    if isinstance(cell, (str, bytes)):
        problem = f"the text {_short(cell)} stands where a number belongs"
        other = f"categorical=[{column!r}]" if column in table.names() else "classes=True (--classes) if it is a label"
        remedy = f"Correct the cell, turn the column into numbers, or pass {other}."
    elif isinstance(cell, number_types.Complex):
        problem, remedy = f"{cell} is a complex number", "Pass real numbers: real and imaginary parts as two columns."
    elif isinstance(cell, _DATES):
        problem, remedy = f"{cell} is a date or time", "Turn it into a number, such as hours since the first row."
    else:
        problem = f"an object of type {type(cell).__name__} stands where a number belongs"
        remedy = "Pass plain numbers."
    raise table.refuse(row, column, problem, remedy)


def _not_finite(found: np.ndarray, table: Table, columns: tuple[str, ...]) -> PacohError:
    """The error of the first cell that is missing, infinite or too large."""
    for bad, problem, remedy in (
        (np.isnan(found), "the value is missing (NaN)", "Drop such rows, fill them in, or leave the column out"),
        (np.isinf(found), "the value is infinite", "Drop these rows, or cap the values"),
        (np.abs(found) > LARGEST, f"the value is larger than {LARGEST:.0e}", "Pass the column in other units"),
    ):
        if bad.any():
            row, j = np.argwhere(bad)[0]
            more = f" ({bad.sum()} such cells in this task)" if bad.sum() > 1 else ""
            return table.refuse(int(row), columns[j], problem + more, f"{remedy}.")
    raise AssertionError("every cell is finite")


def _short(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _plain(cell: Any, table: Table, row: int, column: str) -> bool | int | float | str:
    """A label or level as a value that JSON can hold."""
    if missing(cell):
        raise table.refuse(row, column, "the value is missing", "Drop the row, or give missing values a name.")
    value = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bool, int, float)) and abs(value) != np.inf:
        return value
    problem = f"{_short(value)} of type {type(value).__name__} is neither text nor a number"
    raise table.refuse(row, column, problem, "Turn it into text or whole numbers.")


def _values(tables: Iterable[Table], part: str, column: str, j: int = 0) -> tuple:
    """The distinct cells of a column (part `x`) or target (`y`) over all tasks, numbers before text."""
    found = {
        _plain(cell, table, row, column)
        for table in tables
        for row, cell in enumerate(table.y if part == "y" else table.x[:, j])
    }
    return tuple(sorted(found, key=lambda value: (isinstance(value, str), value)))


@dataclass(frozen=True)
class Codec:
    """What turns a person's rows into numbers: input columns, levels of the categorical ones, class labels.

    It is learned from the meta-train tasks, hashable, and survives JSON. With labels per task (`by_task`) `classes`
    are the ids 0, 1, ... that the sorted labels of a task get. Inputs that are `alike`, as pixels are, share their
    unit.
    """

    columns: tuple[str, ...]
    levels: tuple[tuple[str, tuple], ...] = ()
    classes: tuple | None = None
    by_task: bool = False
    alike: bool = False

    @staticmethod
    def learn(
        tables: Sequence[Table], categorical: Sequence[str] | None = None, classes: bool | str = False
    ) -> "Codec":
        """The codec of these tasks; columns that their type declares as text are categorical unless told otherwise."""
        first = next((table for table in tables if table.columns), tables[0])
        columns = first.names()
        unknown = [column for column in categorical or () if column not in columns]
        if unknown:
            raise PacohError(
                f"There is no column {unknown[0]!r} to be categorical. The columns are: {listed(columns)}."
            )
        declared = frozenset[str]().union(*(table.words for table in tables))
        chosen = declared if categorical is None else frozenset(categorical)
        levels = tuple(
            (column, _values(tables, "x", column, j)) for j, column in enumerate(columns) if column in chosen
        )
        by_task = classes == "task"
        known = _learn_ways(tables) if by_task else _learn_classes(tables) if classes else None
        return Codec(columns, levels, known, by_task)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded inputs: `colour=red`, `colour=blue` for the levels of a categorical column."""
        levels = dict(self.levels)
        return tuple(
            name
            for column in self.columns
            for name in ([f"{column}={level}" for level in levels[column]] if column in levels else [column])
        )

    @property
    def d(self) -> int:
        """The number of encoded inputs."""
        return len(self.columns) + sum(len(levels) - 1 for _, levels in self.levels)

    def ordered(self, table: Table) -> Table:
        """The table with this codec's columns in its order: by name where both have names, else by position."""
        named = self.columns != default_columns(len(self.columns))
        if named and table.columns and table.columns != self.columns:
            absent = [column for column in self.columns if column not in table.columns]
            if absent:
                raise PacohError(
                    f"Task {table.name!r} has no input column {absent[0]!r}; its inputs are: {listed(table.columns)}. "
                    f"Every task needs the inputs: {listed(self.columns)}."
                )
            order = [table.columns.index(column) for column in self.columns]
            return replace(table, x=table.x[:, order], columns=self.columns)
        if table.x.shape[1] != len(self.columns):
            raise PacohError(
                f"Task {table.name!r} has {counted(table.x.shape[1], 'input column')}, expected "
                f"{len(self.columns)}: {listed(self.columns)}. A 1-D X counts as one column; "
                f"pass X of shape (points, {len(self.columns)})."
            )
        return table

    def inputs(self, table: Table) -> np.ndarray:
        """The inputs of an ordered table as numbers, categorical columns one-hot."""
        if not self.levels:
            return numbers(table.x, table, self.columns)
        levels, parts = dict(self.levels), []
        for j, column in enumerate(self.columns):
            cells = table.x[:, j]
            if column in levels:
                parts.append(np.eye(len(levels[column]))[_ids(cells, levels[column], table, column)])
            else:
                parts.append(numbers(cells[:, None], table, (column,)))
        return np.concatenate(parts, axis=1)

    def targets(self, table: Table) -> np.ndarray:
        """The targets of a table: numbers, or class ids."""
        if self.classes is None:
            return numbers(table.y[:, None], table, ("y",))[:, 0]
        return _ids(table.y, self.labels(table) if self.by_task else self.classes, table, "y")

    def labels(self, table: Table) -> tuple:
        """What the class ids of a table stand for: the same labels in all tasks, or the task's own in sorted order."""
        assert self.classes is not None
        if not self.by_task:
            return self.classes
        found = _labels_of([table])
        if len(table.y) and len(found) != len(self.classes):
            raise PacohError(
                f"Task {table.name!r} has {counted(len(found), 'class')} ({listed(found)}), the meta-train tasks have "
                f"{len(self.classes)} each. Labels are each task's own here, so its points must name all of its "
                "classes: give at least one point of each."
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """Lists, strings and numbers only."""
        levels = [[column, list(values)] for column, values in self.levels]
        return {
            "columns": list(self.columns),
            "levels": levels,
            "classes": None if self.classes is None else list(self.classes),
            "by_task": self.by_task,
            "alike": self.alike,
        }

    @staticmethod
    def from_json(stored: dict[str, Any]) -> "Codec":
        """The codec that `to_json` wrote."""
        levels = tuple((column, tuple(values)) for column, values in stored["levels"])
        classes = stored["classes"]
        by_task, alike = stored.get("by_task", False), stored.get("alike", False)
        return Codec(tuple(stored["columns"]), levels, None if classes is None else tuple(classes), by_task, alike)


def _labels_of(tables: Sequence[Table]) -> tuple:
    """The distinct labels, sorted."""
    labels = _values(tables, "y", "y")
    fraction = next((label for label in labels if isinstance(label, float)), None)
    if fraction is not None:
        raise PacohError(
            f"Class labels are text, whole numbers or booleans, got {fraction}. For regression leave classes=True out."
        )
    return labels


def _learn_classes(tables: Sequence[Table]) -> tuple:
    """The labels that all tasks share."""
    classes = _labels_of(tables)
    if len(classes) < 2:
        raise PacohError(
            f"Classes need two labels or more; task {tables[0].name!r} and all others have {listed(classes)}."
        )
    return classes


def _learn_ways(tables: Sequence[Table]) -> tuple:
    """The ids of labels that each task has for itself: as many in every task."""
    own = [_labels_of([table]) for table in tables]
    for table, labels in zip(tables, own, strict=True):
        if len(labels) != len(own[0]) or len(labels) < 2:
            other = "" if len(labels) < 2 else f", task {tables[0].name!r} has {len(own[0])} ({listed(own[0])})"
            raise PacohError(
                f"Labels per task need the same number of classes in every task, two or more: task {table.name!r} has "
                f"{len(labels)} ({listed(labels)}){other}. Drop some classes or tasks; where a label means the same in "
                "all tasks, pass classes=True."
            )
    return tuple(range(len(own[0])))


def _ids(cells: np.ndarray, known: tuple, table: Table, column: str) -> np.ndarray:
    """The position of each cell among the known values; 1 and "1" are the same value if only one of them is known."""
    index = {str(value): i for i, value in enumerate(known)} | {value: i for i, value in enumerate(known)}
    found = np.empty(len(cells), np.int64)
    for row, cell in enumerate(cells):
        value = _plain(cell, table, row, column)
        position = index.get(value, index.get(str(value)))
        if position is None:
            problem = f"{_short(value)} is not among the known values ({listed(known)})"
            remedy = (
                "They are learned from the meta-train tasks: correct the cell, drop the row, or train with this value."
            )
            raise table.refuse(row, column, problem, remedy)
        found[row] = position
    return found


def listed(items: Sequence) -> str:
    """The first items as text: a, b, c, ... (12 in all)."""
    shown = ", ".join(str(item) for item in items[:8])
    return shown if len(items) <= 8 else f"{shown}, ... ({len(items)} in all)"


def counted(count: int, noun: str) -> str:
    """1 point, 2 points, 2 classes."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{'es' if noun.endswith('s') else 's'}"
