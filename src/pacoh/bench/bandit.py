"""Cells of a bandit: a method learns from past tasks and plays on the pool of the next, from many starts at once."""

import time
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


class Watching(Protocol):
    """Who drives the training and hears of it."""

    def budget(self) -> Budget:
        """How the host drives the training."""
        ...


class Beside(NamedTuple):
    """What each past task says of a point: predictors adapted to all of its points, and its mean target."""

    predictors: list[api.Predictor]
    means: list[float]

    @staticmethod
    def of(tasks: Tasks, model: api.Model) -> "Beside":
        """The predictors of a model, one a past task."""
        pairs = zip(tasks.x, tasks.y, strict=True)
        return Beside([model.adapt(x, y) for x, y in pairs], [float(y.mean()) for y in tasks.y])

    def rows(self, x: np.ndarray, but: int | None = None) -> np.ndarray:
        """Inputs, and a column for each past task: what it says beyond its mean, or zero for the one left out."""
        said = [np.asarray(gaussian(predictor(x)).mean) - mean for predictor, mean in zip(*self, strict=True)]
        return np.column_stack([x, *(0 * column if i == but else column for i, column in enumerate(said))])

    def tasks(self, tasks: Tasks) -> Tasks:
        """Each without its own column."""
        return named([(self.rows(x, i), y) for i, (x, y) in enumerate(zip(tasks.x, tasks.y, strict=True))])


def acquisition(play: dict[str, Any]) -> AbstractAcquisition:
    """The rule of a row: {rule = "ucb"}, with the sd of the paper, or {rule = "thompson", spread = 0.5}."""
    rules = {"ucb": lambda: UCB(literal=True), "thompson": lambda: Thompson(play.get("spread", 1.0))}
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
        rule = Rule(acquisition(what["play"]), maximize=True, repeats=True)
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

    With `beside` a first prior is adapted to all points of each past task, and its predictions are columns.
    """
    few, beside = thinned(past, what["play"].get("points", 300)), what["play"].get("beside")
    seed, rows = what["seeds"][0], x
    if beside is not None:
        settings = dict(beside)
        alone = replace(budget, checkpoint=None, progress=None)
        (first,) = api.fit_many([few], settings.pop("method"), [seed], budget=alone, **settings)
        columns = Beside.of(past, first)
        few, rows = columns.tasks(few), columns.rows(x)
    (model,) = api.fit_many([few], what["method"], [seed], budget=budget, **what["settings"])
    return model, rows
