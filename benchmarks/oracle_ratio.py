"""Test error over the Bayes-optimal one on fresh draws of the synthetic environments, with the default settings.

    JAX_DEFAULT_MATMUL_PRECISION=highest PYTHONPATH=src python benchmarks/oracle_ratio.py jobs.json out.jsonl

A job: {"environment", "method", "settings": {}, "sizes": {}, "draws": []}. All draws of a job train in one `vmap`.
Settings were chosen on the validation tasks of draws 100-103; the draws here, and all test tasks, chose nothing.
"""

import json
import time

import jax
import jobs
import numpy as np

from pacoh import api, metrics, registry
from pacoh.predictive import AbstractDistribution
from pacoh.reading import Split


def scores(model: api.Model, split: Split) -> dict[str, float | None]:
    answers = model.answers(split)
    spread = isinstance(answers[0], AbstractDistribution)  # a method that predicts points has no calibration
    rms = metrics.calibration_error(*answers, form="root-mean-square") if spread else None
    return metrics.summary(*answers) | {"calibration_error_rms": rms}


def train(job: dict, draws: list) -> list[api.Model]:
    """One model a draw, trained together."""
    tasks = [draw.train for draw in draws]
    return api.fit_many(tasks, job["method"], range(len(draws)), **job.get("settings", {}))


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
            ours, best = (scores(each, split) for each in (model, oracle))
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
