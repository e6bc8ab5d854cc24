"""The README's example runs as it stands."""

import re
from pathlib import Path


def test_the_readmes_example_runs(tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parent.parent / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code.replace('"pacoh-gp-map")', '"pacoh-gp-map", steps=50)'), "README.md", "exec"), {})
    assert (tmp_path / "machines.safetensors").is_file()
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", capsys.readouterr().out)]
    means, stds, lower, upper = (numbers[i : i + 3] for i in (0, 3, 6, 9))
    assert all(a < b < c for a, b, c in zip(lower, means, upper, strict=True))
    assert min(stds) > 0
