"""Settings of classifiers on scikit-learn's bundled data sets: ten trials after past studies against 25 of TPE.

    PYTHONPATH=src python benchmarks/optuna_studies.py out.csv --kinds svc boost --repeats 20 --database sqlite:///past.db

A study tunes a support-vector classifier (C, gamma) or boosted trees (four parameters) on a random half of a data set:
the accuracy on one half of it after training on the other. The past are 20 studies of 30 TPE trials on the other three
data sets, so the target's data set is never among them; the four data sets take turns as the target, and repeats of one
share its past. A database keeps the past studies for the next run. A row of the CSV is a trial of a sampler: its value
and the best so far. `--first 100 --past-first 2000` gives other halves, to develop on.
"""

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import optuna
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pacoh.integrations.optuna import PacohSampler

LOADERS = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
TRIALS = {"pacoh": 10, "tpe": 25}


def svc(trial: optuna.Trial):
    c, gamma = (
        trial.suggest_float(name, *ends, log=True) for name, ends in (("C", (1e-3, 1e3)), ("gamma", (1e-5, 10)))
    )
    return make_pipeline(StandardScaler(), SVC(C=c, gamma=gamma))


def boost(trial: optuna.Trial):
    return HistGradientBoostingClassifier(
        learning_rate=trial.suggest_float("learning_rate", 0.01, 1, log=True),
        max_leaf_nodes=trial.suggest_int("max_leaf_nodes", 2, 32, log=True),
        min_samples_leaf=trial.suggest_int("min_samples_leaf", 1, 40),
        l2_regularization=trial.suggest_float("l2_regularization", 1e-6, 10, log=True),
        max_iter=30,
        random_state=0,
    )


KINDS = {"svc": svc, "boost": boost}


def objective(kind: str, name: str, seed: int) -> Callable[[optuna.Trial], float]:
    """The accuracy on a random half of a data set, halved again."""
    x, y = LOADERS[name](return_X_y=True)
    _, x, _, y = train_test_split(x, y, test_size=0.5, random_state=seed, stratify=y)
    x, x_valid, y, y_valid = train_test_split(x, y, test_size=0.5, random_state=seed, stratify=y)
    return lambda trial: float(KINDS[kind](trial).fit(x, y).score(x_valid, y_valid))


def past_study(kind: str, name: str, seed: int, asked: argparse.Namespace) -> str:
    """The name of a past study, which is made unless the database has it."""
    study = optuna.create_study(
        storage=asked.database,
        study_name=f"{kind} {name} {seed} {asked.past}",
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed),
        load_if_exists=True,
    )
    if not study.trials:
        study.optimize(objective(kind, name, seed), n_trials=asked.past)
    return study.study_name


def learned(kind: str, target: str, asked: argparse.Namespace) -> PacohSampler:
    """The sampler after the past of a target."""
    others = [name for name in LOADERS if name != target]
    seeds = [asked.past_first + i // len(others) for i in range(asked.studies)]
    names = [past_study(kind, others[i % len(others)], seed, asked) for i, seed in enumerate(seeds)]
    return PacohSampler.from_storage(asked.database, names)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first repeat's half")
    parser.add_argument("--past-first", type=int, default=1000, help="the seed of the first past half of a data set")
    parser.add_argument("--studies", type=int, default=20)
    parser.add_argument("--past", type=int, default=30, help="trials of a past study")
    parser.add_argument("--database", default=optuna.storages.InMemoryStorage(), help="where past studies are kept")
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with open(asked.out, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["kind", "sampler", "target", "repeat", "trial", "value", "best"])
        for kind in asked.kinds:
            began, ours, theirs, past = time.time(), [], [], {}
            for repeat in range(asked.first, asked.first + asked.repeats):
                target = list(LOADERS)[repeat % len(LOADERS)]
                past[target] = past[target] if target in past else learned(kind, target, asked)
                for name, ends in (("pacoh", ours), ("tpe", theirs)):
                    sampler = past[target] if name == "pacoh" else optuna.samplers.TPESampler(seed=repeat)
                    study = optuna.create_study(direction="maximize", sampler=sampler)
                    study.optimize(objective(kind, target, repeat), n_trials=TRIALS[name])
                    values = np.array([trial.value for trial in study.trials], float)
                    best = np.maximum.accumulate(values)
                    ends.append(best[-1])
                    rows.writerows(
                        [kind, name, target, repeat, t + 1, value, top]
                        for t, (value, top) in enumerate(zip(values, best, strict=True))
                    )
                file.flush()
            gap = np.array(ours) - np.array(theirs)
            print(
                f"{kind}: median best after {TRIALS['pacoh']} trials {np.median(ours):.4f}, TPE after {TRIALS['tpe']} "
                f"{np.median(theirs):.4f}; median difference {np.median(gap):+.4f}, as good or better in "
                f"{(gap >= 0).sum()} of {len(gap)}; {time.time() - began:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
