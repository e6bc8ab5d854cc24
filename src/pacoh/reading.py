"""Tasks from whatever people have: every source ends in checked arrays, or in an error that names task and remedy."""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pacoh import files
from pacoh.data import Dataset, Standardizer, Task, stack
from pacoh.encoding import Codec, Table, array, counted, default_columns, listed, missing, numbers
from pacoh.errors import PacohError

_KINDS = f"a list of (X, y), a dict from names to (X, y), a DataFrame with a task column, {files.ACCEPTED}"
_SIDES: dict[str, bool] = dict.fromkeys(("context", "train", "true", "yes", "1"), True)
_SIDES |= dict.fromkeys(("query", "test", "false", "no", "0"), False)


@dataclass(frozen=True, eq=False)
class Tasks:
    """Checked tasks: float64 inputs, float64 targets or (with `classes`) int64 class ids.

    `codec` encodes later rows as these were; `context` marks rows where a split column was read.

    >>> import pacoh
    >>> tasks = pacoh.read({"a": ([0.0, 1.0, 2.0], [0.1, 1.2, 1.9]), "b": ([0.0, 1.0], [0.0, 1.1])})
    >>> tasks.names, tasks.sizes, tasks.columns
    (('a', 'b'), (3, 2), ('x0',))
    >>> split = tasks.split(1)
    >>> split.context.sizes, split.query.sizes
    ((1, 1), (2, 1))
    """

    names: tuple[str, ...]
    x: tuple[np.ndarray, ...]
    y: tuple[np.ndarray, ...]
    columns: tuple[str, ...]
    classes: tuple | None = None
    codec: Codec | None = None
    context: tuple[np.ndarray, ...] | None = None
    split_column: str | None = None

    def __post_init__(self) -> None:
        if self.codec is None:
            object.__setattr__(self, "codec", Codec(self.columns, (), self.classes))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of points of each task."""
        return tuple(len(y) for y in self.y)

    def pairs(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """(X, y) of each task."""
        return list(zip(self.x, self.y, strict=True))

    def units(self) -> Standardizer:
        """Zero mean and unit scale of the pooled points, of inputs that are alike by one mean and one scale."""
        return Standardizer.fit(self.pairs(), alike=self.codec is not None and self.codec.alike)

    def stack(self) -> Dataset:
        """All tasks as one padded, masked Dataset."""
        return stack(self.pairs())

    def rows(self, masks: Sequence[np.ndarray]) -> "Tasks":
        """The same tasks with only the rows in the masks."""
        x, y = (tuple(a[keep] for a, keep in zip(part, masks, strict=True)) for part in (self.x, self.y))
        return replace(self, x=x, y=y, context=None, split_column=None)

    def without(self, names: Sequence[str]) -> "Tasks":
        """All tasks but those of these names."""
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise PacohError(f"There is no task {listed(unknown)}. The tasks are {listed(self.names)}.")
        keep = [i for i, name in enumerate(self.names) if name not in names]
        parts = {"names": self.names, "x": self.x, "y": self.y, "context": self.context}
        some = {part: None if all_ is None else tuple(all_[i] for i in keep) for part, all_ in parts.items()}
        return replace(self, **some)  # pyright: ignore[reportArgumentType]

    def split(self, context: int | float | str | None = None) -> "Split":
        """The first rows of each task as context, the rest as query.

        A whole number counts the rows, a number in (0, 1) is their share; without either, or with its name, the split
        column decides. Text that is a number counts as one.
        """
        amount = context_amount(context)
        if isinstance(amount, str) or amount is None:
            if self.context is None or (amount is not None and amount != self.split_column):
                raise PacohError(
                    f"No split column {amount or ''!r} was read with these tasks. Read them with split_column=..., or "
                    "split by a number of rows (5) or by a share of them (0.5)."
                )
            masks = self.context
        else:
            share = isinstance(amount, float)
            firsts = [min(m - 1, max(1, round(amount * m))) if share else amount for m in self.sizes]
            masks = [np.arange(m) < first for m, first in zip(self.sizes, firsts, strict=True)]
        for name, mask in zip(self.names, masks, strict=True):
            if mask.all():
                fits = f"at most {min(self.sizes) - 1}" if isinstance(amount, int) else "fewer"
                raise PacohError(
                    f"Task {name!r} has {counted(len(mask), 'row')}, all of them context: none is left to predict. "
                    f"Take {fits} context rows, or drop the task."
                )
        return Split(self.rows(masks), self.rows([~mask for mask in masks]))

    def shots(self, count: int) -> "Split":
        """The first `count` rows of each class of each task as context, the rest as query."""
        if self.classes is None:
            raise PacohError("Shots are points of a class, and these targets are numbers: use split.")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise PacohError(f"Shots are a whole number of 1 or more, got {count!r}.")
        masks = [np.zeros(size, bool) for size in self.sizes]
        for name, y, mask in zip(self.names, self.y, masks, strict=True):
            for label in np.unique(y):
                mask[np.flatnonzero(y == label)[:count]] = True
            if mask.all():
                raise PacohError(f"Task {name!r} has at most {counted(count, 'row')} of each class: none is left.")
        return Split(self.rows(masks), self.rows([~mask for mask in masks]))


@dataclass(frozen=True, eq=False)
class Split:
    """What a learner is given of each task, and what it is asked.

    >>> import pacoh
    >>> tasks = pacoh.read([([0.0, 1.0, 2.0, 3.0], [0.1, 1.2, 1.9, 3.1]), ([0.0, 1.0], [0.0, 1.1])])
    >>> split = tasks.split(0.5)
    >>> split.context.sizes, split.query.sizes
    ((2, 1), (2, 1))
    """

    context: Tasks
    query: Tasks

    def stack(self) -> Task:
        """All tasks as one padded, masked Task."""
        return Task(self.context.stack(), self.query.stack())


def context_amount(context: Any) -> int | float | str | None:
    """A split as a count, a share or the name of a column."""
    if isinstance(context, str):
        try:
            context = int(context) if context.strip().lstrip("+-").isdecimal() else float(context)
        except ValueError:
            return context
    if context is None:
        return None
    if isinstance(context, (int, np.integer)) and not isinstance(context, bool) and context >= 0:
        return int(context)
    if isinstance(context, (float, np.floating)) and 0 < context < 1:
        return float(context)
    raise PacohError(f"A context is a number of rows (0, 1, 2, ...) or a share between 0 and 1, got {context!r}.")


def read(
    source: Any,
    *,
    task: str | None = None,
    target: str | None = None,
    minimum: int = 2,
    classes: bool | str = False,
    categorical: Sequence[str] | None = None,
    split_column: str | None = None,
    codec: Codec | None = None,
) -> Tasks:
    """Checked tasks from a list of (X, y), a dict, a DataFrame, a folder of CSVs, or a CSV, NPZ or Parquet file.

    With `codec`, the tasks are encoded as those it was learned from: columns, levels and labels must be known.
    Columns of text in a DataFrame or Parquet file are categorical; elsewhere `categorical` names them. `classes` says
    that the targets are labels: True where they mean the same in all tasks, "task" where each task has its own.

    >>> import pacoh
    >>> tasks = pacoh.read([([0.0, 1.0, 2.0], [0.1, 1.2, 1.9]), ([0.0, 1.0], [0.0, 1.1])])
    >>> len(tasks), tasks.sizes
    (2, (3, 2))
    >>> labels = pacoh.read([([0.0, 1.0], ["no", "yes"]), ([2.0], ["yes"])], classes=True)
    >>> labels.classes, labels.y[0].tolist()
    (('no', 'yes'), [0, 1])
    >>> pacoh.read([([0.0, 1.0], [0.1, 1.2])])
    Traceback (most recent call last):
        ...
    pacoh.errors.PacohError: A prior is learned from 2 tasks or more, got 1: 0. Pass more tasks, one (X, y) ...
    """
    if classes not in (True, False, "task"):
        raise PacohError(
            f'`classes` is True (labels shared by all tasks), "task" (each its own) or False; got {classes!r}.'
        )
    if isinstance(source, Tasks):
        return _recheck(source, minimum)
    if isinstance(categorical, str):
        categorical = [categorical]
    labelled = bool(classes) if codec is None else codec.classes is not None
    text = categorical or () if codec is None else [column for column, _ in codec.levels]
    roles = files.Roles(task, target, split_column, frozenset(text), labelled)
    tables = raw_tables(source, roles)
    _enough(tuple(table.name for table in tables), minimum)
    if codec is None:
        _same_inputs(tables)
        codec = Codec.learn(tables, categorical, classes)
    tables = [codec.ordered(table) for table in tables]
    return Tasks(
        tuple(table.name for table in tables),
        tuple(codec.inputs(table) for table in tables),
        tuple(codec.targets(table) for table in tables),
        codec.names,
        codec.classes,
        codec,
        tuple(_context(table, split_column) for table in tables) if split_column else None,
        split_column,
    )


def read_points(
    X: Any, y: Any = None, *, d: int | None = None, name: str = "points", codec: Codec | None = None
) -> Any:
    """One task's X, or (X, y) with targets, checked against the model's d or codec; no points are fine here."""
    table, codec = _points(Table(name, X, y), codec, d)
    x = codec.inputs(table)
    return x if table.y is None else (x, codec.targets(table))


def read_context(X: Any, y: Any, codec: Codec) -> tuple[np.ndarray, np.ndarray, tuple | None]:
    """A context's X and y, and the labels that its class ids stand for: None for numbers, or where none is named."""
    table, _ = _points(Table("context", X, [] if y is None else y), codec)
    nameless = codec.classes is None or (codec.by_task and not len(table.y))
    return codec.inputs(table), codec.targets(table), None if nameless else codec.labels(table)


