"""Queries far from everything that was trained on: they are answered, and the reader is told once."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pacoh.errors import PacohWarning


@dataclass(frozen=True, eq=False)
class Ranges:
    """The least and the largest value of each encoded input over the meta-train tasks.

    Far is farther outside than the range is wide; for a column that was constant, farther than its size, or than 1.
    """

    names: tuple[str, ...]
    least: np.ndarray
    most: np.ndarray
    margin: np.ndarray

    @staticmethod
    def of(names: Sequence[str], ranges: Sequence[Sequence[float]]) -> "Ranges":
        """From the pairs on a model's card."""
        least, most = np.asarray(ranges, np.float64).reshape(-1, 2).T
        width = most - least
        return Ranges(tuple(names), least, most, np.where(width > 0, width, np.maximum(np.abs(least), 1.0)))

    def warn(self, x: np.ndarray, stacklevel: int = 3) -> None:
        """One PacohWarning if some rows of x are far outside; it names the input that is farthest."""
        if ((x >= self.least - self.margin) & (x <= self.most + self.margin)).all():
            return
        beyond = np.maximum(self.least - x, x - self.most) / self.margin
        row, column = np.unravel_index(beyond.argmax(), beyond.shape)
        count = int((beyond > 1).any(1).sum())
        warnings.warn(
            f"{count} of {len(x)} queries are far outside what the tasks covered: {self.names[column]!r} went from "
            f"{self.least[column]:.4g} to {self.most[column]:.4g} there and is {x[row, column]:.4g} here. Predictions "
            "so far out rest on the prior alone: add tasks that cover them, or check the units.",
            PacohWarning,
            stacklevel=stacklevel,
        )
