"""SwissFEL: pulse energy over twelve parameters of a free-electron laser, a tuning run a task; and a stand-in."""

import equinox as eqx
import numpy as np

from pacoh.encoding import default_columns
from pacoh.environments.base import AbstractEnvironment, Draw, Pair
from pacoh.reading import Split, Tasks
from pacoh.sources import source
from pacoh.sources.swissfel import EXPERIMENTS, INPUTS, RUNS

TRAIN, CONTEXT, QUERY = 200, 200, 200


def split_runs(runs: dict[str, Pair], n: int, number: int) -> Draw:
    """The first 200 points of `n` runs to train on; 400 of each other run, shuffled into context and query."""
    random = np.random.RandomState(number)
    names = list(runs)
    random.shuffle(names)
    rows = np.arange(CONTEXT + QUERY)
    random.shuffle(rows)
    return Draw(
        _tasks(runs, names[:n], np.arange(TRAIN)),
        Split(_tasks(runs, names[n:], rows[:CONTEXT]), _tasks(runs, names[n:], rows[CONTEXT:])),
        None,
    )


def _tasks(runs: dict[str, Pair], names: list[str], rows: np.ndarray) -> Tasks:
    pairs = [runs[name] for name in names]
    columns = default_columns(pairs[0][0].shape[1])
    return Tasks(tuple(names), tuple(x[rows] for x, _ in pairs), tuple(y[rows] for _, y in pairs), columns)


class SwissFEL(AbstractEnvironment):
    """SwissFEL: pulse energy over 12 parameters of a free-electron laser; 9 tuning runs, a run a task.

    The draw shuffles the runs: 5 to train, 4 to test. There are no validation tasks.
    """

    n: int = eqx.field(static=True, default=5)

    def draw(self, number: int) -> Draw:
        """The runs of one draw."""
        arrays = source("swissfel").load()
        names = [f"{experiment}/{run}" for experiment in EXPERIMENTS for run in range(RUNS)]
        return split_runs({name: (arrays[f"{name}/x"], arrays[f"{name}/y"]) for name in names}, self.n, number)


class SwissFELStandIn(AbstractEnvironment):
    """A stand-in for SwissFEL, made up: 12 inputs, 9 drifting runs of line searches. Never to be reported as SwissFEL.

    The energy is a Gaussian hill over twelve rotated parameters. All runs share its shape; where the top is and how
    high differs by run and drifts while it lasts. A run searches along one random line after the other from the best
    point so far.
    """

    n: int = eqx.field(static=True, default=5)
    noise: float = eqx.field(static=True, default=0.05)
    drift: float = eqx.field(static=True, default=0.02)

    def draw(self, number: int) -> Draw:
        """Nine runs of one machine; the number moves the machine, the runs and the split."""
        random = np.random.RandomState(number)
        rotation = np.linalg.qr(random.normal(size=(INPUTS, INPUTS)))[0]
        hill = rotation * np.geomspace(0.1, 1.0, INPUTS)  # steep along some directions, flat along others
        runs = {f"run {i}": self._run(hill, random) for i in range(len(EXPERIMENTS) * RUNS)}
        return split_runs(runs, self.n, number)

    def _run(self, hill: np.ndarray, random: np.random.RandomState, points: int = CONTEXT + QUERY) -> Pair:
        top, height = 0.5 * random.normal(size=INPUTS), 1 + 0.2 * random.normal()
        best, x, y = random.normal(size=INPUTS), [], []
        while len(y) < points:
            direction = random.normal(size=INPUTS)
            line = best + np.outer(np.linspace(-1, 1, 21), direction / np.linalg.norm(direction))
            values = np.empty(len(line))
            for i, point in enumerate(line):
                top = top + self.drift * random.normal(size=INPUTS)
                height = height + 0.1 * self.drift * random.normal()
                values[i] = height * np.exp(-0.5 * ((hill.T @ (point - top)) ** 2).sum()) + self.noise * random.normal()
            x.extend(line)
            y.extend(values)
            best = line[values.argmax()]
        return np.array(x[:points]), np.array(y[:points])
