"""How `pacoh bench run` shows what it does: bars on a terminal, plain lines elsewhere. All on stderr."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from pacoh.bench.run import Listener, Outcome
from pacoh.bench.spec import Cell

_EVERY = 30.0  # seconds between two lines on the training of one cell


def _ended(cell: Cell, outcome: Outcome, seconds: float) -> str:
    if outcome.records is None:
        return f"{cell.name}: failed: {outcome.reason}"
    found = [record["scores"]["test"] for record in outcome.records if "test" in record.get("scores", {})]
    for metric in ("rmse", "accuracy"):
        values = [one[metric] for one in found if isinstance(one.get(metric), float)]
        if values:
            return f"{cell.name}: {metric} {sum(values) / len(values):.4g}, {seconds:.1f} s"
    return f"{cell.name}: {seconds:.1f} s"


class Lines:
    """A line at the end of every cell, and one now and then while a long one trains."""

    def __init__(self) -> None:
        self._lock, self._begun, self._told = threading.Lock(), {}, 0.0
        self._done = self._total = 0

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def plan(self, cells: int, finished: int) -> None:
        """How much there is to do."""
        self._done, self._total = finished, cells
        self._say(f"{cells} cells, {finished} of them finished before")

    def begin(self, cell: Cell) -> None:
        """Remembers when."""
        self._begun[cell.id] = self._told = time.monotonic()

    def step(self, cell: Cell, done: int, total: int, value: float) -> None:
        """A line every half minute."""
        if time.monotonic() - self._told > _EVERY:
            self._told = time.monotonic()
            self._say(f"  {cell.name}: step {done} of {total}, {value:.4g}")

    def end(self, cell: Cell, outcome: Outcome) -> None:
        """The outcome."""
        with self._lock:
            self._done += 1
            seconds = time.monotonic() - self._begun[cell.id]
            self._say(f"[{self._done}/{self._total}] {_ended(cell, outcome, seconds)}")


class Bars:
    """A bar over all cells, one for each cell at work, and a line for each that ended."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._bars, self._begun = progress, dict[str, TaskID](), dict[str, float]()
        self._all = progress.add_task("cells", total=None, value="")

    def plan(self, cells: int, finished: int) -> None:
        """How much there is to do."""
        self._progress.update(self._all, total=cells, completed=finished)

    def begin(self, cell: Cell) -> None:
        """A bar for the cell."""
        self._begun[cell.id] = time.monotonic()
        self._bars[cell.id] = self._progress.add_task(cell.name, total=None, value="")

    def step(self, cell: Cell, done: int, total: int, value: float) -> None:
        """Its training."""
        self._progress.update(self._bars[cell.id], completed=done, total=total, value=f"{value:.4g}")

    def end(self, cell: Cell, outcome: Outcome) -> None:
        """The outcome in place of the bar."""
        self._progress.remove_task(self._bars.pop(cell.id))
        self._progress.advance(self._all)
        self._progress.console.print(
            _ended(cell, outcome, time.monotonic() - self._begun[cell.id]), markup=False, highlight=False
        )


@contextmanager
def listening() -> Iterator[Listener]:
    """Bars where stderr is a terminal, else lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[value]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bars(progress)
