"""One cell computed: all its draws and seeds train in one `vmap`, and each gives one record of plain values.

What is under `made` (times, versions, the machine) may differ when a cell is computed again; nothing else may.
"""

import math
import platform
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from pacoh import __version__, api, metrics, registry
from pacoh.bench.bandit import bandit
from pacoh.bounds import plots
from pacoh.environments.base import AbstractEnvironment, AbstractSynthetic, Draw
from pacoh.errors import PacohError, PacohWarning
from pacoh.inference import checkpoint
from pacoh.inference.base import Budget
from pacoh.predictive import AbstractDistribution, AbstractNumeric
from pacoh.reading import Split

CHUNK = 250
Record = dict[str, Any]
Tell = Callable[[int, int, float], None]


@dataclass
class Watch:
    """Where training goes on from after a kill, who is told of progress, and what the clock said meanwhile."""

    checkpoint: Path | None = None
    tell: Tell | None = None
    clock: list[tuple[int, float]] = field(default_factory=list)

    def budget(self) -> Budget:
        """How the host drives the training."""
        return Budget(CHUNK, progress=self._progress, checkpoint=self.checkpoint)

    def _progress(self, done: int, total: int, value: float) -> None:
        self.clock.append((done, time.perf_counter()))
        if self.tell is not None:
            self.tell(done, total, value)

    def seconds_per_step(self) -> float | None:
        """Of all chunks but the first, which compiles; None where there was one alone."""
        if len(self.clock) < 2:
            return None
        (first, begun), (last, ended) = self.clock[0], self.clock[-1]
        return (ended - begun) / (last - first)


def compute(what: dict[str, Any], watch: Watch) -> list[Record]:
    """The records of a cell, from its description."""
    kinds = {"scores": _scores, "samples": _samples, "bounds": _bounds, "bandit": bandit}
    began, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
    with warnings.catch_warnings(record=True) as told, jax.default_matmul_precision("highest"):
        warnings.simplefilter("always")
        records = kinds[what["kind"]](what, watch)
    said = sorted({str(one.message) for one in told if issubclass(one.category, PacohWarning)})
    made = _versions() | {"started": started, "seconds": round(time.perf_counter() - began, 3), "warnings": said}
    made |= {"peak_bytes": _peak_bytes(), "seconds_per_step": watch.seconds_per_step()}
    return [plain(what | record | {"made": made | record.get("made", {})}) for record in records]


def _scores(what: dict[str, Any], watch: Watch) -> list[Record]:
    """A record a draw and seed: scores on each list of tasks, also task by task, and the learning curve."""
    environment = registry.environment(what["environment"], **what["data"])
    lists = {number: _lists(environment, number, what["lists"]) for number in what["draws"]}
    lanes = [(number, seed) for number in what["draws"] for seed in what["seeds"]]
    began = time.perf_counter()
    if what["method"] == "oracle":
        models = [api.fit_oracle(environment, number) for number, _ in lanes]
    else:
        models = _fit(what, [lists[number][0] for number, _ in lanes], [seed for _, seed in lanes], watch)
    fitted = time.perf_counter()
    records = []
    for (number, seed), model in zip(lanes, models, strict=True):
        record: Record = {"draw": number, "seed": seed, "scores": {}, "by_task": {}}
        for name, split in lists[number][1].items():
            predictive, y, mask = model.answers(split, seed=seed)
            record["scores"][name] = metrics.summary(predictive, y, mask)
            if isinstance(predictive, AbstractDistribution):
                record["scores"][name] |= {
                    "coverage_95": metrics.coverage(predictive, y, mask, level=0.95),
                    "calibration_error_rms": metrics.calibration_error(predictive, y, mask, form="root-mean-square"),
                }
            record["by_task"][name] = metrics.by_task(predictive, y, mask)
        record["curve"] = None if model.curve is None else model.curve
        if what.get("illustrate"):
            record["illustrations"] = _illustrations(model, lists[number][1]["test"], what["illustrate"], seed)
        records.append(record)
    times = {"fit": round(fitted - began, 3), "evaluate": round(time.perf_counter() - fitted, 3), "lanes": len(lanes)}
    return [record | {"made": {"times": times}} for record in records]