def _points(table: Table, codec: Codec | None, d: int | None = None) -> tuple[Table, Codec]:
    """The rows in the codec's order, and the codec: numbers in d columns where there is none."""
    table = _shaped(table, least=0)
    if len(table.x) == 0 and table.x.shape[1] < 2:
        table = replace(table, x=np.empty((0, len(codec.columns) if codec else d or 1)), columns=None)
    codec = Codec(default_columns(table.x.shape[1] if d is None else d)) if codec is None else codec
    return codec.ordered(table), codec


def csv_table(path: str | Path, codec: Codec, *, targets: bool, target: str | None = None) -> Table:
    """The points of one task as its own CSV file has them: `adapt` and predictors take it and encode it by `codec`.

    A file of queries may still have the target column, under its name (`target`, or y): it is left out.
    """
    sheet = files.sheet(Path(os.path.expanduser(path)))
    roles = files.Roles(target=target, text=frozenset(dict(codec.levels)), labels=codec.classes is not None)
    spare = target or "y"
    known = sheet.columns is not None and spare in sheet.columns and spare not in codec.columns
    position = sheet.last(roles) if targets else sheet.position(spare, "target") if known else None
    table = sheet.table(Path(path).stem, roles, position)
    return files.whole_labels([table])[0] if roles.labels and targets else table


