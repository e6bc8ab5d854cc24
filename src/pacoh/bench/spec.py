"""Experiments as data: methods x environments x draws and seeds, their tables, claims and cells."""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pacoh import registry
from pacoh.errors import PacohError
from pacoh.tuning.space import merged

NAIVE = {"numbers": ("last-value", "context-mean", "pooled-ridge"), "classes": ("majority-class", "nearest-prototype")}
"""References that need no learning, by what the targets are: they stand in every table."""
_LABELS = {"vanilla-gp": "Vanilla GP", "vanilla-bnn": "Vanilla BNN", "dkl-gp": "Deep-kernel GP", "reptile": "Reptile"}
_LABELS |= {"random": "random", "mr-maml-w": "MR-MAML (W)", "mr-maml-a": "MR-MAML (A)"}
RANDOM = "random"
"""The row of a bandit that chooses at random: its reference that needs no learning."""
_HERE = files("pacoh.bench")


@dataclass(frozen=True)
class Column:
    """An environment with its settings. `key` is its name in files and among published numbers."""

    key: str
    label: str
    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    targets: str = "numbers"
    naive: dict[str, dict[str, Any]] = field(default_factory=dict)  # settings that a naive reference needs here
    varied: dict[str, Any] = field(default_factory=dict)  # those of `settings` that differ from column to column
    lists: tuple[str, ...] = ()  # instead of the experiment's
    published: bool = False  # whether published numbers were made on these data; default: where no setting is given


@dataclass(frozen=True)
class Row:
    """A method with its settings; `part` says what it is in a comparison: pacoh, baseline, naive or oracle."""

    key: str
    label: str
    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    part: str = "baseline"
    only: tuple[str, ...] | None = None  # keys of columns
    varied: dict[str, Any] = field(default_factory=dict)
    play: dict[str, Any] = field(default_factory=dict)  # in a bandit: the rule, and what is learned from

    @property
    def alone(self) -> str:
        """The learner without transfer of the same kind, whose log-likelihood a calibration has to match."""
        return "vanilla-gp" if "-gp" in self.name else "vanilla-bnn"


@dataclass(frozen=True)
class Table:
    """A metric over rows and columns, beside a published table where there is one."""

    metric: str
    published: str | None = None
    list: str = "test"


@dataclass(frozen=True)
class Claim:
    """That one row is better than another in a metric."""

    metric: str
    method: str
    against: str


@dataclass(frozen=True)
class Curve:
    """A figure: a metric (or a number of `made`, such as seconds_per_step) against a setting that varies."""

    title: str
    x: str
    metric: str
    methods: tuple[str, ...] = ()  # and columns: names; none stands for all
    columns: tuple[str, ...] = ()
    parts: tuple[str, ...] = ("pacoh", "baseline")
    lists: tuple[str, ...] = ("test",)


