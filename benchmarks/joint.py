"""One rule for all data: a search of settings that must do well on several environments at once, on validation tasks.

    JAX_DEFAULT_MATMUL_PRECISION=highest PYTHONPATH=src python benchmarks/joint.py jobs.json out.jsonl

A job: {"name", "environments": [{"name", "sizes": {}}], "method", "draws": [], "count", "rounds", "fixed": {},
"space": {"rate": [a, b]}}. The first round has the default and settings spread over the space; each next one moves the
best ones about. A setting's score is its mean validation log-likelihood below the Bayes-optimal predictor's, over
environments and draws; for methods that predict points its error above that predictor's. "space": "tuning" takes the
space of `--tune`.
"""

import time

import jobs
import numpy as np
import sweep

from pacoh import registry
from pacoh.api import fit_oracle
from pacoh.tuning.folds import environment_folds
from pacoh.tuning.search import Effort, Range, search
from pacoh.tuning.space import SPACES, candidates


class Place:
    """An environment's folds, and what the Bayes-optimal predictor reaches on them."""

    def __init__(self, environment: dict, draws: list[int]):
        self.name = environment["name"]
        made = registry.environment(self.name, **environment.get("sizes", {}))
        self.fold = environment_folds(made, draws)
        best = [fit_oracle(made, draw).evaluate(made.draw(draw).valid) for draw in draws]
        self.log_likelihood = np.array([b["log_likelihood"] for b in best])
        self.rmse = np.array([b["rmse"] for b in best])

    def scores(self, job: dict, settings: list[dict]) -> tuple[np.ndarray, np.ndarray]:
        n, m, d = self.fold.train.x.shape[1:]
        learner = sweep.make(job["method"], registry.Shape(n, m, d), job.get("fixed", {}))
        report = search(
            learner,
            settings,
            self.fold,
            effort=Effort(job.get("at_once", 10**6), score_at_once=job.get("score_at_once", 64)),
        )
        ratio = report.rmse / self.rmse
        lost = ratio - 1 if report.log_likelihood is None else self.log_likelihood - report.log_likelihood
        return np.where(np.isfinite(lost), lost, 99.0), ratio


def moved(rows: list[dict], space: dict[str, Range], count: int, width: float, seed: int) -> list[dict]:
    """Settings about the best quarter of `rows`: a step of `width` of each axis' range."""
    random = np.random.default_rng(seed)
    best = [row for row in rows if row["setting"]][: max(4, len(rows) // 8)]  # the default says no numbers
    settings = []
    for i in range(count):
        start = best[i % len(best)]["setting"]
        setting = {}
        for name, axis in space.items():
            low, high = (np.log(axis.low), np.log(axis.high)) if axis.log else (axis.low, axis.high)
            at = (np.log(start[name]) if axis.log else start[name]) + width * (high - low) * random.normal()
            at = float(np.clip(at, low, high))
            setting[name] = float(np.exp(at)) if axis.log else at
        settings.append(setting)
    return settings


def run(job: dict) -> dict:
    began = time.time()
    places = [Place(environment, job["draws"]) for environment in job["environments"]]
    given = job["space"]
    space = SPACES[job["method"]] if given == "tuning" else {name: Range(*ends) for name, ends in given.items()}
    rows: list[dict] = []
    for turn in range(job.get("rounds", 3)):
        seed = job.get("seed", 0) + turn
        count = job["count"]
        settings = moved(rows, space, count, 0.25 / turn, seed) if turn else candidates(space, count, seed)
        results = [place.scores(job, settings) for place in places]
        for i, setting in enumerate(settings):
            lost, ratio = (
                {p.name: r[k][i].round(4).tolist() for p, r in zip(places, results, strict=True)} for k in (0, 1)
            )
            rows.append({"setting": setting, "lost": lost, "ratio": ratio})
        rows.sort(key=lambda row: np.mean([np.mean(values) for values in row["lost"].values()]))
        print(turn, round(time.time() - began, 1), lines({"job": job, "rows": rows, "seconds": 0})[1], flush=True)
    return {"name": job["name"], "seconds": time.time() - began, "rows": rows, "job": job}


def lines(result: dict) -> list[str]:
    """The six best settings, and the default."""
    shown = [f"{result['job']['name']}: {result['seconds']:.1f} s"]
    default = [row for row in result["rows"][6:] if not row["setting"]]
    for row in result["rows"][:6] + default:
        text = {name: float(f"{value:.3g}") for name, value in row["setting"].items()}
        parts = [
            f"{name} lost {np.mean(row['lost'][name]):.3f} ratio {np.mean(row['ratio'][name]):.3f}"
            for name in row["lost"]
        ]
        shown.append(f"  {'; '.join(parts)} {text}")
    return shown


if __name__ == "__main__":
    jobs.main(run, lines)