def _recheck(tasks: Tasks, minimum: int) -> Tasks:
    """Tasks that were read before, or built by hand, with their numbers looked at again."""
    _enough(tasks.names, minimum)
    if not len(tasks.names) == len(tasks.x) == len(tasks.y):
        raise PacohError(f"{len(tasks.names)} names, {len(tasks.x)} X and {len(tasks.y)} y: give one of each a task.")
    for name, x, y in zip(tasks.names, tasks.x, tasks.y, strict=True):
        table = Codec(tasks.columns).ordered(_shaped(Table(name, x, y)))
        numbers(table.x, table, tasks.columns)
        numbers(table.y[:, None], table, ("y",))
    return tasks


def _enough(names: tuple[str, ...], minimum: int) -> None:
    if not names and minimum > 0:
        raise PacohError(
            f"There are no tasks: the source is empty. Pass {counted(minimum, 'task')} or more, as {_KINDS}."
        )
    double = next((name for name, count in Counter(names).items() if count > 1), None)
    if double is not None:
        raise PacohError(f"Two tasks are named {double!r}. Give every task a name of its own.")
    if len(names) < minimum:
        raise PacohError(
            f"A prior is learned from {minimum} tasks or more, got {len(names)}: {listed(names)}. "
            "Pass more tasks, one (X, y) for each; several data sets are not to be joined into one."
        )


