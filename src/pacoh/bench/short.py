"""Which cells fall short of published ones, all in one table, each with the reason that a file gives for it."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pacoh.bench.spec import Row, Table
from pacoh.bench.tables import LABELS, LISTS, UNLIKELY, Entry, Results, with_sd
from pacoh.errors import PacohError
from pacoh.pages import Block, Grid, Heading, Text

Reasons = dict[str, dict[str, str]]
"""Why, by published table and then by environment/method."""


class Short(NamedTuple):
    """A cell that is not at the published mean, nor within one sd of it, or that does not count."""

    table: Table
    row: Row
    column: str
    entry: Entry

    @property
    def place(self) -> str:
        """What reasons call it."""
        return f"{self.column}/{self.row.key}"


def read_reasons(path: Path) -> Reasons:
    """A TOML file: a table for each published one, in it `"environment/method" = "why"`."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PacohError(f"{path} is no TOML file: {error}.") from error
    plain = all(isinstance(why, dict) and all(isinstance(one, str) for one in why.values()) for why in found.values())
    if not plain:
        raise PacohError(f'{path} gives reasons as ["rmse"] and, below, "environment/method" = "why".')
    return found


def shortfalls(every: Sequence[Results]) -> list[Short]:
    """All cells that were run and fall short, PACOH's first."""
    found = [
        Short(table, results.experiment.row(row), column, entry)
        for results in every
        for table in results.experiment.tables
        for (row, column), entry in results.table(table).items()
        if not entry.state and entry.holds(table.metric) is False
    ]
    return sorted(found, key=lambda short: short.row.part != "pacoh")


def short_pages(every: Sequence[Results], reasons: Reasons) -> Iterator[Block]:
    """The table of them; an error where a reason is given for a cell that does not fall short."""
    known = shortfalls(every)
    places = {(short.table.published, short.place) for short in known}
    stale = [f"{name}: {place}" for name, why in reasons.items() for place in why if (name, place) not in places]
    if stale:
        raise PacohError(f"Reasons are given for cells that do not fall short: {', '.join(stale)}. Take them out.")
    if not known:
        return
    yield Heading(2, "Cells that fall short of the published ones")
    yield Text("Every cell that was run and is neither at the published mean nor within one published sd of it.")
    lines = [
        [
            (f"{LABELS[short.table.metric]}{LISTS[short.table.list]}", False),
            (short.column, False),
            (short.row.label, False),
            (with_sd(short.entry.mean, short.entry.sd), False),
            (f"{short.entry.limit(short.table.metric):.4g}", False),
            (_why(short, reasons), False),
        ]
        for short in known
    ]
    header = ["metric", "environment", "method", "ours", "limit", "why, as far as we know"]
    yield Grid([("", header)], lines)


def _why(short: Short, reasons: Reasons) -> str:
    given = reasons.get(short.table.published or "", {}).get(short.place, "")
    rule = "" if short.entry.counts else f"does not count: {UNLIKELY}"
    return "; ".join(part for part in (rule, given) if part)
