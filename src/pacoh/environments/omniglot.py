"""Omniglot: five letters of one alphabet to tell apart, from two or five drawings of each."""

from collections.abc import Mapping, Sequence

import equinox as eqx
import numpy as np

from pacoh.encoding import Codec, default_columns
from pacoh.environments.base import PUBLISHED, AbstractEnvironment, Draw
from pacoh.errors import PacohError
from pacoh.reading import Split, Tasks
from pacoh.sources import source

SHUFFLE = 123
"""The seed of the published shuffle of alphabets."""


class Omniglot(AbstractEnvironment):
    """Omniglot: 5-way classification of drawn letters within an alphabet, 28 x 28 pixels; 2 or 5 shots.

    Meta-train tasks have all 20 drawings of their letters; test tasks have `shots` of each as context and the others
    as query. `split` is "tables" (the draw shuffles all 50 alphabets into 30 and 20; draw 29 is the published shuffle)
    or "official" (background and evaluation). `each` is the number of tasks an alphabet, of letters that differ. The
    draw also chooses the drawings in the context. There are no validation tasks.
    """

    shots: int = eqx.field(static=True, default=2)
    each: int = eqx.field(static=True, default=1)
    split: str = eqx.field(static=True, default="tables")
    ways: int = eqx.field(static=True, default=5)
    n: int = eqx.field(static=True, default=30)

    def __check_init__(self):
        if self.split not in ("tables", "official"):
            raise PacohError(f"The split of Omniglot is tables or official; got {self.split!r}.")
        if not 1 <= self.shots <= 19 or self.each not in (1, 2):
            raise PacohError("Omniglot takes 1 to 19 shots (published: 2 and 5) and 1 or 2 tasks an alphabet (each).")

    def draw(self, number: int) -> Draw:
        """The alphabets of one draw, and which drawings are context."""
        arrays = source("omniglot").load()
        alphabet = arrays["alphabet"]
        names = sorted(set(alphabet.tolist()))
        official = {str(name): bool(arrays["official"][alphabet == name][0]) for name in names}
        if self.split == "tables":
            np.random.RandomState(SHUFFLE if number == PUBLISHED else number).shuffle(names)
            train, test = names[: self.n], names[self.n :]
        else:
            train, test = ([name for name in names if official[name] == side] for side in (True, False))
        random = np.random.RandomState(number)
        order = [random.permutation(20) for _ in range(len(test) * self.each * self.ways)]
        groups = {"train": self._letters(alphabet, train), "test": self._letters(alphabet, test)}
        return Draw(
            self._tasks(arrays, groups["train"], [np.arange(20)] * (len(train) * self.each * self.ways)),
            Split(
                self._tasks(arrays, groups["test"], [one[: self.shots] for one in order]),
                self._tasks(arrays, groups["test"], [one[self.shots :] for one in order]),
            ),
            None,
        )

    def _letters(self, alphabet: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        """The letters of each task: the first five of an alphabet, then the next five."""
        tasks = {}
        for name in names:
            letters = np.flatnonzero(alphabet == name)
            for i in range(self.each):
                chosen = letters[i * self.ways : (i + 1) * self.ways]
                if len(chosen) < self.ways:
                    raise PacohError(f"The alphabet {name} has {len(letters)} letters, too few for {self.each} tasks.")
                tasks[f"{name} {i + 1}" if self.each > 1 else name] = chosen
        return tasks

    def _tasks(
        self, arrays: Mapping[str, np.ndarray], groups: dict[str, np.ndarray], chosen: list[np.ndarray]
    ) -> Tasks:
        """Tasks of the chosen drawings: `chosen` has one entry for each letter of each task."""
        first = np.searchsorted(arrays["letter"], np.arange(len(arrays["alphabet"])))
        pixels = arrays["ink"].reshape(len(arrays["ink"]), -1)
        x, y, drawings = [], [], iter(chosen)
        for letters in groups.values():
            rows = [first[letter] + next(drawings) for letter in letters]
            x.append(pixels[np.concatenate(rows)].astype(np.float64))
            y.append(np.repeat(np.arange(self.ways), [len(some) for some in rows]))
        columns, classes = default_columns(pixels.shape[1]), tuple(range(self.ways))
        codec = Codec(columns, (), classes, by_task=True, alike=True)
        return Tasks(tuple(groups), tuple(x), tuple(y), columns, classes, codec)
