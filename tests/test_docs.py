"""The page on own tasks does what it says."""

import re
from pathlib import Path

import numpy as np

PAGE = (Path(__file__).parent.parent / "docs" / "own-tasks.md").read_text()


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
