"""Cells of a bandit: a method learns from past tasks and plays on the pool of the next, from many starts at once."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from pacoh import api, registry
from pacoh.bench.spec import RANDOM
from pacoh.environments.base import named
from pacoh.environments.mhc import MHC
from pacoh.errors import PacohError
from pacoh.inference.base import Budget
from pacoh.optimize import UCB, AbstractAcquisition, Thompson
from pacoh.optimize.acquisition import gaussian
from pacoh.optimize.bandit import play, regrets
from pacoh.optimize.search import Rule
from pacoh.reading import Tasks

_COLUMNS = ("predicted", "unexplained")


class Watching(Protocol):
    """Who drives the training and hears of it."""

    def budget(self) -> Budget:
        """How the host drives the training."""
        ...


class Beside(NamedTuple):
    """What each past task says of a point: predictors adapted to all of its points, and the points themselves."""

    predictors: list[api.Predictor]
    past: Tasks

    @staticmethod
    def of(past: Tasks, model: api.Model) -> "Beside":
        """The predictors of a model, one a past task."""
        return Beside([model.adapt(x, y) for x, y in zip(past.x, past.y, strict=True)], past)

    def rows(self, x: np.ndarray, columns: Sequence[str], but: int | None = None) -> np.ndarray:
        """Inputs, and columns that each past task adds, zero for the one left out.

        `predicted` is what its predictor says beyond its mean, `unexplained` what it measured at this very input
        beyond the prediction: what a point has of its own there, and zero where nothing was measured.
        """
        if not isinstance(columns, Sequence) or set(columns) - set(_COLUMNS):
            raise PacohError(f"The columns beside inputs are some of {list(_COLUMNS)}; got {columns!r}.")
        found: dict[str, list[np.ndarray]] = {name: [] for name in columns}
        for i, (predictor, seen, values) in enumerate(zip(self.predictors, self.past.x, self.past.y, strict=True)):
            said = np.asarray(gaussian(predictor(x)).mean)
            of = {"predicted": said - values.mean(), "unexplained": np.nan_to_num(measured(x, seen, values) - said)}
            for name, kept in found.items():
                kept.append(0 * said if i == but else of[name])
        return np.column_stack([x, *(column for kept in found.values() for column in kept)])

    def tasks(self, tasks: Tasks, columns: Sequence[str]) -> Tasks:
        """Some points of the past tasks, each without its own columns."""
        return named([(self.rows(x, columns, i), y) for i, (x, y) in enumerate(zip(tasks.x, tasks.y, strict=True))])


def measured(x: np.ndarray, seen: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The value at each row of x where it is among the rows seen; else no number.

    >>> from pacoh.bench.bandit import measured
    >>> measured(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[3.0, 4.0]]), np.array([0.5])).tolist()
    [nan, 0.5]
    """
    known = {row.tobytes(): value for row, value in zip(seen, values, strict=True)}
    return np.array([known.get(row.tobytes(), np.nan) for row in x])


def acquisition(play: dict[str, Any]) -> AbstractAcquisition:
    """The rule of a row: {rule = "ucb", beta = 1.0}, with the sd of the paper, or {rule = "thompson", spread = 0.5}."""
    rules = {
        "ucb": lambda: UCB(play.get("beta", 2.0), noisy=play.get("noisy", False), literal=True),
        "thompson": lambda: Thompson(play.get("spread", 1.0), play.get("noisy", False)),
    }
    if play.get("rule") not in rules:
        raise PacohError(f"A bandit's rule is ucb or thompson; got {play.get('rule')!r}.")
    return rules[play["rule"]]()


def thinned(tasks: Tasks, most: int) -> Tasks:
    """At most so many random points a task: an exact GP on thousands is slow."""
    random = np.random.RandomState(0)
    return tasks.rows([np.isin(np.arange(m), random.permutation(m)[:most]) for m in tasks.sizes])


def bandit(what: dict[str, Any], watch: Watching) -> list[dict[str, Any]]:
    """A record a start, in `seed`: the rewards, and the regrets after some rounds as scores."""
    environment = registry.environment(what["environment"], **what["data"])
    if not isinstance(environment, MHC):
        raise PacohError(f"A bandit needs an environment with a pool to choose from (mhc); got {what['environment']}.")
    x, y = environment.arms()
    first = np.random.RandomState(0).permutation(len(y))[: what["starts"]]
    began = time.perf_counter()
    if what["method"] == RANDOM:
        fitted, numbers = began, np.random.RandomState(1).randint(len(y), size=(len(first), what["rounds"]))
    else:
        exact = what["play"].get("exact", False)
        rule = Rule(acquisition(what["play"]), maximize=True, repeats=True, exact=exact)
        model, rows = _learned(what, environment.draw(what["draws"][0]).train, x, watch.budget())
        fitted = time.perf_counter()
        numbers = play(model, rule, (rows, y), first, what["rounds"])
    average, simple = regrets(y[numbers], float(y.max()))
    times = {"fit": round(fitted - began, 3), "evaluate": round(time.perf_counter() - fitted, 3), "lanes": len(first)}
    records = []
    for start in range(len(first)):
        at = {
            f"{name}_regret_{t}": float(regret[start, t - 1])
            for name, regret in (("average", average), ("simple", simple))
            for t in what["at"]
        }
        record = {"draw": what["draws"][0], "seed": start, "scores": {"test": at}, "by_task": {}, "curve": None}
        record |= {"rewards": y[numbers[start]], "most": float(y.max())}
        records.append(record | {"made": {"times": times}})
    return records


def _learned(what: dict[str, Any], past: Tasks, x: np.ndarray, budget: Budget) -> tuple[api.Model, np.ndarray]:
    """The model, and the pool as it sees it.

    With `beside` a first prior is adapted to all points of each past task, and what that says of a point is columns.
    """
    few, beside = thinned(past, what["play"].get("points", 300)), what["play"].get("beside")
    seed, rows = what["seeds"][0], x
    if beside is not None:
        settings = dict(beside)
        alone = replace(budget, checkpoint=None, progress=None)
        (first,) = api.fit_many([few], settings.pop("method"), [seed], budget=alone, **settings)
        known, columns = Beside.of(past, first), what["play"]["columns"]
        few, rows = known.tasks(few, columns), known.rows(x, columns)
    (model,) = api.fit_many([few], what["method"], [seed], budget=budget, **what["settings"])
    return model, rows
