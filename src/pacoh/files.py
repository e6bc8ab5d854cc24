"""Tasks from tables and files: DataFrame, CSV, NPZ, Parquet. What comes out is not checked yet."""

import csv
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pacoh.encoding import Table, counted, listed, missing
from pacoh.errors import PacohError

ACCEPTED = "a folder of .csv files (one task a file), or a .csv, .npz or .parquet file"
_MISSING = frozenset(("na", "n/a", "#n/a", "nan", "-nan", "null", "none"))


@dataclass(frozen=True)
class Roles:
    """Which column plays which part; `text` are the inputs whose cells stay text, `labels` says that the targets do."""

    task: str | None = None
    target: str | None = None
    split: str | None = None
    text: frozenset[str] = frozenset()
    labels: bool = False


@dataclass(frozen=True)
class Sheet:
    """Columns of cells, and what their rows are called; the cells of a CSV file are `raw` text."""

    origin: str
    columns: tuple[str, ...] | None
    cells: list[np.ndarray]
    rows: Sequence
    place: str = "row {}"
    words: frozenset[str] = frozenset()
    raw: bool = False

    def position(self, name: str, part: str) -> int:
        """Where the column of this name is."""
        if self.columns is None:
            raise PacohError(
                f"{self.origin} has no header line, so there is no column {name!r}. Add one, such as: x,y."
            )
        if name not in self.columns:
            raise PacohError(
                f"{self.origin} has no column {name!r} for the {part}; its columns are: {listed(self.columns)}. "
                f"Say which one it is with {part}=..."
            )
        return self.columns.index(name)

    def last(self, roles: Roles) -> int:
        """Where the target of one task's own table is: the last column unless one is named."""
        if roles.target is not None:
            return self.position(roles.target, "target")
        if not self.cells:
            raise PacohError(f"{self.origin} is empty: it has no points. Drop it, or give it points.")
        columns = self.columns or tuple(str(j) for j in range(len(self.cells)))
        target = max((j for j, column in enumerate(columns) if column != roles.split), default=-1)
        if "y" in columns and columns[target] != "y":
            raise PacohError(
                f"{self.origin}: the last column, {columns[target]!r}, would be the target, but there is a column 'y'. "
                f"Say which one it is: target='y' or target={columns[target]!r}."
            )
        return target

    def table(self, name: str, roles: Roles, target: int | None, rows: Sequence[int] | None = None) -> Table:
        """Some rows as the table of one task: what has no other part is an input."""
        chosen = np.arange(len(self.rows)) if rows is None else np.asarray(rows)
        split = None if roles.split is None else self.position(roles.split, "split_column")
        task = None if rows is None else self.position(roles.task or "task", "task")
        inputs = [j for j in range(len(self.cells)) if j not in (target, split, task)]
        names = [self.columns[j] if self.columns else f"x{k}" for k, j in enumerate(inputs)]

        def part(j: int, text: bool) -> np.ndarray:
            return _parsed(self.cells[j][chosen], text) if self.raw else self.cells[j][chosen]

        return Table(
            name,
            _joined([part(j, column in roles.text) for j, column in zip(inputs, names, strict=True)], len(chosen)),
            None if target is None else part(target, roles.labels),
            tuple(names) if self.columns else None,
            None if split is None else part(split, True),
            [self.rows[row] for row in chosen.tolist()],
            self.place,
            self.words,
        )

    def tasks(self, roles: Roles) -> list[Table]:
        """The tasks of a table with a task column."""
        names = self.cells[self.position(roles.task or "task", "task")]
        target = self.position(roles.target or "y", "target")
        names = (_parsed(names, True) if self.raw else names).tolist()
        groups = _grouped(names, lambda row: self.place.replace("{}", str(self.rows[row]), 1))
        return [self.table(name, roles, target, rows) for name, rows in groups]


def _parsed(cells: np.ndarray, stay: bool) -> np.ndarray:
    """Cells of a CSV file: numbers where all of them are, None for missing ones among text."""
    found = np.empty(len(cells), object)
    found[:] = [_cell(cell, stay) for cell in cells]
    return found if stay or any(isinstance(cell, str) for cell in found) else found.astype(np.float64)


def _cell(text: str, stay: bool = False) -> str | float | None:
    text = text.strip()
    if text == "" or (text.lower() in _MISSING and not stay):
        return None
    try:
        return text if stay or "_" in text else float(text)
    except ValueError:
        return text