@dataclass(frozen=True)
class Cell:
    """One unit of work, in plain values. Its id is a hash of them, so a changed setting or default is a new cell."""

    row: str
    column: str
    what: dict[str, Any]

    @property
    def id(self) -> str:
        """A hash of the description."""
        return hashlib.sha256(json.dumps(self.what, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.column}/{self.row}"


@dataclass(frozen=True)
class Experiment:
    """What to run, and what to make of it. `lists`: test, or also the points of the meta-train tasks nobody saw."""

    name: str
    summary: str
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    draws: tuple[int, ...] = (29,)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    lists: tuple[str, ...] = ("test",)
    tables: tuple[Table, ...] = ()
    claims: tuple[Claim, ...] = ()
    curves: tuple[Curve, ...] = ()
    illustrate: int = 0  # test tasks of which predictions over a grid are kept
    samples: int = 0  # meta-train tasks of each column to draw
    bounds: tuple[dict[str, Any], ...] = ()  # figures of `pacoh bound`
    bandit: dict[str, Any] = field(default_factory=dict)  # rounds, starts, `at` which rounds regrets are tabled, beside
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict)  # settings by "column/method", from tuning
    defaults: dict[str, str] = field(default_factory=dict)  # of the methods, as `registry.defaults` knows them

    def cells(self) -> list[Cell]:
        """Every cell, the cheap ones first."""
        cells = [cell for column in self.columns for cell in self._of(column)]
        return sorted([*self._pictures(), *cells], key=lambda cell: self._cost(cell.row))

    def row(self, key: str) -> Row:
        """The row of a key."""
        return next(row for row in self.rows if row.key == key)

    def _cost(self, key: str) -> int:
        parts = {row.key: row.part for row in self.rows}
        return ("naive", "oracle").index(parts[key]) if parts.get(key) in ("naive", "oracle") else 2

    def _of(self, column: Column) -> Iterator[Cell]:
        for row in self.rows:
            if not _meet(row, column):
                continue
            settings = merged(row.settings, self.chosen.get(f"{column.key}/{row.name}", {}))
            settings |= column.naive.get(row.name, {}) if row.part == "naive" else {}
            if self.bandit:
                yield self._game(row, column, settings)
                continue
            what: dict[str, Any] = {"kind": "scores", "environment": column.name, "data": column.settings}
            what |= {"method": row.name, "settings": settings, "draws": list(self.draws)}
            what |= {"defaults": self.defaults[row.name]} if row.name in self.defaults else {}
            what["lists"] = list(column.lists or self.lists)
            what["seeds"] = list(self.seeds[:1] if row.part in ("naive", "oracle") else self.seeds)
            yield Cell(row.key, column.key, what | ({"illustrate": self.illustrate} if self.illustrate else {}))

    def _game(self, row: Row, column: Column, settings: dict[str, Any]) -> Cell:
        """A bandit's cell: all starts of a method. One that plays with `columns` learns the bandit's `beside` first."""
        rules, asked = dict(self.bandit), dict(row.play)
        beside = rules.pop("beside", None)
        asked |= {"beside": beside} if asked.get("columns") else {}
        what: dict[str, Any] = {"kind": "bandit", "environment": column.name, "data": column.settings}
        what |= {"method": row.name, "settings": settings, "play": asked} | rules
        what |= {"defaults": self.defaults[row.name]} if row.name in self.defaults else {}
        return Cell(row.key, column.key, what | {"draws": list(self.draws), "seeds": list(self.seeds[:1])})

    def _pictures(self) -> Iterator[Cell]:
        for column in self.columns if self.samples else ():
            what = {"kind": "samples", "environment": column.name, "data": column.settings}
            yield Cell("samples", column.key, what | {"draw": self.draws[0], "tasks": self.samples})
        for figure in self.bounds:
            yield Cell(figure["figure"], "bounds", {"kind": "bounds"} | figure)

    def to_json(self) -> dict[str, Any]:
        """Plain values that `of_json` reads back."""
        return asdict(self)


_PARTS = {"columns": Column, "rows": Row, "tables": Table, "claims": Claim, "curves": Curve}


def of_json(known: Mapping[str, Any]) -> Experiment:
    """The experiment of plain values."""
    plain: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in known.items()}
    for name, kind in _PARTS.items():
        plain[name] = tuple(kind(**_tuples(one)) for one in known.get(name, ()))
    return Experiment(**plain)


def _tuples(one: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in one.items()}


def _meet(row: Row, column: Column) -> bool:
    """Whether a row has a cell in a column."""
    if row.only is not None and column.key not in row.only and column.name not in row.only:
        return False
    if row.part == "naive" and row.name != RANDOM:
        return row.name in NAIVE[column.targets]
    return row.part != "oracle" or _has_oracle(column.name)


@cache
def _has_oracle(name: str) -> bool:
    return registry.environment(name).oracle() is not None


def names() -> list[str]:
    """The experiments that come with the package."""
    return sorted(path.name.removesuffix(".toml") for path in (_HERE / "experiments").iterdir())


def load(name: str) -> Experiment:
    """An experiment by its name, or from a TOML file of one's own."""
    known = _read(name)
    try:
        return _parse(Path(name).stem, known)
    except (TypeError, KeyError) as error:
        raise PacohError(f"The experiment {name} has an entry that is missing or unknown: {error}.") from error


