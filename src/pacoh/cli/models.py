"""fit, evaluate, predict, info, list."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Source = Annotated[
    str,
    typer.Argument(
        help="An environment (sinusoid, omniglot:shots=5), or a folder of CSVs, a CSV, NPZ or Parquet file."
    ),
]
DrawOption = Annotated[int, typer.Option(help="Which draw of the environment's data.")]
TaskColumn = Annotated[str | None, typer.Option("--task", help="The column that names the task.")]
TargetColumn = Annotated[
    str | None, typer.Option("--target", help="The column to predict (default: the last, or `y`).")
]

ClassesOption = Annotated[
    bool, typer.Option("--classes", help="The targets are class labels that mean the same in all tasks.")
]
TaskClassesOption = Annotated[
    bool, typer.Option("--task-classes", help="The targets are class labels, each task's own (K-way few-shot).")
]
CategoricalOption = Annotated[
    str | None, typer.Option("--categorical", help="Input columns that hold categories, as a,b.")
]


def list_(as_json: Json = False) -> None:
    """Lists the methods and environments."""
    from pacoh.cli.output import show, show_table
    from pacoh.registry import ENVIRONMENTS, METHODS

    methods = {name: method.summary for name, method in METHODS.items()}
    methods["oracle"] = "the Bayes-optimal predictor of a synthetic environment"
    environments = {name: (make.__doc__ or "").split("\n")[0] for name, make in ENVIRONMENTS.items()}
    if as_json:
        show({"methods": methods, "environments": environments}, True)
        return
    show_table("Methods", ["name", "what it is"], [list(row) for row in methods.items()])
    show_table("Environments", ["name", "what it is"], [list(row) for row in environments.items()])


def fit(
    source: Source,
    out: Annotated[Path, typer.Option(help="Where the model file goes.")],
    method: Annotated[
        str | None, typer.Option(help="A method of `pacoh list` (default: chosen by comparing some on left-out tasks).")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Without --method: time for all of it, as 60s, 5m or 1h (default: 50s).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Moves initialisation and gradient noise, never the data.")] = 0,
    draw: DrawOption = 29,
    task: TaskColumn = None,
    target: TargetColumn = None,
    classes: ClassesOption = False,
    task_classes: TaskClassesOption = False,
    categorical: CategoricalOption = None,
    split: Annotated[
        str | None, typer.Option(help="A column that marks context and query rows; it is no input.")
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting of the method, as name=value.")] = None,
    guard: Annotated[
        bool | None,
        typer.Option(
            "--guard/--no-guard", help="Let a weak GP take over on tasks unlike those seen (default: on for pacoh-gp)."
        ),
    ] = None,
    tune: Annotated[
        float | None, typer.Option(help="Seconds to search settings before training: the result depends on speed.")
    ] = None,
    tune_settings: Annotated[int | None, typer.Option(help="How many settings to search, the default first.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Where an interrupted run goes on from (default: beside --out).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Learns a prior from tasks and writes it to a file; the same command goes on after an interruption."""
    began = time.monotonic()
    from pacoh import api, registry
    from pacoh.cli import tuning
    from pacoh.cli.output import prepare_jax, progress_bar, show
    from pacoh.inference.base import Budget
    from pacoh.inference.checkpoint import remove
    from pacoh.tuning import guarded
    from pacoh.tuning.choice import forget
    from pacoh.tuning.space import space

    prepare_jax()
    if not out.resolve().parent.is_dir():
        raise FileNotFoundError(f"The folder of --out {out} does not exist: make it first.")
    if out.is_dir():
        raise IsADirectoryError(f"--out {out} is a folder: name a file in it.")
    chosen = settings_of(settings or [])
    tuning.check(method, budget, tune is not None or tune_settings is not None, bool(chosen))
    resume = checkpoint or out.with_name(out.name + ".checkpoint")
    if method == "oracle":
        if tune is not None or tune_settings is not None:
            space(method, {})  # the error that lists what can be tuned
        model = _oracle(source, draw)
    else:
        if method is not None and method not in registry.METHODS:
            registry.learner(method, registry.Shape(2, 1, 1))  # the error that lists the methods
        named = categorical.split(",") if categorical else None
        tasks = train_tasks(
            source,
            draw,
            task,
            target,
            classes="task" if task_classes else classes,
            categorical=named,
            split_column=split,
        )
        if method is None:
            chosen |= {} if guard is None else {"guard": guard}
        elif guard or (guard is None and guarded(method)):
            chosen.setdefault("guard", True)
        with progress_bar(method or "choosing") as bar:
            tell = bar("log-likelihood")
            if method is None:
                search = tuning.chosen_within(budget, began, source, draw, tell)
            else:
                search = tuning.asked(tune, tune_settings, source, draw, tell)
            training = Budget(progress=bar("ln Q*"), checkpoint=resume)
            model = api.fit(tasks, method, seed=seed, budget=training, tune=search, **chosen)
    model.save(out)
    remove(resume)
    forget(resume)
    card: dict[str, Any] = {"seconds": model.seconds} | model.card
    record: dict[str, Any] = {"model": str(out)} | {key: card[key] for key in ("method", "tasks", "points", "seconds")}
    if "tuned" in card:
        record["tuned"] = card["tuned"] if as_json else tuning.told(card["tuned"])
    show(record, as_json)


