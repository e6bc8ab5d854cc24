"""The command line: three commands from a folder of CSVs to predictions; bad input ends in one sentence and code 2."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pacoh.registry import ENVIRONMENTS, METHODS
from pacoh.testing import ragged_tasks

SMALL = ["--set", "steps=20", "--set", "layers=1", "--set", "width=8", "--no-guard"]


def write(path: Path, x: np.ndarray, y: np.ndarray | None = None) -> Path:
    table = x if y is None else np.column_stack([x, y])
    names = [*(f"u{j}" for j in range(x.shape[1])), *([] if y is None else ["y"])]
    np.savetxt(path, table, delimiter=",", header=",".join(names), comments="")
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with own tasks, a new task's context and queries, and a model fitted to the former."""
    home = tmp_path_factory.mktemp("home")
    (home / "tasks").mkdir()
    for index, pair in enumerate(ragged_tasks()):
        write(home / "tasks" / f"t{index}.csv", *pair)
    x, y = ragged_tasks(seed=5)[1]
    write(home / "context.csv", x, y)
    write(home / "query.csv", np.linspace(-2, 2, 5)[:, None])
    return home


@pytest.fixture
def model(home, call) -> Path:
    path = home / "model"
    if not path.exists():
        assert call("fit", home / "tasks", "--method", "pacoh-gp-map", *SMALL, "--out", path).code == 0
    return path


def test_list_names_every_method_and_environment(call):
    listed = json.loads(call("list", "--json").out)
    assert set(listed["methods"]) == {*METHODS, "oracle"}
    assert set(listed["environments"]) == set(ENVIRONMENTS)
    shown = call("list").out
    assert all(name in shown for name in METHODS)


def test_fit_tells_machines_what_it_made(call, home, tmp_path):
    reply = call("fit", home / "tasks", "--method", "pacoh-gp-map", *SMALL, "--out", tmp_path / "m", "--json")
    told = json.loads(reply.out)
    assert (told["method"], told["tasks"], told["points"]["in_all"]) == ("pacoh-gp-map", 4, 18)
    assert Path(told["model"]).is_file()
    assert reply.err == ""