def _read(name: str, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """The entries of an experiment; what it does not give is as in the one that it is `like`, in [tables], too."""
    if name in above:
        raise PacohError(f"The experiment {name} is `like` itself ({', '.join([*above, name])}).")
    if name in names():
        text = (_HERE / "experiments" / f"{name}.toml").read_text(encoding="utf-8")
    elif name.endswith(".toml") and Path(name).is_file():
        text = Path(name).read_text(encoding="utf-8")
    else:
        raise PacohError(f"There is no experiment {name!r}. Experiments: {', '.join(names())}; or give a .toml file.")
    try:
        known = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PacohError(f"{name} is no TOML file: {error}.") from error
    like = known.pop("like", None)
    if like is None:
        return known
    whole = _read(like, (*above, name))
    parts = {key: whole[key] | part for key, part in known.items() if isinstance(part, dict) and key in whole}
    return whole | known | parts


def _parse(name: str, known: dict[str, Any]) -> Experiment:
    columns = tuple(column for one in known.pop("environments", ()) for column in _columns(dict(one)))
    rows = [row for one in known.pop("methods", ()) for row in _rows(dict(one))]
    naive = {method for column in columns for method in NAIVE[column.targets]}
    naive = naive if rows and "bandit" not in known else set()
    rows += [
        Row(method, method.replace("-", " "), method, part="naive")
        for kind in NAIVE.values()
        for method in kind
        if method in naive and method not in {row.key for row in rows}
    ]
    if rows and any(_has_oracle(column.name) for column in columns):
        rows.append(Row("oracle", "Bayes-optimal", "oracle", part="oracle"))
    claims = [
        {"metric": one["metric"], "method": method, "against": other}
        for one in known.pop("claims", ())
        for method in one["methods"]
        for other in one["against"]
    ]
    made = of_json({"name": name, "tables": (), "curves": ()} | known | {"claims": claims})
    made = replace(made, columns=columns, rows=tuple(rows))
    _check(made)
    methods = {row.name for row in rows} - {"oracle", RANDOM}
    return replace(made, defaults={method: registry.defaults(method) for method in sorted(methods)})


def _check(made: Experiment) -> None:
    """Refuses names that nothing has."""
    others = ("oracle", RANDOM) if made.bandit else ("oracle",)
    for row in made.rows:
        if row.name not in registry.METHODS and row.name not in others:
            raise PacohError(f"{made.name}: there is no method {row.name!r}. Methods: {', '.join(registry.METHODS)}.")
    for column in made.columns:
        registry.environment(column.name, **column.settings)
    keys = [row.key for row in made.rows]
    unknown = {key for claim in made.claims for key in (claim.method, claim.against)} - set(keys)
    if unknown:
        raise PacohError(f"{made.name}: claims speak of {', '.join(sorted(unknown))}, and rows are {', '.join(keys)}.")
    for whole in (keys, [column.key for column in made.columns]):
        if len(set(whole)) < len(whole):
            raise PacohError(f"{made.name}: two rows or columns have one key ({', '.join(whole)}): give them `key`s.")


def _said(varied: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in varied.items())


def _columns(one: dict[str, Any]) -> Iterator[Column]:
    """A column for each of the settings in `each`."""
    each, settings = one.pop("each", [{}]), one.pop("settings", {})
    key, label = one.pop("key", one["name"]), one.pop("label", one["name"])
    one["lists"] = tuple(one.get("lists", ()))
    for varied in each:
        said = _said(varied)
        place = (f"{key}[{said}]", f"{label}, {said}") if said else (key, label)
        rest: dict[str, Any] = {"published": not settings and not varied} | one
        yield Column(*place, settings=settings | varied, varied=varied, **rest)


def _rows(one: dict[str, Any]) -> Iterator[Row]:
    """A row for each of the settings in `each`."""
    each, settings, name = one.pop("each", [{}]), one.pop("settings", {}), one["name"]
    key, label = one.pop("key", name), one.pop("label", _LABELS.get(name, name.upper()))
    one.setdefault("part", "pacoh" if name.startswith("pacoh") else "naive" if name == RANDOM else "baseline")
    one["only"] = tuple(one["only"]) if "only" in one else None
    for varied in each:
        said = _said(varied)
        place = (f"{key}[{said}]", f"{label}, {said}") if said else (key, label)
        yield Row(*place, settings=settings | varied, varied=varied, **one)


def read_chosen(folder: Path) -> dict[str, dict[str, Any]]:
    """The settings that `bench tune` chose and those it was given, by "column/method"."""
    known = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.chosen.json"))]
    if not known:
        raise PacohError(f"{folder} holds no settings that `pacoh bench tune` chose (files *.chosen.json).")
    return {one["cell"]: one.get("fixed", {}) | one["settings"] for one in known}


def published(name: str) -> dict[str, Any]:
    """A published table: title, metric, and by column the mean of each method with its sd where one was given."""
    return tomllib.loads((_HERE / "published" / f"{name}.toml").read_text(encoding="utf-8"))
