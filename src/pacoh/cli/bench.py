"""`pacoh bench`: the paper's experiments by one command each: list, run, report, keep, tune."""

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Experiments beside published numbers: list, run, report, keep, tune.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="An experiment of `pacoh bench list`, or a .toml file of your own.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", help="Cells to compute, as environment/method with * and ?; may be given again."),
]


@app.command("list")
def list_(as_json: Json = False) -> None:
    """Lists the experiments."""
    from pacoh.bench import spec
    from pacoh.cli.output import show, show_table

    loaded = [spec.load(name) for name in spec.names()]
    if as_json:
        show({one.name: {"summary": one.summary, "cells": len(one.cells())} for one in loaded}, True)
        return
    show_table("Experiments", ["name", "cells", "what it is"], [[o.name, len(o.cells()), o.summary] for o in loaded])


@app.command()
def run(
    name: Name,
    out: Annotated[Path, typer.Option(help="The folder of results; what is finished there is kept.")],
    seeds: Annotated[int | None, typer.Option(help="Seeds 0 to N - 1 instead of the experiment's.", min=1)] = None,
    only: Only = None,
    chosen: Annotated[Path | None, typer.Option(help="A folder of settings that `bench tune` chose.")] = None,
    workers: Annotated[
        int, typer.Option(help="Cells at a time, each in a process of its own; 0: this one.", min=0)
    ] = 0,
    executor: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="Of the Ray cluster; `local` starts one here.")] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Begin no cell after this time; the same command goes on.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Computes the cells of an experiment; the same command goes on after an interruption."""
    import shlex
    import sys
    from dataclasses import asdict, replace

    from pacoh.bench import executors, spec
    from pacoh.bench.run import Choice, here
    from pacoh.bench.run import run as run_cells
    from pacoh.bench.store import Plan
    from pacoh.cli.benchmarking import listening
    from pacoh.cli.output import prepare_jax, show
    from pacoh.errors import PacohError

    prepare_jax()
    experiment = spec.load(name)
    if seeds is not None:
        experiment = replace(experiment, seeds=tuple(range(seeds)))
    if chosen is not None:
        experiment = replace(experiment, chosen=spec.read_chosen(chosen))
    if executor not in ("local", "ray"):
        raise PacohError(f"An executor is local or ray; got {executor!r}.")
    local = executors.processes(workers) if workers else here
    where = local if executor == "local" else executors.ray_cluster(address)
    choice = Choice(tuple(only or ["*"]), float("inf") if seconds is None else seconds)
    if not any(map(choice.wants, experiment.cells())):
        names = ", ".join(cell.name for cell in experiment.cells()[:5])
        raise PacohError(f"No cell of {name} is called {' or '.join(only or [])}; cells are {names}, ...")
    plan = Plan(experiment, shlex.join(["pacoh", *sys.argv[1:]]))
    with listening() as listener:
        tally = run_cells(plan, out, listener, where, choice)
    show({"out": str(out)} | asdict(tally), as_json)
    if tally.failed:
        raise typer.Exit(1)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A folder of results of `bench run`.")],
    out: Annotated[Path | None, typer.Option(help="Where the pages go (default: the folder).")] = None,
    name: Annotated[str, typer.Option(help="The pages' name.")] = "report",
    note: Annotated[
        Path | None, typer.Option(help="A text file whose paragraphs follow the first lines.", exists=True)
    ] = None,
    reasons: Annotated[
        Path | None, typer.Option(help="A TOML file: why cells fall short of published ones.", exists=True)
    ] = None,
) -> None:
    """Writes one HTML page and a Markdown page: tables beside published numbers, comparisons, figures, times."""
    from pacoh.bench.report import write
    from pacoh.bench.short import read_reasons

    said = "" if note is None else note.read_text(encoding="utf-8")
    for path in write(folder, out or folder, name, said, None if reasons is None else read_reasons(reasons)):
        typer.echo(path)


@app.command()
def keep(
    folder: Annotated[Path, typer.Argument(help="A folder of results of `bench run`.")],
    out: Annotated[Path, typer.Option(help="The folder to copy them to; cells that are there already stay.")],
    as_json: Json = False,
) -> None:
    """Copies finished results to a folder to keep, with five digits a number; `report` and `run` take it as any other.

    Cells of settings that no experiment there asks for any more are removed.
    """
    from pacoh.bench.store import Store
    from pacoh.cli.output import show
    from pacoh.errors import PacohError

    if out.resolve() == folder.resolve():
        raise PacohError(f"{out} is the folder itself: name another to copy the results to.")
    kept, removed = Store(folder).keep(Store(out))
    show({"out": str(out), "cells": kept, "removed": removed}, as_json)


@app.command()
def tune(
    name: Name,
    out: Annotated[Path, typer.Option(help="The folder of chosen settings: one file an environment and method.")],
    settings: Annotated[
        int, typer.Option(help="Settings tried for each method, the default first.", min=2, max=64)
    ] = 32,
    tasks: Annotated[int, typer.Option(help="Validation tasks at most.", min=1, max=50)] = 50,
    draw: Annotated[int, typer.Option(help="The draw whose meta-train and validation tasks judge.")] = 29,
    storage: Annotated[
        str | None, typer.Option(help="Where trials are kept: a database URL (default: SQLite in --out).")
    ] = None,
    at_once: Annotated[int | None, typer.Option(help="Settings that train in one vmap (CPU: 4, else 16).")] = None,
    only: Only = None,
    as_json: Json = False,
) -> None:
    """Chooses settings on validation tasks (or left-out tasks), as many for every method; `run --chosen` uses them."""
    import shlex
    import sys
    from fnmatch import fnmatch

    from pacoh.bench import spec
    from pacoh.bench.tune import Search, choose
    from pacoh.cli.output import prepare_jax, progress_bar, show, show_table

    prepare_jax()
    experiment = spec.load(name)
    search = Search(settings, tasks, draw, storage, at_once, shlex.join(["pacoh", *sys.argv[1:]]))
    told: list[dict[str, Any]] = []
    for column, row in search.pairs(experiment):
        if any(fnmatch(f"{column.key}/{row.name}", pattern) for pattern in only or ["*"]):
            with progress_bar(f"{column.key}/{row.name}") as bar:
                told.append(choose(search, column, row, out, bar("score")))
    if as_json:
        show({"chosen": told}, True)
        return
    rows = [[one["cell"], one["score"], one["default_score"], one["by"], one["settings"]] for one in told]
    show_table("Chosen settings", ["cell", "score", "default's", "by", "settings"], rows)
