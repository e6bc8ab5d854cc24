"""Draws the pictures of the page on uncertainty, and prints the figures that it quotes.

python docs/pictures.py [folder]    (default: docs/pictures)
"""

import json
import sys
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import pacoh
from pacoh.environments.sinusoid import Sinusoid

METHODS = {"vanilla-gp": "each task alone", "mll-gp": "MLL-GP", "pacoh-gp-svgd": "PACOH-GP-SVGD"}
LEVELS = np.linspace(0.05, 0.95, 19)
TASK = 3  # the test task that is drawn


def canvas(panels: int, height: float = 3.0) -> tuple[Figure, list]:
    """A figure with panels side by side."""
    figure = Figure(figsize=(9, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(1, panels, sharey=True, squeeze=False)[0])


def bands(panel, predictor, grid: np.ndarray, context: tuple, truth: tuple) -> None:
    """The mean, the 50 and 90 % intervals, the context, and points that were not shown."""
    predictive = predictor(grid)
    for level, shade in ((0.9, 0.2), (0.5, 0.25)):
        panel.fill_between(grid, *predictive.interval(level), alpha=shade, lw=0, color="tab:blue")
    panel.plot(grid, predictive.mean, color="tab:blue", lw=1)
    panel.plot(truth[0][:, 0], truth[1], ".", ms=2, color="0.5")
    panel.plot(context[0][:, 0], context[1], "o", ms=4, color="tab:red")


def same_points(models: dict, split, path: Path) -> None:
    """One test task, the same five points, three models."""
    context, query = (part.pairs()[TASK] for part in (split.context, split.query))
    figure, panels = canvas(len(METHODS))
    for panel, (method, name) in zip(panels, METHODS.items(), strict=True):
        bands(panel, models[method].adapt(*context), np.linspace(-5, 5, 150), context, query)
        panel.set_title(name, fontsize=10)
    low, high = query[1].min(), query[1].max()
    panels[0].set_ylim(low - 0.6 * (high - low), high + 0.6 * (high - low))
    figure.savefig(path)


def reliability(models: dict, split, path: Path) -> dict[str, dict[str, float]]:
    """The share of unseen points below each predicted quantile, over all test tasks; and the scores."""
    figure, (panel,) = canvas(1, 4.0)
    figure.set_size_inches(4.5, 4)
    panel.plot([0, 1], [0, 1], color="0.7", lw=1)
    scores = {}
    for method, name in METHODS.items():
        predictive, y, mask = models[method].answers(split)
        below = [(predictive.cdf(y)[mask] <= level).mean() for level in LEVELS]
        panel.plot(LEVELS, below, ".-", ms=4, lw=1, label=name)
        names = ("rmse", "log_likelihood", "calibration_error", "coverage_90")
        found = models[method].evaluate(split)
        scores[name] = {one: found[one] for one in names}
        low, high = predictive.interval(0.9)
        scores[name]["width_90"] = float((high - low)[mask].mean())
    panel.set_xlabel("level of the predicted quantile")
    panel.set_ylabel("share of unseen points below it")
    panel.legend(fontsize=8)
    figure.savefig(path)
    return scores


def odd_one_out(models: dict, path: Path) -> dict[str, float]:
    """A task unlike all that were seen, with and without a guard; and the RMSE of each."""
    random = np.random.default_rng(0)

    def step(x: np.ndarray) -> np.ndarray:
        return np.where(x < 0, 12.0, -8.0) + 0.1 * random.normal(size=len(x))

    x = np.array([-4.0, -2.5, -0.5, 0.5, 2.0, 4.0])
    query = np.linspace(-5, 5, 100)
    context, truth = (x[:, None], step(x)), (query[:, None], step(query))
    names = {"pacoh-gp-svgd": "learned prior", "guarded": "learned prior with a guard"}
    figure, panels = canvas(2)
    errors = {}
    for panel, (method, name) in zip(panels, names.items(), strict=True):
        predictor = models[method].adapt(*context)
        bands(panel, predictor, np.linspace(-5, 5, 150), context, truth)
        panel.set_title(name, fontsize=10)
        predictive = predictor(query)
        low, high = predictive.interval(0.9)
        errors[name] = {
            "rmse": float(np.sqrt(np.mean((predictive.mean - truth[1]) ** 2))),
            "coverage_90": float(((truth[1] >= low) & (truth[1] <= high)).mean()),
            "log_likelihood": float(predictive.log_prob(truth[1]).mean()),
        }
    panels[0].set_ylim(-25, 30)
    figure.savefig(path)
    return errors


def main(folder: Path, steps: int | None = None, tests: int = 200) -> dict:
    """Every picture into `folder`; the figures, also written there."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = Sinusoid(tests=tests).draw(29)
    fewer = {} if steps is None else {"steps": steps}
    models = {method: pacoh.fit(draw.train, method, **fewer) for method in METHODS}
    models["guarded"] = pacoh.fit(draw.train, "pacoh-gp-svgd", guard=True, **fewer)
    same_points(models, draw.test, folder / "same-points.png")
    scores = reliability(models, draw.test, folder / "reliability.png")
    figures = {"sinusoid": scores, "step": odd_one_out(models, folder / "odd-one-out.png")}
    (folder / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    return figures


if __name__ == "__main__":
    print(json.dumps(main(Path(*sys.argv[1:2] or [Path(__file__).parent / "pictures"])), indent=1))
