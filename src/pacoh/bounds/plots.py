"""Figures of the case studies as CSV, PNG and PDF."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pacoh.bounds.figures import Row, Sweep, doubling, fig2a_rows, fig2b_rows, fig3_limit, fig3_rows
from pacoh.errors import PacohError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = {
    "fig2a": (
        "n pacoh pacoh_paper pentina_lampert amit_meir train_error test_error kl_hyper kl_task draws "
        "pacoh_se pacoh_paper_se pentina_lampert_se amit_meir_se train_error_se test_error_se kl_hyper_se kl_task_se"
    ),
    "fig2b": (
        "n meta_bound per_task_bound meta_train transfer per_task_error improvement per_task_certificate draws "
        "meta_bound_se per_task_bound_se meta_train_se transfer_se per_task_error_se improvement_se "
        "per_task_certificate_se"
    ),
    "fig3": "d hyper_sd shift n improvement draws improvement_se",
}


def rows(name: str, draws: int | None = None, seed: int = 0, max_n: int | None = None) -> list[Row]:
    """The rows of one figure; `draws` problems at the largest n, more at smaller n."""
    if name == "fig2a":
        return fig2a_rows(Sweep(draws or 4, seed, doubling(4, 4096, max_n), most=512))
    if name == "fig2b":
        return fig2b_rows(Sweep(draws or 16, seed, doubling(1, 4096, max_n)))
    if name == "fig3":
        return fig3_rows(Sweep(draws or 16, seed, doubling(4, 8192, max_n)))
    raise PacohError(f"The figures are {', '.join(_COLUMNS)}; got {name!r}.")


def draw(
    name: str, out: Path, draws: int | None = None, seed: int = 0, max_n: int | None = None
) -> tuple[Path, Path, Path]:
    """Compute one figure and write its CSV, PNG and PDF into a folder."""
    found = rows(name, draws, seed, max_n)
    out.mkdir(parents=True, exist_ok=True)
    table = out / f"{name}.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _COLUMNS[name].split())
        writer.writeheader()
        writer.writerows(found)
    return (table, *_picture(name, found, out))


def _picture(name: str, found: list[Row], out: Path) -> tuple[Path, Path]:
    figure = picture(name, found)
    paths = out / f"{name}.png", out / f"{name}.pdf"
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def picture(name: str, found: list[Row]) -> "Figure":
    """One figure from its rows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7) if name == "fig3" else (6.4, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    {"fig2a": _draw_fig2a, "fig2b": _draw_fig2b, "fig3": _draw_fig3}[name](figure, found)
    return figure


def _lines(axes, found: list[Row], styles: Sequence[tuple[str, str, str]]) -> None:
    """One line a column with a band of two standard errors."""
    n = [row["n"] for row in found]
    for k, (column, label, style) in enumerate(styles):
        mean, se = [row[column] for row in found], [row[f"{column}_se"] for row in found]
        axes.plot(n, mean, style, color=f"C{k}", label=label, markersize=3, linewidth=1.4)
        low, high = ([m + s * e for m, e in zip(mean, se, strict=True)] for s in (-2, 2))
        axes.fill_between(n, low, high, color=f"C{k}", alpha=0.2, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("number of tasks n")


def _draw_fig2a(figure, found: list[Row]) -> None:
    axes = figure.subplots()
    styles = [
        ("pacoh", "PACOH (proved confidence)", "o-"),
        ("pacoh_paper", "PACOH (as printed)", "o:"),
        ("pentina_lampert", "Pentina & Lampert 2014", "s-"),
        ("amit_meir", "Amit & Meir 2018", "^-"),
        ("train_error", "meta-train error", "--"),
        ("test_error", "transfer error", "-"),
    ]
    _lines(axes, found, styles)
    axes.axhline(1, color="0.5", linewidth=0.8, linestyle=":")
    axes.text(found[0]["n"], 1.02, "vacuous above", color="0.4", fontsize=8)
    axes.set_ylim(0, 1.05 * max(row["pentina_lampert"] for row in found))
    axes.set_ylabel("0-1 error")
    axes.set_title("Logistic regression: bounds and errors")
    axes.legend(fontsize=8)


def _draw_fig2b(figure, found: list[Row]) -> None:
    axes = figure.subplots()
    styles = [
        ("meta_bound", "meta-learning bound (no certificate)", "o-"),
        ("per_task_bound", "per-task bound", "s-"),
        ("per_task_certificate", "per-task bound, certificate", "s:"),
        ("meta_train", "meta-train error", "--"),
        ("transfer", "transfer error", "-"),
        ("per_task_error", "per-task error", "-."),
    ]
    _lines(axes, found, styles)
    axes.set_ylabel("negative log-likelihood")
    axes.set_title("Linear regression: bounds and errors")
    axes.legend(fontsize=8)


def _draw_fig3(figure, found: list[Row]) -> None:
    dims = sorted({row["d"] for row in found})
    grid = figure.subplots(len(dims), 2, sharex=True, squeeze=False)
    last = max(row["n"] for row in found)
    for (left, right), d in zip(grid, dims, strict=True):
        mine = [row for row in found if row["d"] == d]
        shifts = [(f"shift {shift:g}", 0.4, shift) for shift in (0.0, 0.2, 0.4)]
        widths = [(f"sd {sd:g}", sd, 0.0) for sd in (0.1, 0.2, 0.4, 0.6, 0.8)]
        for axes, cases in ((left, shifts), (right, widths)):
            for k, (label, sd, shift) in enumerate(cases):
                line = [row for row in mine if row["hyper_sd"] == sd and row["shift"] == shift]
                axes.plot(
                    [r["n"] for r in line], [r["improvement"] for r in line], "o-", color=f"C{k}", label=label, ms=3
                )
                axes.plot([last], [fig3_limit(int(d), sd, shift, 20_000)], "_", color=f"C{k}", ms=14)
            axes.set_xscale("log", base=2)
            axes.legend(fontsize=8)
            axes.set_ylabel(f"improvement Delta, d = {d:g}")
        left.set_title("hyper-prior mean misplaced (sd 0.4)")
        right.set_title("hyper-prior sd (mean in place)")
    for axes in grid[-1]:
        axes.set_xlabel("number of tasks n (dash: limit)")
