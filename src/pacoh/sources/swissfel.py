"""SwissFEL: nine runs that tuned twelve parameters of a free-electron laser for its pulse energy."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pacoh.errors import PacohError
from pacoh.sources.base import File, Source

EXPERIMENTS = ("line_ucb_ascent", "line_ucb", "neldermead")
RUNS, INPUTS, LEAST = 3, 12, 400


def parse(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """For run i of experiment E the arrays E/i/x (points, 12) and E/i/y, as measured."""
    arrays = {}
    for experiment, path in zip(EXPERIMENTS, paths, strict=True):
        for run in range(RUNS):
            x, y = _run(path, run)
            arrays |= {f"{experiment}/{run}/x": x, f"{experiment}/{run}/y": y}
    return arrays


def _run(path: Path, run: int) -> tuple[np.ndarray, np.ndarray]:
    """Fields x and y of the dataset /1/<run>."""
    try:
        import h5py
    except ImportError:
        raise PacohError('SwissFEL needs h5py: pip install "pacoh[data]".') from None
    try:
        with h5py.File(path, "r") as file:
            table: Any = file["1"][str(run)][()]  # pyright: ignore[reportIndexIssue]
        x, y = np.array(table["x"], np.float64), np.array(table["y"], np.float64)
    except (OSError, KeyError, ValueError, TypeError, IndexError) as error:
        raise PacohError(f"{path} has no dataset /1/{run} with fields x and y ({error}): get it again.") from None
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise PacohError(f"{path}, run {run}: x has shape {x.shape} and y {y.shape}: get it again.")
    return x, y


def facts(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Runs, inputs and points."""
    xs = [value for key, value in arrays.items() if key.endswith("/x")]
    finite = all(bool(np.isfinite(value).all()) for value in arrays.values())
    return {
        "runs": len(xs),
        "inputs": sorted({x.shape[1] for x in xs}),
        f"at least {LEAST} points": min(len(x) for x in xs) >= LEAST,
        "all finite": finite,
    }


SWISSFEL = Source(
    name="swissfel",
    title="SwissFEL",
    licence="see its source",
    files=tuple(
        File(f"2018_10_31/{experiment}/data/evaluations.hdf5", where="the authors of the PACOH paper")
        for experiment in EXPERIMENTS
    ),
    parse=parse,
    facts=facts,
    expected={
        "runs": len(EXPERIMENTS) * RUNS,
        "inputs": [INPUTS],
        f"at least {LEAST} points": True,
        "all finite": True,
    },
)
