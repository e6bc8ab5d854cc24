"""How fast a training goes, and whether it will end in time."""

import time
from dataclasses import dataclass, field

CHUNK = 10
"""Steps between two looks at the clock."""
LEAST_STEPS, FEWEST_STEPS = 200, 100
"""Steps that are worth judging, and those that are taken even if time is up: with fewer hardly anything is learned."""
GRACE = 5.0
"""Seconds that the last fit may train even if time is up: it compiles for longer, and less would make that vain."""
_SMALL = 64  # points of a task up to which a step is short


def looks(points: int) -> int:
    """Steps between two looks at the clock: fewer of large tasks, whose steps are long."""
    return max(2, min(CHUNK, CHUNK * _SMALL // points))


class TooSlow(Exception):
    """Training would not end in time."""


@dataclass
class Pace:
    """Told of every chunk of a training (it is a `Budget`'s `progress`), it ends one that would take too long.

    Time must be left, until `deadline`, for judging it, which compiles once more, and for the last fit: of this method,
    or of the best so far (`reserve`).
    """

    deadline: float
    reserve: float = 0.0
    began: float = field(default_factory=lambda: time.monotonic())
    first: tuple[float, int] | None = None  # when the first chunk ended, and its steps
    step: float = 0.0  # seconds a step of all lanes
    total: int = 0

    def __call__(self, done: int, total: int, value: float) -> None:
        """Raises TooSlow where the rest would end after the deadline."""
        del value
        now, self.total = time.monotonic(), total
        if self.first is None:
            self.first = now, done
        else:
            self.step = (now - self.first[0]) / (done - self.first[1])
        ends = now + self.step * (total - done) + self._compiling + max(self.reserve, self.last_fit)
        if ends > self.deadline:
            raise TooSlow

    @property
    def _compiling(self) -> float:
        return 0.0 if self.first is None else max(self.first[0] - self.began - self.first[1] * self.step, 0.0)

    @property
    def training(self) -> float:
        """Seconds of all steps, once compiled."""
        return self.total * self.step

    @property
    def last_fit(self) -> float:
        """Seconds that the fit on all tasks may take: it compiles again, and trains one lane of several."""
        return 2.0 + 1.3 * self._compiling + 0.5 * self.training

    def times(self, steps: float) -> float:
        """Seconds that training, judging and the last fit would take with so much slower steps."""
        return 2.0 + 4.2 * self._compiling + 1.5 * steps * self.training

    def steps_in(self, seconds: float, least: float = 0.0) -> int:
        """Steps of all lanes that fit into a time with compiling (or into `least` without), in whole chunks."""
        left = max(seconds - self._compiling, least)
        return max(0, int(left / self.step) // CHUNK * CHUNK) if self.step else 0
