"""Figures of a report, as SVG: tables at a glance, curves over a setting, learning curves, predictions, bounds."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pacoh.bench.spec import Column, Curve, Table
from pacoh.bench.tables import LABELS, Entry, Results
from pacoh.bounds import plots
from pacoh.pages import Details, Image, blank, image

_UNSEEN = " (unseen points of seen tasks)"


def pictures(results: Results) -> Iterator[Image | Details]:
    """Every figure that the records allow."""
    made = results.experiment
    for table in made.tables:
        figure = _glance(results, table)
        if figure is not None:
            said = f"{LABELS[table.metric]}: dots are ours, with one sd"
            said += "; bars are published, one sd to either side." if table.published else "."
            yield Details([image(f"{made.name}-{table.metric}-{table.list}", said, figure)])
    for index, curve in enumerate(made.curves):
        figure = _curve(results, curve)
        if figure is not None:
            yield image(f"{made.name}-curve-{index}", curve.title + ". Bands are one sd.", figure)
    for column in made.columns:
        yield from _of_column(results, column)
    for figure in made.bounds:
        name = figure["figure"]
        for record in results.known.get((name, "bounds"), ()):
            yield image(f"bounds-{name}", f"The bounds of `pacoh bound {name}`.", plots.picture(name, record["rows"]))


def _of_column(results: Results, column: Column) -> Iterator[Image | Details]:
    made, safe = results.experiment, column.key.replace("[", "-").replace("]", "")
    figure = _learning(results, column)
    if figure is not None:
        said = f"{column.label}: what training climbs, a line a seed, over the share of the training done."
        yield Details([image(f"{made.name}-{safe}-learning", said, figure)])
    if made.illustrate:
        figure = _illustrations(results, column)
        if figure is not None:
            said = f"{column.label}: means and 95 % bands on test tasks, with the share of all unseen points inside."
            yield image(f"{made.name}-{safe}-tasks", said, figure)
    for record in results.known.get(("samples", column.key), ()):
        said = f"{column.label}: the first meta-train tasks."
        yield image(f"{made.name}-{safe}-samples", said, _samples(record["tasks_shown"]))


def _glance(results: Results, table: Table) -> Figure | None:
    """A panel a column: rows from top to bottom."""
    entries = results.table(table)
    columns = [
        c for c in results.experiment.columns if any(_shown(entries.get((r.key, c.key))) for r in _rows(results))
    ]
    if not columns or len(columns) > 8:
        return None
    rows = [row for row in _rows(results) if any(_shown(entries.get((row.key, c.key))) for c in columns)]
    figure = blank(2.2 + 2.4 * len(columns), 1.0 + 0.24 * len(rows))
    for index, (axes, column) in enumerate(
        zip(figure.subplots(1, len(columns), squeeze=False)[0], columns, strict=True)
    ):
        for place, row in enumerate(rows):
            one = entries.get((row.key, column.key))
            if one is not None and one.published is not None:
                mean, sd = one.published.mean, one.published.sd or 0.0
                axes.barh(place, 2 * sd, left=mean - sd, height=0.5, color="0.8")
                axes.plot([mean, mean], [place - 0.25, place + 0.25], color="0.4", lw=1)
            if one is not None and _shown(one):
                color = {"pacoh": "tab:blue", "naive": "tab:red", "oracle": "tab:green"}.get(row.part, "k")
                axes.errorbar(one.mean, place, xerr=one.sd or 0.0, fmt="o", ms=3.5, color=color, lw=1)
        axes.set(ylim=(len(rows) - 0.5, -0.5), title=column.label, xlabel=LABELS[table.metric])
        axes.set_yticks(range(len(rows)), [row.label for row in rows] if index == 0 else [""] * len(rows), fontsize=8)
        axes.grid(axis="y", lw=0.3)
    return figure


def _rows(results: Results) -> Any:
    return results.experiment.rows


def _shown(entry: Entry | None) -> bool:
    return entry is not None and not entry.state and math.isfinite(entry.mean)


def _curve(results: Results, curve: Curve) -> Figure | None:
    """A line a method (and list of tasks) and environment, over a setting of the method or of the data."""
    points: dict[str, list[tuple[float, float, float]]] = {}
    for (row_key, column_key), records in results.known.items():
        if records[0]["kind"] != "scores":
            continue
        row, column = results.experiment.row(row_key), _column(results, column_key)
        varied = row.varied | column.varied
        wanted = row.part in curve.parts and (not curve.methods or row.name in curve.methods)
        if curve.x not in varied or not wanted or (curve.columns and column.name not in curve.columns):
            continue
        label, place = _base(row.label), _base(column.label)
        for where in curve.lists:
            values = _numbers(records, curve.metric, where)
            if values is None:
                continue
            ending = "" if where == "test" else _UNSEEN
            several = len({c.name for c in results.experiment.columns}) > 1 and not curve.columns
            name = label + (f", {place}" if several else "") + ending
            points.setdefault(name, []).append((float(varied[curve.x]), float(values.mean()), float(values.std())))
    if not points:
        return None
    figure = blank(6.4, 4.2)
    axes = figure.subplots()
    colors = {name: f"C{i % 10}" for i, name in enumerate(dict.fromkeys(_seen(name) for name in sorted(points)))}
    for name, found in sorted(points.items()):
        x, mean, sd = np.array(sorted(found)).T
        style, color = "-" if name == _seen(name) else "--", colors[_seen(name)]
        axes.plot(x, mean, style, marker="o", ms=3, color=color, label=name)
        axes.fill_between(x, mean - sd, mean + sd, color=color, alpha=0.15, lw=0)
    axes.set(xscale="log", xlabel=curve.x, ylabel=LABELS.get(curve.metric, curve.metric.replace("_", " ")))
    if curve.metric in ("seconds_per_step", "peak_bytes"):
        axes.set_yscale("log")
    axes.legend(fontsize=7)
    return figure


def _seen(name: str) -> str:
    return name.removesuffix(_UNSEEN)


def _column(results: Results, key: str) -> Column:
    return next(column for column in results.experiment.columns if column.key == key)


def _base(label: str) -> str:
    """A label without the settings that vary."""
    return label.split(", ")[0]


def _numbers(records: list[dict[str, Any]], metric: str, where: str) -> np.ndarray | None:
    if metric in records[0]["made"]:
        value = records[0]["made"][metric]
        return None if value is None or where != "test" else np.array([float(value)])
    found = [record["scores"][where].get(metric) for record in records]
    return None if found[0] is None else np.array([float(value) for value in found])


def _learning(results: Results, column: Column) -> Figure | None:
    """A panel a method that trains."""
    trained = {}
    for row in results.experiment.rows:
        records = results.known.get((row.key, column.key), ())
        curves = [np.array([float(v) for v in record["curve"]]) for record in records if record["curve"]]
        if curves:
            trained[row.label] = curves
    if not trained or len(trained) > 24:
        return None
    wide = min(4, len(trained))
    figure = blank(2.6 * wide, 2.0 * -(-len(trained) // wide))
    grid = figure.subplots(-(-len(trained) // wide), wide, squeeze=False).ravel()
    for axes, (label, curves) in zip(grid, trained.items(), strict=False):
        for curve in curves:
            axes.plot(np.linspace(0, 1, len(curve)), curve, lw=0.8)
        low = np.nanpercentile(np.concatenate(curves), 5)
        axes.set_title(label, fontsize=8)
        axes.set_ylim(bottom=low)
        axes.tick_params(labelsize=7)
    for axes in grid[len(trained) :]:
        axes.axis("off")
    return figure


def _illustrations(results: Results, column: Column) -> Figure | None:
    """A row a method, a panel a test task."""
    found = {}
    for row in results.experiment.rows:
        records = results.known.get((row.key, column.key), ())
        if records and records[0].get("illustrations") and "low" in records[0]["illustrations"][0]:
            found[row.label] = records
    if not found:
        return None
    tasks = results.experiment.illustrate
    figure = blank(2.9 * tasks, 2.2 * len(found))
    panels = figure.subplots(len(found), tasks, squeeze=False, sharex=True, sharey="col")
    for line, (label, records) in zip(panels, found.items(), strict=True):
        inside = np.mean([float(record["scores"]["test"]["coverage_95"]) for record in records])
        for axes, one in zip(line, records[0]["illustrations"], strict=True):
            axes.fill_between(one["grid"], one["low"], one["high"], alpha=0.25, lw=0, color="tab:blue")
            axes.plot(one["grid"], one["mean"], color="tab:blue", lw=1)
            axes.plot(one["x_query"], one["y_query"], ".", ms=1.5, color="0.5")
            axes.plot(one["x"], one["y"], "o", ms=4, color="tab:red")
        line[0].set_title(f"{label}: {100 * inside:.0f} % inside", fontsize=8, loc="left")
    for axes, one in zip(panels[0], next(iter(found.values()))[0]["illustrations"], strict=True):
        middle, half = np.median(one["y_query"]), np.ptp(one["y_query"])
        axes.set_ylim(middle - 1.2 * half, middle + 1.2 * half)
    return figure


def _samples(tasks: list[dict[str, Any]]) -> Figure:
    """Targets over the only input, or as colours over the first two."""
    if len(tasks[0]["x"][0]) == 1:
        figure = blank(6.4, 4.0)
        axes = figure.subplots()
        for task in tasks:
            order = np.argsort(np.array(task["x"])[:, 0])
            axes.plot(np.array(task["x"])[order, 0], np.array(task["y"])[order], ".-", lw=0.7, ms=4)
        axes.set(xlabel="x", ylabel="y")
        return figure
    figure = blank(2.4 * len(tasks), 2.6)
    low, high = (float(pick([pick(task["y"]) for task in tasks])) for pick in (min, max))
    panels = figure.subplots(1, len(tasks), squeeze=False, sharex=True, sharey=True)[0]
    points = [np.array(task["x"])[:, :2].T for task in tasks]
    shown = [
        axes.scatter(*x, c=task["y"], s=12, vmin=low, vmax=high)
        for axes, x, task in zip(panels, points, tasks, strict=True)
    ]
    figure.colorbar(shown[-1], ax=list(panels))
    return figure
