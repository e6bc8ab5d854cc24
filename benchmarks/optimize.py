"""Rounds to the optimum on Branin, Hartmann-3 and Hartmann-6: learned priors, no transfer, random search.

    PYTHONPATH=src python benchmarks/optimize.py out.csv --repeats 30

A repeat is a draw of ten past tasks of 20 random points and one new function. A row of the CSV is a round of a repeat:
its regret in shares of the range, and the best so far. The table shows the rounds until the best is within 1 %, as
median and quartiles; runs that never get there count as one round more than there were. `other` means that the past
tasks are of another family: Hartmann-3 with its last input fixed for Branin, Hartmann-6 with its last three fixed for
Hartmann-3, two Hartmann-3 side by side for Hartmann-6. `gp` fits a Matern kernel to the new task by MAP and knows no
past task: it begins with d + 1 random points and goes on by UCB, `gp-ei` by expected improvement, as a learned prior
does. Where the guard does not believe the past, and at every second point while it finds nothing better, the search
goes on as `gp-ei` does. Repeats whose models are of one kind (with basins, or
without) run in one `vmap`; pieces of them (`--first 1000 --repeats 10`) need less memory, and may run one by one.
"""

import argparse
import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from oracle_ratio import train

from pacoh import api
from pacoh.data import Dataset
from pacoh.environments.base import Draw, named
from pacoh.environments.optima import AbstractOptima, Branin, Hartmann3, Hartmann6, Objective
from pacoh.learners.base import lanes
from pacoh.optimize import UCB, LogEI, Real, Space, Thompson
from pacoh.optimize.optimizer import gives_way, landscapes, likelihood, rows_for, untaught
from pacoh.optimize.search import Effort, Known, Rule, from_box
from pacoh.optimize.warp import Warp
from pacoh.reading import Tasks

FAMILIES: dict[str, AbstractOptima] = {"branin": Branin(), "hartmann3": Hartmann3(), "hartmann6": Hartmann6()}
ACQUISITIONS = {"ucb": UCB(), "ei": LogEI(), "ts": Thompson()}
LONE = {"gp": "ucb", "gp-ei": "ei"}
METHODS = ("random", *LONE, "pacoh", "other")
CLOSE = 0.01
Values = Callable[[np.ndarray], np.ndarray]


def unit(environment: AbstractOptima, x: np.ndarray) -> np.ndarray:
    low, high = np.array(environment.bounds).T
    return (x - low) / (high - low)


def from_unit(environment: AbstractOptima, u: np.ndarray) -> np.ndarray:
    low, high = np.array(environment.bounds).T
    return low + u * (high - low)


def stranger(name: str, random: np.random.RandomState) -> Values:
    """A function of another family on the unit box of a family."""
    if name == "branin":
        three = Hartmann3().objective(random)
        return lambda u: three(np.concatenate([u, np.full((len(u), 1), 0.85)], 1))
    if name == "hartmann3":
        six, rest = Hartmann6().objective(random), np.array(Hartmann6.minima[0][3:])
        return lambda u: six(np.concatenate([u, np.tile(rest, (len(u), 1))], 1))
    first, second = (Hartmann3().objective(random) for _ in range(2))
    return lambda u: first(u[:, :3]) + second(u[:, 3:])


def past(name: str, number: int, other: bool, sizes: tuple[int, int]) -> Draw:
    """The past tasks of a draw, inputs in [0, 1]."""
    random, environment, (n, m) = np.random.RandomState(number), FAMILIES[name], sizes
    pairs = []
    for _ in range(n):
        if other:
            f = stranger(name, random)
        else:
            objective = environment.objective(random)
            f = lambda u, objective=objective: objective(from_unit(environment, u))  # noqa: E731
        u = random.uniform(size=(m, len(environment.bounds)))
        pairs.append((u, f(u)))
    return Draw(named(pairs), None, None)  # type: ignore[arg-type]


def warped(tasks: Tasks, warp: Warp) -> Tasks:
    """The tasks with their values on another scale."""
    return replace(tasks, y=tuple(map(warp, tasks.y))) if warp.strength else tasks


def unique(things: list[Any]) -> list[Any]:
    return [one for i, one in enumerate(things) if one not in things[:i]]


