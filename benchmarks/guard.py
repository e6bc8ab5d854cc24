"""The guard's odds, count and sd by validation tasks: what it costs in the family, what it saves outside it.

    JAX_DEFAULT_MATMUL_PRECISION=highest PYTHONPATH=src python benchmarks/guard.py out.jsonl

Each draw trains once; every setting of the guard is then scored on the trained model. Tasks of another kind are made
from the validation tasks: targets flipped about their mean, raised by two sds, and with the shared part changed
(Sinusoid: another frequency; Cauchy: bumps elsewhere). Test tasks have no say. `--read` chooses again from the rows.

The rule: among settings that lose at most `--cost` nats a point to the unguarded prior in the family, in each
environment, the one with the best mean log-likelihood outside it.
"""

import argparse
import json
import time
from itertools import product
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from oracle_ratio import train

from pacoh import api, registry
from pacoh.data import Dataset
from pacoh.environments import cauchy, sinusoid
from pacoh.learners.guard import Guarded, GuardedPredictor, weak_gp, weak_phis
from pacoh.reading import Split

CONTEXTS = (1, 3, 5, 10)
ODDS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
COUNTS = (16, 64, 256)
SDS = (0.5, 1.0, 1.5, 2.0)


def other_frequency(x: np.ndarray, y: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """A sinusoid of frequency 2.5 instead of 1.5, all else drawn as in the environment."""
    del y
    a, b = random.uniform(*sinusoid.AMPLITUDE), random.normal(*sinusoid.PHASE)
    c, slope = random.normal(*sinusoid.OFFSET), random.normal(*sinusoid.SLOPE)
    return slope * x[:, 0] + a * np.sin(2.5 * (x[:, 0] - b)) + c + sinusoid.NOISE * random.normal(size=len(x))


def moved_bumps(x: np.ndarray, y: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """The bumps two or three units elsewhere, the task's own smooth part and noise kept."""
    angle, distance = random.uniform(0, 2 * np.pi), random.uniform(2, 3)
    shift = distance * np.array([np.cos(angle), np.sin(angle)])
    return y - cauchy.bumps(x) + cauchy.bumps(x - shift)


CHANGED = {"sinusoid": other_frequency, "cauchy": moved_bumps}


def kinds(name: str, split: Split, number: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """All points (tasks, points) of the validation tasks, as they are and as tasks of another kind."""
    x, y = (np.concatenate([getattr(split.context, part), getattr(split.query, part)], 1) for part in ("x", "y"))
    random = np.random.RandomState(number)
    changed = np.stack([CHANGED[name](*task, random) for task in zip(x, y, strict=True)])
    made = {"family": y, "flipped": 2 * y.mean(1, keepdims=True) - y, "raised": y + 2 * y.std(), "changed": changed}
    return {kind: (x, targets) for kind, targets in made.items()}


def units(model: api.Model, x: np.ndarray, y: np.ndarray, k: int) -> tuple[Dataset, Dataset]:
    """The first k points of each task as context, those after the largest context as query, in learner units."""
    x, y, most = model.units.inputs(x), model.units.targets(y), max(CONTEXTS)  # one shape for all k: one compilation
    parts = [[jnp.asarray(a[:, some], float) for a in (x, y)] for some in (slice(most), slice(most, None))]
    masks = [np.arange(part[1].shape[1]) < limit for part, limit in zip(parts, (k, np.inf), strict=True)]
    context, query = (
        Dataset(*part, jnp.broadcast_to(mask, part[1].shape)) for part, mask in zip(parts, masks, strict=True)
    )
    return context, query


def measure(predictive, y) -> jax.Array:
    """Mean log-density and RMSE of one task."""
    return jnp.stack([predictive.log_prob(y).mean(), jnp.sqrt(((predictive.mean - y) ** 2).mean())])


@eqx.filter_jit
def plain(meta, context: Dataset, query: Dataset) -> jax.Array:
    """(2,): a model without a guard, averaged over tasks."""
    keys = jax.random.split(jax.random.key(0), len(context.y))
    return jax.vmap(lambda c, q, key: measure(meta.adapt(c, key)(q.x), q.y))(context, query, keys).mean(0)


@eqx.filter_jit
def guarded(meta, phis, odds: jax.Array, context: Dataset, query: Dataset) -> jax.Array:
    """(odds, 2): the guard with one set of weak priors and every odds: the evidences do not depend on them."""
    guard = Guarded(meta, weak_gp(), phis, 0.5)  # even odds: the shares are the evidences alone

    def task(c, q):
        even = guard.adapt(c, jax.random.key(0))

        def at(p):
            shares = jax.nn.log_softmax(even.log_shares + jnp.log(jnp.stack([p, 1 - p])))
            return measure(GuardedPredictor(even.learned, even.weak, shares)(q.x), q.y)

        return jax.vmap(at)(odds)

    return jax.vmap(task)(context, query).mean(0)


def rows_of(name: str, asked: argparse.Namespace) -> list[dict]:
    """A row a draw, kind of task, context and setting, in original units; settings: a guard's, `none`, `vanilla-gp`."""
    environment = registry.environment(name, valids=asked.valids, tests=1)
    draws = [environment.draw(number) for number in asked.draws]
    limit = {} if asked.steps is None else {"steps": asked.steps}
    models = train({"method": "pacoh-gp-map", "settings": limit}, draws)
    alone = train({"method": "vanilla-gp", "settings": limit}, draws)
    d, odds, rows = draws[0].train.x[0].shape[1], jnp.asarray(ODDS), []
    weak = {(count, sd): weak_phis(weak_gp(), d, count, sd) for count, sd in product(COUNTS, SDS)}
    for number, draw, model, vanilla in zip(asked.draws, draws, models, alone, strict=True):
        for (kind, (x, y)), k in product(kinds(name, draw.valid, number).items(), CONTEXTS):
            context, query = units(model, x, y, k)
            found = {"none": plain(model.meta, context, query), "vanilla-gp": plain(vanilla.meta, context, query)}
            for (count, sd), phis in weak.items():
                each = guarded(model.meta, phis, odds, context, query)
                found |= {f"{p:g} {count} {sd:g}": each[i] for i, p in enumerate(ODDS)}
            scale, where = float(model.units.y_scale), {"environment": name, "draw": number, "kind": kind, "context": k}
            for setting, (density, error) in found.items():
                scores = {"ll": float(density) - np.log(scale), "rmse": float(error) * scale}
                rows.append(where | {"setting": setting} | scores)
    return rows


def table(rows: list[dict], names: list[str]) -> dict[str, dict[str, float]]:
    """Each setting's means: log-likelihood and RMSE, in and off the family, in each environment and in all."""
    cells: dict[tuple, list] = {}
    for row in rows:
        side = "in" if row["kind"] == "family" else "off"
        cells.setdefault((row["setting"], row["environment"], side), []).append((row["ll"], row["rmse"]))
    answer: dict[str, dict[str, float]] = {}
    for setting in dict.fromkeys(row["setting"] for row in rows):
        line = answer[setting] = {}
        for name, side in product(names, ("in", "off")):
            line[f"{name} {side} ll"], line[f"{name} {side} rmse"] = np.mean(cells[setting, name, side], 0).tolist()
        line["off ll"] = float(np.mean([line[f"{name} off ll"] for name in names]))
        line["cost"] = max(answer["none"][f"{name} in ll"] - line[f"{name} in ll"] for name in names)
    return answer


def choose(means: dict[str, dict[str, float]], cost: float) -> str:
    """The rule at the top of this file; where no setting meets it, the cheapest one."""
    settings = [setting for setting in means if setting not in ("none", "vanilla-gp")]
    fit = [setting for setting in settings if means[setting]["cost"] <= cost]
    if not fit:
        return min(settings, key=lambda setting: means[setting]["cost"])
    return max(fit, key=lambda setting: means[setting]["off ll"])


def show(rows: list[dict], cost: float) -> None:
    names = list(dict.fromkeys(row["environment"] for row in rows))
    means = table(rows, names)
    chosen = choose(means, cost)
    columns = [key for key in means["none"] if key not in ("off ll", "cost")]
    print(f"{'odds count sd':>16} {'off ll':>9} {'cost':>9}", *(f"{column:>18}" for column in columns))
    for setting, line in sorted(means.items(), key=lambda item: -item[1]["off ll"]):
        mark = " <" if setting == chosen else ""
        print(f"{setting:>16} {line['off ll']:9.4f} {line['cost']:9.4f}", *(f"{line[c]:18.4f}" for c in columns), mark)
    print(f"chosen (odds, count, sd): {chosen}; in-family cost {means[chosen]['cost']:.4f} nat of {cost:g} allowed")
    for k, kind in product(CONTEXTS, dict.fromkeys(row["kind"] for row in rows)):
        told = []
        for setting in ("none", chosen, "vanilla-gp"):
            here = [r for r in rows if (r["setting"], r["context"], r["kind"]) == (setting, k, kind)]
            told.append(f"{setting}: ll {np.mean([r['ll'] for r in here]):8.3f} rmse "
                        f"{np.mean([r['rmse'] for r in here]):.3f}")  # fmt: skip
        print(f"  {k:2d} points, {kind:8}", "; ".join(told))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--read", action="store_true", help="choose from the rows that are there")
    parser.add_argument("--cost", type=float, default=0.01, help="nats a point that the guard may cost in the family")
    parser.add_argument("--draws", type=int, nargs="+", default=list(range(100, 106)))
    parser.add_argument("--valids", type=int, default=50)
    parser.add_argument("--environments", nargs="+", default=list(CHANGED), choices=list(CHANGED))
    parser.add_argument("--steps", type=int, help="fewer steps for all methods, to try the script")
    asked = parser.parse_args()
    if asked.read:
        rows = [json.loads(text) for text in asked.rows.read_text().splitlines()]
    else:
        print(jax.devices(), jax.__version__, flush=True)
        rows = []
        for name in asked.environments:
            began = time.time()
            rows += rows_of(name, asked)
            print(f"{name}: {time.time() - began:.0f} s", flush=True)
            asked.rows.write_text("".join(json.dumps(row) + "\n" for row in rows))
    show(rows, asked.cost)


if __name__ == "__main__":
    main()
