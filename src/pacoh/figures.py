"""Pictures of predictions. Figures are made without pyplot: no global state."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pacoh.api import Model
from pacoh.predictive import AbstractDistribution, AbstractNumeric
from pacoh.reading import Split


def compare_on_task(vanilla: Model, learned: Model, split: Split, path: Path, task: int = 0) -> None:
    """One test task under two priors: before any point (left) and given the context (right), with 95 % bands."""
    x, y, x_query, y_query = split.context.x[task], split.context.y[task], split.query.x[task], split.query.y[task]
    low, high = x_query.min(), x_query.max()
    grid = np.linspace(low - 0.05 * (high - low), high + 0.05 * (high - low), 200)
    figure = Figure(figsize=(9, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for row, (name, model) in zip(axes, {"each task alone": vanilla, "learned prior": learned}.items(), strict=True):
        for panel, points in zip(row, (0, len(x)), strict=True):
            predictive = model.adapt(x[:points], y[:points])(grid)
            if isinstance(predictive, AbstractDistribution):
                panel.fill_between(
                    grid, *predictive.interval(0.95), alpha=0.25, lw=0, color="tab:blue", label="95 % interval"
                )
            if isinstance(predictive, AbstractNumeric):
                panel.plot(grid, predictive.mean, color="tab:blue", label="mean")
            panel.plot(x_query[:, 0], y_query, ".", ms=2, color="0.5", label="unseen points")
            panel.plot(x[:points, 0], y[:points], "o", color="tab:red", label="context")
            panel.set_title(f"{name}, {points} points")
    span = y_query.max() - y_query.min()
    axes[0, 0].set_ylim(y_query.min() - 0.7 * span, y_query.max() + 0.7 * span)
    axes[0, 0].legend(loc="upper left", fontsize=8)
    figure.savefig(path, dpi=120)
