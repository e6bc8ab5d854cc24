"""The pages do what they say: their code runs, their commands exist, their messages and figures are true."""

import json
import re
import shlex
import subprocess
import sys
import textwrap
import warnings
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest

from pacoh import registry
from pacoh.errors import PacohError, PacohWarning

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGE = (DOCS / "own-tasks.md").read_text()
TEXTS = {path.stem: path.read_text() for path in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))}
ELSEWHERE = {"README", "own-tasks", "errors"}  # these have tests of their own
QUICK = {"learners"}
FEW = 20  # steps


def blocks(text: str, kind: str = "python") -> list[str]:
    """The fenced blocks of a kind, in order."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for name, block in fences if name == kind]


@pytest.fixture
def few_steps(monkeypatch):
    """Trains everything that is trained by its name for a few steps only."""
    full = registry.learner

    def learner(method: str, shape, **settings):
        if method.startswith(("pacoh-gp", "pacoh-nn", "mll-gp", "vanilla-")) and method != "pacoh-gp-nuts":
            settings["steps"] = min(settings.get("steps", FEW), FEW)
        return full(method, shape, **settings)

    monkeypatch.setattr(registry, "learner", learner)


def commands(text: str) -> list[list[str]]:
    """What follows `pacoh` in the commands of a page."""
    found = "\n".join(blocks(text, ""))
    return [shlex.split(line, comments=True)[1:] for line in found.split("\n") if line.startswith("pacoh ")]


RUNNABLE = [name for name, text in TEXTS.items() if blocks(text) and name not in ELSEWHERE]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in RUNNABLE]
)
def test_the_code_of_a_page_runs(name, tmp_path, monkeypatch, few_steps):
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks(TEXTS[name])), f"{name}.md", "exec"), {"__name__": "page"})


def test_the_commands_of_the_quick_start_run(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    made = blocks(TEXTS["quickstart"])
    exec(compile("\n".join([made[0].split("tasks =")[0], made[-1]]), "quickstart.md", "exec"), {})
    run = commands(TEXTS["quickstart"])
    assert [command[0] for command in run] == ["describe", "fit", "evaluate", "predict"]
    for command in run:
        reply = call(*command, *(["--method", "pooled-ridge"] if command[0] == "fit" else []))
        assert reply.code == 0, (command, reply.err)
    assert (tmp_path / "predictions.csv").read_text().startswith("load")


@pytest.mark.parametrize("page", [name for name, text in TEXTS.items() if commands(text)])
def test_every_command_on_a_page_exists_with_its_options(page):
    from typer.main import get_command

    from pacoh.cli import app

    for words in commands(TEXTS[page]):
        command, rest = get_command(app), list(words)
        while hasattr(command, "commands"):
            name = rest.pop(0) if rest else None
            assert name in command.commands, f"pacoh {' '.join(words)}: no such command"
            command = command.commands[name]
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for option in (word.split("=")[0] for word in rest if word.startswith("--")):
            assert option in known, f"pacoh {' '.join(words)}: no option {option}"


def outcome(code: str, names: dict) -> str | None:
    """What an error or a warning says; None where the code just runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", PacohWarning)
        try:
            exec(compile(code, "errors.md", "exec"), names)
        except (PacohError, PacohWarning) as told:
            return str(told)
    return None


