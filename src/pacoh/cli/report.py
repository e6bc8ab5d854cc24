"""report: should I transfer?"""

from pathlib import Path
from typing import Annotated

import typer

from pacoh.cli.models import (
    CategoricalOption,
    ClassesOption,
    DrawOption,
    Json,
    Source,
    TargetColumn,
    TaskClassesOption,
    TaskColumn,
)


def report(
    source: Source,
    out: Annotated[Path, typer.Option(help="The HTML page to write.")],
    method: Annotated[str | None, typer.Option(help="A method of `pacoh list` (default: one is chosen).")] = None,
    seed: Annotated[int, typer.Option(help="Moves initialisation, contexts and folds.")] = 0,
    draw: DrawOption = 29,
    task: TaskColumn = None,
    target: TargetColumn = None,
    classes: ClassesOption = False,
    task_classes: TaskClassesOption = False,
    categorical: CategoricalOption = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting of the method, as name=value.")] = None,
    as_json: Json = False,
) -> None:
    """Compares the learned prior with learning each task alone on left-out tasks, and says whether to transfer."""
    from pacoh.cli.models import environment_of, settings_of, tasks_path
    from pacoh.cli.output import prepare_jax, progress_bar, show
    from pacoh.transfer import report as compare

    prepare_jax()
    if not out.resolve().parent.is_dir():
        raise FileNotFoundError(f"The folder of --out {out} does not exist: make it first.")
    environment = environment_of(source)
    name, _, own = source.partition(":")
    given = "".join(f", {key}={value!r}" for key, value in settings_of(own.split(",") if own else []).items())
    origin = f"registry.environment({name!r}{given}).draw({draw}).train"
    with progress_bar("report") as bar:
        found = compare(
            tasks_path(source) if environment is None else environment.draw(draw).train,
            method=method,
            seed=seed,
            task=task,
            target=target,
            classes="task" if task_classes else classes,
            categorical=categorical.split(",") if categorical else None,
            progress=bar,
            origin=None if environment is None else origin,
            **settings_of(settings or []),
        )
    found.write(out)
    if as_json:
        show({"page": str(out)} | found.record(), True)
        return
    typer.echo(str(found))
    typer.echo(f"The page is {out}")
