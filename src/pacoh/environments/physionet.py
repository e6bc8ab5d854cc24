"""PhysioNet: one variable of intensive-care patients over time, a patient a task."""

from typing import Any

import equinox as eqx
import numpy as np

from pacoh.encoding import listed
from pacoh.environments.base import PUBLISHED, AbstractEnvironment, Draw
from pacoh.errors import PacohError
from pacoh.reading import Split, Tasks
from pacoh.sources import source

_ABSENT = -1.0  # how the files write that a value is missing


class PhysioNet(AbstractEnvironment):
    """PhysioNet 2012: a variable over hours since admission; test patients have a day of context.

    Meta-train tasks are the first `n` patients with `least` values in the first `cut` hours; from the last patient
    backwards those with `least` values in the first `day` hours and a later one are test tasks, then validation tasks.
    The published draw takes patients in order of their record; any other number shuffles them first.
    """

    variable: str = eqx.field(static=True, default="GCS")
    n: int = eqx.field(static=True, default=100)
    tests: int = eqx.field(static=True, default=500)
    valids: int = eqx.field(static=True, default=500)
    cut: float = eqx.field(static=True, default=47.0)
    day: float = eqx.field(static=True, default=24.0)
    least: int = eqx.field(static=True, default=4)

    def draw(self, number: int) -> Draw:
        """The patients of one draw: no one is in two parts."""
        patients = self._patients(number)
        train = [record for record, (hours, _) in patients.items() if (hours <= self.cut).sum() >= self.least]
        train = train[: self.n]
        taken = set(train)
        rest = [
            record
            for record, (hours, _) in reversed(patients.items())
            if record not in taken and (hours <= self.day).sum() >= self.least and (hours > self.day).any()
        ]
        if len(train) < self.n or len(rest) < self.tests + self.valids:
            raise PacohError(
                f"{self.variable} has {len(train)} patients to train on and {len(rest)} others to test or validate "
                f"with, asked for were {self.n}, {self.tests} and {self.valids}: ask for fewer (n, tests, valids)."
            )
        test, valid = rest[: self.tests], rest[self.tests : self.tests + self.valids]
        return Draw(
            _tasks({record: _rows(*patients[record], patients[record][0] <= self.cut) for record in train}),
            self._split({record: patients[record] for record in test}),
            self._split({record: patients[record] for record in valid}) if valid else None,
        )

    def _patients(self, number: int) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Hours and values of each patient with the variable, in the order of a draw."""
        one = source("physionet2012")
        keys = [f"{self.variable}/{part}" for part in ("record", "hours", "value")]
        known = [str(name) for name in one.load("variables")["variables"]]
        if self.variable not in known:
            raise PacohError(f"PhysioNet has no variable {self.variable!r}. Variables: {listed(known)}.")
        arrays = one.load(*keys)
        record, hours, value = (arrays[key] for key in keys)
        there = value != _ABSENT
        record, hours, value = record[there], hours[there], value[there]
        order = np.lexsort((hours, record))  # stable: values of one minute stay in the order of the file
        records, starts = np.unique(record[order], return_index=True)
        if not len(records):
            return {}
        parts = zip(np.split(hours[order], starts[1:]), np.split(value[order], starts[1:]), strict=True)
        patients = dict(zip(records.tolist(), parts, strict=True))
        if number == PUBLISHED:
            return patients
        shuffled = np.random.RandomState(number).permutation(records).tolist()
        return {record: patients[record] for record in shuffled}

    def _split(self, patients: dict[int, tuple[np.ndarray, np.ndarray]]) -> Split:
        context, query = (
            _tasks({record: _rows(hours, value, side(hours)) for record, (hours, value) in patients.items()})
            for side in (lambda hours: hours <= self.day, lambda hours: hours > self.day)
        )
        return Split(context, query)


def _rows(hours: np.ndarray, value: np.ndarray, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return hours[keep, None], value[keep]


def _tasks(pairs: dict[int, tuple[np.ndarray, np.ndarray]]) -> Tasks:
    names = tuple(str(record) for record in pairs)
    return Tasks(names, tuple(x for x, _ in pairs.values()), tuple(y for _, y in pairs.values()), ("hours",))


def gcs(**settings: Any) -> PhysioNet:
    """PhysioNet 2012, the Glasgow coma score over hours since admission; a patient a task."""
    return PhysioNet("GCS", **settings)


def hct(**settings: Any) -> PhysioNet:
    """PhysioNet 2012, the hematocrit over hours since admission; a patient a task."""
    return PhysioNet("HCT", **settings)
