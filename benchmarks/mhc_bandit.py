"""Which peptides bind: a bandit over the pool of MHC-I allele A*69:01 for 50 rounds, priors learned from five others.

    PACOH_DATA_DIR=data PYTHONPATH=src python benchmarks/mhc_bandit.py out.csv --figure out.png --starts 30

Each start is one random peptide, known to all methods; a peptide may be chosen again. A row of the CSV is a round of a
start: its reward log10(500/IC50), the average regret max r - mean r(a_1..a_t) and the simple regret max r - max r(a_s).
All starts of a method run in one `vmap`. The last lines compare each PACOH with each baseline over the same starts: the
least and largest gain in average regret over the rounds 10 to 50, and the largest p-value of a paired t-test there.

`--allele A_2402` plays on another allele, `--past A_0201 A_0202 A_0203` says which alleles are then the past: by
default all of the five that are not played. Left out one by one, alleles have a near twin in the past (A*02:01 to
02:03; A*23:01 and 24:02), and a prior may trust it; left out as a group, they have none.

PACOH learns twice. The first prior, a linear mean, on which an allele has its own factor (`own`), with a linear and a
squared-exponential kernel, is adapted to all peptides of each past allele: how strongly the allele binds any peptide.
Most peptides of A*69:01 were measured on A*02:01, so this is often a measurement with its noise taken off. The second
prior, of the same form, sees these predictions as columns beside the descriptors (an allele's own column is zero where
it is learned from). It knows how much one allele says of another, and a new allele is told apart from each of the past
ones, not from their mean alone. Its noise is nearly fixed, so that the kernels have to explain misfit. These settings
were chosen on left-out alleles alone, with A*24:03 (neither of the past nor played at the end, on peptides that are
nearly all of A*69:01's pool) among the played. `pacohnn` is PACOH with Bayesian networks on the descriptors, BNN such a
network without a past; GP is a constant mean with a linear kernel whose parameters have maximal evidence on the past,
`se` and `matern` the same with other kernels; `gpbeside` is GP with the columns of PACOH.

`ts` draws functions half as far from the mean, of a BNN whole ones; `whole` draws whole ones of any method.
"""

import argparse
import csv
import json
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.stats import ttest_rel

from pacoh import api
from pacoh.data import Dataset
from pacoh.environments.base import named
from pacoh.environments.mhc import MHC, TEST, TRAIN
from pacoh.optimize import UCB, AbstractAcquisition, Thompson
from pacoh.optimize.acquisition import gaussian
from pacoh.optimize.optimizer import rows_for
from pacoh.optimize.search import Known, Rule, from_pool
from pacoh.reading import Tasks
from pacoh.sources import source

_SDS = {"mean": 15.0, "scale": 15.0, "noise": 0.05}  # wide but for the noise
_PACOH = {"mean": "linear", "kernel": "linear+se", "noise": 0.4, "rate": 0.03, "sds": _SDS}
_OWN = 0.5  # of the first prior: an allele's own factor on the mean
_NN = {"layers": 2, "waves": 48, "length": 6.7, "spread": 0.5, "noise": 0.7, "predict_beta": 1.0, "steps": 250}
_NN |= {"hypotheses": 2, "adapt_steps": 2, "sds": {"noise": 0.1, "level": 0.3}}
_GP = {"mean": "constant", "steps": 300, "rate": 0.03}


class Recipe(NamedTuple):
    """A method, the points a task that it learns from, its settings, and whether it sees columns of past alleles."""

    method: str
    points: int
    settings: dict[str, Any]
    beside: bool = False


LEARNERS = {
    "pacoh": Recipe("pacoh-gp-map", 300, _PACOH, beside=True),
    "pacohnn": Recipe("pacoh-nn-svgd", 400, _NN),
    "bnn": Recipe("vanilla-bnn", 3088, {"adapt_steps": 1000}),
    "gp": Recipe("mll-gp", 300, _GP | {"kernel": "linear"}),
    "gpbeside": Recipe("mll-gp", 300, _GP | {"kernel": "linear"}, beside=True),
    "se": Recipe("mll-gp", 300, _GP | {"kernel": "se"}),
    "matern": Recipe("mll-gp", 300, _GP | {"kernel": "matern52"}),
}
RULES: dict[str, AbstractAcquisition] = {"ucb": UCB(literal=True), "ts": Thompson(0.5), "whole": Thompson()}
METHODS = (
    "pacoh-ucb",
    "pacoh-ts",
    "pacoh-whole",
    "pacohnn-ucb",
    "pacohnn-ts",
    "bnn-ucb",
    "bnn-ts",
    "gp-ucb",
    "se-ucb",
    "matern-ucb",
    "gpbeside-ucb",
    "random",
)


