"""`pacoh fit` without a method against methods named by hand: seconds, and test RMSE beside the best of those.

    PYTHONPATH=src python benchmarks/choosing.py work --draws 1 2 3
    PYTHONPATH=src python benchmarks/choosing.py work --budget 60    # seconds of fits, nothing compiled

Draws of Sinusoid (20 tasks of 5 points) are written as folders of CSVs. Each fit without a method is a process of its
own, the first with nothing compiled; those by hand train together. Test tasks have no say in any fit.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from pacoh.api import fit_many
from pacoh.environments import Sinusoid

HAND = ("pacoh-gp-map", "pacoh-gp-svgd", "pacoh-gp-vi")


def write(folder: Path, pairs: list[tuple[np.ndarray, np.ndarray]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i, (x, y) in enumerate(pairs):
        inputs = ["x"] if np.ndim(x) == 1 or x.shape[1] == 1 else [f"x{k}" for k in range(x.shape[1])]
        form = ["%.18e"] * len(inputs) + ["%d" if np.issubdtype(np.asarray(y).dtype, np.integer) else "%.18e"]
        header = ",".join([*inputs, "y"])
        np.savetxt(folder / f"{i:03d}.csv", np.column_stack([x, y]), form, ",", header=header, comments="")
    return folder


def pacoh(cache: Path, *arguments: str | Path) -> dict:
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-m", "pacoh", *map(str, arguments), "--json"]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


SIZES = {"numbers": ((5, 3, 1), (20, 200, 3), (100, 50, 2)), "classes": ((20, 50, 2),)}
"""Tasks, points and inputs."""


def waves(n: int, m: int, d: int, kind: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """y = sin(2 w x + .3 a_i) + a_i + b_i x_1 / 2 with noise, w common to all; of classes low, middle or high."""
    random, tasks = np.random.default_rng(300), []
    w = random.normal(size=d)
    for _ in range(n):
        x, (a, b) = random.uniform(-2, 2, (m, d)), random.normal(size=2)
        y = np.sin(2 * x @ w + 0.3 * a) + a + 0.5 * b * x[:, 0] + 0.1 * random.normal(size=m)
        tasks.append((x, np.digitize(y, [-0.7, 0.7]) if kind == "classes" else y))
    return tasks


def time_sizes(work: Path, budget: float) -> None:
    """Seconds of a fit without a method, each a process of its own with nothing compiled."""
    for kind, sizes in SIZES.items():
        for size in sizes:
            name = "x".join(map(str, size))
            shutil.rmtree(work / "cold", ignore_errors=True)
            folder = write(work / f"{kind}{name}", waves(*size, kind))
            began = time.monotonic()
            given = ["--budget", str(budget), *(["--classes"] if kind == "classes" else [])]
            made = pacoh(work / "cold", "fit", folder, "--out", work / "model", *given)
            print(
                f"{kind} {name}: {time.monotonic() - began:.0f} s", made["method"], *made["tuned"]["why"], sep="\n    "
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--draws", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--budget", type=float, help="Only time fits of several sizes, so many seconds each.")
    asked = parser.parse_args()
    if asked.budget is not None:
        time_sizes(asked.work, asked.budget)
        return
    shutil.rmtree(asked.work / "cache", ignore_errors=True)
    draws = {number: Sinusoid(tests=100, query=100).draw(number) for number in asked.draws}
    chosen = {}
    for number, draw in draws.items():
        whole = zip(draw.test.context.pairs(), draw.test.query.pairs(), strict=True)
        train = write(asked.work / f"train{number}", draw.train.pairs())
        test = write(asked.work / f"test{number}", [(np.r_[a, c], np.r_[b, d]) for (a, b), (c, d) in whole])
        began, out = time.monotonic(), asked.work / "model"
        made = pacoh(asked.work / "cache", "fit", train, "--out", out)
        seconds = time.monotonic() - began
        chosen[number] = pacoh(asked.work / "cache", "evaluate", out, test, "--context", "5")["rmse"]
        told = [made["method"], *made["tuned"]["why"]]
        print(f"draw {number}: RMSE {chosen[number]:.4f}, {seconds:.1f} s", *told, sep="\n    ", flush=True)
    by_hand = {}
    for method in HAND:
        models = fit_many([draw.train for draw in draws.values()], method, [0] * len(draws))
        each = zip(models, draws.values(), strict=True)
        by_hand[method] = [model.evaluate(draw.test)["rmse"] for model, draw in each]
        print(method, *(f"{rmse:.4f}" for rmse in by_hand[method]), flush=True)
    ratios = np.array(list(chosen.values())) / np.min(list(by_hand.values()), 0)
    means = {method: np.mean(rmse) for method, rmse in by_hand.items()}
    print("beside the best of each draw:", *(f"{ratio:.3f}" for ratio in ratios), f"mean {ratios.mean():.3f}")
    print(f"means: without a method {np.mean(list(chosen.values())):.4f},", means)


if __name__ == "__main__":
    main()
