"""One picture of many tasks: their points, their levels and their sizes. Made without pyplot: no global state."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

Columns = dict[str, list[np.ndarray]]


def draw(
    path: Path, names: Sequence[str], inputs: Columns, target: tuple[str, list[np.ndarray]], odd: set[str]
) -> None:
    """All points over the input that goes with the target most, then levels and sizes by task; odd tasks are red."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3)
    label, ys = target
    name = _closest(inputs, ys)
    colours = ["tab:red" if task in odd else "tab:blue" for task in names]
    for i, colour in enumerate(colours):
        if name is not None:
            strength = 0.9 if colour == "tab:red" else 0.5
            left.plot(inputs[name][i], ys[i], ".", ms=3, color=colour, alpha=strength)
        kept = ys[i][np.isfinite(ys[i])]
        if len(kept):
            middle.errorbar(i, kept.mean(), kept.std(), fmt="o", ms=3, lw=1, color=colour)
    left.set(xlabel=name or "", ylabel=label, title="all points")
    middle.set(xlabel="task", ylabel=label, title="mean and spread of each task")
    sizes = [len(y) for y in ys]
    right.bar(np.arange(len(sizes)), sizes, color=colours, width=1.0)
    right.set(xlabel="task", ylabel="points", title="points of each task")
    figure.savefig(path, dpi=110)


def _closest(inputs: Columns, ys: list[np.ndarray]) -> str | None:
    """The input that correlates most with the target over all points."""
    y = np.concatenate(ys)
    best, name = -1.0, next(iter(inputs), None)
    for candidate, parts in inputs.items():
        x = np.concatenate(parts)
        both = np.isfinite(x) & np.isfinite(y)
        if both.sum() > 2 and x[both].std() > 0 and y[both].std() > 0:
            strength = abs(float(np.corrcoef(x[both], y[both])[0, 1]))
            best, name = (strength, candidate) if strength > best else (best, name)
    return name
