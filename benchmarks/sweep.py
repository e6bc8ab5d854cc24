"""Random search of a method's settings on validation tasks, for a machine with an accelerator.

    JAX_DEFAULT_MATMUL_PRECISION=highest PYTHONPATH=src python benchmarks/sweep.py jobs.json out.jsonl

A job: {"name", "environment", "sizes": {}, "method", "draws": [], "count", "fixed": {}, "space": {"rate": [a, b]}}.
Ratios are to the Bayes-optimal predictor on the same validation tasks; methods that predict points are ranked by them.
"""

import time

import jobs
import numpy as np

from pacoh import registry
from pacoh.api import fit_oracle
from pacoh.tuning.folds import environment_folds
from pacoh.tuning.search import Effort, Range, draw_settings, search
from pacoh.tuning.space import merged


def make(method: str, shape: registry.Shape, fixed: dict):
    def learner(**setting):
        both = merged(fixed, setting)
        sds = {name.removesuffix("_sd"): both.pop(name) for name in list(both) if name.endswith("_sd")}
        return registry.learner(method, shape, **({"sds": sds} if sds else {}), **both)

    return learner


def run(job: dict) -> dict:
    environment = registry.environment(job["environment"], **job.get("sizes", {}))
    draws = job["draws"]
    fold = environment_folds(environment, draws)
    oracle = [fit_oracle(environment, d).evaluate(environment.draw(d).valid) for d in draws]
    n, m, d = fold.train.x.shape[1:]
    space = {name: Range(*ends) for name, ends in job["space"].items()}
    settings = job.get("settings") or draw_settings(space, job["count"], seed=job.get("seed", 0))
    began = time.time()
    learner = make(job["method"], registry.Shape(n, m, d), job.get("fixed", {}))
    report = search(learner, settings, fold, effort=Effort(job.get("at_once", 512)))
    known = [None] * len(settings) if report.log_likelihood is None else report.log_likelihood
    ratio = report.rmse / np.array([o["rmse"] for o in oracle])
    rows = [
        {"setting": s, "ll": None if ll is None else ll.round(4).tolist(), "ratio": r.round(4).tolist()}
        for s, ll, r in zip(report.settings, known, ratio, strict=True)
    ]
    rows = [rows[i] for i in np.argsort(-report.score, stable=True)]
    oracle_ll = [o["log_likelihood"] for o in oracle]
    return {"name": job["name"], "seconds": time.time() - began, "oracle_ll": oracle_ll, "rows": rows, "job": job}


def lines(result: dict) -> list[str]:
    """The six best settings."""
    shown = [f"{result['name']}: {result['seconds']:.1f} s; oracle ll {np.mean(result['oracle_ll']):.3f}"]
    for row in result["rows"][:6]:
        text = {name: float(f"{value:.3g}") for name, value in row["setting"].items()}
        known = "" if row["ll"] is None else f"ll {np.mean(row['ll']):.3f} "
        shown.append(f"  {known}ratio {np.mean(row['ratio']):.3f} {text}")
    return shown


if __name__ == "__main__":
    jobs.main(run, lines)
