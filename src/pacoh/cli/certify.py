"""certify: what the theory proves about a model's error on the next task."""

from pathlib import Path
from typing import Annotated

import typer

from pacoh.cli.models import DrawOption, Json, Source, TargetColumn, TaskColumn


def certify(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    source: Source,
    loss: Annotated[
        str, typer.Option(help="A loss in [0, 1]: clipped-absolute, clipped-squared or outside-90.")
    ] = "clipped-absolute",
    clip: Annotated[
        float | None,
        typer.Option(help="The error in units of y that counts as a full one; choose it before seeing the tasks."),
    ] = None,
    delta: Annotated[float, typer.Option(help="The probability with which the bound may fail.")] = 0.1,
    draw: DrawOption = 29,
    task: TaskColumn = None,
    target: TargetColumn = None,
    as_json: Json = False,
) -> None:
    """Bounds the loss on a new task, from the tasks MODEL was trained on: a certificate, or why there is none.

    The answer is exit code 0 either way; only bad input gives 2.
    """
    from pacoh import api
    from pacoh.bounds.losses import loss as named
    from pacoh.certify import certify_model
    from pacoh.cli.models import train_tasks
    from pacoh.cli.output import prepare_jax, show

    prepare_jax()
    chosen = named(loss, clip)
    loaded = api.load(model)
    report = certify_model(loaded, train_tasks(source, draw, task, target, loaded.codec), chosen, delta)
    if as_json:
        show({"model": str(model), "method": loaded.card["method"]} | report.record(), True)
    else:
        typer.echo(str(report))
