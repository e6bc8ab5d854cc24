"""The scripts in benchmarks/ run: a measure that nobody takes rots."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pacoh.bench.spec import read_chosen
from pacoh.learners.change import Changed
from pacoh.registry import Shape, learner

FOLDER = Path(__file__).parents[1] / "benchmarks"


def run(script: str, *arguments: object) -> str:
    call = [sys.executable, str(FOLDER / script), *map(str, arguments)]
    done = subprocess.run(call, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pacoh-nn-svgd", "mlap-m", "mlap-m-batch"])
def test_a_row_of_the_scalability_figure_is_measured(method):
    row = json.loads(run("scalability.py", "--one", method, 10).splitlines()[-1])
    assert row["tasks"] == 10
    assert row["ms_a_step"] > 0
    assert row["process_peak_mib"] > row["training_mib"] > 0


@pytest.mark.slow
def test_rounds_to_the_optimum_are_counted_for_every_method(tmp_path):
    out = tmp_path / "rounds.csv"
    said = run("optimize.py", out, "--families", "branin", "--rounds", 5, "--repeats", 2, "--steps", 20)
    rows = list(csv.DictReader(out.open()))
    assert {row["method"] for row in rows} == {"random", "gp", "gp-ei", "pacoh", "other"}
    assert len(rows) == 5 * 2 * 5
    assert all(float(row["best"]) <= float(row["regret"]) for row in rows)
    assert said.count("rounds to 1%") == 5


@pytest.mark.slow
def test_a_job_is_compared_with_the_bayes_optimal_predictor(tmp_path):
    jobs, out = tmp_path / "jobs.json", tmp_path / "out.jsonl"
    job = {"environment": "cauchy", "method": "pacoh-gp-map", "settings": {"steps": 20}, "sizes": {"tests": 4}}
    jobs.write_text(json.dumps([job | {"draws": [0, 1]}]))
    run("oracle_ratio.py", jobs, out)
    rows = json.loads(out.read_text())["rows"]
    assert [row["draw"] for row in rows] == [0, 1]
    assert all(row["ours"]["rmse"] > 0 and row["oracle"]["rmse"] > 0 for row in rows)


@pytest.mark.slow
def test_settings_of_a_lone_network_are_chosen_and_can_be_used(tmp_path):
    small = ("--settings", 2, "--neighbours", 1, "--at-once", 2, "--networks", 2, 3, "--steps", 3, "--draws", 1, 1, 1)
    run("lone_networks.py", "--out", tmp_path, *small)
    chosen = read_chosen(tmp_path)
    assert set(chosen) == {f"{key}/vanilla-bnn" for key in ("cauchy", "cauchy-20", "cauchy-5")}
    for settings in chosen.values():
        made = learner("vanilla-bnn", Shape(20, 20.0, 1), **settings)
        assert isinstance(made, Changed)
        assert float(made.learner.reach) == pytest.approx(settings["reach"])  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_search_of_a_lone_network_goes_on_around_what_was_chosen(tmp_path):
    small = ("--settings", 2, "--neighbours", 0, "--at-once", 2, "--networks", 2, 2, "--steps", 3, "--draws", 1, 1, 1)
    known = FOLDER / "chosen" / "cauchy.vanilla-bnn.chosen.json"
    run("lone_networks.py", "--out", tmp_path, "--around", known, "--layers", 1, *small)
    before, after = (json.loads(path.read_text())["settings"] for path in (known, tmp_path / known.name))
    for name in ("spread", "reach", "head", "noise", "predict_beta"):  # a neighbour: within five of its sds
        assert abs(np.log(after[name] / before[name])) < 5 * 0.35
