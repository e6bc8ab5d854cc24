"""What the command line shows: tables for people, JSON for machines, progress on stderr."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table


def prepare_jax() -> None:
    """A compilation cache on disk, so that a second call starts fast."""
    import jax

    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(root / "pacoh" / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # a fit is many small programs


def show(record: dict[str, Any], as_json: bool) -> None:
    """One record: JSON on stdout, or a line a field."""
    if as_json:
        print(json.dumps(record))
        return
    table = Table(show_header=False, box=None)
    for name, value in record.items():
        table.add_row(name, text(value))
    Console().print(table)


def show_table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Rows for people."""
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(text(value) for value in row))
    Console().print(table)


def text(value: Any) -> str:
    """A value as a reader wants it."""
    if value is None:
        return "n/a"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[str], Callable[[int, int, float], None]]]:
    """A bar on stderr (nothing where stderr is no terminal): the name of a value gives who is to be told of it."""
    console = Console(stderr=True)
    columns = (
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[value]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(label, total=None, value="")

        def named(value_name: str) -> Callable[[int, int, float], None]:
            def tell(done: int, total: int, value: float) -> None:
                progress.update(bar, completed=done, total=total, value=f"{value_name} {value:.4g}")

            return tell

        yield named