def test_the_same_command_gives_the_same_file(call, home, model, tmp_path):
    call("fit", home / "tasks", "--method", "pacoh-gp-map", *SMALL, "--out", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == model.read_bytes()
    call("fit", home / "tasks", "--method", "pacoh-gp-map", *SMALL, "--seed", 1, "--out", tmp_path / "other")
    assert (tmp_path / "other").read_bytes() != model.read_bytes()


def test_evaluate_tells_machines_every_score(call, home, model):
    scores = json.loads(call("evaluate", model, home / "tasks", "--context", 2, "--json").out)
    assert {"rmse", "log_likelihood", "calibration_error", "accuracy", "ece"} <= set(scores)
    assert scores["accuracy"] is scores["ece"] is None
    assert all(np.isfinite(scores[name]) for name in ("rmse", "log_likelihood", "calibration_error"))


def test_evaluate_takes_the_first_rows_as_context(call, home, model):
    from pacoh import api
    from pacoh.reading import read

    scores = json.loads(call("evaluate", model, home / "tasks", "--context", 2, "--json").out)
    assert scores["rmse"] == pytest.approx(api.load(model).evaluate(read(home / "tasks").split(2))["rmse"])


def test_an_oracle_is_fitted_and_evaluated_on_its_environment(call, tmp_path):
    assert call("fit", "sinusoid", "--method", "oracle", "--out", tmp_path / "oracle").code == 0
    scores = json.loads(call("evaluate", tmp_path / "oracle", "sinusoid", "--json").out)
    assert scores["rmse"] < 0.25
    assert scores["coverage_90"] == pytest.approx(0.9, abs=0.05)


def test_settings_of_an_environment_follow_a_colon(call, tmp_path):
    reply = call("fit", "sinusoid:n=3,m=4", "--method", "context-mean", "--out", tmp_path / "m", "--json")
    assert json.loads(reply.out)["points"] == {"least": 4, "most": 4, "in_all": 12}
    reply = call("evaluate", tmp_path / "m", "sinusoid:tests=7", "--json")
    assert json.loads(reply.out)["tasks"] == 7
    assert "settings of sinusoid do not fit" in call("evaluate", tmp_path / "m", "sinusoid:points=7").err


def test_predict_writes_a_row_a_query(call, home, model):
    out = home / "predictions.csv"
    arguments = ("--context", home / "context.csv", "--query", home / "query.csv", "--out", out)
    assert call("predict", model, *arguments).code == 0
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == ["u0", "mean", "std", "q05", "q50", "q95"]
    table = np.array([[float(value) for value in row.values()] for row in rows])
    np.testing.assert_allclose(table[:, 0], np.linspace(-2, 2, 5))
    table = table[:, 1:]
    assert table.shape == (5, 5)
    assert (table[:, 2] < table[:, 3]).all()
    assert (table[:, 3] < table[:, 4]).all()

    from pacoh import api

    x, y = ragged_tasks(seed=5)[1]
    np.testing.assert_allclose(table[:, 0], api.load(model).adapt(x, y)(np.linspace(-2, 2, 5)).mean, rtol=1e-6)


def test_predict_without_a_context_is_the_prior(call, home, model):
    out = home / "prior.csv"
    assert call("predict", model, "--query", home / "query.csv", "--out", out).code == 0

    from pacoh import api

    prior = api.load(model).adapt()(np.linspace(-2, 2, 5)).mean
    np.testing.assert_allclose(np.loadtxt(out, delimiter=",", skiprows=1)[:, 1], prior, rtol=1e-6)


def test_info_says_how_a_model_was_made(call, model):
    card = json.loads(call("info", model, "--json").out)
    assert (card["method"], card["settings"]["steps"], card["inputs"]) == ("pacoh-gp-map", 20, ["u0"])
    assert "pacoh-gp-map" in call("info", model).out


def bad_calls(home: Path, folder: Path) -> dict[str, tuple[list, str]]:
    """Commands that must be refused, and what the sentence says."""
    (folder / "other.csv").write_text("a,b,y\n1,2,3\n4,5,6\n")
    (folder / "wide.csv").write_text("1,2,3\n4,5,6\n")
    new_task = ["predict", home / "model", "--query", home / "query.csv", "--out", folder / "p.csv", "--context"]
    (folder / "broken").write_bytes((home / "model").read_bytes()[:500])
    fit, out = ["fit", home / "tasks", "--out", folder / "m", "--method"], ["--out", folder / "p.csv"]
    return {
        "unknown method": ([*fit, "magic"], "no method 'magic'"),
        "unknown source": (["fit", "nowhere", "--out", folder / "m"], "'nowhere' is neither a file"),
        "unknown source to evaluate": (["evaluate", home / "model", "nowhere", "--context", 2], "'nowhere' is neither"),
        "missing model": (["evaluate", folder / "none", home / "tasks", "--context", 2], "no model file"),
        "missing model to describe": (["info", folder / "none"], "no model file"),
        "missing query": (["predict", home / "model", "--query", folder / "none.csv", *out], "none.csv"),
        "bad setting": ([*fit, "mll-gp", "--set", "steps"], "written name=value; got 'steps'"),
        "unknown setting": ([*fit, "mll-gp", "--set", "stepz=3"], "settings of mll-gp do not fit"),
        "bad kernel": ([*fit, "mll-gp", "--set", "kernel=cubic"], "A kernel is one of"),
        "text for a number": ([*fit, "mll-gp", "--set", "steps=many"], "steps"),
        "endless steps": ([*fit, "mll-gp", "--set", "steps=1e9"], "steps is a whole number"),
        "no rate": ([*fit, "mll-gp", "--set", "rate=0"], "rate is a positive number"),
        "no steps": ([*fit, "mll-gp", "--set", "steps=-5"], "steps"),
        "other columns": ([*new_task, folder / "other.csv"], "no input column 'u0'"),
        "too many columns": ([*new_task, folder / "wide.csv"], "2 input columns, expected 1"),
        "missing context": ([*new_task, folder / "none.csv"], "none.csv"),
        "broken model": (["info", folder / "broken"], "cut short or of another kind"),
        "no model": (["info", home / "query.csv"], "cut short or of another kind"),
        "context too large": (["evaluate", home / "model", home / "tasks", "--context", 3], "none is left to predict"),
        "negative context": (["evaluate", home / "model", home / "tasks", "--context", -1], "context"),
        "no context": (["evaluate", home / "model", home / "tasks"], "--context N"),
        "no folder": (["fit", home / "tasks", "--out", folder / "a" / "b" / "m"], "does not exist"),
        "a folder as the model": (["fit", home / "tasks", "--out", folder], "is a folder"),
        "no folder for predictions": (
            ["predict", home / "model", "--query", home / "query.csv", "--out", folder / "a" / "p.csv"],
            "p.csv",
        ),
        "oracle of own tasks": ([*fit, "oracle"], "Only environments have an oracle"),
    }


def test_bad_input_ends_in_one_sentence_and_code_2(call, home, model, tmp_path):
    for name, (arguments, message) in bad_calls(home, tmp_path).items():
        reply = call(*arguments)
        assert reply.code == 2, f"{name}: code {reply.code}, {reply.err}"
        assert reply.out == "", name
        assert reply.err.startswith("pacoh: "), name
        assert message in reply.err, name
        assert reply.err.count("\n") == 1, name


@pytest.mark.parametrize("arguments", [["fit"], ["magic"], ["evaluate", "m", "s", "--context", "few"]])
def test_a_command_that_is_not_understood_ends_with_code_2_and_no_traceback(call, arguments):
    reply = call(*arguments)
    assert reply.code == 2
    assert "Traceback" not in reply.err


def own_process(*arguments) -> subprocess.CompletedProcess:
    """`python -m pacoh ...` as a shell would run it; its cache lies beside that of the tests."""
    environment = os.environ | {"XDG_CACHE_HOME": os.environ["JAX_COMPILATION_CACHE_DIR"]}
    command = [sys.executable, "-m", "pacoh", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_three_commands_lead_from_a_folder_to_predictions(home, tmp_path):
    model, out = tmp_path / "model", tmp_path / "p.csv"
    commands = [
        ["fit", home / "tasks", "--method", "vanilla-gp", "--set", "steps=5", "--out", model],
        ["evaluate", model, home / "tasks", "--context", 2, "--json"],
        ["predict", model, "--context", home / "context.csv", "--query", home / "query.csv", "--out", out],
    ]
    replies = [own_process(*command) for command in commands]
    assert [(reply.returncode, reply.stderr) for reply in replies] == [(0, "")] * 3
    assert json.loads(replies[1].stdout)["tasks"] == 4
    assert len(out.read_text().splitlines()) == 6


def test_in_a_process_of_its_own_bad_input_is_one_sentence(tmp_path):
    reply = own_process("info", tmp_path / "none")
    assert (reply.returncode, reply.stdout) == (2, "")
    assert reply.stderr.startswith("pacoh: There is no model file")
    assert reply.stderr.count("\n") == 1


def test_every_compiled_program_is_kept_in_the_cache_and_nowhere_else(tmp_path):
    code = "from pacoh.cli.output import prepare_jax; prepare_jax(); import jax; jax.jit(lambda x: x + 1)(1.0)"
    places = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    (tmp_path / "home").mkdir()
    subprocess.run([sys.executable, "-c", code], env=kept | places, check=True)
    assert list((tmp_path / "cache" / "pacoh" / "compiled").glob("jit_*"))  # though it compiles in milliseconds
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and "compiled" not in path.parts] == []
