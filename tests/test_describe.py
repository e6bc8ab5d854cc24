"""Tasks described before anything is learned: gaps are counted, empty columns and odd tasks are named."""

import json

import numpy as np
import pytest

from pacoh.describe import describe
from pacoh.describe.odd import odd, threshold
from pacoh.environments import Sinusoid
from pacoh.errors import PacohError


def alike(seed: int = 0, n: int = 20, m: int = 15) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(seed)
    return {
        f"t{i}": ((x := random.normal(size=(m, 2))), x[:, 0] + 0.3 * random.normal() + 0.1 * random.normal(size=m))
        for i in range(n)
    }


def test_figures_are_those_of_the_points():
    tasks = alike()
    record = describe(tasks).record()
    x = np.concatenate([x for x, _ in tasks.values()])
    assert record["tasks"] == 20
    assert record["points"] == {"least": 15, "median": 15.0, "most": 15, "in_all": 300}
    assert [one["name"] for one in record["inputs"]] == ["x0", "x1"]
    assert record["inputs"][1]["least"] == x[:, 1].min()
    assert record["inputs"][1]["std"] == pytest.approx(x[:, 1].std())
    assert record["missing"] == {"cells": 0, "tasks": {}}


def test_missing_values_are_counted_by_column_and_task_and_change_no_range():
    tasks = alike()
    before = describe(tasks).record()
    tasks["t3"][0][2, 1] = tasks["t3"][1][4] = tasks["t5"][0][0, 0] = np.nan
    found = describe(tasks)
    assert found.record()["missing"] == {"cells": 3, "tasks": {"t3": 2, "t5": 1}}
    assert [one.missing for one in (*found.inputs, found.target)] == [1, 1, 1]
    assert found.record()["inputs"][0]["most"] == before["inputs"][0]["most"]
    assert "3 cells missing, in 2 tasks (t3, t5)" in found.notes()[0]


def test_infinite_values_are_counted_and_said():
    tasks = alike()
    tasks["t3"][0][2, 1] = np.inf
    found = describe(tasks)
    assert found.inputs[1].infinite == 1
    assert np.isfinite(found.inputs[1].most)
    assert "'x1' has 1 infinite value" in found.notes()[0]


def test_alike_tasks_are_seldom_called_odd():
    assert sum(bool(describe(alike(seed)).odd) for seed in range(40)) <= 2


@pytest.mark.parametrize(
    ("change", "criterion"),
    [
        (lambda x, y: (x, y + 30), "mean of y"),
        (lambda x, y: (x, (y - y.mean()) * 40 + y.mean()), "spread of y"),
        (lambda x, y: (x + np.array([0, 25]), y), "mean of x1"),
        (lambda x, y: (np.tile(x, (30, 1)), np.tile(y, 30)), "number of points"),
    ],
)
def test_a_task_unlike_the_others_is_named_with_the_criterion(change, criterion):
    tasks = alike()
    tasks["t7"] = change(*tasks["t7"])
    found = describe(tasks).odd
    assert [one.task for one in found] == ["t7"]
    assert criterion in (found[0].criterion, *found[0].also)
    assert "robust z" in describe(tasks).notes()[-1]


def test_more_comparisons_need_a_larger_distance_and_few_tasks_too():
    assert threshold(20, 100) > threshold(20, 3) > threshold(100, 3) >= 3.5
    assert odd(["a", "b", "c"], [1, 1, 1000], {}) == []


def test_columns_that_say_next_to_nothing_are_named():
    tasks = {
        name: (np.column_stack([x, np.full(len(x), 7.0), np.arange(len(x)) == 0]), y)
        for name, (x, y) in alike().items()
    }
    tasks = {name: (np.column_stack([x[:, :3], (name == "t0") * x[:, 3]]), y) for name, (x, y) in tasks.items()}
    constant = describe(tasks).record()["nearly_constant"]
    assert constant == {"x2": "it is constant", "x3": "299 of 300 values are 0.0"}


def test_inputs_that_say_nearly_the_same_are_named_with_the_remedy():
    assert describe(alike()).told == ()
    random = np.random.default_rng(0)
    lags = {}
    for name in "abc":
        series = 20 + random.normal(0, 3) + np.cumsum(random.normal(0, 0.05, 40))
        windows = np.lib.stride_tricks.sliding_window_view(series, 4)
        lags[name] = np.column_stack([windows[:, :3], random.uniform(size=len(windows))]), windows[:, 3].copy()
    lags["a"][0][0, 1] = np.nan  # a row with a gap tells nothing
    found = describe(lags)
    assert found.record()["nearly_told_by_the_others"] == ["x0", "x1", "x2"]
    assert any("x0, x1, x2" in note and "whiten=True" in note for note in found.notes())


def test_text_is_counted_and_said_to_be_a_category_or_a_label(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("u,colour,y\n1,red,yes\n2,,no\n,blue,yes\n")
    found = describe(tmp_path)
    assert [(one.name, one.kind, one.missing, one.distinct) for one in found.inputs] == [
        ("u", "number", 2, 2),
        ("colour", "text", 2, 2),
    ]
    assert (found.target.kind, found.target.distinct) == ("text", 2)
    notes = " ".join(found.notes())
    assert "categorical" in notes
    assert "classes=True" in notes
    found.draw(tmp_path / "tasks.png")


def test_nothing_to_describe_is_said():
    with pytest.raises(PacohError, match="empty"):
        describe([])
    with pytest.raises(PacohError, match="same inputs"):
        describe([(np.ones((3, 2)), np.ones(3)), (np.ones((3, 1)), np.ones(3))])


def test_the_command_describes_files_and_environments_and_draws(call, tmp_path):
    out = tmp_path / "tasks.png"
    reply = call("describe", "sinusoid", "--json", "--out", out)
    assert json.loads(reply.out)["points"]["in_all"] == sum(Sinusoid().draw(29).train.sizes)
    assert out.read_bytes()[:4] == b"\x89PNG"
    (tmp_path / "all.csv").write_text("task,u,level\n" + "".join(f"{t},{i},{i * i}\n" for t in "abc" for i in range(4)))
    reply = call("describe", tmp_path / "all.csv", "--target", "level")
    assert reply.code == 0
    assert "3 tasks, 12 points (4 to 4 a task)" in reply.out
    assert call("describe", tmp_path / "none").code == 2
