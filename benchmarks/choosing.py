"""`pacoh fit` without a method against methods named by hand, each in a process of its own: seconds and test RMSE.

    PYTHONPATH=src python benchmarks/choosing.py work --draws 1 2 3

Draws of Sinusoid (20 tasks of 5 points) are written as folders of CSVs. The fit without a method begins with nothing
compiled; those by hand share a cache. Test tasks have no say in any fit.
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

from pacoh.environments import Sinusoid

HAND = ("pacoh-gp-map", "pacoh-gp-svgd", "pacoh-gp-vi")


def write(folder: Path, pairs: list[tuple[np.ndarray, np.ndarray]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i, (x, y) in enumerate(pairs):
        np.savetxt(folder / f"{i:03d}.csv", np.column_stack([x, y]), delimiter=",", header="x,y", comments="")
    return folder


def pacoh(cache: Path | None, *arguments: str | Path) -> dict:
    environment = os.environ if cache is None else os.environ | {"XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-m", "pacoh", *map(str, arguments), "--json"]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--draws", type=int, nargs="+", default=[1, 2, 3])
    asked = parser.parse_args()
    for number in asked.draws:
        draw = Sinusoid(tests=100, query=100).draw(number)
        whole = zip(draw.test.context.pairs(), draw.test.query.pairs(), strict=True)
        train = write(asked.work / f"train{number}", draw.train.pairs())
        test = write(asked.work / f"test{number}", [(np.r_[a, c], np.r_[b, d]) for (a, b), (c, d) in whole])
        for method in (None, *HAND):
            cache = asked.work / ("cold" if method is None else "warm")
            if method is None:
                shutil.rmtree(cache, ignore_errors=True)
            began, out = time.monotonic(), asked.work / "model"
            made = pacoh(cache, "fit", train, "--out", out, *([] if method is None else ["--method", method]))
            seconds = time.monotonic() - began
            rmse = pacoh(cache, "evaluate", out, test, "--context", "5")["rmse"]
            told = f"chose {made['method']} of {made['tuned']['settings_tried']}" if method is None else method
            print(f"draw {number}: {told}: RMSE {rmse:.4f}, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
