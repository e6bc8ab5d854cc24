"""`pacoh bound`: evaluate PAC-Bayesian bounds and draw the figures of the case studies."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

app = typer.Typer(help="PAC-Bayesian bounds: evaluate one problem, or draw the case studies.", no_args_is_help=True)

Out = Annotated[Path, typer.Option("--out", help="Folder for the CSV and the pictures; made if it is missing.")]
Draws = Annotated[int | None, typer.Option(help="Simulated problems at the largest n; smaller n get more.", min=2)]
Seed = Annotated[int, typer.Option(help="Seed of the simulation.", min=0)]
MaxN = Annotated[int | None, typer.Option(help="Largest number of tasks; the default is the full figure.", min=4)]


def _stop(message: object) -> NoReturn:
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(2)


@app.command("eval")
def eval_(
    problem: Annotated[Path, typer.Argument(help="JSON file with a 'kind'; '-' reads standard input.")],
    terms: Annotated[bool, typer.Option("--terms", help="Add each bound's terms, assumptions and standing.")] = False,
) -> None:
    """Print every value of a problem (kinds: arithmetic, linear, logistic, cgf) as JSON; infinity is "inf"."""
    import json
    import sys

    from pacoh.bounds.problem import evaluate
    from pacoh.errors import PacohError

    try:
        text = sys.stdin.read() if str(problem) == "-" else problem.read_text(encoding="utf-8")
        answer = evaluate(json.loads(text), terms)
    except (OSError, UnicodeDecodeError) as error:
        _stop(
            f"{problem} could not be read ({getattr(error, 'strerror', None) or 'not UTF-8 text'}): give a JSON file."
        )
    except json.JSONDecodeError as error:
        _stop(f"{problem} is not valid JSON ({error.msg}, line {error.lineno}): repair it there.")
    except PacohError as error:
        _stop(error)
    typer.echo(json.dumps(answer, indent=2, allow_nan=False))


def _figure(name: str, out: Path, draws: int | None, seed: int, max_n: int | None) -> None:
    from pacoh.bounds.plots import draw
    from pacoh.errors import PacohError

    try:
        for path in draw(name, out, draws, seed, max_n):
            typer.echo(path)
    except (PacohError, OSError) as error:
        _stop(error)


@app.command()
def fig2a(out: Out, draws: Draws = None, seed: Seed = 0, max_n: MaxN = None) -> None:
    """Bounds on the 0-1 error of logistic regression against the number of tasks."""
    _figure("fig2a", out, draws, seed, max_n)


@app.command()
def fig2b(out: Out, draws: Draws = None, seed: Seed = 0, max_n: MaxN = None) -> None:
    """Meta-learning and per-task bounds of linear regression against the number of tasks."""
    _figure("fig2b", out, draws, seed, max_n)


@app.command()
def fig3(out: Out, draws: Draws = None, seed: Seed = 0, max_n: MaxN = None) -> None:
    """Improvement of the meta-learning bound over the per-task bound against the number of tasks."""
    _figure("fig3", out, draws, seed, max_n)
