"""Benchmarks: cells are kept, resumed and renewed as they should be; statistics keep their level; a reader sees it."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_rel

import pacoh
from browser import fetches_nothing, look, needs_browser
from pacoh import api, metrics, registry
from pacoh.bench import cells, executors, spec
from pacoh.bench.compare import Difference, middling, paired
from pacoh.bench.report import headline, write
from pacoh.bench.run import Choice, Silence, run
from pacoh.bench.short import read_reasons, short_pages
from pacoh.bench.store import Plan, Store
from pacoh.bench.tables import Entry, Published, Results, with_sd
from pacoh.errors import PacohError
from pacoh.tuning.space import FORMS, forms

TINY = """
summary = "Tiny."
seeds = [0, 1]
draws = [29]

[[environments]]
name = "sinusoid"
key = "cauchy"  # borrows published numbers, to see them shown
label = "Tiny sines"
settings = { n = 4, tests = 5, valids = 2, query = 12 }
published = true

[[methods]]
name = "pacoh-gp-map"
settings = { steps = 60, layers = 1, width = 8 }

[[methods]]
name = "mll-gp"
settings = { steps = 20, layers = 1, width = 8 }

[[methods]]
name = "vanilla-gp"
settings = { steps = 20 }

[[tables]]
metric = "rmse"
published = "rmse"

[[tables]]
metric = "calibration_error"
published = "calibration_error"

[[claims]]
metric = "rmse"
methods = ["pacoh-gp-map"]
against = ["context-mean", "mll-gp"]
"""


def tiny(folder: Path, text: str = TINY) -> Plan:
    path = folder / "tiny.toml"
    path.write_text(text)
    return Plan(spec.load(str(path)), "pacoh bench run tiny.toml --out results")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A folder with all results of the tiny experiment."""
    home = tmp_path_factory.mktemp("bench")
    tally = run(tiny(home), home / "results", Silence())
    assert (tally.finished, tally.kept, tally.failed, tally.left) == (7, 0, {}, 0)
    return home / "results"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "cells").iterdir())}


def lasting(folder: Path) -> dict[str, list[dict]]:
    """All records without what may differ from run to run."""
    records = {name: [json.loads(line) for line in text.splitlines()] for name, text in files(folder).items()}
    return {name: [{k: v for k, v in one.items() if k != "made"} for one in lines] for name, lines in records.items()}


def tables(folder: Path) -> str:
    return write(folder, folder)[1].read_text().split("### Times")[0]


@pytest.mark.parametrize(
    ("table", "column", "method", "numbers"),
    [
        ("rmse", "cauchy", "pacoh-nn-svgd", [0.195, 0.001]),
        ("rmse", "physionet-gcs", "pacoh-gp-vi", [1.472, 0.012]),
        ("rmse", "berkeley", "vanilla-gp", [0.276]),
        ("calibration_error", "physionet-hct", "bmaml", [0.423, 0.106]),
        ("accuracy", "omniglot-5-shot", "pacoh-nn-map", [0.866, 0.005]),
        ("ece", "omniglot-2-shot", "vanilla-bnn", [0.173, 0.009]),
    ],
)
def test_published_numbers_are_those_of_the_paper(table, column, method, numbers):
    assert spec.published(table)[column][method] == numbers


def test_every_experiment_loads_and_comes_back_from_json():
    for name in spec.names():
        made = spec.load(name)
        assert made.cells()
        assert spec.of_json(json.loads(json.dumps(made.to_json()))) == made
        assert len({cell.id for cell in made.cells()}) == len({cell.name for cell in made.cells()})


def test_every_method_takes_the_settings_that_experiments_give_it():
    for name in spec.names():
        made = spec.load(name)
        targets = {column.key: column.targets for column in made.columns}
        for cell in made.cells():
            if cell.what["kind"] == "scores" and cell.what["method"] != "oracle":
                shape = registry.Shape(20, 20.0, 16, 5 if targets[cell.column] == "classes" else None)
                registry.learner(cell.what["method"], shape, **cell.what["settings"])


def test_naive_references_stand_in_every_table():
    for name in spec.names():
        made = spec.load(name)
        if not made.tables:
            continue
        cells = {(cell.column, cell.row) for cell in made.cells()}
        for column in made.columns:
            assert {(column.key, method) for method in spec.NAIVE[column.targets]} <= cells


def test_a_changed_setting_is_a_new_cell_and_a_changed_label_is_not(tmp_path):
    def ids(text):
        return [cell.id for cell in tiny(tmp_path, text).experiment.cells() if cell.row == "mll-gp"]

    assert ids(TINY) != ids(TINY.replace("steps = 20, layers", "steps = 21, layers"))
    assert ids(TINY) != ids(TINY.replace("seeds = [0, 1]", "seeds = [0, 1, 2]"))
    assert ids(TINY) == ids(TINY.replace("Tiny sines", "Other words"))


