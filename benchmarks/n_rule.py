"""Whether the hyper-prior's sds should depend on the number of tasks: a search on validation tasks, and rules by n.

    JAX_DEFAULT_MATMUL_PRECISION=highest PYTHONPATH=src python benchmarks/n_rule.py search rows.jsonl
    PYTHONPATH=src python benchmarks/n_rule.py rules rows.jsonl
    JAX_DEFAULT_MATMUL_PRECISION=highest PYTHONPATH=src python benchmarks/n_rule.py check rows.jsonl check.jsonl

`search` trains the same random settings (the default first) in every cell, an environment and a number of tasks.
`rules` fits a quadratic in the log sds to each cell's log-likelihood and to its log RMSE over the oracle's, and finds
sd_group(n) = sd0_group (n / 20)^a_group with the best mean log-likelihood over cells, beside the same with all a = 0.
The gain is also told for each draw with a rule fitted on the others. `check` trains both rules and the default on the
validation tasks of other draws: that comparison chose nothing.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np
from scipy.optimize import minimize
from sweep import make

from pacoh import registry
from pacoh.api import fit_oracle
from pacoh.recipes.gp import GP_SDS
from pacoh.tuning.folds import environment_folds
from pacoh.tuning.search import Effort, Range, draw_settings, search

TASKS = (5, 10, 20, 50, 100)
ENVIRONMENTS = ("cauchy", "sinusoid")
GROUPS = ("weight", "input", "bias", "scale", "noise")
FACTOR = 4.0  # the search reaches from the default over this to the default times this
CENTRE = np.log([GP_SDS[group] for group in GROUPS])
RULE = {"constant": 0.0, "by n": 1.0}  # the largest |a_group|


def named(log_sds: np.ndarray) -> dict[str, float]:
    return {f"{group}_sd": float(np.exp(value)) for group, value in zip(GROUPS, log_sds, strict=True)}


def train_cell(name: str, n: int, settings: list[dict], asked: argparse.Namespace) -> list[dict]:
    """A row a setting: validation log-likelihood and RMSE over the oracle's, a list entry a draw."""
    environment = registry.environment(name, n=n, valids=asked.valids, tests=1)
    fold = environment_folds(environment, asked.draws)
    oracle = [fit_oracle(environment, number).evaluate(environment.draw(number).valid) for number in asked.draws]
    fixed = {"rate": 0.012} | ({} if asked.steps is None else {"steps": asked.steps})
    began = time.time()
    learner = make("pacoh-gp-map", registry.Shape(*fold.train.x.shape[1:]), fixed)
    report = search(learner, settings, fold, effort=Effort(asked.at_once))
    best = np.array([each["rmse"] for each in oracle])
    print(f"{name} n {n}: {len(settings)} settings, {time.time() - began:.0f} s", flush=True)
    return [
        {"environment": name, "n": n, "draws": asked.draws, "setting": s, "ll": ll.tolist(), "ratio": ratio.tolist()}
        for s, ll, ratio in zip(report.settings, report.log_likelihood, report.rmse / best, strict=True)
    ]


def run_search(asked: argparse.Namespace) -> None:
    """The same settings in every cell, lines as soon as they are known."""
    print(jax.devices(), jax.__version__, flush=True)
    space = {
        f"{group}_sd": Range(np.exp(centre) / FACTOR, np.exp(centre) * FACTOR)
        for group, centre in zip(GROUPS, CENTRE, strict=True)
    }
    settings = [named(CENTRE), *draw_settings(space, asked.count, seed=0)]
    with open(asked.rows, "a") as out:
        for n in asked.tasks:
            for name in asked.environments:
                out.writelines(json.dumps(row) + "\n" for row in train_cell(name, n, settings, asked))
                out.flush()


class Surrogate:
    """A quadratic in (log sds - log defaults) / log FACTOR, by ridge; draws are columns of the fit."""

    def __init__(self, rows: list[dict], values: np.ndarray, ridge: float = 0.3):
        sds = np.array([[row["setting"][f"{group}_sd"] for group in GROUPS] for row in rows])
        basis = self.basis(np.log(sds))
        kept = np.isfinite(values).all(1)
        worst = np.quantile(values[kept].mean(1), 0.1)  # a setting that fails altogether should not bend the rest
        basis, values = basis[kept], np.maximum(values[kept], worst - 1.0)
        penalty = ridge * np.eye(basis.shape[1])
        penalty[0, 0] = 0.0
        solve = np.linalg.solve(basis.T @ basis + penalty, basis.T)
        self.coefficients = solve @ values
        error = (values - basis @ self.coefficients) / (1 - np.diag(basis @ solve))[:, None]  # left out, one by one
        mean = values.mean(1)
        self.explained = 1 - (error.mean(1) ** 2).sum() / ((mean - mean.mean()) ** 2).sum()

    @staticmethod
    def basis(log_sds: np.ndarray) -> np.ndarray:
        z = (log_sds - CENTRE) / np.log(FACTOR)
        rows, columns = np.triu_indices(len(GROUPS))
        return np.concatenate([np.ones((*z.shape[:-1], 1)), z, z[..., rows] * z[..., columns]], -1)

    def __call__(self, log_sds: np.ndarray) -> np.ndarray:
        """The value for each draw."""
        return self.basis(log_sds) @ self.coefficients


def at(rule: np.ndarray, n: int) -> np.ndarray:
    """The log sds of a rule (log sd0, a) for n tasks, inside the box that was searched."""
    log_sds = rule[: len(GROUPS)] + rule[len(GROUPS) :] * np.log(n / 20)
    return np.clip(log_sds, CENTRE - np.log(FACTOR), CENTRE + np.log(FACTOR))


