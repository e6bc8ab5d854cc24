"""Berkeley-Sensor: the next minute's temperature from the last ten, a sensor a task."""

import equinox as eqx
import numpy as np

from pacoh.environments.base import AbstractEnvironment, Draw
from pacoh.errors import PacohError
from pacoh.reading import Split, Tasks
from pacoh.sources import source

LAGS, STEP, DAYS = 10, 10, 5
ROWS = {"tables": ((144, 288), (288, 576)), "paper": ((288, 432), (432, 576))}
"""Context and query rows of a test sensor: what the published tables were made with, and what the paper's text says."""
TRAIN = 288
COLUMNS = (*(f"minus{lag}" for lag in range(LAGS, 0, -1)), "time_of_day")


class Berkeley(AbstractEnvironment):
    """Berkeley-Sensor: temperature a minute ahead from ten lags and the time of day; a sensor a task.

    The draw shuffles the 46 sensors: 36 to train, 10 to test. In the split `paper` context and query are later days
    than the meta-train rows; in `tables` the context shares a day with them. There are no validation tasks. The last
    reading is input 9 (`minus1`): the method `last-value` with lag=9 predicts it.
    """

    split: str = eqx.field(static=True, default="paper")
    n: int = eqx.field(static=True, default=36)

    def __check_init__(self):
        if self.split not in ROWS:
            raise PacohError(f"The split of Berkeley is one of {', '.join(ROWS)}; got {self.split!r}.")

    def rehearsal(self, train: Tasks) -> tuple[Tasks, Split]:
        """The split at half its length: one learns from the first half of the meta-train rows, queries come later."""
        halves = [tuple(row // 2 for row in rows) for rows in ((0, TRAIN), *ROWS[self.split])]
        learn, context, query = (train.rows([_within(m, rows) for m in train.sizes]) for rows in halves)
        return learn, Split(context, query)

    def draw(self, number: int) -> Draw:
        """The sensors of one draw."""
        temperature = source("berkeley").load("temperature")["temperature"]
        sensors = np.arange(temperature.shape[1])
        np.random.RandomState(number).shuffle(sensors)
        train = _tasks(temperature, sensors[: self.n], (0, TRAIN))
        context, query = (_tasks(temperature, sensors[self.n :], rows) for rows in ROWS[self.split])
        return Draw(train, Split(context, query), None)


def lagged(series: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (ten lags, the oldest first, and the time of day) and targets of one sensor, every tenth minute.

    The first day is left out: it is four days before the others.
    """
    minutes = len(series) // DAYS
    time = np.tile(np.arange(minutes) / minutes, DAYS)[minutes:]
    series = series[minutes:]
    windows = np.lib.stride_tricks.sliding_window_view(series, LAGS + 1)[::STEP]
    return np.column_stack([windows[:, :LAGS], time[LAGS::STEP]]), windows[:, LAGS].copy()


def _within(count: int, rows: tuple[int, ...]) -> np.ndarray:
    place = np.arange(count)
    return (rows[0] <= place) & (place < rows[1])


def _tasks(temperature: np.ndarray, sensors: np.ndarray, rows: tuple[int, int]) -> Tasks:
    pairs = [lagged(temperature[:, sensor]) for sensor in sensors]
    some = slice(*rows)
    return Tasks(
        tuple(f"sensor {sensor}" for sensor in sensors),
        tuple(x[some] for x, _ in pairs),
        tuple(y[some] for _, y in pairs),
        COLUMNS,
    )