def test_a_changed_default_is_a_new_cell_and_old_results_are_still_shown(tmp_path, monkeypatch):
    before = tiny(tmp_path, TINY).experiment
    method = registry.METHODS["mll-gp"]
    other = replace(method, make=lambda shape, layers=5, **settings: method.make(shape, layers=layers, **settings))
    monkeypatch.setitem(registry.METHODS, "mll-gp", other)
    registry.defaults.cache_clear()
    after, kept = tiny(tmp_path, TINY).experiment, spec.of_json(before.to_json())
    registry.defaults.cache_clear()
    ids = [{cell.row: cell.id for cell in one.cells()} for one in (before, after, kept)]
    assert {row for row in ids[0] if ids[0][row] != ids[1][row]} == {"mll-gp"}
    assert ids[2] == ids[0]


def test_a_record_says_what_made_it(finished):
    record = next(iter(lasting(finished).values()))[0]
    assert {"environment", "data", "method", "settings", "draw", "seed", "scores", "by_task"} <= set(record)
    made = json.loads(files(finished)[next(iter(files(finished)))].splitlines()[0])["made"]
    wanted = {"pacoh", "jax", "revision", "device", "seconds", "times", "peak_bytes", "started", "seconds_per_step"}
    assert wanted <= set(made)


def test_a_revision_is_marked_where_any_source_of_the_package_differs(monkeypatch):
    asked = []

    def run(command, **_):
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, " M learners/pacoh.py" if "status" in command else "abc\n")

    monkeypatch.setattr(cells.subprocess, "run", run)
    assert cells.revision.__wrapped__() == "abc+"
    assert {command[2] for command in asked} == {str(Path(pacoh.__file__).parent)}


def test_seeds_trained_together_score_as_each_alone(finished):
    (records,) = [lines for name, lines in lasting(finished).items() if ".pacoh-gp-map." in name]
    made = spec.load(str(finished.parent / "tiny.toml"))
    draw = registry.environment("sinusoid", **made.columns[0].settings).draw(29)
    assert [record["seed"] for record in records] == [0, 1]
    for record in records:
        alone = api.fit(draw.train, "pacoh-gp-map", seed=record["seed"], **record["settings"]).evaluate(
            draw.test, seed=record["seed"]
        )
        for name in ("rmse", "log_likelihood"):
            assert record["scores"]["test"][name] == pytest.approx(alone[name], rel=2e-3)
    assert records[0]["scores"] != records[1]["scores"]


def test_scores_are_the_means_of_those_by_task(finished):
    for lines in lasting(finished).values():
        for record in lines:
            for name, values in record["by_task"]["test"].items():
                assert np.mean(values) == pytest.approx(record["scores"]["test"][name], rel=1e-12)