def models_of(method: str, name: str, asked: argparse.Namespace) -> list[tuple[api.Model, Warp]]:
    """A model a repeat, and the scale that it takes values on."""
    draws = [past(name, asked.first + i, method == "other", (asked.tasks, asked.points)) for i in range(asked.repeats)]
    given = {"steps": asked.steps, "particles": asked.particles}
    settings = {"guard": True} | {key: value for key, value in given.items() if value is not None}
    ways = [landscapes(draw.train.y, asked.method, settings) for draw in draws]
    learned: list[list[tuple[api.Model, Warp]]] = [[] for _ in draws]
    for extra in unique([way for of_draw in ways for way, _ in of_draw]):
        jobs = [(i, warp) for i, of_draw in enumerate(ways) for way, warp in of_draw if way == extra]
        tasks = [Draw(warped(draws[i].train, warp), None, None) for i, warp in jobs]  # type: ignore[arg-type]
        models = train({"method": asked.method, "settings": settings | extra}, tasks)
        for (i, warp), model in zip(jobs, models, strict=True):
            learned[i].append((model, warp))
    return [
        pairs[0]
        if len(pairs) == 1
        else max(pairs, key=lambda pair, y=draw.train.y: likelihood(*pair, np.concatenate(y)))
        for draw, pairs in zip(draws, learned, strict=True)
    ]


@eqx.filter_jit
def believes(metas: Any, data: Dataset, keys: Any) -> jax.Array:
    return eqx.filter_vmap(lambda meta, one, key: meta.believes(one, key))(metas, data, keys)


@eqx.filter_jit
def suggest(metas: Any, known: Known, rule: Rule, space: Space, units: Any, keys: Any) -> jax.Array:
    def one(meta, known, loc, scale, key):
        return from_box(meta, known, rule, (space, loc, scale), key, Effort())

    return eqx.filter_vmap(one)(metas, known, *units, keys)


class Lanes:
    """A model a repeat, with the scale that it takes values on: suggestions for all repeats in one call."""

    def __init__(self, models: Sequence[api.Model], warps: Sequence[Warp], rule: Rule, space: Space):
        self.metas, self.warps, self.rule, self.space = lanes([model.meta for model in models]), warps, rule, space
        self.x_loc, self.x_scale, self.y_loc, self.y_scale = (
            np.stack([np.asarray(getattr(model.units, part), float) for model in models])
            for part in ("x_loc", "x_scale", "y_loc", "y_scale")
        )

    def data(self, u: np.ndarray, values: np.ndarray) -> Dataset:
        """What was tried, in learner units and padded as an optimiser pads it."""
        count, t, d = u.shape
        size = rows_for(t)
        x, y = np.zeros((count, size, d)), np.zeros((count, size))
        x[:, :t] = (u - self.x_loc[:, None]) / self.x_scale[:, None]
        scaled = np.stack([warp(row) for warp, row in zip(self.warps, values, strict=True)])
        y[:, :t] = (scaled - self.y_loc[:, None]) / self.y_scale[:, None]
        return Dataset(jnp.asarray(x), jnp.asarray(y), jnp.broadcast_to(np.arange(size) < t, y.shape))

    def suggest(self, data: Dataset, keys: Any) -> np.ndarray:
        """The next points."""
        known = Known(data, jnp.zeros_like(data.mask))
        units = (jnp.asarray(self.x_loc), jnp.asarray(self.x_scale))
        return np.asarray(suggest(self.metas, known, self.rule, self.space, units, keys))


class Seeds:
    """The random numbers of some of the repeats: a repeat's are its own, whichever run beside it."""

    def __init__(self, first: int, repeats: int, chosen: list[int], d: int):
        drawn = np.random.RandomState(30_000 + first).uniform(size=(d + 1, repeats, d))
        self.points, self.repeats, self.chosen = drawn[:, chosen], repeats, np.array(chosen)

    def keys(self, t: int) -> Any:
        return jax.random.split(jax.random.fold_in(jax.random.key(0), t), self.repeats)[self.chosen]


