"""Test error over the Bayes-optimal one on fresh draws of the synthetic environments, with the default settings.

    JAX_DEFAULT_MATMUL_PRECISION=highest PYTHONPATH=src python benchmarks/oracle_ratio.py jobs.json out.jsonl

A job: {"environment", "method", "settings": {}, "sizes": {}, "draws": []}. All draws of a job train in one `vmap`.
Settings were chosen on the validation tasks of draws 100-103; the draws here, and all test tasks, chose nothing.
"""

import json
import time

import equinox as eqx
import jax
import jobs
import numpy as np

from pacoh import api, metrics, registry
from pacoh.data import Standardizer, bucket, stack
from pacoh.learners.base import AbstractTrainedLearner, fit_lanes, lanes
from pacoh.predictive import AbstractDistribution
from pacoh.reading import Split

OF_DISTRIBUTIONS = ("log_likelihood", "calibration_error", "calibration_error_rms", "coverage_90")  # points have none


def scores(predictive, split: Split) -> dict[str, float | None]:
    size = bucket(max(split.query.sizes))
    y = np.stack([np.pad(y, (0, size - len(y))) for y in split.query.y])
    mask = np.arange(size) < np.array(split.query.sizes)[:, None]
    rmse = metrics.rmse(predictive, y, mask)
    if not isinstance(predictive, AbstractDistribution):
        return {"rmse": rmse} | dict.fromkeys(OF_DISTRIBUTIONS)
    rms = metrics.calibration_error(predictive, y, mask, form="root-mean-square")
    return {
        "rmse": rmse,
        "log_likelihood": metrics.log_likelihood(predictive, y, mask),
        "calibration_error": metrics.calibration_error(predictive, y, mask),
        "calibration_error_rms": rms,
        "coverage_90": metrics.coverage(predictive, y, mask),
    }


def train(job: dict, draws: list) -> list[api.Model]:
    """One model a draw, trained together."""
    units = [Standardizer.fit(draw.train.pairs()) for draw in draws]
    stacks = [stack([u(x, y) for x, y in d.train.pairs()]) for u, d in zip(units, draws, strict=True)]
    n, m, d = stacks[0].x.shape
    learner = registry.learner(job["method"], registry.Shape(n, m, d), **job.get("settings", {}))
    keys = jax.random.split(jax.random.key(0), len(draws))
    if isinstance(learner, AbstractTrainedLearner):
        models, _ = fit_lanes(lanes([learner] * len(draws)), lanes(stacks), keys)
        each = [
            jax.tree.map(lambda leaf, i=i: leaf[i] if eqx.is_array(leaf) else leaf, models) for i in range(len(draws))
        ]
    else:
        each = [learner.fit(s, key) for s, key in zip(stacks, keys, strict=True)]
    return [api.Model(meta, u, {}) for meta, u in zip(each, units, strict=True)]


def run(job: dict) -> dict:
    environment = registry.environment(job["environment"], **job.get("sizes", {}))
    both = [environment.with_unused(number) for number in job["draws"]] if job.get("unused") else None
    draws = [draw for draw, _ in both] if both else [environment.draw(number) for number in job["draws"]]
    unused = {number: split for number, (_, split) in zip(job["draws"], both, strict=True)} if both else {}
    began = time.time()
    models = train(job, draws)
    seconds = time.time() - began
    rows = []
    for number, draw, model in zip(job["draws"], draws, models, strict=True):
        oracle = api.fit_oracle(environment, number)
        for name in job.get("lists", ["test"]):
            split = unused[number] if name == "unused" else getattr(draw, name)
            queries = split.query.x
            ours, best = (scores(each.predict_tasks(split.context.pairs(), queries), split) for each in (model, oracle))
            rows.append({"draw": number, "list": name, "ours": ours, "oracle": best})
    return {"job": job, "seconds": seconds, "rows": rows, "device": str(jax.devices()[0]), "jax": jax.__version__}


def line(result: dict, name: str) -> str:
    rows = [row for row in result["rows"] if row["list"] == name]
    ratio = [row["ours"]["rmse"] / row["oracle"]["rmse"] for row in rows]

    def mean(name: str) -> float:
        return float(np.mean([row["ours"][name] for row in rows]))

    job = result["job"]
    setting = json.dumps(job.get("settings", {}) | job.get("sizes", {}))
    errors = (
        f"{name:6} {job['environment']:9} {job['method']:14} {setting:45} "
        f"rmse {mean('rmse'):.4f} ratio {np.mean(ratio):.3f} +- {np.std(ratio):.3f}"
    )
    if rows[0]["ours"]["log_likelihood"] is None:
        return f"{errors}, points, {result['seconds']:.0f} s"
    calibration = mean("calibration_error")
    best = np.mean([r["oracle"]["calibration_error"] for r in rows])
    return (
        f"{errors} ll {mean('log_likelihood'):.3f} "
        f"cal {calibration:.4f} = {calibration / best:.3f} x oracle, "
        f"rms {mean('calibration_error_rms'):.4f}, {result['seconds']:.0f} s"
    )


if __name__ == "__main__":
    jobs.main(run, lambda result: [line(result, name) for name in result["job"].get("lists", ["test"])])