def test_finished_cells_are_kept_and_only_changed_ones_computed(finished, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(finished, folder)
    before = files(folder)
    assert run(tiny(tmp_path), folder, Silence()).kept == 7
    assert files(folder) == before
    changed = tiny(tmp_path, TINY.replace("{ steps = 20 }", "{ steps = 21 }"))
    tally = run(changed, folder, Silence())
    assert (tally.finished, tally.kept) == (1, 6)
    assert before.items() <= files(folder).items()
    assert "1 files of results are of other settings" in tables(folder)


def test_a_failure_is_on_record_the_rest_goes_on_and_it_is_tried_again(finished, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(finished, folder)
    broken = TINY.replace("{ steps = 20, layers", '{ kernel = "cubic", steps = 20, layers')
    broken = broken.replace("{ steps = 20 }", "{ steps = 22 }")
    for _ in range(2):
        tally = run(tiny(tmp_path, broken), folder, Silence())
        assert list(tally.failed) == ["cauchy/mll-gp"]
    assert tally.kept == 6
    page = tables(folder)
    assert "cauchy / MLL-GP: A kernel is one of" in page
    assert "| MLL-GP | failed |" in page


def test_published_numbers_stand_beside_the_data_they_were_made_on_alone(finished, tmp_path):
    for text, shown in ((TINY, True), (TINY.replace("published = true\n", ""), False)):
        made = tiny(tmp_path, text).experiment
        entry = Results(made, Store(finished)).table(made.tables[0])["mll-gp", "cauchy"]
        assert (entry.published is not None, entry.state) == (shown, "")


def test_missing_cells_are_said(finished, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(finished, folder)
    next((folder / "cells").glob("*.mll-gp.*")).unlink()
    page = tables(folder)
    assert "6 of 7 cells finished, 1 missing" in page
    assert "Cells that were not run: cauchy / MLL-GP." in page
    assert "| MLL-GP | missing |" in page


def test_a_checkpoint_that_is_of_no_use_is_left_behind(finished, tmp_path):
    plan, store = tiny(tmp_path), Store(tmp_path / "results")
    store.begin(plan)
    (cell,) = [cell for cell in plan.experiment.cells() if cell.row == "mll-gp"]
    store.checkpoint(cell).write_text("of another version")
    assert run(plan, store.root, Silence(), choice=Choice(("*/mll-gp",))).finished == 1
    assert lasting(store.root).items() <= lasting(finished).items()


def test_time_that_is_up_begins_no_cell(tmp_path):
    tally = run(tiny(tmp_path), tmp_path / "results", Silence(), choice=Choice(seconds=-1.0))
    assert (tally.finished, tally.left) == (0, 7)


def test_the_page_begins_with_whether_pacoh_beats_what_needs_no_learning(finished):
    first = tables(finished).splitlines()[2]
    assert first.startswith("- Tiny sines: the best PACOH (PACOH-GP-MAP, RMSE ")
    assert "the best reference without learning" in first


def test_a_reference_that_is_ahead_is_said_to_be(finished, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(finished, folder)
    path = next((folder / "cells").glob("*.context-mean.*"))
    record = json.loads(path.read_text())
    record["scores"]["test"]["rmse"] = 1e-3
    record["by_task"]["test"]["rmse"] = [1e-3] * 5
    path.write_text(json.dumps(record) + "\n")
    results = Results(Store(folder).plans()[0].experiment, Store(folder))
    assert "does NOT beat the best reference without learning (context mean" in next(headline(results))


def test_a_calibration_without_the_likelihood_does_not_count(finished, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(finished, folder)
    path = next((folder / "cells").glob("*.mll-gp.*"))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        record["scores"]["test"] |= {"log_likelihood": -1e6, "calibration_error": 1e-6}
        record["by_task"]["test"]["calibration_error"] = [1e-6] * 5
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    experiment = Store(folder).plans()[0].experiment
    entries = Results(experiment, Store(folder)).table(experiment.tables[1])
    assert not entries["mll-gp", "cauchy"].counts
    assert not entries["mll-gp", "cauchy"].best
    assert sum(entry.best for entry in entries.values()) >= 1


@pytest.fixture
def two_short(finished, tmp_path):
    """Results in which the error of two methods is at its published one, and that of PACOH-GP-MAP far from it."""
    folder = tmp_path / "results"
    shutil.copytree(finished, folder)
    for method, rmse in (("pacoh-gp-map", 0.5), ("mll-gp", 0.21899), ("vanilla-gp", 0.276)):
        path = next((folder / "cells").glob(f"*.{method}.*"))
        records = [json.loads(line) for line in path.read_text().splitlines()]
        for record in records:
            record["scores"]["test"] |= {"rmse": rmse, "calibration_error": 0.0}
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def test_cells_that_fall_short_are_in_one_table_with_the_reason(two_short, tmp_path):
    reasons = tmp_path / "reasons.toml"
    reasons.write_text('[rmse]\n"cauchy/pacoh-gp-map" = "made up"\n')
    write(two_short, two_short, reasons=read_reasons(reasons))
    page = (two_short / "report.md").read_text().split("## Cells that fall short")[1].split("\n## ")[0]
    rows = [line for line in page.splitlines() if line.startswith("| RMSE")]
    assert rows == [
        "| RMSE | cauchy | PACOH-GP-MAP | 0.5 | 0.216 | made up |",
        "| RMSE | cauchy | Vanilla GP | 0.276 | 0.275 |  |",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[rmse]\n"cauchy/mll-gp" = "none"', "do not fall short: rmse: cauchy/mll-gp. Take them out"),
        ('[accuracy]\n"cauchy/pacoh-gp-map" = "none"', "do not fall short: accuracy: cauchy/pacoh-gp-map"),
        ('rmse = "none"', "gives reasons as"),
        ("[rmse", "is no TOML file"),
    ],
)
def test_reasons_for_nothing_are_refused(two_short, tmp_path, text, said):
    (tmp_path / "reasons.toml").write_text(text)
    with pytest.raises(PacohError, match=said):
        write(two_short, two_short, reasons=read_reasons(tmp_path / "reasons.toml"))


def test_the_reasons_of_the_committed_page_are_for_cells_that_fall_short():
    root = Path(__file__).parents[1]
    store = Store(root / "benchmarks" / "results")
    every = [Results(plan.experiment, store) for plan in store.plans()]
    *_, grid = short_pages(every, read_reasons(root / "docs" / "notes" / "reasons.toml"))
    assert all(line[-1][0] for line in grid.lines)  # and each of them has one


def test_the_gap_is_in_published_sds_and_one_sd_is_near_enough():
    entry = Entry(0.218, 0.001, 5, Published(0.213, 0.003))
    assert entry.gap == pytest.approx(5 / 3)
    assert entry.reaches("rmse") is False
    assert Entry(0.2159, None, 1, Published(0.213, 0.003)).reaches("rmse") is True
    assert Entry(0.1, None, 1, Published(0.213, 0.003)).reaches("rmse") is True
    assert Entry(0.1, None, 1, Published(0.213, 0.003)).reaches("accuracy") is False
    assert Entry(0.1).reaches("rmse") is None


def test_one_seed_is_the_paired_t_test():
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 30))
    gap = paired({(29, 0): a}, {(29, 0): b})
    assert gap is not None
    assert gap.p == pytest.approx(ttest_rel(a, b).pvalue, rel=1e-9)


def test_draws_are_the_sample_where_there_are_several():
    generator = np.random.default_rng(1)
    a, b = generator.normal(size=(2, 6, 4))
    gap = paired({(i, 0): a[i] for i in range(6)}, {(i, 0): b[i] for i in range(6)})
    assert gap is not None
    assert gap.p == pytest.approx(ttest_rel(a.mean(1), b.mean(1)).pvalue, rel=1e-9)


@pytest.mark.parametrize(("seed_sd", "task_sd"), [(0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
def test_two_equal_methods_are_told_apart_in_one_of_twenty_comparisons_at_most(seed_sd, task_sd):
    generator = np.random.default_rng(2)
    wrong = 0
    for _ in range(1000):
        table = seed_sd * generator.normal(size=(5, 1)) + task_sd * generator.normal(size=(1, 20))
        table = table + 0.3 * generator.normal(size=(5, 20))
        gap = paired({(29, s): table[s] for s in range(5)}, {(29, s): np.zeros(20) for s in range(5)})
        assert gap is not None
        wrong += gap.p < 0.05
    assert wrong / 1000 < 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5


def test_a_clear_difference_is_found_and_has_a_direction():
    gap = Difference(-1.0, 0.1, 10.0)
    assert (gap.verdict("rmse"), gap.verdict("accuracy")) == ("better", "worse")
    assert Difference(-1.0, 1.0, 10.0).verdict("rmse") == "not distinguishable"
    assert Difference(float("nan"), 1.0, 10.0).verdict("rmse") == "not finite"


def test_a_method_without_seeds_stands_for_all_of_them():
    values = np.random.default_rng(3).normal(size=(3, 8))
    gap = paired({(29, s): values[s] for s in range(3)}, {(29, 0): np.ones(8)})
    assert gap is not None
    assert gap.mean == pytest.approx(values.mean() - 1)


def test_a_seed_that_leaves_the_numbers_makes_a_method_no_rival_of_the_best():
    values = 1 + 0.1 * np.random.default_rng(5).normal(size=(5, 10))
    best = {(29, s): values[s] for s in range(5)}
    wild = {(29, s): values[s] + (1e8 if s == 2 else 0.5) for s in range(5)}
    gap, middle = paired(wild, best), middling(wild, best)
    assert gap is not None
    assert middle is not None
    assert gap.mean <= 1.0001 * gap.error  # by the standard error alone it would be one
    assert middle.mean == pytest.approx(0.5)
    assert middle.mean > middle.error
    near = middling({(29, s): values[s] + (0.01 if s % 2 else -0.02) for s in range(5)}, best)
    assert near is not None
    assert near.mean <= near.error


def test_metrics_by_task_leave_out_tasks_without_queries():
    from pacoh.predictive import Point

    mask = np.array([[True, True], [False, False]])
    found = metrics.by_task(Point(np.zeros((2, 2))), np.array([[3.0, 4.0], [9.0, 9.0]]), mask)
    np.testing.assert_allclose(found["rmse"], [12.5**0.5])
    assert set(found) == {"rmse"}


def test_sources_of_unequal_numbers_of_tasks_do_not_train_together():
    draws = [registry.environment("sinusoid", n=n).draw(0).train for n in (3, 4)]
    with pytest.raises(PacohError, match="as many tasks"):
        api.fit_many(draws, "context-mean", [0, 0])


def test_the_command_runs_resumes_and_reports(call, finished, tmp_path):
    tiny(tmp_path)
    folder = tmp_path / "results"
    shutil.copytree(finished, folder)
    reply = call("bench", "run", tmp_path / "tiny.toml", "--out", folder, "--json")
    assert json.loads(reply.out)["kept"] == 7
    assert "7 cells, 7 of them finished before" in reply.err
    next((folder / "cells").glob("*.context-mean.*")).unlink()
    reply = call("bench", "run", tmp_path / "tiny.toml", "--out", folder, "--only", "*/context-*", "--json")
    told = json.loads(reply.out)
    assert (told["finished"], told["kept"]) == (1, 0)
    assert "[1/1] cauchy/context-mean: rmse" in reply.err
    assert lasting(folder) == lasting(finished)
    reply = call("bench", "report", folder)
    assert reply.out.split() == [str(folder / "report.html"), str(folder / "report.md")]
    assert "pacoh bench run" in (folder / "report.md").read_text()


@pytest.mark.parametrize(
    ("mean", "sd", "shown"),
    [(1.234567, 0.0123, "1.235 ± 0.012"), (1.9077, 4e-10, "1.908"), (0.25, None, "0.25"), (-22.4, 43.1, "-22 ± 43")],
)
def test_numbers_have_the_digits_that_their_sd_warrants(mean, sd, shown):
    assert with_sd(mean, sd) == shown


def test_results_are_kept_with_five_digits_and_without_strangers(call, finished, tmp_path):
    folder = tmp_path / "kept"
    (folder / "cells").mkdir(parents=True)
    (folder / "cells" / "cauchy.old.0123456789abcdef.jsonl").write_text("{}\n")
    told = json.loads(call("bench", "keep", finished, "--out", folder, "--json").out)
    assert (told["cells"], told["removed"]) == (7, 1)
    scores = [
        [each["scores"]["test"]["rmse"] for one in lasting(where).values() for each in one]
        for where in (folder, finished)
    ]
    np.testing.assert_allclose(*scores, rtol=5e-5)
    assert [float(f"{value:.5g}") for value in scores[1]] == scores[0] != scores[1]
    rows = [[line for line in tables(where).splitlines() if line.startswith("| PACOH")] for where in (folder, finished)]
    assert [row.count("**") for row in rows[0]] == [row.count("**") for row in rows[1]] != []
    shown = [[float(one) for one in re.findall(r"\d+\.\d+", "".join(part))] for part in rows]
    np.testing.assert_allclose(*shown, rtol=0.02)  # an sd's last digit may differ
    tiny(tmp_path)
    assert "7 cells, 7 of them finished before" in call("bench", "run", tmp_path / "tiny.toml", "--out", folder).err
    next((folder / "cells").glob("*.context-mean.*")).unlink()
    assert json.loads(call("bench", "keep", finished, "--out", folder, "--json").out)["cells"] == 7
    reply = call("bench", "keep", folder, "--out", folder)
    assert (reply.code, "is the folder itself" in reply.err) == (2, True)


def test_the_list_names_every_experiment(call):
    assert set(json.loads(call("bench", "list", "--json").out)) == set(spec.names())
    assert all(name in call("bench", "list").out for name in spec.names())


def test_what_cannot_be_run_is_refused_in_one_sentence(call, tmp_path):
    (tmp_path / "bad.toml").write_text("summary = ")
    (tmp_path / "odd.toml").write_text('summary = "x"\n[[methods]]\nname = "magic"\n')
    (tmp_path / "entry.toml").write_text('summary = "x"\nfoo = 1\n')
    for arguments, message in [
        (["run", "magic", "--out", tmp_path / "o"], "no experiment 'magic'"),
        (["run", tmp_path / "bad.toml", "--out", tmp_path / "o"], "is no TOML file"),
        (["run", tmp_path / "odd.toml", "--out", tmp_path / "o"], "no method 'magic'"),
        (["run", tmp_path / "entry.toml", "--out", tmp_path / "o"], "missing or unknown"),
        (["run", "quick", "--out", tmp_path / "o", "--only", "moon/*"], "No cell of quick"),
        (["run", "quick", "--out", tmp_path / "o", "--executor", "cloud"], "local or ray"),
        (["report", tmp_path / "none"], "no folder"),
        (["report", tmp_path], "holds no results"),
    ]:
        reply = call("bench", *arguments)
        assert reply.code == 2, message
        assert message in reply.err
        assert reply.err.count("\n") == 1


@needs_browser
def test_a_reader_sees_the_page(finished, tmp_path):
    page = write(finished, tmp_path)[0]
    text, widths = look(page, tmp_path)
    assert widths
    assert min(widths) > 100  # every figure is there, and in the page itself
    lines = [line for line in text.splitlines() if line.strip()]
    assert lines[0] == "Benchmark"
    assert lines[1].startswith("Tiny sines: the best PACOH")
    assert "Table 2 of the paper: RMSE" in text
    assert re.search(r"PACOH-GP-MAP\t\S+ ± \S+\t0.2130 ± 0.0030\t[+-]\d", text)
    assert "difference in published sds" in text
    assert fetches_nothing(page)


def command(toml: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "pacoh", "bench", "run", str(toml), "--out", str(out), *more]


def await_checkpoint(process, folder):
    """Returns when a checkpoint is there that was not, or when the process has ended."""
    before = {path: path.stat().st_mtime_ns for path in folder.glob("cells/*.checkpoint")}
    while process.poll() is None:
        with contextlib.suppress(FileNotFoundError):  # a cell that ends takes its checkpoint away
            if {path: path.stat().st_mtime_ns for path in folder.glob("cells/*.checkpoint")}.items() - before.items():
                return
        time.sleep(0.002)


@pytest.mark.slow
def test_ten_kills_leave_the_same_table(tmp_path):
    """kill -9 at random moments of `pacoh bench run`, then the same command until it ends."""
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    path = tmp_path / "tiny.toml"
    path.write_text(TINY.replace("steps = 60", "steps = 8000").replace("steps = 20, layers", "steps = 8000, layers"))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(path, whole), env=environment, check=True, capture_output=True)
    shutil.rmtree(whole)
    began = time.monotonic()
    subprocess.run(command(path, whole), env=environment, check=True, capture_output=True)
    usual = time.monotonic() - began
    moments, kills, resumed = random.Random(0), 0, 0
    while kills < 10:
        process = subprocess.Popen(
            command(path, killed), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            if kills % 2:  # every other one falls into training
                await_checkpoint(process, killed)
            process.wait(moments.uniform(0.1, 1.1 * usual) if kills % 2 == 0 else moments.uniform(0, 0.02))
            assert process.returncode == 0
            assert lasting(killed) == lasting(whole)
            shutil.rmtree(killed)  # it ended before the kill: begin anew
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            resumed += any(killed.glob("cells/*.checkpoint"))
    subprocess.run(command(path, killed), env=environment, check=True, capture_output=True)
    assert lasting(killed) == lasting(whole)
    assert tables(killed) == tables(whole).replace(str(whole), str(killed))
    assert resumed >= 1  # some kills fell into training


@pytest.mark.slow
def test_processes_of_their_own_give_the_same_results(finished, tmp_path):
    plan = tiny(tmp_path)
    tally = run(plan, tmp_path / "results", Silence(), executors.processes(2))
    assert (tally.finished, tally.failed) == (7, {})
    assert lasting(tmp_path / "results") == lasting(finished)


MORTAL = """#!{python}
import json, os, signal, sys
from dataclasses import asdict
from pathlib import Path
from pacoh.bench.run import attempt
asked = json.loads(sys.stdin.readline())
if asked["what"]["method"] == "mll-gp":
    os.kill(os.getpid(), signal.SIGKILL)
print(json.dumps(asdict(attempt(asked["what"], Path(asked["checkpoint"])))))
"""


@pytest.mark.slow
def test_a_process_that_is_killed_takes_no_other_with_it(tmp_path, monkeypatch):
    mortal = tmp_path / "mortal"
    mortal.write_text(MORTAL.format(python=sys.executable))
    mortal.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(mortal))
    tally = run(tiny(tmp_path), tmp_path / "results", Silence(), executors.processes(2), Choice(("*/mll-gp", "*/*-*")))
    assert tally.failed == {"cauchy/mll-gp": "The process of this cell ended with signal 9."}
    assert tally.finished == 5


@pytest.fixture(scope="module")
def chosen(tmp_path_factory) -> Path:
    """A folder of settings chosen for two methods of the tiny experiment."""
    pytest.importorskip("optuna", reason='Optuna is not here (pip install "pacoh[bench]"): tuning was not tried')
    from pacoh.bench.tune import Search, choose

    home = tmp_path_factory.mktemp("tune")
    search = Search(settings=5, tasks=2, at_once=2, command="pacoh bench tune tiny.toml --out chosen")
    pairs = {row.name: (column, row) for column, row in search.pairs(tiny(home).experiment)}
    assert set(pairs) == {"pacoh-gp-map", "mll-gp", "vanilla-gp"}
    for name in ("mll-gp", "vanilla-gp"):
        choose(search, *pairs[name], home / "chosen")
    return home / "chosen"


def test_tuning_gives_every_method_the_same_budget_and_says_how_it_chose(chosen):
    records = [json.loads(path.read_text()) for path in sorted(chosen.glob("*.chosen.json"))]
    assert [one["cell"] for one in records] == ["cauchy/mll-gp", "cauchy/vanilla-gp"]
    for one in records:
        assert one["settings_tried"] == 5 == sum(each["settings"] for each in one["forms_tried"])
        assert one["best_score"] == max(each["score"] for each in one["forms_tried"])
        assert one["best_score"] >= one["score"] >= one["default_score"]
        assert [each["form"] for each in one["forms_tried"]] == forms(one["cell"].split("/")[1], {})[:3]
        assert one["judged_on"] == "2 validation tasks"
        assert one["command"] == "pacoh bench tune tiny.toml --out chosen"


@pytest.mark.parametrize("method", FORMS)
def test_every_form_of_a_method_is_one_it_can_take(method):
    shape = registry.Shape(5, 8.0, 2)
    made = [str(registry.learner(method, shape, **form)) for form in forms(method, {})]
    assert len(set(made)) == len(made), "two forms are the same program"
    taken = {"kernel": "se", "mean": "constant", "activation": "tanh", "steps": 300, "exact": False, "skip": False}
    taken["own_scale"] = 0.0
    assert forms(method, taken) == [{}]


def test_a_run_uses_what_was_chosen_and_the_cell_is_a_new_one(chosen, call, tmp_path):
    record = json.loads(next(chosen.glob("*.mll-gp.*")).read_text())
    record["settings"] = {"rate": 0.0123}
    (tmp_path / "cauchy.mll-gp.chosen.json").write_text(json.dumps(record))
    tiny(tmp_path)
    arguments = ["bench", "run", tmp_path / "tiny.toml", "--out", tmp_path / "results", "--only", "*/mll-gp"]
    assert call(*arguments, "--chosen", tmp_path).code == 0
    (path,) = (tmp_path / "results" / "cells").glob("*.jsonl")
    assert json.loads(path.read_text().splitlines()[0])["settings"] == {
        "steps": 20,
        "layers": 1,
        "width": 8,
        "rate": 0.0123,
    }
    assert "no settings that" in call(*arguments, "--chosen", tmp_path / "results").err


def test_the_trials_of_a_search_differ_and_a_password_is_not_written_down(chosen):
    optuna = pytest.importorskip("optuna")
    from pacoh.bench.tune import without_password

    storage = f"sqlite:///{chosen / 'trials.db'}"
    names = optuna.get_all_study_names(storage)
    for method in ("mll-gp", "vanilla-gp"):
        studies = [optuna.load_study(study_name=name, storage=storage) for name in names if f"/{method} " in name]
        trials = [[trial.params for trial in study.trials] for study in studies]
        assert all({} in each for each in trials if each), "the default of a form is tried"
        assert sum(map(len, trials)) == 5
        for each in trials:
            assert len({params.get("rate") for params in each}) == len(each)
    assert without_password("tune --storage postgresql://me:secret@host:1/db") == (
        "tune --storage postgresql://me:...@host:1/db"
    )
    assert without_password("tune --storage sqlite:///a/b.db") == "tune --storage sqlite:///a/b.db"


def test_a_search_that_was_enough_tries_nothing_more(chosen, monkeypatch):
    from pacoh.bench.tune import Search, choose

    monkeypatch.setattr("pacoh.bench.tune.search", lambda *_: pytest.fail("it went on"))

    search = Search(settings=5, tasks=2, at_once=2)
    pairs = {row.name: (column, row) for column, row in search.pairs(tiny(chosen.parent).experiment)}
    again = choose(search, *pairs["mll-gp"], chosen.parent / "chosen")
    assert again["settings_tried"] == 5


def test_settings_that_give_no_number_are_never_chosen(tmp_path, monkeypatch):
    pytest.importorskip("optuna", reason='Optuna is not here (pip install "pacoh[bench]"): tuning was not tried')
    from pacoh.bench.tune import Search, choose
    from pacoh.tuning.search import Report

    def nothing(make, settings, fold, *_):
        del make, fold
        numbers = np.full((len(settings), 1), np.nan)
        return Report(settings, numbers, np.ones((len(settings), 1)), 0.0, numbers)

    monkeypatch.setattr("pacoh.bench.tune.search", nothing)
    search = Search(settings=3, tasks=2, at_once=2)
    pairs = {row.name: (column, row) for column, row in search.pairs(tiny(tmp_path).experiment)}
    with pytest.raises(PacohError, match="None of 3 settings of mll-gp"):
        choose(search, *pairs["mll-gp"], tmp_path / "chosen")
    assert not list((tmp_path / "chosen").glob("*.chosen.json"))


@pytest.mark.slow
def test_a_ray_cluster_that_loses_a_worker_loses_no_cell_and_computes_none_twice(finished, tmp_path):
    ray = pytest.importorskip("ray", reason='Ray is not here (pip install "pacoh[ray]"): no cluster was tried')
    from ray.cluster_utils import Cluster

    plan = tiny(tmp_path)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    other = cluster.add_node(num_cpus=1)
    ended: list[str] = []
    at_the_kill: list[int] = []

    def kill() -> None:
        at_the_kill.append(len(ended))
        cluster.remove_node(other, allow_graceful=False)

    class Listener(Silence):
        def end(self, cell, outcome):  # noqa: ARG002
            ended.append(cell.name)
            if len(ended) == 4:  # what follows trains for seconds, a cell on each machine
                threading.Timer(2.0, kill).start()

    try:
        tally = run(plan, tmp_path / "results", Listener(), executors.ray_cluster(cluster.address))
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert (tally.finished, tally.failed, tally.left) == (7, {}, 0)
    assert sorted(ended) == sorted(set(ended))
    assert len(ended) == 7
    assert at_the_kill[0] < 6  # both machines were at work
    assert lasting(tmp_path / "results") == lasting(finished)


PICTURES = """
summary = "Every kind of figure."
draws = [3, 4]
seeds = [0]
lists = ["test", "unused"]
illustrate = 2
samples = 3
bounds = [{ figure = "fig2b", draws = 2, max_n = 4 }]

[[environments]]
name = "sinusoid"
label = "Sines"
settings = { tests = 3, valids = 2, query = 8 }
each = [{ n = 3 }, { n = 5 }]

[[methods]]
name = "pooled-ridge"
part = "baseline"

[[tables]]
metric = "rmse"
list = "unused"

[[curves]]
title = "Errors by the number of tasks"
x = "n"
metric = "rmse"
parts = ["baseline", "oracle"]
lists = ["test", "unused"]
"""


def test_every_kind_of_figure_is_drawn_and_a_table_may_show_unseen_points_of_seen_tasks(tmp_path):
    plan = tiny(tmp_path, PICTURES)
    assert run(plan, tmp_path / "results", Silence()).failed == {}
    page = tables(tmp_path / "results")
    assert "unseen points of the meta-train tasks" in page
    names = {path.stem for path in (tmp_path / "results" / "figures").iterdir()}
    wanted = {"tiny-curve-0", "bounds-fig2b"}
    wanted |= {f"tiny-sinusoid-n={n}-{kind}" for n in (3, 5) for kind in ("tasks", "samples")}
    assert wanted == names
    glance = "RMSE: dots are ours, with one sd."
    assert glance not in page, "a picture of a table stands beside that table in the Markdown"
    assert glance in write(tmp_path / "results", tmp_path / "results")[0].read_text()
    (records,) = [lines for name, lines in lasting(tmp_path / "results").items() if "n=3_.pooled" in name]
    assert records[0]["scores"]["test"]["rmse"] != records[0]["scores"]["unused"]["rmse"]


def test_samples_of_two_inputs_are_drawn_as_colours(tmp_path):
    text = (
        'summary = "x"\nsamples = 2\n[[environments]]\nname = "cauchy"\nsettings = { n = 2, tests = 1, valids = 1 }\n'
    )
    run(tiny(tmp_path, text), tmp_path / "results", Silence())
    write(tmp_path / "results", tmp_path / "results")
    assert [path.name for path in (tmp_path / "results" / "figures").iterdir()] == ["tiny-cauchy-samples.svg"]


CLASSES = """
summary = "Classes."
seeds = [0]

[[environments]]
name = "ellipses"
targets = "classes"
settings = { n = 4, m = 5, tests = 4, valids = 3, query = 5 }

[[methods]]
name = "maml"
settings = { steps = 30, layers = 1, width = 8 }

[[tables]]
metric = "accuracy"

[[tables]]
metric = "ece"
"""


def test_classes_have_references_of_their_own_and_points_no_calibration(tmp_path):
    assert run(tiny(tmp_path, CLASSES), tmp_path / "results", Silence()).failed == {}
    page = tables(tmp_path / "results")
    assert re.search(r"\| majority class \| 0\.\d", page)
    assert re.search(r"\| nearest prototype \| \*?\*?0\.\d", page)
    accuracy, ece = page.split("### Settings")[0].split("### Expected calibration error")
    assert "| MAML |" in accuracy
    assert "| MAML |" not in ece


@pytest.mark.slow
def test_a_learner_of_classes_is_tuned_on_tasks_with_its_shots(tmp_path):
    pytest.importorskip("optuna", reason='Optuna is not here (pip install "pacoh[bench]"): tuning was not tried')
    from pacoh.bench.tune import Search, choose

    search = Search(settings=2, tasks=3, at_once=2)
    text = CLASSES.replace('"maml"', '"vanilla-bnn"').replace("steps = 30", "adapt_steps = 10")
    (pair,) = search.pairs(tiny(tmp_path, text).experiment)
    record = choose(search, *pair, tmp_path / "chosen")
    assert (record["by"], record["judged_on"]) == ("mean validation log-likelihood", "3 validation tasks")
    assert -10 < record["default_score"] <= record["score"] < 0


@pytest.mark.slow
def test_two_processes_share_one_search(tmp_path):
    """In SQLite, or in the database that PACOH_TEST_DATABASE names (postgresql://...)."""
    optuna = pytest.importorskip(
        "optuna", reason='Optuna is not here (pip install "pacoh[bench]"): no search was shared'
    )
    storage = os.environ.get("PACOH_TEST_DATABASE", f"sqlite:///{tmp_path / 'trials.db'}")
    tiny(tmp_path)
    common = ["--settings", "8", "--tasks", "2", "--at-once", "2", "--only", "*/mll-gp", "--storage", storage]
    tune = [sys.executable, "-m", "pacoh", "bench", "tune", str(tmp_path / "tiny.toml"), *common, "--out"]
    both = [subprocess.Popen([*tune, str(tmp_path / name)], stderr=subprocess.PIPE, text=True) for name in "ab"]
    assert [(process.communicate()[1], process.returncode) for process in both] == [("", 0)] * 2
    names = optuna.get_all_study_names(storage)
    trials = [trial for name in names for trial in optuna.load_study(study_name=name, storage=storage).trials]
    finished = [trial for trial in trials if trial.state.is_finished()]
    assert 8 <= len(finished) <= 10  # the last batches of both may overlap
    last = max(
        (json.loads(path.read_text()) for path in tmp_path.glob("*/*.chosen.json")), key=lambda r: r["best_score"]
    )
    assert last["best_score"] == max(trial.value for trial in finished if trial.value is not None)