def _oracle(source: str, draw: int) -> Any:
    from pacoh import api, registry
    from pacoh.errors import PacohError

    environment = environment_of(source)
    if environment is None:
        raise PacohError(f"Only environments have an oracle ({', '.join(registry.ENVIRONMENTS)}); got {source!r}.")
    return api.fit_oracle(environment, draw)


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    source: Source,
    context: Annotated[
        str | None,
        typer.Option(help="Own tasks: the first N rows of each (5), a share of them (0.5), or a column that says."),
    ] = None,
    shots: Annotated[
        int | None, typer.Option(help="Own tasks with labels: the first N rows of each class as context.")
    ] = None,
    draw: DrawOption = 29,
    seed: Annotated[int, typer.Option(help="Seed of the adaptation.")] = 0,
    task: TaskColumn = None,
    target: TargetColumn = None,
    as_json: Json = False,
) -> None:
    """Scores a model on test tasks: adapts to the context of each, predicts its query points."""
    from pacoh import api, metrics
    from pacoh.cli.output import prepare_jax, show

    if shots is not None and context is not None:
        raise typer.BadParameter("Give the rows of the context (--context) or the shots of each class (--shots).")
    prepare_jax()
    loaded = api.load(model)
    split = _test_tasks(loaded, source, draw, task, target, context if shots is None else shots)
    record: dict[str, Any] = {"method": loaded.card["method"], "tasks": len(split.context)}
    scores = loaded.evaluate(split, seed=seed)
    if not as_json:
        kind = metrics.OF_NUMBERS if loaded.codec.classes is None else metrics.OF_CLASSES
        scores = {name: scores[name] for name in kind}
    show(record | scores, as_json)


def predict(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    query: Annotated[Path, typer.Option(help="A CSV of inputs.")],
    out: Annotated[Path, typer.Option(help="The CSV of predictions to write.")],
    context: Annotated[
        Path | None, typer.Option(help="A CSV of the new task's points, last column y; none: the prior.")
    ] = None,
    target: TargetColumn = None,
    seed: Annotated[int, typer.Option(help="Seed of the adaptation.")] = 0,
) -> None:
    """Predicts a new task: the query's columns, then mean, std and the 5, 50 and 95 % quantiles at each row.

    Of classes: the most probable label, and the probability of each.
    """
    from pacoh import api
    from pacoh.cli.output import prepare_jax
    from pacoh.cli.predictions import columns_of, write
    from pacoh.reading import csv_table

    prepare_jax()
    loaded = api.load(model)
    known = None if context is None else csv_table(context, loaded.codec, targets=True, target=target)
    asked = csv_table(query, loaded.codec, targets=False, target=target)
    predictive = loaded.adapt(known, None if known is None else known.y, seed=seed)(asked)
    write(out, query, loaded.codec.columns, columns_of(predictive))
    typer.echo(f"{len(asked.x)} predictions in {out}")


def info(model: Annotated[Path, typer.Argument(help="A model file.")], as_json: Json = False) -> None:
    """Says what a model file holds and how it was made."""
    from pacoh import persistence
    from pacoh.cli.output import show

    show(persistence.load(model)[1], as_json)


def settings_of(pairs: list[str]) -> dict[str, Any]:
    """name=value pairs, each value read as a number or JSON where it is one."""
    import json

    from pacoh.errors import PacohError

    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise PacohError(f"A setting is written name=value; got {pair!r}.")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def environment_of(source: str) -> Any:
    """The environment that a source names, its settings after a colon (omniglot:shots=5); None for own tasks."""
    from pacoh import registry

    name, _, settings = source.partition(":")
    if name not in registry.ENVIRONMENTS:
        return None
    return registry.environment(name, **settings_of(settings.split(",") if settings else []))


def train_tasks(source: str, draw: int, task: str | None, target: str | None, codec: Any = None, **reading: Any) -> Any:
    """The meta-train tasks that a source names; with `codec`, encoded as those of a model."""
    from pacoh.reading import read

    environment = environment_of(source)
    if environment is not None:
        return environment.draw(draw).train
    return read(tasks_path(source), task=task, target=target, codec=codec, **reading)


def _test_tasks(
    model: Any, source: str, draw: int, task: str | None, target: str | None, context: str | int | None
) -> Any:
    """The test tasks that a source names; a context that is no text counts the rows of each class."""
    from pacoh.errors import PacohError
    from pacoh.reading import context_amount, read

    environment = environment_of(source)
    if environment is not None:
        return environment.draw(draw).test
    if context is None:
        raise PacohError(
            "For your own tasks say which rows of each are context: --context N for the first N, --context 0.5 for a "
            "share, or --context COLUMN; with labels also --shots N of each class. The others are predicted."
        )
    column = context if isinstance(context, str) and isinstance(context_amount(context), str) else None
    tasks = read(tasks_path(source), task=task, target=target, minimum=1, codec=model.codec, split_column=column)
    return tasks.shots(context) if isinstance(context, int) else tasks.split(context)


def tasks_path(source: str) -> Path:
    """The file or folder of own tasks, or an error that lists what else a source can be."""
    from pacoh import registry
    from pacoh.errors import PacohError

    path = Path(source)
    if not path.exists():
        names = ", ".join(registry.ENVIRONMENTS)
        raise PacohError(f"{source!r} is neither a file or folder nor an environment ({names}).")
    return path
