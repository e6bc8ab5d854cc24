"""Regression losses in [0, 1] and their exact means when the prediction f is Gaussian: what a certificate speaks of."""

import abc
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from pacoh.bounds.base import check_number
from pacoh.errors import PacohError

NAMES = ("clipped-absolute", "clipped-squared", "outside-90")
_TINY = 1e-100  # an sd that counts as none, yet may divide


class AbstractLoss(abc.ABC):
    """A loss in [0, 1] of a function f with noise sd at a point (x, y).

    >>> from pacoh.bounds.losses import AbstractLoss, Outside
    >>> isinstance(Outside(0.9), AbstractLoss)
    True
    """

    @property
    @abc.abstractmethod
    def words(self) -> str:
        """What it is, for a sentence."""

    @abc.abstractmethod
    def mean(self, gap: np.ndarray, sd: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """E over y - f ~ N(gap, sd^2); `noise` is the sd of y about f."""


@dataclass(frozen=True)
class ClippedAbsolute(AbstractLoss):
    """min(|y - f| / C, 1).

    >>> import numpy as np
    >>> from pacoh.bounds.losses import ClippedAbsolute
    >>> ClippedAbsolute(clip=2.0).mean(np.array([0.0, 1.0, 9.0]), np.zeros(3), np.ones(3)).round(3)
    array([0. , 0.5, 1. ])
    """

    clip: float

    def __post_init__(self) -> None:
        check_number("clip", self.clip, 0)

    @property
    def words(self) -> str:
        """With its C."""
        return f"clipped absolute error min(|y - f(x)|/{self.clip:g}, 1)"

    def mean(self, gap: np.ndarray, sd: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """E min(|D|/C, 1), from the truncated first moments of D on either side of 0."""
        del noise
        gap, sd = np.abs(gap) / self.clip, np.maximum(sd / self.clip, _TINY)
        low, zero, high = (-1 - gap) / sd, -gap / sd, (1 - gap) / sd
        above = gap * (ndtr(high) - ndtr(zero)) - sd * (_density(high) - _density(zero))
        below = gap * (ndtr(low) - ndtr(zero)) - sd * (_density(low) - _density(zero))
        return np.clip(above + below + ndtr(low) + ndtr(-high), 0.0, 1.0)


@dataclass(frozen=True)
class ClippedSquared(AbstractLoss):
    """min((y - f)^2 / C^2, 1).

    >>> import numpy as np
    >>> from pacoh.bounds.losses import ClippedSquared
    >>> ClippedSquared(clip=2.0).mean(np.array([0.0, 1.0, 9.0]), np.zeros(3), np.ones(3)).round(3)
    array([0.  , 0.25, 1.  ])
    """

    clip: float

    def __post_init__(self) -> None:
        check_number("clip", self.clip, 0)

    @property
    def words(self) -> str:
        """With its C."""
        return f"clipped squared error min((y - f(x))^2/{self.clip:g}^2, 1)"

    def mean(self, gap: np.ndarray, sd: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """E min(D^2/C^2, 1), from the truncated second moment of D."""
        del noise
        gap, sd = np.abs(gap) / self.clip, np.maximum(sd / self.clip, _TINY)
        low, high = (-1 - gap) / sd, (1 - gap) / sd
        inside = (gap**2 + sd**2) * (ndtr(high) - ndtr(low))
        inside += sd * ((gap - 1) * _density(low) - (gap + 1) * _density(high))
        return np.clip(inside + ndtr(low) + ndtr(-high), 0.0, 1.0)


@dataclass(frozen=True)
class Outside(AbstractLoss):
    """1 where y lies outside the central interval of N(f, noise^2) that holds a share `level`, else 0.

    >>> import numpy as np
    >>> from pacoh.bounds.losses import Outside
    >>> Outside(0.9).mean(np.array([0.0, 3.0]), np.zeros(2), np.ones(2))
    array([0., 1.])
    """

    level: float = 0.9

    def __post_init__(self) -> None:
        check_number("level", self.level, 0, 1)

    @property
    def words(self) -> str:
        """With its level."""
        return f"0-1 error of the {100 * self.level:g} % interval about f(x)"

    def mean(self, gap: np.ndarray, sd: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """P(|D| > z noise), z the normal quantile of (1 + level)/2."""
        reach = ndtri(0.5 + 0.5 * self.level) * noise
        sd = np.maximum(sd, _TINY)
        return np.clip(ndtr((-reach - gap) / sd) + ndtr((gap - reach) / sd), 0.0, 1.0)


def loss(name: str, clip: float | None = None) -> AbstractLoss:
    """The loss of a name; `clip` is C in the units of y, to be chosen before the tasks are seen.

    >>> from pacoh.bounds.losses import loss
    >>> loss("clipped-absolute", clip=0.5).words
    'clipped absolute error min(|y - f(x)|/0.5, 1)'
    """
    if name not in NAMES:
        raise PacohError(f"A bounded loss is one of {', '.join(NAMES)}; got {name!r}.")
    if name == "outside-90":
        if clip is not None:
            raise PacohError("The loss outside-90 is 0 or 1 and takes no clip: leave the clip out.")
        return Outside()
    if clip is None:
        raise PacohError(
            f"The loss {name} needs a clip C, the error in units of y that counts as a full one: choose it by what "
            "your problem calls a miss, before looking at these tasks."
        )
    return (ClippedAbsolute if name == "clipped-absolute" else ClippedSquared)(check_number("clip", clip, 0))


def _density(z: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
