"""Own tasks from the command line: splits, labels, categories, gaps, and queries far from everything seen."""

import csv
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import pacoh
from pacoh.errors import PacohError, PacohWarning
from pacoh.ranges import Ranges
from pacoh.testing import ragged_tasks


@pytest.fixture
def table(tmp_path) -> Path:
    """One CSV: four tasks of six rows, an input, a category, a side of the split and the target `level`."""
    random = np.random.default_rng(0)
    lines = ["task,time,colour,side,level"]
    for task in "abcd":
        for row in range(6):
            time, colour = random.normal(), "red" if row % 2 else "blue"
            side = "query" if row in (1, 4) else "context"
            lines.append(f"{task},{time:.4f},{colour},{side},{2 * time + (colour == 'red'):.4f}")
    (tmp_path / "all.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "all.csv"


@pytest.fixture
def model(call, table) -> Path:
    options = ["--target", "level", "--categorical", "colour", "--split", "side", "--method", "pooled-ridge"]
    reply = call("fit", table, *options, "--out", table.parent / "model")
    assert reply.code == 0, reply.err
    return table.parent / "model"


def test_categories_become_inputs_and_the_split_column_does_not(model):
    card = pacoh.load(model).card
    assert card["inputs"] == ["time", "colour=blue", "colour=red"]


@pytest.mark.parametrize(("context", "queries"), [("4", 8), ("0.5", 12), ("side", 8)])
def test_evaluate_splits_by_count_share_or_column(call, table, model, context, queries):
    reply = call("evaluate", model, table, "--target", "level", "--context", context, "--json")
    assert reply.code == 0, reply.err
    column = context if context == "side" else None
    tasks = pacoh.read(table, target="level", split_column=column, codec=pacoh.load(model).codec)
    split = tasks.split(context)
    assert sum(split.query.sizes) == queries
    assert json.loads(reply.out)["rmse"] == pytest.approx(pacoh.load(model).evaluate(split)["rmse"])
    assert json.loads(reply.out)["rmse"] < 0.01


@pytest.mark.parametrize(("context", "message"), [("when", "no column 'when'"), ("1.5", "share between 0 and 1")])
def test_a_context_that_is_none_of_them_is_refused(call, table, model, context, message):
    reply = call("evaluate", model, table, "--target", "level", "--context", context)
    assert reply.code == 2
    assert message in reply.err


def test_predictions_carry_every_column_of_the_query_as_it_came(call, table, model):
    query, out = table.parent / "q.csv", table.parent / "p.csv"
    query.write_text("id,colour,time,mean\nfirst,red,0.10,7\nsecond,blue,-0.20,8\n")
    assert call("predict", model, "--query", query, "--out", out).code == 0
    with out.open() as stream:
        rows = list(csv.DictReader(stream))
    assert [*rows[0]] == ["id", "colour", "time", "mean", "predicted_mean"]
    assert [row["id"] for row in rows] == ["first", "second"]
    assert [row["time"] for row in rows] == ["0.10", "-0.20"]
    assert float(rows[0]["predicted_mean"]) == pytest.approx(1.2, abs=0.01)


def test_a_query_without_a_header_gets_the_models_column_names(call, tmp_path):
    tasks = ragged_tasks(d=2)
    pacoh.fit(tasks, "pooled-ridge").save(tmp_path / "model")
    (tmp_path / "q.csv").write_text("0.5,1\n-0.5,0\n")
    assert call("predict", tmp_path / "model", "--query", tmp_path / "q.csv", "--out", tmp_path / "p.csv").code == 0
    assert (tmp_path / "p.csv").read_text().splitlines()[0] == "x0,x1,mean"


def test_labels_on_the_command_line_are_labels(table):
    text = table.read_text().replace("level", "y")
    (table.parent / "labels.csv").write_text(text.replace("task,time,colour,side,y", "task,time,y,side,level"))
    tasks = pacoh.read(table.parent / "labels.csv", target="y", classes=True, split_column="side")
    assert tasks.classes == ("blue", "red")


def test_a_missing_input_is_named_with_its_remedies(call, tmp_path):
    (tmp_path / "tasks").mkdir()
    for name in "ab":
        (tmp_path / "tasks" / f"{name}.csv").write_text("u,y\n1,2\n,3\n3,4\n")
    reply = call("fit", tmp_path / "tasks", "--out", tmp_path / "m")
    assert reply.code == 2
    for part in ("Task 'a', column 'u', line 3", "missing", "Drop such rows", "fill them in", "leave the column out"):
        assert part in reply.err, part


TASKS = [(10 + 5 * x, y) for x, y in ragged_tasks()]


def test_queries_far_outside_are_predicted_with_one_warning():
    model = pacoh.fit(TASKS, "context-mean")
    predictor = model.adapt(*TASKS[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        predictive = predictor([[10.0], [500.0], [-700.0]])
    assert len(predictive.mean) == 3
    told = [str(one.message) for one in caught if issubclass(one.category, PacohWarning)]
    assert len(told) == 1
    assert told[0].startswith("2 of 3 queries are far outside what the tasks covered: 'x0'")
    assert "-700" in told[0]


def test_many_tasks_with_far_queries_give_one_warning():
    model = pacoh.fit(TASKS, "context-mean")
    with pytest.warns(PacohWarning, match="4 of 4 queries") as caught:
        model.predict_tasks(TASKS[:2], [np.array([[900.0], [800.0]])] * 2)
    assert len(caught) == 1


def test_queries_within_and_a_little_outside_are_predicted_in_silence():
    model = pacoh.fit(TASKS, "context-mean")
    x = np.concatenate([x for x, _ in TASKS])
    span = x.max() - x.min()
    model.adapt(*TASKS[0])(np.linspace(x.min() - 0.9 * span, x.max() + 0.9 * span, 9))


def test_a_constant_input_may_move_by_its_size():
    ranges = Ranges.of(("pressure", "pixel"), [[50.0, 50.0], [0.0, 0.0]])
    ranges.warn(np.array([[80.0, 1.0]]))
    with pytest.warns(PacohWarning, match="'pressure' went from 50 to 50"):
        ranges.warn(np.array([[101.0, 0.0]]))


def test_fit_takes_labels_and_categories_of_plain_tasks():
    tasks = [(np.array([["a", 1.0], ["b", 2.0], ["a", 3.0]], object), [1.0, 2.0, 3.0])] * 2
    model = pacoh.fit(tasks, "pooled-ridge", categorical=["x0"])
    assert model.card["inputs"] == ["x0=a", "x0=b", "x1"]
    with pytest.raises(PacohError, match="no column 'x7'"):
        pacoh.fit(tasks, "pooled-ridge", categorical=["x7"])


def test_on_the_command_line_a_warning_is_one_line(tmp_path):
    pacoh.fit(TASKS, "context-mean").save(tmp_path / "model")
    (tmp_path / "q.csv").write_text("x0\n10\n9000\n")
    command = [sys.executable, "-m", "pacoh", "predict", tmp_path / "model", "--query", tmp_path / "q.csv"]
    reply = subprocess.run([*command, "--out", tmp_path / "p.csv"], capture_output=True, text=True, check=True)
    assert reply.stderr.startswith("pacoh: 1 of 2 queries are far outside")
    assert reply.stderr.count("\n") == 1
