"""Vanilla BNN on Cauchy: random settings in three stages, judged on validation tasks; writes the chosen ones.

Settings of one stage are scored together, `--at-once` of them in one `vmap`. First the prior's sds, noise, temperature
and rate at random for one, two and three layers of 20 networks; then the neighbourhoods of the best, with 50 networks,
on more tasks; then the best of these on other tasks. Chosen is the least calibration error among settings within .05
of the best mean log-likelihood. Targets are on a scale on which those of the meta-train tasks look Gaussian (`warp`).
With `--around` the first stage is the neighbourhood of settings that were chosen before. On one core, in 20 minutes:

    python benchmarks/lone_networks.py --out chosen --around benchmarks/chosen/cauchy.vanilla-bnn.chosen.json \\
        --layers 1 2 --settings 40 --neighbours 3 --networks 50 50 --at-once 1
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pacoh import registry
from pacoh.learners.episodic import mean_over
from pacoh.learners.vanilla import FixedModel
from pacoh.learners.warp import TargetScale
from pacoh.metrics import CODE_LEVELS
from pacoh.tuning.folds import environment_folds
from pacoh.tuning.search import Range, draw_settings

LEVELS = jnp.asarray(CODE_LEVELS)
FIXED = {"exact": True, "waves": 0, "together": True, "own_units": False}  # and `warp`
SPACE = {
    "spread": Range(0.8, 5.0),
    "reach": Range(0.5, 8.0),
    "head": Range(0.2, 2.0),
    "noise": Range(0.1, 0.4),
    "noise_unit": Range(0.03, 0.6),
    "predict_beta": Range(0.4, 6.0),
    "adapt_rate": Range(0.008, 0.05),
}
WIDE, NARROW = 0.08, 0.05  # of log-likelihood below the best: to go on with, to be chosen
Row = dict[str, Any]


class Judges:
    """Validation tasks of some draws of Cauchy."""

    def __init__(self, draws: range):
        fold = environment_folds(registry.environment("cauchy"), list(draws))
        n, m, d = fold.train.x.shape[1:]
        self.shape = registry.Shape(n, m, d)
        scales = jax.vmap(TargetScale.of)(fold.train)
        self.scales = jax.tree.map(lambda a: jnp.repeat(a, fold.valid.context.mask.shape[1]), scales)
        self.tasks = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), (fold.valid.context, fold.valid.query))
        self.units = jnp.repeat(fold.y_scale, fold.valid.context.mask.shape[1])

    def scorer(self, structure: Row) -> Callable[[dict[str, jax.Array]], tuple[jax.Array, ...]]:
        """Mean log-likelihood, RMSE and calibration error of a stack of settings."""
        learner = registry.learner("vanilla-bnn", self.shape, **FIXED, **structure)
        alone = FixedModel(learner.prior, learner.rates, jnp.asarray(False), learner.reach, learner.head)

        def of_task(s, context, query, unit, scale, key):
            model = eqx.tree_at(
                lambda m: (m.prior.weights.spread, m.prior.adaptation.optimizer.rate, m.reach, m.head),
                alone,
                (s["spread"], s["adapt_rate"], s["reach"], s["head"]),
            )
            centre = model.centre(self.shape.d)
            centre["loc"]["own"]["log_noise"] = jnp.log(s["noise"])  # these and beta are no arrays of the model
            centre["log_sd"]["own"]["log_noise"] = jnp.log(s["noise_unit"])
            beta = s["predict_beta"] * context.sizes.astype(float)
            said = scale.predictor(model.prior.condition(centre, scale.tasks(context), beta, key))(query.x)
            below = said.cdf(query.y)[None] <= LEVELS[:, None]
            share = jax.vmap(lambda inside: mean_over(query.mask, inside))(below)
            error = jnp.sqrt(mean_over(query.mask, (said.mean - query.y) ** 2))
            fit = mean_over(query.mask, said.log_prob(query.y)) - jnp.log(unit)
            return fit, unit * error, jnp.abs(share - LEVELS).mean()

        def of_setting(s):
            keys = jax.random.split(jax.random.key(0), len(self.units))
            each = jax.vmap(lambda *of: of_task(s, *of))(*self.tasks, self.units, self.scales, keys)
            return tuple(one.mean() for one in each)

        return jax.jit(jax.vmap(of_setting))

    def score(self, structure: Row, settings: list[Row], at_once: int) -> list[Row]:
        """A row for each setting."""
        rows, scorer = [], self.scorer(structure)
        for at in range(0, len(settings), at_once):
            some = settings[at : at + at_once]
            filled = (some * at_once)[:at_once]  # one shape: nothing compiles again
            found = zip(*scorer({name: jnp.asarray([s[name] for s in filled]) for name in SPACE}), strict=True)
            for one, (fit, error, calibration) in zip(some, found, strict=False):
                said = {"ll": float(fit), "rmse": float(error), "calibration": float(calibration)}
                rows.append({"structure": structure, "settings": one} | said)
        return rows


def near(rows: list[Row], slack: float) -> list[Row]:
    """Those within the slack of the best log-likelihood, the least calibration error first."""
    best = max(row["ll"] for row in rows if np.isfinite(row["ll"]))
    return sorted((row for row in rows if row["ll"] >= best - slack), key=lambda row: row["calibration"])


def best(rows: list[Row], count: int) -> list[Row]:
    """By log-likelihood."""
    return sorted(rows, key=lambda row: -row["ll"])[:count]


def moved(one: Row, random: np.random.Generator, sd: float = 0.2) -> Row:
    """A neighbour of some settings."""
    return {name: float(f"{value * np.exp(random.normal(0, sd)):.4g}") for name, value in one.items()}


def again(rows: list[Row], judges: Judges, asked: argparse.Namespace, random: np.random.Generator | None) -> list[Row]:
    """The settings of some rows, and neighbours of each where there are random numbers, with more networks."""

    found = []
    for layers in sorted({row["structure"]["layers"] for row in rows}):
        mine = [row for row in rows if row["structure"]["layers"] == layers]
        tried = [row["settings"] for row in mine]
        if random is not None:
            tried += [moved(row["settings"], random) for row in mine for _ in range(asked.neighbours)]
        structure = mine[0]["structure"] | {"hypotheses": asked.networks[1]}
        found += judges.score(structure, tried, asked.at_once)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder of chosen settings")
    parser.add_argument("--settings", type=int, default=512, help="of the first stage, for each number of layers")
    parser.add_argument("--around", type=Path, help="a file of chosen settings, whose neighbours come first")
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--neighbours", type=int, default=10, help="of each of the best")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--networks", type=int, nargs=2, default=[20, 50], help="of the first stage, and of the others")
    parser.add_argument("--steps", type=int, default=200, help="of a task's networks")
    parser.add_argument("--draws", type=int, nargs=3, default=[5, 10, 10], help="that judge a stage, from draw 100 on")
    asked = parser.parse_args()
    few, more, other = asked.draws
    first, second, third = (
        Judges(range(start, start + count)) for start, count in ((100, few), (100, more), (100 + more, other))
    )
    random = np.random.default_rng(0)
    if asked.around is None:
        drawn = draw_settings(SPACE, asked.settings, 0)
        tried = [{name: float(f"{value:.4g}") for name, value in one.items()} for one in drawn]
    else:
        known = json.loads(asked.around.read_text())["settings"]
        centre = {name: known[name] for name in SPACE}
        tried = [centre, *(moved(centre, random, 0.35) for _ in range(asked.settings - 1))]
    same = {"hypotheses": asked.networks[0], "adapt_steps": asked.steps, "activation": "tanh"}
    rows = [row for layers in asked.layers for row in first.score({"layers": layers} | same, tried, asked.at_once)]
    around = again(near(rows, WIDE)[:12] + best(rows, 4), second, asked, random)
    last = again(near(around, NARROW)[:16] + best(around, 4), third, asked, None)
    known = {json.dumps([row["structure"], row["settings"]]): row for row in around}
    share = more / (more + other)
    both = []
    for row in last:
        before = known[json.dumps([row["structure"], row["settings"]])]
        mixed = {name: share * before[name] + (1 - share) * row[name] for name in ("ll", "rmse", "calibration")}
        both.append(row | mixed)
    chosen = near(both, NARROW)[0]
    asked.out.mkdir(parents=True, exist_ok=True)
    for key in ("cauchy", "cauchy-20", "cauchy-5"):
        record = {
            "cell": f"{key}/vanilla-bnn",
            "settings": {"warp": True} | FIXED | chosen["structure"] | chosen["settings"],
            "fixed": {},
            "by": "the least calibration error within .05 of the best mean log-likelihood, by searches in stages",
            "score": round(chosen["ll"], 4),
            "calibration_error": round(chosen["calibration"], 4),
            "rmse": round(chosen["rmse"], 4),
            "best_score": round(max(row["ll"] for row in both), 4),
            "settings_tried": len(rows) + len(around),
            "judged_on": f"validation tasks of draws 100 to {99 + more + other}",
            "command": " ".join(["python", *sys.argv]),
            "device": jax.devices()[0].device_kind,
        }
        (asked.out / f"{key}.vanilla-bnn.chosen.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