def _same_inputs(tables: Sequence[Table]) -> None:
    first = tables[0]
    for table in tables[1:]:
        if table.x.shape[1] != first.x.shape[1]:
            raise PacohError(
                f"Task {table.name!r} has {counted(table.x.shape[1], 'input column')} and task {first.name!r} has "
                f"{first.x.shape[1]}: every task needs the same inputs. Drop the extra columns, or fill in the others."
            )


def _context(table: Table, column: str) -> np.ndarray:
    """The rows that a split column marks as context."""
    found, cells = np.empty(len(table.x), bool), () if table.context is None else np.ravel(table.context)
    if len(cells) != len(table.x):
        raise PacohError(f"Task {table.name!r} has no column {column!r} with a cell for each of its rows to split by.")
    for row, cell in enumerate(cells):
        side = None if missing(cell) else _SIDES.get(files.task_name(cell).strip().lower())
        if side is None:
            raise table.refuse(row, column, f"{cell!r} is no side of a split", "Write context or query (or 1 and 0).")
        found[row] = side
    return found


def raw_tables(source: Any, roles: files.Roles) -> list[Table]:
    """The tasks of any source in shape, their cells not looked at: with gaps and text as they came."""
    return [_shaped(table) for table in _tables(source, roles)]


def _tables(source: Any, roles: files.Roles) -> list[Table]:
    """The tasks of any source, not checked yet."""
    if isinstance(source, (str, Path)):
        return files.tables(Path(os.path.expanduser(source)), roles)
    if _is_frame(source):
        return files.frame(source, task=roles.task or "task").tasks(roles)
    if isinstance(source, Mapping):
        return [_pair(files.task_name(name), entry) for name, entry in source.items()]
    if isinstance(source, (list, tuple, Iterator)):
        return [_pair(str(i), entry) for i, entry in enumerate(source)]
    raise PacohError(f"Tasks cannot be read from a {type(source).__name__}. Pass {_KINDS}.")


def _is_frame(value: Any) -> bool:
    """Whether this is a DataFrame: without pandas nothing is."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _pair(name: str, entry: Any) -> Table:
    if isinstance(entry, (tuple, list)) and len(entry) == 2:
        return Table(name, *entry)
    size = f" of length {len(entry)}" if isinstance(entry, (tuple, list)) else ""
    raise PacohError(
        f"Task {name!r} is not a pair (X, y) but a {type(entry).__name__}{size}. Pass a list of pairs, one for each "
        "task: [(X1, y1), (X2, y2)]; a single task goes into a list, too."
    )


def _shaped(table: Table, least: int = 1) -> Table:
    """The table with X of shape (m, d) and y of shape (m,), its cells not looked at yet."""
    if isinstance(table.x, Table):  # csv_table has made it one
        table = replace(table.x, y=table.y)
    elif _is_frame(table.x):
        table = replace(files.frame(table.x).table(table.name, files.Roles(), None), y=table.y)
    x = array(table.x, table.name, "X")
    y = None if table.y is None and not least else array(table.y, table.name, "y")  # a task needs targets
    if x.ndim not in (1, 2):
        shape = f"Task {table.name!r}: X has shape {x.shape}, expected (points, inputs)"
        raise PacohError(f"{shape}. " + ("Flatten each point to one row." if x.ndim else "Pass one row a point."))
    x = x[:, None] if x.ndim == 1 else x
    if y is not None and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y is not None and y.ndim != 1:
        raise PacohError(
            f"Task {table.name!r}: y has shape {y.shape}, expected one target a row of X. Several outputs at once "
            "are not supported: learn one model for each."
        )
    if y is not None and len(x) != len(y):
        raise PacohError(
            f"A task needs one target per input row, got {counted(len(x), 'row')} and {counted(len(y), 'target')} "
            f"(task {table.name!r}). Tasks of different sizes are fine; a single point has X of shape (1, d)."
        )
    if len(x) < least:
        raise PacohError(f"Task {table.name!r} is empty: it has no points. Drop it, or give it points.")
    if x.shape[1] == 0 and len(x):
        raise PacohError(f"Task {table.name!r} has no input columns, only targets. Give every point an input.")
    return replace(table, x=x, y=y)