def best_rule(density: dict[tuple, Surrogate], draws: list[int], largest: float) -> np.ndarray:
    """The rule with the best mean log-likelihood over cells and the given draws, from several starts."""
    ends = [*((c - np.log(FACTOR), c + np.log(FACTOR)) for c in CENTRE), *[(-largest, largest)] * len(GROUPS)]
    low, high = np.array(ends).T

    def loss(rule: np.ndarray) -> float:
        return -float(np.mean([surrogate(at(rule, n))[draws].mean() for (_, n), surrogate in density.items()]))

    random = np.random.default_rng(0)
    starts = [np.concatenate([CENTRE, np.zeros(len(GROUPS))]), *random.uniform(low, high, (12, len(low)))]
    return min((minimize(loss, s, method="L-BFGS-B", bounds=ends) for s in starts), key=lambda r: r.fun).x


def surrogates(rows: list[dict]) -> tuple[dict[tuple, Surrogate], dict[tuple, Surrogate]]:
    """By cell: of the log-likelihood, and of minus the log of the error over the oracle's."""
    cells: dict[tuple, list[dict]] = {}
    for row in rows:
        cells.setdefault((row["environment"], row["n"]), []).append(row)
    density = {cell: Surrogate(some, np.array([row["ll"] for row in some])) for cell, some in cells.items()}
    error = {cell: Surrogate(some, -np.log([row["ratio"] for row in some])) for cell, some in cells.items()}
    return density, error


def rules(rows: list[dict]) -> dict[str, np.ndarray]:
    """The best rule of each form, with what the surrogates say of it."""
    density, error = surrogates(rows)
    draws = list(range(len(rows[0]["draws"])))
    found = {name: best_rule(density, draws, largest) for name, largest in RULE.items()}
    default = np.concatenate([CENTRE, np.zeros(len(GROUPS))])
    for name, rule in found.items():
        sds, powers = np.exp(rule[: len(GROUPS)]), rule[len(GROUPS) :]
        told = (f"{g} {sd:.3g} (n/20)^{a:+.2f}" for g, sd, a in zip(GROUPS, sds, powers, strict=True))
        print(f"{name:9}", ", ".join(told))
    everything = {"default": default, **found}
    print("by the surrogates, log-likelihood (and error over the oracle's):")
    total = {name: [] for name in everything}
    for cell, surrogate in density.items():
        told = []
        for name, rule in everything.items():
            ll, ratio = surrogate(at(rule, cell[1])).mean(), np.exp(-error[cell](at(rule, cell[1]))).mean()
            total[name].append((ll, ratio))
            told.append(f"{name} {ll:.4f} ({ratio:.3f})")
        print(f"  {cell[0]:9} n {cell[1]:4d}", "; ".join(told), f"; left-out R2 {surrogate.explained:.2f}")
    means = {name: np.mean(values, 0) for name, values in total.items()}
    print("  mean              ", "; ".join(f"{name} {ll:.4f} ({ratio:.3f})" for name, (ll, ratio) in means.items()))
    if len(draws) > 1:
        gains = []
        for left in draws:
            rest = [draw for draw in draws if draw != left]
            pair = [best_rule(density, rest, largest) for largest in RULE.values()]
            values = [np.mean([s(at(rule, n))[left] for (_, n), s in density.items()]) for rule in pair]
            gains.append(values[1] - values[0])
        spread = np.std(gains, ddof=1) / len(gains) ** 0.5
        print(
            f"gain of the rule by n over the constant one on left-out draws: {np.mean(gains):.4f} +- {spread:.4f} nat"
        )
    return everything


def check(asked: argparse.Namespace) -> None:
    """Both rules and the default, trained on other draws."""
    found = rules([json.loads(text) for text in asked.rows.read_text().splitlines()])
    print(jax.devices(), jax.__version__, flush=True)
    gains: dict[str, list] = {name: [] for name in found}
    with open(asked.out, "a") as out:
        for n in asked.tasks:
            for environment in asked.environments:
                made = train_cell(environment, n, [named(at(rule, n)) for rule in found.values()], asked)
                for name, row in zip(found, made, strict=True):
                    out.write(json.dumps({"rule": name} | row) + "\n")
                    gains[name].append((row["ll"], row["ratio"]))
                    print(f"  {name:9} ll {np.mean(row['ll']):.4f} ratio {np.mean(row['ratio']):.4f}", flush=True)
                out.flush()
    for name, values in gains.items():
        ll, ratio = np.mean(values, (0, 2))
        print(f"mean over cells, {name:9} ll {ll:.4f} ratio {ratio:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    parts = {name: modes.add_parser(name) for name in ("search", "rules", "check")}
    for part in parts.values():
        part.add_argument("rows", type=Path)
    parts["check"].add_argument("out", type=Path)
    for name, first in (("search", 100), ("check", 110)):
        part = parts[name]
        part.add_argument("--tasks", type=int, nargs="+", default=TASKS)
        part.add_argument("--environments", nargs="+", default=ENVIRONMENTS, choices=ENVIRONMENTS)
        part.add_argument("--draws", type=int, nargs="+", default=list(range(first, first + 6)))
        part.add_argument("--valids", type=int, default=50)
        part.add_argument("--steps", type=int, help="fewer steps, to try the script")
        part.add_argument("--at-once", type=int, default=600, help="lanes in one vmap")
    parts["search"].add_argument("--count", type=int, default=96)
    asked = parser.parse_args()
    if asked.mode == "search":
        run_search(asked)
    elif asked.mode == "check":
        check(asked)
    else:
        rules([json.loads(text) for text in asked.rows.read_text().splitlines()])


if __name__ == "__main__":
    main()
