"""Cells one after the other, or some at a time: what is finished is kept, what fails is on record."""

import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

import jax

from pacoh.bench.cells import Record, Watch, compute
from pacoh.bench.spec import Cell
from pacoh.bench.store import Plan, Store
from pacoh.errors import PacohError


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: its records, or why there are none."""

    records: list[Record] | None = None
    reason: str = ""
    details: str = ""


class Listener(Protocol):
    """Who is told how a run goes."""

    def plan(self, cells: int, finished: int) -> None:
        """Before anything is computed."""

    def begin(self, cell: Cell) -> None:
        """A cell begins."""

    def step(self, cell: Cell, done: int, total: int, value: float) -> None:
        """A cell trains."""

    def end(self, cell: Cell, outcome: Outcome) -> None:
        """A cell is finished, or has failed."""


class Silence:
    """Tells nobody."""

    def plan(self, cells: int, finished: int) -> None:
        """Nothing."""

    def begin(self, cell: Cell) -> None:
        """Nothing."""

    def step(self, cell: Cell, done: int, total: int, value: float) -> None:
        """Nothing."""

    def end(self, cell: Cell, outcome: Outcome) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Order:
    """What an executor is given: cells, the folder they are for, who is told, and until when one may begin."""

    cells: list[Cell]
    store: Store
    listener: Listener
    until: float = float("inf")  # by time.monotonic

    def begin(self, cell: Cell) -> bool:
        """Whether there is time to begin a cell; tells so."""
        if time.monotonic() > self.until:
            return False
        self.listener.begin(cell)
        return True


@dataclass(frozen=True)
class Choice:
    """Which cells to compute, as column/row with * and ?, and for how long to begin new ones."""

    only: tuple[str, ...] = ("*",)
    seconds: float = float("inf")

    def wants(self, cell: Cell) -> bool:
        """Whether a pattern fits."""
        return any(fnmatchcase(cell.name, pattern.replace("[", "[[]")) for pattern in self.only)


EVERYTHING = Choice()
_REMEMBERED = 8  # cells
Executor = Callable[[Order], Iterable[tuple[Cell, Outcome]]]


@dataclass(frozen=True)
class Tally:
    """How a run ended."""

    finished: int = 0
    kept: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    left: int = 0  # cells that nobody began


def attempt(what: dict[str, Any], checkpoint: Path | None = None, tell: Any = None) -> Outcome:
    """Computes a cell; a failure of any kind becomes an outcome."""
    try:
        return Outcome(compute(what, Watch(checkpoint, tell)))
    except PacohError as error:
        return Outcome(None, str(error), traceback.format_exc())
    except Exception as error:
        return Outcome(None, f"{type(error).__name__}: {error}"[:500], traceback.format_exc())


def here(order: Order) -> Iterator[tuple[Cell, Outcome]]:
    """In this process, one after the other; compiled programs are forgotten now and then, for they take memory."""
    for index, cell in enumerate(order.cells):
        if not order.begin(cell):
            return
        if index % _REMEMBERED == _REMEMBERED - 1:
            jax.clear_caches()

        def tell(done: int, total: int, value: float, cell: Cell = cell) -> None:
            order.listener.step(cell, done, total, value)

        yield cell, attempt(cell.what, order.store.checkpoint(cell), tell)


def run(plan: Plan, root: Path, listener: Listener, executor: Executor = here, choice: Choice = EVERYTHING) -> Tally:
    """Computes the cells of an experiment that the folder lacks, and writes each as soon as it is known."""
    store = Store(root)
    store.begin(plan)
    cells = [cell for cell in plan.experiment.cells() if choice.wants(cell)]
    todo = [cell for cell in cells if not store.has(cell)]
    for cell in cells:
        if store.has(cell):
            store.tidy(cell)  # where a kill fell between its last write and this
    listener.plan(len(cells), len(cells) - len(todo))
    finished, failed = 0, {}
    for cell, outcome in executor(Order(todo, store, listener, time.monotonic() + choice.seconds)):
        if outcome.records is None:
            store.fail(cell, outcome.reason, outcome.details)
            failed[cell.name] = outcome.reason
        else:
            store.finish(cell, outcome.records)
            finished += 1
        listener.end(cell, outcome)
    return Tally(finished, len(cells) - len(todo), failed, len(todo) - finished - len(failed))