def thinned(tasks: Tasks, most: int) -> Tasks:
    """At most so many random points a task: an exact GP on thousands is slow."""
    random = np.random.RandomState(0)
    keep = [np.isin(np.arange(m), random.permutation(m)[:most]) for m in tasks.sizes]
    return tasks.rows(keep)


def problem(allele: str, names: Sequence[str]) -> tuple[Tasks, tuple[np.ndarray, np.ndarray]]:
    """The past, and peptides with their rewards; as published, 20 of the test allele are left out."""
    tasks, pool = MHC(dropped=True).draw(29).train, MHC().pool()
    tasks = tasks.without([name for name in tasks.names if name == allele or (names and name not in names)])
    if allele == TEST:
        return tasks, (pool[0][20:], pool[1][20:])
    arrays = source("mhc").load()
    at = np.flatnonzero(arrays["allele"] == list(arrays["names"]).index(allele))
    at = at[np.random.RandomState(0).permutation(len(at))[: len(pool[1]) - 20]]
    return tasks, (arrays["x"][at], arrays["y"][at])


class Beside(NamedTuple):
    """What each past allele says of a peptide: predictors adapted to all its peptides, and its mean reward."""

    predictors: list[api.Predictor]
    means: list[float]

    @staticmethod
    def of(tasks: Tasks, model: api.Model) -> "Beside":
        pairs = zip(tasks.x, tasks.y, strict=True)
        return Beside([model.adapt(x, y) for x, y in pairs], [float(y.mean()) for y in tasks.y])

    def rows(self, x: np.ndarray, but: int | None = None) -> np.ndarray:
        """Descriptors, and a column for each allele: what it says beyond its mean, or zero for the one left out."""
        said = [np.asarray(gaussian(predictor(x)).mean) - mean for predictor, mean in zip(*self, strict=True)]
        return np.column_stack([x, *(0 * column if i == but else column for i, column in enumerate(said))])

    def tasks(self, tasks: Tasks) -> Tasks:
        """Each without its own column."""
        return named([(self.rows(x, i), y) for i, (x, y) in enumerate(zip(tasks.x, tasks.y, strict=True))])


class Learned(NamedTuple):
    """A model, and the rows that it sees of peptides."""

    model: api.Model
    rows: Callable[[np.ndarray], np.ndarray]


def learn(name: str, tasks: Tasks, asked: argparse.Namespace) -> Learned:
    method, points, settings, beside = LEARNERS[name]
    if name == "pacoh":
        points, settings = asked.points, settings | {"steps": asked.steps} | asked.settings
    few = thinned(tasks, points)
    if not beside:
        return Learned(api.fit(few, method, **settings), lambda x: x)
    columns = Beside.of(tasks, api.fit(few, "pacoh-gp-map", steps=asked.steps, own=_OWN, **_PACOH))
    return Learned(api.fit(columns.tasks(few), method, **settings), columns.rows)


@eqx.filter_jit
def choose(meta: Any, known: Known, rule: Rule, rows: jax.Array, keys: Any) -> jax.Array:
    open_ = jnp.ones(len(rows), bool)
    return jax.vmap(lambda one, key: from_pool(meta, one, rule, (rows, open_), key))(known, keys)


def bandit(learned: Learned, rule: Rule, pool: tuple, first: np.ndarray, rounds: int) -> np.ndarray:
    """The numbers of the peptides chosen, (starts, rounds)."""
    (x, y), model = pool, learned.model
    rows, targets = model.units.inputs(learned.rows(x)), model.units.targets(y)
    taken = np.zeros((len(first), rounds + 1), int)
    taken[:, 0] = first
    size = rows_for(rounds)  # one length for all rounds: compiling takes longer than what padding costs
    for t in range(1, rounds + 1):
        at = np.pad(taken[:, :t], ((0, 0), (0, size - t)))
        mask = jnp.broadcast_to(np.arange(size) < t, at.shape)
        data = Dataset(jnp.asarray(rows[at]), jnp.asarray(targets[at]), mask)
        keys = jax.random.split(jax.random.fold_in(jax.random.key(1), t), len(first))
        known = Known(data, jnp.zeros_like(mask))
        taken[:, t] = np.asarray(choose(model.meta, known, rule, jnp.asarray(rows), keys))
    return taken[:, 1:]


