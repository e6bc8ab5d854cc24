"""The scripts in examples/ run and print what the page of examples shows; without their data they say so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem != "comparing")
ELSEWHERE = {"sensors": "berkeley/berkeley_data.mat", "patients": "physionet2012/set-a.tar.gz"}
PAGE = (ROOT / "docs" / "examples.md").read_text()
ROW = re.compile(r"^([a-z-]+) +(-?\d+\.\d+) +(-?\d+\.\d+|-) +(-?\d+\.\d+|-)", re.MULTILINE)


def output(script: str, data: str, cache: Path) -> str:
    command = [sys.executable, ROOT / "examples" / f"{script}.py"]
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")  # nothing is downloaded
    environment = os.environ | nowhere | {"PACOH_DATA_DIR": data, "XDG_CACHE_HOME": str(cache)}
    reply = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert reply.returncode == 0, reply.stderr[-2000:]
    return reply.stdout


def shown(script: str) -> str:
    """What the page shows of a script."""
    return PAGE.split(f"## {script}\n")[1].split("```text\n")[1].split("```")[0]


def test_the_page_shows_every_example():
    assert all(f"`python examples/{script}.py`" in PAGE and ROW.search(shown(script)) for script in SCRIPTS)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_prints_nearly_what_the_page_shows(script, tmp_path):
    data = os.environ.get("PACOH_DATA_DIR", "")
    if script in ELSEWHERE and not (Path(data) / ELSEWHERE[script]).is_file():
        pytest.skip(f"{ELSEWHERE[script]} is not in $PACOH_DATA_DIR")
    told = output(script, data, tmp_path)
    rows, expected = ROW.findall(told), ROW.findall(shown(script))
    assert [row[0] for row in rows] == [row[0] for row in expected]
    for (method, score, *_), (_, before, *_) in zip(rows, expected, strict=True):
        assert float(score) == pytest.approx(float(before), rel=0.1), (method, told)
    assert len(re.findall(r"^\S+ against \S+: (?:better|WORSE|no clear difference)", told, re.MULTILINE)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("script", ELSEWHERE)
def test_without_its_data_an_example_says_so_and_ends(script, tmp_path):
    told = output(script, str(tmp_path), tmp_path)
    assert told.startswith("The data are not here, so there is nothing to compare. ")
    assert Path(ELSEWHERE[script]).name in told