def test_every_message_on_the_page_of_errors_is_given_and_its_remedy_works(tmp_path, monkeypatch):
    """A python block that a text block follows gives that message; every other one runs in silence."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PACOH_DATA_DIR", str(tmp_path / "absent"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names: dict = {}
    found = re.findall(r"^```python\n(.*?)^```\n(?:\s*```text\n(.*?)^```)?", TEXTS["errors"], re.DOTALL | re.MULTILINE)
    assert sum(bool(text) for _, text in found) == TEXTS["errors"].count("```text") > 20
    for code, text in found:
        told, expected = outcome(code, names), " ".join(text.split())
        if not expected:
            assert told is None, f"{code}\nsays: {told}"
            continue
        pattern = re.sub(r"([\[\]?*])", r"[\1]", expected).replace("...", "*")
        assert fnmatchcase(told or "", pattern), f"{code}\nexpected: {expected}\nsays: {told}"


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem
)
def test_every_link_to_a_file_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)", "".join(re.split(r"```.*?```", page.read_text(), flags=re.DOTALL)))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_the_page_of_methods_names_every_method():
    assert [name for name in registry.METHODS if f"`{name}`" not in TEXTS["methods"]] == []


FIGURES = json.loads((DOCS / "pictures" / "figures.json").read_text())


def test_the_page_on_uncertainty_quotes_the_figures_of_its_pictures():
    page = TEXTS["uncertainty"]
    for name, one in FIGURES["sinusoid"].items():
        row = [f"{one[score]:.3f}" for score in ("rmse", "log_likelihood", "calibration_error")]
        row += [f"{100 * one['coverage_90']:.0f} %", f"{one['width_90']:.2f}"]
        assert f"| {name} | {' | '.join(row)} |" in page
    bare, guarded = FIGURES["step"].values()
    words = " ".join(page.split())
    for part in (
        f"hold {100 * bare['coverage_90']:.0f} % of the unseen points",
        f"log-likelihood of {bare['log_likelihood']:.1f} a point",
        f"with it {100 * guarded['coverage_90']:.0f} %, at {guarded['log_likelihood']:.1f}",
        f"{guarded['rmse']:.2f} with the guard and {bare['rmse']:.2f} without",
    ):
        assert part in words, part


@pytest.mark.slow
def test_the_pictures_are_drawn_again_with_nearly_the_same_figures(tmp_path):
    subprocess.run([sys.executable, DOCS / "pictures.py", tmp_path], check=True, stdout=subprocess.DEVNULL)
    again = json.loads((tmp_path / "figures.json").read_text())
    for name, one in FIGURES["sinusoid"].items():
        for score in ("rmse", "calibration_error", "coverage_90", "width_90"):
            assert again["sinusoid"][name][score] == pytest.approx(one[score], rel=0.1), (name, score)
    assert {path.name for path in tmp_path.glob("*.png")} == {path.name for path in (DOCS / "pictures").glob("*.png")}


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_parser")
    pytest.importorskip("furo")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html", DOCS, tmp_path / "site"]
    reply = subprocess.run([*command, "-d", tmp_path / "trees"], capture_output=True, text=True)
    assert reply.returncode == 0, textwrap.indent(reply.stderr[-4000:], "    ")
    text = (tmp_path / "site" / "theory.html").read_text()
    assert "<math" in text
    assert "http" not in "".join(re.findall(r"<script[^>]*src=\"([^\"]*)", text))


def test_the_examples_of_own_tasks_run(tmp_path, monkeypatch, call, capfd):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    exec(compile(code, "own-tasks.md", "exec"), {})
    assert "column 'load', row 3: the value is missing" in capfd.readouterr().out
    (tmp_path / "new.csv").write_text("load,heat\n1,2\n2,4\n")
    (tmp_path / "where.csv").write_text("load\n3\n4\n")
    commands = [line.split()[1:] for line in PAGE.split("\n") if line.startswith("pacoh ") and "model" in line]
    assert [command[0] for command in commands] == ["fit", "evaluate", "evaluate", "predict", "fit", "evaluate"]
    for command in commands:
        method = "nearest-prototype" if "--classes" in command else "pooled-ridge"
        extra = ["--method", method] if command[0] == "fit" else []
        assert call(*command, *extra).code == 0, command
    table = np.loadtxt(tmp_path / "predictions.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(table[:, 0], [3, 4])


def test_the_page_names_every_source_and_its_environments():
    from pacoh.registry import ENVIRONMENTS
    from pacoh.sources import SOURCES

    for name in SOURCES:
        assert f"| `{name}` |" in PAGE
    for name in set(ENVIRONMENTS) - {"sinusoid", "cauchy", "ellipses", "branin", "hartmann3", "hartmann6"}:
        assert f"`{name}`" in PAGE
