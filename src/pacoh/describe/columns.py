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
        gaps = len(cells) - len(there)
        return Column(name, "text", len(cells), gaps, len(set(there)), constant=_alike(there))
    pooled = np.concatenate([part for part in numbers if part is not None])
    finite = pooled[np.isfinite(pooled)]
    gaps, infinite = int(np.isnan(pooled).sum()), int(np.isinf(pooled).sum())
    if not len(finite):
        return Column(name, "number", len(pooled), gaps, 0, infinite=infinite, constant="it has no values at all")
    spread = float(finite.std())
    narrow = spread <= NARROW * np.abs(finite).max()
    constant = "it is constant" if narrow else _alike(finite.tolist())
    least, most, mean = float(finite.min()), float(finite.max()), float(finite.mean())
    distinct = len(np.unique(finite))
    return Column(name, "number", len(pooled), gaps, distinct, least, most, mean, spread, infinite, constant)


def _alike(values: list) -> str | None:
    """Why a column of these values is nearly constant; None where it is not."""
    if not values:
        return "it has no values at all"
    value, count = Counter(values).most_common(1)[0]
    if count == len(values):
        return "it is constant"
    return f"{count} of {len(values)} values are {value}" if count >= ALIKE * len(values) else None