def _joined(cells: list[np.ndarray], m: int) -> np.ndarray:
    """Columns side by side: an array of numbers if all are numbers, else of objects."""
    if cells and all(column.dtype.kind in "biufc" for column in cells):
        return np.column_stack(cells)
    x = np.empty((m, len(cells)), object)
    for j, column in enumerate(cells):
        x[:, j] = column
    return x


def _grouped(names: Sequence, at: Callable[[int], str]) -> list[tuple[str, list[int]]]:
    """The rows of each task in order of appearance; 1 and 1.0 are one task, 1 and "1" are two of the same name."""
    groups: dict[Any, list[int]] = {}
    for row, name in enumerate(names):
        if missing(name):
            raise PacohError(f"The name of the task is missing in {at(row)}. Fill it in, or drop the row.")
        groups.setdefault(name, []).append(row)
    return [(task_name(name), rows) for name, rows in groups.items()]


def task_name(value: Any) -> str:
    """A task's name as text."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def frame(source: Any, origin: str = "The DataFrame", task: str | None = None) -> Sheet:
    """A DataFrame as a sheet; a task column may also be a level of the index."""
    import pandas  # a DataFrame is here, so pandas is

    if task in source.index.names and task is not None and task not in source.columns:
        source = source.reset_index(level=task)
    columns = _told_apart(tuple(str(column) for column in source.columns), origin)
    cells, words = [], set()
    for j, name in enumerate(columns):
        column = source.iloc[:, j]
        if pandas.api.types.is_numeric_dtype(column.dtype):
            plain = isinstance(column.dtype, np.dtype)
            cells.append(column.to_numpy() if plain else column.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            cells.append(column.astype(object).to_numpy())
            texts = [isinstance(cell, str) or missing(cell) for cell in cells[-1]]
            if isinstance(column.dtype, pandas.CategoricalDtype) or (texts and all(texts)):
                words.add(name)
    return Sheet(origin, columns, cells, source.index.tolist(), "row {}", frozenset(words))


def _told_apart(columns: tuple[str, ...], origin: str) -> tuple[str, ...]:
    """Names that are there and tell the columns apart, or an error."""
    for j, column in enumerate(columns):
        if column == "" or column.startswith("Unnamed: "):
            raise PacohError(
                f"{origin}: column number {j + 1} has no name. If it is the row number that pandas adds, write the "
                "file with index=False; otherwise name it."
            )
        if column in columns[:j]:
            raise PacohError(f"{origin} has two columns named {column!r}. Rename or drop one of them.")
    return columns


def sheet(path: Path) -> Sheet:
    """A CSV file of commas, semicolons or tabs; the first line is a header unless all of it is numbers."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            first = stream.readline()
            stream.seek(0)
            delimiter = next((mark for mark in ",;\t" if mark in first), ",")
            reader = csv.reader(stream, delimiter=delimiter, strict=True, skipinitialspace=True)
            lines, rows = [], []
            for row in reader:
                if row:
                    lines.append(reader.line_num)
                    rows.append(row)
    except (csv.Error, OSError, ValueError) as error:
        raise PacohError(f"Task {path.stem!r}: {path.name} could not be read: {error}. Save it as UTF-8 CSV.") from None
    for line, row in zip(lines, rows, strict=True):
        if len(row) != len(rows[0]):
            raise PacohError(
                f"Task {path.stem!r}: line {line} of {path.name} has {counted(len(row), 'cell')}, the first line has "
                f"{len(rows[0])}. Every line needs one cell a column; quote cells that contain {delimiter!r}."
            )
    columns = None
    if rows and any(isinstance(_cell(cell), str) for cell in rows[0]):
        rows[0][0] = rows[0][0].lstrip("# ")  # as numpy.savetxt writes it
        columns = _told_apart(tuple(cell.strip() for cell in rows[0]), f"Task {path.stem!r} ({path.name})")
        del rows[0], lines[0]
    cells = [np.array([row[j] for row in rows], object) for j in range(len(columns or (rows or [[]])[0]))]
    origin, place = f"Task {path.stem!r} ({path.name})", f"line {{}} of {path.name}"
    return Sheet(origin, columns, cells, lines, place, raw=True)


