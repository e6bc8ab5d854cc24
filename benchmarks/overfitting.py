"""Meta-overfitting: the error on unseen points of the meta-train tasks beside that on new tasks, by number of tasks.

    JAX_DEFAULT_MATMUL_PRECISION=highest PYTHONPATH=src python benchmarks/overfitting.py run out.jsonl
    PYTHONPATH=src python benchmarks/overfitting.py figure out.jsonl overfitting.png

A line of `out.jsonl` is one environment, number of tasks and method; all draws of a line train in one `vmap`. MLL-GP is
there as registered (stopped early) and with the steps and rate of PACOH-GP-MAP, which shows what stopping early hides.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from oracle_ratio import scores, train

from pacoh import api, registry

TASKS = (5, 10, 20, 50, 100, 200, 400)
POINTS = {"cauchy": 20, "sinusoid": 5}
METHODS = {
    "PACOH-GP-MAP": ("pacoh-gp-map", {}),
    "MLL-GP": ("mll-gp", {"steps": 3000, "rate": 0.012}),
    "MLL-GP, stopped early": ("mll-gp", {}),
}
COLORS = dict(zip(METHODS, ("tab:blue", "tab:red", "tab:orange"), strict=True))


def compare(name: str, n: int, asked: argparse.Namespace) -> list[dict]:
    """A row a method: its scores on both kinds of points, a list entry a draw, beside the oracle's RMSE on the same."""
    environment = registry.environment(name, n=n, m=POINTS[name], tests=asked.tests, query=asked.query)
    draws = range(asked.first, asked.first + asked.draws)
    both = [environment.with_unused(number) for number in draws]
    kinds = {"unused": [unused for _, unused in both], "test": [draw.test for draw, _ in both]}
    oracle = api.fit_oracle(environment, asked.first)
    best = {kind: [scores(oracle, split)["rmse"] for split in splits] for kind, splits in kinds.items()}
    rows = []
    for label, (method, settings) in METHODS.items():
        began = time.time()
        limit = {} if asked.steps is None else {"steps": asked.steps}
        models = train({"method": method, "settings": settings | limit}, [draw for draw, _ in both])
        row = {"environment": name, "n": n, "m": POINTS[name], "label": label, "method": method, "settings": settings}
        row |= {"draws": list(draws), "oracle": best, "seconds": time.time() - began}
        for kind, splits in kinds.items():
            row[kind] = [scores(model, split) for model, split in zip(models, splits, strict=True)]
        rows.append(row)
    return rows


def run(asked: argparse.Namespace) -> None:
    """Every environment and number of tasks, the small ones first, a line a method as soon as it is known."""
    print(jax.devices(), jax.__version__, flush=True)
    with open(asked.rows, "a") as out:
        for n in asked.tasks:
            for name in asked.environments:
                for row in compare(name, n, asked):
                    out.write(json.dumps(row) + "\n")
                    out.flush()
                    print(line(row), flush=True)


def errors(row: dict, kind: str) -> np.ndarray:
    return np.array([each["rmse"] for each in row[kind]])


def line(row: dict) -> str:
    """Both errors and (test - unused) / unused in per cent, with the standard error of its mean over draws.

    Few tasks may be easy or hard by chance: the second gap is that of the errors over the oracle's on the same points.
    """
    unused, test = errors(row, "unused"), errors(row, "test")
    best = {kind: np.array(row["oracle"][kind]) for kind in ("unused", "test")}
    gaps = {"gap": test / unused - 1, "over the oracle": (test / best["test"]) / (unused / best["unused"]) - 1}
    told = [f"{name} {100 * g.mean():6.1f} +- {100 * g.std() / len(g) ** 0.5:4.1f} %" for name, g in gaps.items()]
    return (
        f"{row['environment']:9} n {row['n']:4d} {row['label']:22} unused {unused.mean():.4f} test {test.mean():.4f} "
        f"oracle {best['test'].mean():.4f} {', '.join(told)}, {row['seconds']:.0f} s"
    )


def draw_figure(rows: list[dict], path: Path) -> None:
    """One panel an environment; bands are one sd over draws."""
    names = [name for name in POINTS if any(row["environment"] == name for row in rows)]
    figure = Figure(figsize=(5.5 * len(names), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for panel, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        here = sorted((row for row in rows if row["environment"] == name), key=lambda row: row["n"])
        for label, color in COLORS.items():
            mine = [row for row in here if row["label"] == label]
            for kind, style in {"unused": "--", "test": "-"}.items():
                if not mine:
                    continue
                n, found = [row["n"] for row in mine], [errors(row, kind) for row in mine]
                mean, sd = np.array([e.mean() for e in found]), np.array([e.std() for e in found])
                kind_label = "unseen points of seen tasks" if kind == "unused" else "new tasks"
                panel.plot(n, mean, style, color=color, marker="o", ms=3, label=f"{label}: {kind_label}")
                panel.fill_between(n, mean - sd, mean + sd, color=color, alpha=0.12, lw=0)
        best = {row["n"]: np.mean(row["oracle"]["test"]) for row in here}
        panel.plot(list(best), list(best.values()), color="0.3", ls=":", label="Bayes-optimal")
        panel.set(xscale="log", xlabel="meta-train tasks", ylabel="RMSE")
        panel.set_title(f"{name.capitalize()}, {POINTS[name]} points a task")
        panel.set_xticks(list(best), [str(n) for n in best])
        panel.minorticks_off()
    figure.axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    first = modes.add_parser("run")
    first.add_argument("rows", type=Path)
    first.add_argument("--tasks", type=int, nargs="+", default=TASKS)
    first.add_argument("--environments", nargs="+", default=list(POINTS), choices=list(POINTS))
    first.add_argument("--first", type=int, default=0, help="the first draw")
    first.add_argument("--draws", type=int, default=10)
    first.add_argument("--tests", type=int, default=100)
    first.add_argument("--query", type=int, default=200)
    first.add_argument("--steps", type=int, help="fewer steps for all methods, to try the script")
    second = modes.add_parser("figure")
    second.add_argument("rows", type=Path)
    second.add_argument("figure", type=Path)
    asked = parser.parse_args()
    if asked.mode == "run":
        run(asked)
        return
    rows = [json.loads(text) for text in asked.rows.read_text().splitlines()]
    rows.sort(key=lambda row: (row["environment"], row["label"], row["n"]))
    print(*map(line, rows), sep="\n")
    draw_figure(rows, asked.figure)


if __name__ == "__main__":
    main()