def optimise(
    taught: Lanes | None, alone: Lanes, objectives: list[Values], rounds: int, seeds: Seeds
) -> tuple[np.ndarray, np.ndarray]:
    """Values (repeats, rounds), and where the past chose. Where it is not believed, or there is none, the search goes
    on as `Optimizer` does: d + 1 points in all, random ones from then on, come before the GP's."""
    count, d = len(objectives), alone.space.width
    u, values, believed = np.zeros((count, rounds, d)), np.zeros((count, rounds)), np.zeros((count, rounds), bool)
    for t in range(rounds):
        keys = seeds.keys(t)
        told = (u[:, :t], values[:, :t])
        if taught is not None:
            data = taught.data(*told)
            trusted = np.asarray(believes(taught.metas, data, keys))
            believed[:, t] = trusted & [not gives_way(row[:t], False, d) for row in values]
        if not believed[:, t].all():
            u[:, t] = seeds.points[t] if t <= d else alone.suggest(alone.data(*told), keys)
        if taught is not None and believed[:, t].any():
            u[:, t] = np.where(believed[:, t, None], taught.suggest(data, keys), u[:, t])
        values[:, t] = [f(u[i, t][None])[0] for i, f in enumerate(objectives)]
    return values, believed


def regrets(method: str, name: str, asked: argparse.Namespace) -> np.ndarray:
    """Regret in shares of the range, (repeats, rounds). The new function of a repeat is the same for all methods."""
    environment = FAMILIES[name]
    functions = [environment.objective(np.random.RandomState(10_000 + asked.first + i)) for i in range(asked.repeats)]

    def on_unit(objective: Objective) -> Values:
        return lambda u: objective(from_unit(environment, u))

    space = Space({f"x{j}": Real(0.0, 1.0) for j in range(len(environment.bounds))})
    if method == "random":
        drawn = [
            np.random.RandomState(20_000 + i).uniform(size=(asked.rounds, space.width)) for i in range(asked.repeats)
        ]
        values = np.stack([on_unit(f)(u) for f, u in zip(functions, drawn, strict=True)])
    else:
        kinds_of_rule = (asked.acquisition, LONE.get(method, asked.alone))
        after, without = (Rule(ACQUISITIONS[kind], False, False) for kind in kinds_of_rule)
        taught = [None] * asked.repeats if method in LONE else models_of(method, name, asked)
        values, believed = np.zeros((asked.repeats, asked.rounds)), np.zeros((asked.repeats, asked.rounds), bool)
        kinds = [None if pair is None else jax.tree.structure(pair[0].meta) for pair in taught]
        for kind in unique(kinds):  # models of one kind are lanes of one program
            mine = [i for i in range(asked.repeats) if kinds[i] == kind]
            past = None if kind is None else Lanes(*zip(*(taught[i] for i in mine), strict=True), after, space)  # type: ignore[misc]
            alone = Lanes([untaught(space.width)] * len(mine), [Warp()] * len(mine), without, space)
            seeds = Seeds(asked.first, asked.repeats, mine, space.width)
            values[mine], believed[mine] = optimise(
                past, alone, [on_unit(functions[i]) for i in mine], asked.rounds, seeds
            )
            print(f"{name:10} {method:7} repeats {mine}", "with basins" if "basins" in str(kind) else "", flush=True)
        print(f"{name:10} {method:7} rounds that the past chose:", believed.sum(1).tolist(), flush=True)
    return np.stack([f.regret(v) for f, v in zip(functions, values, strict=True)])


def rounds_to(regret: np.ndarray) -> np.ndarray:
    """The first round within 1 %, counted from one; the number of rounds plus one where there is none."""
    close = np.minimum.accumulate(regret, 1) <= CLOSE
    return np.where(close.any(1), close.argmax(1) + 1, regret.shape[1] + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--method", default="moved-gp", help="what learns the prior")
    parser.add_argument("--acquisition", choices=list(ACQUISITIONS), default="ei", help="with a past")
    parser.add_argument("--alone", choices=list(ACQUISITIONS), default="ei", help="where the past is not believed")
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--particles", type=int, help="Stein particles, where not as by default")
    parser.add_argument("--steps", type=int, help="fewer training steps, to try the script")
    asked = parser.parse_args()
    with open(asked.out, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["family", "method", "repeat", "round", "regret", "best"])
        for name, method in product(asked.families, asked.methods):
            began = time.time()
            regret = regrets(method, name, asked)
            best = np.minimum.accumulate(regret, 1)
            for i, t in product(*map(range, regret.shape)):
                rows.writerow([name, method, asked.first + i, t + 1, f"{regret[i, t]:.6g}", f"{best[i, t]:.6g}"])
            file.flush()
            low, middle, high = np.percentile(rounds_to(regret), [25, 50, 75])
            print(
                f"{name:10} {method:7} rounds to {CLOSE:.0%}: {middle:5.1f} ({low:.1f} to {high:.1f}); "
                f"best after 10: {np.median(best[:, min(9, asked.rounds - 1)]):.4f}; {time.time() - began:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
