"""A folder of results: one file a finished cell, written whole; what is wanted of it in `plan` files."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pacoh.bench.cells import Record
from pacoh.bench.spec import Cell, Experiment, of_json
from pacoh.errors import PacohError
from pacoh.inference import checkpoint
from pacoh.writing import write_whole


@dataclass(frozen=True)
class Plan:
    """An experiment that a folder is for, and the command that asked for it."""

    experiment: Experiment
    command: str


@dataclass(frozen=True)
class Store:
    """The folder."""

    root: Path

    def begin(self, plan: Plan) -> None:
        """Makes the folder and writes what is wanted of it."""
        (self.root / "cells").mkdir(parents=True, exist_ok=True)
        known = {"experiment": plan.experiment.to_json(), "command": plan.command}
        write_whole(self.root / f"{plan.experiment.name}.plan.json", _text(known, indent=1))

    def plans(self) -> list[Plan]:
        """What is wanted of the folder."""
        paths = sorted(self.root.glob("*.plan.json"))
        if not paths:
            raise PacohError(f"{self.root} holds no results of `pacoh bench run`: name the folder of its --out.")
        read = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        return [Plan(of_json(one["experiment"]), one["command"]) for one in read]

    def has(self, cell: Cell) -> bool:
        """Whether the cell is finished."""
        return self._path(cell).exists()

    def records(self, cell: Cell) -> list[Record] | None:
        """The records of a finished cell; None of any other."""
        if not self.has(cell):
            return None
        return [json.loads(line) for line in self._path(cell).read_text(encoding="utf-8").splitlines()]

    def finish(self, cell: Cell, records: list[Record]) -> None:
        """Keeps the records of a cell: all of them, or none if it is killed meanwhile."""
        write_whole(self._path(cell), b"".join(_text(record) for record in records))
        self.tidy(cell)

    def tidy(self, cell: Cell) -> None:
        """Removes what a finished cell needs no more."""
        self._path(cell, ".failed.json").unlink(missing_ok=True)
        checkpoint.remove(self.checkpoint(cell))

    def fail(self, cell: Cell, reason: str, details: str) -> None:
        """Keeps why a cell failed; the next run tries it again."""
        write_whole(self._path(cell, ".failed.json"), _text({"reason": reason, "details": details}, indent=1))

    def failure(self, cell: Cell) -> str | None:
        """Why a cell failed; None where it did not."""
        path = self._path(cell, ".failed.json")
        return json.loads(path.read_text(encoding="utf-8"))["reason"] if path.exists() else None

    def checkpoint(self, cell: Cell) -> Path:
        """Where the training of a cell goes on from."""
        return self._path(cell, ".checkpoint")

    def others(self, cells: list[Cell]) -> int:
        """How many files of results belong to none of these cells: those of settings that were changed."""
        return len(self._strangers(cells))

    def keep(self, other: "Store") -> tuple[int, int]:
        """Copies plans and their finished cells to another folder; how many it then has, and how many it lost.

        Numbers get five digits, which halves the size. Cells that are there already stay, those of settings that no
        plan there asks for any more go.
        """
        for plan in self.plans():
            other.begin(plan)
            for cell in plan.experiment.cells():
                records = self.records(cell)
                if records is not None:
                    other.finish(cell, _rounded(records))
        wanted = [cell for plan in other.plans() for cell in plan.experiment.cells()]
        gone = other._strangers(wanted)
        for path in gone:
            path.unlink()
        return len(list((other.root / "cells").glob("*.jsonl"))), len(gone)

    def _strangers(self, cells: list[Cell]) -> list[Path]:
        mine = {self._path(cell) for cell in cells}
        return [path for path in (self.root / "cells").glob("*.jsonl") if path not in mine]

    def _path(self, cell: Cell, kind: str = ".jsonl") -> Path:
        return self.root / "cells" / f"{_safe(cell.column)}.{_safe(cell.row)}.{cell.id}{kind}"


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_=" else "_" for letter in name)


def _rounded(value: Any) -> Any:
    """Plain values with five digits a number that is not whole."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return {name: _rounded(one) for name, one in value.items()} if isinstance(value, dict) else value


def _text(known: Any, indent: int | None = None) -> bytes:
    return (json.dumps(known, allow_nan=False, indent=indent) + "\n").encode()
