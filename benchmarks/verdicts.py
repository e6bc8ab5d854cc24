"""Verdicts of `pacoh report` on sets of tasks whose answer is known: right ones, false alarms, coverage, seconds.

    PYTHONPATH=src python benchmarks/verdicts.py verdicts.jsonl --seeds 1000 1010
    PYTHONPATH=src python benchmarks/verdicts.py verdicts.jsonl --read

Each set is a folder of CSVs, and each report one command with default settings, one after the other in one process. A
line a set and seed; those that the file has are not run again. `--sets` names some of them.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from choosing import write
from typer.testing import CliRunner

from pacoh.cli import app
from pacoh.testing import sets
from pacoh.transfer import HELPS, NO_BENEFIT


def noise(random: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Nothing but noise, as high and as wide as machines are."""
    return 7 + 3 * random.normal(size=len(x))


def flipped(random: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """A machine upside down."""
    del random
    return 14 - (2 + x + 1.5 * np.sin(2 * np.pi * x / 3.7))


def faster(random: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """A machine whose wave is of another period."""
    del random
    return 2 + x + 1.5 * np.sin(2 * np.pi * x / 1.9)


def raised(random: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """A machine with an offset far from the others'."""
    del random
    return 22 + x + 1.5 * np.sin(2 * np.pi * x / 3.7)


def constant(random: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """The same value everywhere."""
    del random
    return np.full(len(x), 7.0)


def scaled(random: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """A machine in another unit."""
    return 5 * (raised(random, x) - 20)


HELPING = {
    "machines": sets.machines,
    "periodic": sets.periodic,
    "machines with two others": partial(sets.machines, odd=(sets.falling, sets.jumping)),
    # variants
    "machines, 8": partial(sets.machines, n=8),
    "machines, 40": partial(sets.machines, n=40),
    "machines, wave 0.7": partial(sets.machines, wave=0.7, noise=0.2),
    "machines, period 2": partial(sets.machines, period=2.0),
    "machines, any phase": partial(sets.machines, phase=10.0),
    "machines, two inputs": partial(sets.machines, d=2),
    "periodic, small": partial(sets.periodic, points=(6, 12)),
    "periodic, short": partial(sets.periodic, period=(1.0, 1.0)),
    "periodic, noisy": partial(sets.periodic, noise=0.3),
    "machines, noise": partial(sets.machines, odd=(noise, noise)),
    "machines, flipped": partial(sets.machines, odd=(flipped, flipped)),
    "machines, faster": partial(sets.machines, odd=(faster, faster)),
    "machines, raised and scaled": partial(sets.machines, odd=(raised, scaled)),
    "machines, 40 with three": partial(sets.machines, n=40, odd=(sets.jumping, noise, flipped)),
    "machines, noise 0.3": partial(sets.machines, noise=0.3),
    "machines, 25": partial(sets.machines, n=25),
    "machines, 3 to 10 points": partial(sets.machines, points=(3, 10)),
    "machines, 60 points": partial(sets.machines, points=(60, 60)),
    "machines, both inputs": partial(sets.machines, d=2, second=0.2),
    "machines, period 6": partial(sets.machines, period=6.0, wave=3.0),
    "machines, other units": partial(sets.measured, make=sets.machines, x=(1e6, 1e3), y=(0, 1e3)),
    "machines, dates": partial(sets.measured, make=sets.machines, x=(1e6, 1)),
    "machines, three others": partial(sets.machines, odd=(sets.falling, sets.jumping, flipped)),
    "machines, one constant": partial(sets.machines, odd=(constant,)),
    "machines, noise and constant": partial(sets.machines, odd=(noise, constant)),
    "machines, 8 with one": partial(sets.machines, n=8, odd=(sets.falling,)),
    "machines, 25 with two": partial(sets.machines, n=25, odd=(sets.falling, sets.jumping)),
    "machines, noisy with two": partial(sets.machines, noise=0.3, odd=(sets.falling, sets.jumping)),
    "machines, units with two": partial(
        sets.measured, make=partial(sets.machines, odd=(sets.falling, sets.jumping)), x=(1e6, 1e3), y=(0, 1e3)
    ),
    "patterns of classes": sets.patterns,
    "periodic, 8": partial(sets.periodic, n=8),
    "periodic, long": partial(sets.periodic, period=(6.0, 6.0), amplitude=(1, 5)),
}
USELESS = {
    "unrelated": sets.unrelated,
    # variants
    "unrelated, one length": partial(sets.unrelated, length=(1.0, 1.0)),
    "unrelated, one short length": partial(sets.unrelated, length=(0.4, 0.4)),
    "unrelated, one long length": partial(sets.unrelated, length=(3.0, 3.0)),
    "unrelated, 20 points": partial(sets.unrelated, points=20),
    "unrelated, 10 points": partial(sets.unrelated, points=10),
    "unrelated, 60 points": partial(sets.unrelated, points=60),
    "unrelated, 30 tasks": partial(sets.unrelated, n=30),
    "unrelated, two inputs": partial(sets.unrelated, d=2, length=(1, 5)),
    "unrelated, 8 tasks": partial(sets.unrelated, n=8),
    "unrelated, noisy": partial(sets.unrelated, noise=0.3),
    "unrelated, units": partial(sets.measured, make=sets.unrelated, x=(1e6, 1), y=(0, 1e3)),
    "lines": sets.lines,
    "classes anew": sets.prototypes,
    "two classes anew": partial(sets.prototypes, classes=2),
}
CLASSES = ("patterns of classes", "classes anew", "two classes anew")
FOUR = ("machines", "periodic", "unrelated", "machines with two others")


def outliers(make: Callable) -> int:
    """How many tasks of a set, its last ones, are of another kind."""
    given = getattr(make, "keywords", {})
    return outliers(given["make"]) if "make" in given else len(given.get("odd", ()))


def judge(name: str, seed: int) -> dict:
    """One command on one set, and how its answer compares with the known one."""
    make: Callable = (HELPING | USELESS)[name]
    tasks, odd = make(np.random.default_rng(seed)), outliers(make)
    with tempfile.TemporaryDirectory() as work:
        folder = write(Path(work) / "tasks", tasks)
        began = time.monotonic()
        command = ["report", str(folder), "--out", str(Path(work) / "report.html"), "--json"]
        command += ["--classes"] if name in CLASSES else []
        found = json.loads(CliRunner().invoke(app, command, catch_exceptions=False).stdout)
        seconds = time.monotonic() - began
    named, others = {one["task"] for one in found["unlike_the_rest"]}, {f"{len(tasks) - 1 - i:03d}" for i in range(odd)}
    effects = found["effects"].values()
    return {
        "set": name,
        "seed": seed,
        "verdict": found["verdict"],
        "right": found["verdict"] == (HELPS if name in HELPING else NO_BENEFIT),
        "odd": odd,
        "odd_named": len(named & others),
        "false_alarms": len(named - others),
        "coverage": None if name in CLASSES else float(np.mean([one["coverage"] for one in effects])),
        "changes": [one["change"] for one in effects],
        "gains": [one["log_likelihood"] for one in effects],
        "method": found["method"],
        "settings": found["settings"],
        "p": [found["p_of_a_gain"], found["p_of_a_gain_in_error"]],
        "unlike": found["unlike_the_rest"],
        "seconds": round(seconds, 1),
    }


def table(rows: list[dict]) -> str:
    """A line a set."""
    lines = [
        "| set | verdict right | odd tasks exact, too | false alarms a report | 90 % intervals hold | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["set"] for row in rows):
        mine = [row for row in rows if row["set"] == name]
        right = [row["right"] for row in mine]
        exact = [row["right"] and row["odd_named"] == row["odd"] and not row["false_alarms"] for row in mine]
        keys = ("false_alarms", "coverage", "seconds")
        mean = {key: np.mean([np.nan if row[key] is None else row[key] for row in mine]) for key in keys}
        lines.append(
            f"| {name} | {sum(right)} of {len(mine)} | {sum(exact)} of {len(mine)} | {mean['false_alarms']:.1f} | "
            f"{100 * mean['coverage']:.1f} % | {mean['seconds']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Verdicts of `pacoh report` on sets whose answer is known.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs=2, default=(200, 210), help="The first, and one after the last.")
    parser.add_argument("--sets", nargs="+", default=FOUR, choices=(*HELPING, *USELESS))
    parser.add_argument("--read", action="store_true", help="Only the table of what is there.")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    done = {(row["set"], row["seed"]) for row in rows}
    for seed in range(*asked.seeds) if not asked.read else ():
        for name in asked.sets:
            if (name, seed) in done:
                continue
            rows.append(judge(name, seed))
            with asked.out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            told = ("set", "seed", "verdict", "odd_named", "false_alarms", "coverage", "seconds")
            print(*(rows[-1][key] for key in told), flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
