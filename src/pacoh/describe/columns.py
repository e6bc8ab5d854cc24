"""What is in a column: its kind, range and gaps, and whether it says anything."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacoh.encoding import missing

ALIKE = 0.99
"""A column in which this share of the values is one and the same is nearly constant."""
NARROW = 1e-9
"""So is one whose spread is this small beside its values."""
TOLD = 0.99
"""A column of whose variance the others tell this share says nearly what they say."""
_EMPTY = "it has no values at all"


@dataclass(frozen=True)
class Column:
    """One input, or the target, over all tasks; numbers are None where the column holds text."""

    name: str
    kind: str
    values: int
    missing: int
    distinct: int
    least: float | None = None
    most: float | None = None
    mean: float | None = None
    std: float | None = None
    infinite: int = 0
    constant: str | None = None  # why it says next to nothing; None where it does


def as_numbers(cells: np.ndarray) -> np.ndarray | None:
    """Cells as float64 with NaN for gaps; None where some hold something else than numbers."""
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    found = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells.tolist() if cells.dtype.kind != "O" else cells):
        if missing(cell):
            continue
        try:
            if isinstance(cell, str | bytes):
                return None
            found[row] = float(cell)
        except (TypeError, ValueError, OverflowError):
            return None
    return found


def column(name: str, parts: Sequence[np.ndarray]) -> Column:
    """The column whose cells in each task are `parts`."""
    numbers = [as_numbers(part) for part in parts]
    if any(part is None for part in numbers):
        cells: list[Any] = [cell for part in parts for cell in part.tolist()]
        there = [str(cell) for cell in cells if not missing(cell)]
        counted = Counter(there).most_common()
        constant = _alike(len(there), *counted[0]) if counted else _EMPTY
        return Column(name, "text", len(cells), len(cells) - len(there), len(counted), constant=constant)
    pooled = np.concatenate([part for part in numbers if part is not None])
    finite = pooled[np.isfinite(pooled)]
    gaps, infinite = int(np.isnan(pooled).sum()), int(np.isinf(pooled).sum())
    if not len(finite):
        return Column(name, "number", len(pooled), gaps, 0, infinite=infinite, constant=_EMPTY)
    spread = float(finite.std())
    narrow = spread <= NARROW * np.abs(finite).max()
    values, counts = np.unique(finite, return_counts=True)
    constant = "it is constant" if narrow else _alike(len(finite), values[counts.argmax()], int(counts.max()))
    least, most, mean = float(finite.min()), float(finite.max()), float(finite.mean())
    return Column(name, "number", len(pooled), gaps, len(values), least, most, mean, spread, infinite, constant)


def _alike(values: int, most: Any, count: int) -> str | None:
    """Why a column with `count` of its values being `most` is nearly constant; None where it is not."""
    if count == values:
        return "it is constant"
    return f"{count} of {values} values are {most}" if count >= ALIKE * values else None


def told_by_others(columns: dict[str, np.ndarray]) -> tuple[str, ...]:
    """The columns that are nearly a linear function of the others, over the rows where all are finite.

    >>> import numpy as np
    >>> from pacoh.describe.columns import told_by_others
    >>> a, b = np.random.default_rng(0).normal(size=(2, 50))
    >>> told_by_others({"a": a, "b": b, "nearly a": a + 0.01 * b, "sum": a + b, "apart": np.sin(9 * a)})
    ('a', 'b', 'nearly a', 'sum')
    >>> told_by_others({"a": a, "b": b})
    ()
    """
    rows = np.column_stack(list(columns.values())) if columns else np.empty((0, 0))
    rows = rows[np.isfinite(rows).all(1)]
    if len(rows) <= rows.shape[1] + 1:
        return ()
    apart = rows - rows.mean(0)
    apart = apart / np.where((sd := apart.std(0)) > 0, sd, 1.0)
    correlation = apart.T @ apart / len(rows) + 1e-9 * np.eye(rows.shape[1])
    share = 1 - 1 / np.diag(np.linalg.inv(correlation))
    return tuple(name for name, told in zip(columns, share, strict=True) if told > TOLD)
