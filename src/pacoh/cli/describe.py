"""describe: what tasks look like before anything is learned from them."""

from pathlib import Path
from typing import Annotated

import typer

from pacoh.cli.models import DrawOption, Json, Source, TargetColumn, TaskColumn


def describe(
    source: Source,
    draw: DrawOption = 29,
    task: TaskColumn = None,
    target: TargetColumn = None,
    out: Annotated[Path | None, typer.Option(help="A picture to draw, such as tasks.png.")] = None,
    as_json: Json = False,
) -> None:
    """Counts tasks, points, ranges, gaps and columns that say nothing, and names tasks unlike the others."""
    from pacoh.cli.models import environment_of, tasks_path
    from pacoh.cli.output import show, show_table
    from pacoh.describe import describe as look

    environment = environment_of(source)
    tasks = tasks_path(source) if environment is None else environment.draw(draw).train
    found = look(tasks, task=task, target=target)
    if out is not None:
        found.draw(out)
    record = found.record()
    if as_json:
        show(record, True)
        return
    points = record["points"]
    title = f"{record['tasks']} tasks, {points['in_all']} points ({points['least']} to {points['most']} a task)"
    fields = ("name", "kind", "least", "most", "mean", "std", "missing", "distinct")
    rows = [[getattr(one, field) for field in fields] for one in (*found.inputs[:30], found.target)]
    show_table(title, list(fields), rows)
    if len(found.inputs) > 30:
        typer.echo(f"(and {len(found.inputs) - 30} more inputs: --json has them all)")
    notes = found.notes()
    for note in notes[:20]:
        typer.echo(f"- {note}")
    if len(notes) > 20:
        typer.echo(f"(and {len(notes) - 20} more notes: --json has them all)")
    if out is not None:
        typer.echo(f"The picture is {out}")