def _fit(what: dict[str, Any], sources: list, seeds: list[int], watch: Watch) -> list[api.Model]:
    """Trains from the checkpoint on where there is one; one of another version is of no use and goes."""

    def learn() -> list[api.Model]:
        return api.fit_many(sources, what["method"], seeds, budget=watch.budget(), **what["settings"])

    kept = watch.checkpoint is not None and watch.checkpoint.exists()
    try:
        return learn()
    except PacohError:
        if not kept or watch.checkpoint is None:
            raise
        checkpoint.remove(watch.checkpoint)
        watch.clock.clear()
        return learn()


def _lists(environment: AbstractEnvironment, number: int, lists: list[str]) -> tuple[Any, dict[str, Split]]:
    """The meta-train tasks of a draw, and the tasks to score on, by name."""
    if "unused" not in lists:
        draw = environment.draw(number)
        return draw.train, {name: _part(draw, name) for name in lists}
    if not isinstance(environment, AbstractSynthetic):
        raise PacohError("Only synthetic environments can give further points of the meta-train tasks.")
    draw, unused = environment.with_unused(number)
    return draw.train, {name: unused if name == "unused" else _part(draw, name) for name in lists}


def _part(draw: Draw, name: str) -> Split:
    split = {"test": draw.test, "valid": draw.valid}.get(name)
    if split is None:
        raise PacohError(
            f"This environment has no tasks {name!r}: the lists are test, valid (where there are) and unused."
        )
    return split


def _illustrations(model: api.Model, split: Split, count: int, seed: int) -> list[dict[str, Any]]:
    """Mean and 95 % band over a grid of the only input, for the first test tasks, with the points."""
    shown = []
    for x, y, x_query, y_query in zip(*(part[:count] for part in _arrays(split)), strict=True):
        if x.shape[1] != 1:
            raise PacohError("Predictions over a grid are drawn for tasks of one input.")
        places = np.concatenate([x, x_query])
        grid = np.linspace(places.min(), places.max(), 120)
        predictive = model.adapt(x, y, seed=seed)(grid)
        one: dict[str, Any] = {"x": x[:, 0], "y": y, "x_query": x_query[:, 0], "y_query": y_query, "grid": grid}
        if isinstance(predictive, AbstractNumeric):
            one["mean"] = predictive.mean
        if isinstance(predictive, AbstractDistribution):
            one["low"], one["high"] = predictive.interval(0.95)
        shown.append(one)
    return shown


def _arrays(split: Split) -> tuple:
    return split.context.x, split.context.y, split.query.x, split.query.y


def _samples(what: dict[str, Any], watch: Watch) -> list[Record]:
    """The first meta-train tasks of a draw."""
    del watch
    train = registry.environment(what["environment"], **what["data"]).draw(what["draw"]).train
    return [{"tasks_shown": [{"x": x, "y": y} for x, y in train.pairs()[: what["tasks"]]]}]


def _bounds(what: dict[str, Any], watch: Watch) -> list[Record]:
    """The rows of a figure of the case studies."""
    del watch
    return [{"rows": plots.rows(what["figure"], what.get("draws"), what.get("seed", 0), what.get("max_n"))}]


def plain(value: Any) -> Any:
    """A value that JSON can hold: lists for arrays, the words nan, inf and -inf for numbers that are not finite."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


@cache
def _versions() -> dict[str, Any]:
    device = jax.devices()[0]
    return {
        "pacoh": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "revision": revision(),
        "device": f"{device.platform}: {device.device_kind}",
        "machine": f"{platform.system()} {platform.machine()}",
        "precision": str(np.asarray(jax.numpy.zeros(())).dtype),
    }


@cache
def revision() -> str | None:
    """The commit of the sources, with a + where they differ from it; None where they lie in no repository."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parents[1]), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _peak_bytes() -> int:
    """The most memory that this process has taken so far: on the accelerator where there is one, else on the host."""
    known = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in known:
        return int(known["peak_bytes_in_use"])
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
