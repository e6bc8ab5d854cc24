"""`pacoh data`: the files of others that real environments read."""

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Data of others: what there is, where it lies, and whether it is right.", no_args_is_help=True)

Names = Annotated[list[str] | None, typer.Argument(help="Names of `pacoh data list` (default: all).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.command("list")
def list_(as_json: Json = False) -> None:
    """Lists the data, their files, and whether they are there."""
    import json

    from pacoh.cli.output import show_table
    from pacoh.sources import SOURCES

    rows = [
        {
            "name": name,
            "what": one.title,
            "licence": one.licence,
            "there": not one.missing(),
            "files": [file.name for file in one.files],
            "download": all(file.url is not None for file in one.files),
        }
        for name, one in SOURCES.items()
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    words = {True: "yes", False: "no"}
    table = [[row["name"], row["what"], row["licence"], words[row["there"]], words[row["download"]]] for row in rows]
    show_table("Data", ["name", "what it is", "licence", "there", "can be fetched"], table)


@app.command()
def fetch(names: Names = None) -> None:
    """Downloads what is missing and can be, checks it, and says where it is."""
    from pacoh.errors import PacohError

    failed = []
    for one in _sources(names, lambda one: all(file.url is not None for file in one.files)):
        try:
            for path in one.fetch():
                typer.echo(path)
        except PacohError as error:
            failed.append(str(error))
    if failed:
        raise PacohError(" ".join(failed))


@app.command()
def verify(names: Names = None, as_json: Json = False) -> None:
    """Reads the files anew and prints their counts. Wrong files end in code 2; so do missing ones that are named."""
    import json

    from pacoh.cli.output import show_table
    from pacoh.errors import PacohError

    found: dict[str, Any] = {}
    wrong = []
    for one in _sources(names):
        if names is None and one.missing():
            found[one.name] = {"missing": one.missing()[0].name}
            continue
        try:
            found[one.name] = one.verify()
        except PacohError as error:
            if names is not None and len(names) == 1:
                raise
            found[one.name] = {"wrong": str(error)}
            wrong.append(one.name)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        rows = [[name, fact, str(value)] for name, facts in found.items() for fact, value in facts.items()]
        show_table("What the files hold", ["name", "fact", "value"], rows)
    if wrong:
        raise PacohError(f"Not right: {', '.join(wrong)}.")


@app.command()
def path(
    name: Annotated[str | None, typer.Argument(help="A name of `pacoh data list`.")] = None,
    as_json: Json = False,
) -> None:
    """Prints the folders that are looked in, the first to win; with a name, those of its files."""
    import json

    from pacoh.sources import source
    from pacoh.sources.places import cache_folder, folders, own_folder

    own = own_folder()
    places: list[Path] = folders(source(name).name) if name else [*([own] if own else []), cache_folder()]
    if as_json:
        typer.echo(json.dumps([str(place) for place in places]))
        return
    for place in places:
        typer.echo(place)


def _sources(names: list[str] | None, default: Any = bool) -> list[Any]:
    from pacoh.sources import SOURCES, source

    return [source(name) for name in names] if names else [one for one in SOURCES.values() if default(one)]
