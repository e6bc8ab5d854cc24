"""Values on a scale on which they look Gaussian: a long tail on one side is drawn in by a logarithm."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

_STRENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0)


class Warp(eqx.Module):
    """w(u) = u on one side of the centre and sign(u) ln(1 + k |u|) / k on the other, u = (y - loc) / scale.

    `strength` is k above the centre where it is positive, -k below it where it is negative; with 0 values are only
    moved and scaled. A Gaussian process that takes most of a landscape for flat holds a deep and narrow basin for
    impossible; on this scale it does not. The warp grows steadily, so the best point stays the best.

    >>> import numpy as np
    >>> from pacoh.optimize import Warp
    >>> np.round(Warp(0.0, 1.0, -1.0)(np.array([2.0, 0.0, -7.0])), 2).tolist()
    [2.0, 0.0, -2.08]
    """

    loc: float = eqx.field(static=True, default=0.0)
    scale: float = eqx.field(static=True, default=1.0)
    strength: float = eqx.field(static=True, default=0.0)

    @staticmethod
    def of(past: Sequence[Any]) -> "Warp":
        """The strength of largest likelihood if the values of all past searches were Gaussian after warping."""
        values = np.concatenate([np.asarray(each, np.float64).reshape(-1) for each in past])
        loc, scale = float(values.mean()), float(values.std())
        if scale == 0:
            return Warp(loc)
        warps = [Warp(loc, scale, strength) for strength in (0.0, *_STRENGTHS, *(-size for size in _STRENGTHS))]
        return max(warps, key=lambda warp: warp.log_likelihood(values))

    def __call__(self, values: Any) -> np.ndarray:
        """The warped values."""
        u = (np.asarray(values, np.float64) - self.loc) / self.scale
        size = abs(self.strength)
        return u if size == 0 else np.where(self._tail(u), np.sign(u) * np.log1p(size * np.abs(u)) / size, u)

    def log_likelihood(self, values: np.ndarray) -> float:
        """ln p(values), up to a constant, with the mean and sd that suit them best after warping."""
        return float(self.log_slopes(values).sum() - len(values) * np.log(self(values).std()))

    def log_slopes(self, values: np.ndarray) -> np.ndarray:
        """ln dw/dy."""
        u = (values - self.loc) / self.scale
        return -np.where(self._tail(u), np.log1p(abs(self.strength) * np.abs(u)), 0.0) - np.log(self.scale)

    def _tail(self, u: np.ndarray) -> np.ndarray:
        return u * self.strength > 0