def regrets(rewards: np.ndarray, most: float) -> tuple[np.ndarray, np.ndarray]:
    """Average and simple regret after each round; the start is not counted."""
    counts = np.arange(1, rewards.shape[1] + 1)
    return most - rewards.cumsum(1) / counts, most - np.maximum.accumulate(rewards, 1)


def compare(found: dict[str, np.ndarray], most: float, from_round: int = 10) -> None:
    """Prints how far each PACOH is below each baseline in average regret, at the worst of the later rounds."""
    average = {method: regrets(rewards, most)[0][:, from_round - 1 :] for method, rewards in found.items()}
    ours = [method for method in found if method.startswith("pacoh")]
    for mine, other in product(ours, [method for method in found if method not in ours]):
        gain = (average[other] - average[mine]).mean(0)
        p = ttest_rel(average[mine], average[other], alternative="less").pvalue
        print(f"{mine:11} below {other:11} by {gain.min():.3f} to {gain.max():.3f}; p at most {p.max():.2g}")


def draw(found: dict[str, np.ndarray], most: float, path: Path) -> None:
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2)
    for method, rewards in found.items():
        for panel, regret in zip(panels, regrets(rewards, most), strict=True):
            mean, error = regret.mean(0), 1.96 * regret.std(0) / np.sqrt(len(regret))
            rounds = np.arange(1, len(mean) + 1)
            panel.plot(rounds, mean, label=method)
            panel.fill_between(rounds, mean - error, mean + error, alpha=0.15)
    for panel, title in zip(panels, ("average regret", "simple regret"), strict=True):
        panel.set(xlabel="round", title=title, ylim=(0, None))
    panels[0].legend(fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--steps", type=int, default=300, help="training steps of PACOH")
    parser.add_argument("--points", type=int, default=300, help="points of a task that PACOH learns from")
    parser.add_argument("--settings", type=json.loads, default={}, help="further settings of PACOH, as JSON")
    parser.add_argument("--allele", default=TEST, choices=[*TRAIN, "A_2403", TEST])
    parser.add_argument("--past", nargs="+", default=[], choices=TRAIN, help="alleles to learn from (default: all)")
    asked = parser.parse_args()
    tasks, (x, y) = problem(asked.allele, asked.past)
    first = np.random.RandomState(0).permutation(len(y))[: asked.starts]
    found: dict[str, np.ndarray] = {}
    models: dict[str, Learned] = {}
    with open(asked.out, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["method", "start", "round", "reward", "average_regret", "simple_regret"])
        for method in asked.methods:
            began = time.time()
            if method == "random":
                numbers = np.random.RandomState(1).randint(len(y), size=(len(first), asked.rounds))
            else:
                name, _, rule = method.partition("-")
                models[name] = models[name] if name in models else learn(name, tasks, asked)
                acquisition = RULES["whole" if method == "bnn-ts" else rule]
                numbers = bandit(models[name], Rule(acquisition, True, True), (x, y), first, asked.rounds)
            found[method] = y[numbers]
            average, simple = regrets(found[method], y.max())
            for i, t in product(*map(range, numbers.shape)):
                rows.writerow(
                    [method, i, t + 1, f"{y[numbers[i, t]]:.6g}", f"{average[i, t]:.6g}", f"{simple[i, t]:.6g}"]
                )
            file.flush()
            at = [t for t in (10, 20, 50) if t <= asked.rounds]
            told = "; ".join(f"{t}: {average[:, t - 1].mean():.3f} {simple[:, t - 1].mean():.3f}" for t in at)
            print(f"{method:11} average and simple regret after {told}; {time.time() - began:.0f} s", flush=True)
    if asked.rounds >= 10 and len(first) > 1:
        compare(found, float(y.max()))
    if asked.figure is not None:
        draw(found, float(y.max()), asked.figure)


if __name__ == "__main__":
    main()