def tables(path: Path, roles: Roles) -> list[Table]:
    """The tasks of a file or folder."""
    kind = path.suffix.lower()
    if os.path.isdir(path):  # unlike pathlib, os answers for any text
        found = _folder(path, roles)
    elif not os.path.exists(path):
        raise PacohError(f"There is no file or folder {str(path)!r}. Tasks are read from {ACCEPTED}.")
    elif kind == ".csv":
        found = replace(sheet(path), origin=repr(path.name)).tasks(roles)
    elif kind == ".npz":
        return _npz(path, roles)
    elif kind in (".parquet", ".pq"):
        return frame(_parquet(path), repr(path.name), roles.task or "task").tasks(roles)
    else:
        raise PacohError(f"{path.name!r} is of no known kind. Tasks are read from {ACCEPTED}.")
    return whole_labels(found) if roles.labels else found


def whole_labels(found: list[Table]) -> list[Table]:
    """The same tables with whole numbers for labels, where every label is the text of one."""
    whole = re.compile("0|-?[1-9][0-9]*")
    if all(isinstance(y, str) and whole.fullmatch(y) for table in found for y in table.y):
        return [replace(table, y=np.array([int(label) for label in table.y], object)) for table in found]
    return found


def natural(name: str) -> tuple[list, str]:
    """The sort key that puts task 2 before task 10."""
    return [(int(part), "") if i % 2 else (0, part) for i, part in enumerate(re.split("([0-9]+)", name))], name


def _folder(path: Path, roles: Roles) -> list[Table]:
    paths = [file for file in path.iterdir() if file.suffix.lower() == ".csv" and not file.name.startswith(".")]
    if not paths:
        raise PacohError(f"The folder {str(path)!r} has no .csv files. Put one file a task there.")
    if roles.task is not None:
        raise PacohError(
            f"{str(path)!r} is a folder, one task a file: leave task={roles.task!r} out, or give one file."
        )
    sheets = [(file.stem, sheet(file)) for file in sorted(paths, key=lambda file: natural(file.stem))]
    return [found.table(name, roles, found.last(roles)) for name, found in sheets]


def _npz(path: Path, roles: Roles) -> list[Table]:
    """Arrays `a_x`, `a_y`, `b_x`, `b_y`, ... of tasks a, b, ...; or all rows in `x`, `y` with a name each in `task`.

    `columns` may name the inputs. A split is an array beside these: `a_<split_column>`, or `<split_column>`.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: np.atleast_1d(archive[key]) for key in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        advice = "Write it with numpy.savez, text as an array of dtype str, not object."
        raise PacohError(f"{path.name!r} is not an .npz file of plain arrays ({error}). {advice}") from None
    columns = tuple(str(name) for name in arrays.pop("columns", np.empty(0)).ravel()) or None
    target, task = roles.target or "y", roles.task or "task"
    names = [key.removesuffix("_x") for key in arrays if key.endswith("_x")]
    pooled = {"x", target, task} <= arrays.keys()
    if not names and not pooled:
        raise PacohError(
            f"{path.name!r} holds {listed(list(arrays)) or 'nothing'}. Write <task>_x and <task>_{target} of each "
            f"task, or all rows as x, {target} and {task} (the name of each row's task)."
        )

    def entry(name: str, part: str | None) -> Any:
        key = part if pooled or part is None else f"{name}_{part}"
        if key is not None and key not in arrays:
            raise PacohError(
                f"Task {name!r} in {path.name!r} has no array {key}. Add it; there are {listed(list(arrays))}."
            )
        return None if key is None else arrays[key]

    if not pooled:
        return [Table(name, entry(name, "x"), entry(name, target), columns, entry(name, roles.split)) for name in names]
    parts = [entry("x", part) for part in ("x", target, roles.split)]
    if any(part is not None and len(part) != arrays[task].size for part in parts):
        shapes = ", ".join(f"{key} {value.shape}" for key, value in arrays.items())
        raise PacohError(f"{path.name!r}: the arrays need one row a point each, got {shapes}.")
    groups = _grouped(arrays[task].ravel().tolist(), lambda row: f"row {row} of {path.name}")
    x, y, side = parts
    return [Table(name, x[i], y[i], columns, None if side is None else side[i], i) for name, i in groups]


def _parquet(path: Path) -> Any:
    try:
        import pandas
        import pyarrow
    except ImportError:
        raise PacohError('Parquet files need pandas and pyarrow: pip install "pacoh[data]".') from None
    try:
        return pandas.read_parquet(path, engine="pyarrow")
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise PacohError(f"{path.name!r} could not be read as Parquet: {error}. Write it again, or use CSV.") from None
