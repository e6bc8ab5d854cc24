"""PhysioNet / Computing in Cardiology Challenge 2012, set a: 4000 stays in intensive care, 48 hours each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pacoh.errors import PacohError
from pacoh.sources.archives import Limits, members
from pacoh.sources.base import File, Source

HOURS = 48
_LIMITS = Limits(members=5000, each=2**20, whole=2**27)


def parse(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """For each variable V the arrays V/record, V/hours and V/value, by record and then as in the file."""
    columns: dict[str, tuple[list[float], list[float], list[float]]] = {}
    texts = {}
    for name, content in members(paths[0], _LIMITS):
        stem = name.rsplit("/", 1)[-1].removesuffix(".txt")
        if name.endswith(".txt") and stem.isdecimal():
            texts[int(stem)] = content
    for record in sorted(texts):
        for line, (hours, variable, value) in enumerate(_rows(texts[record], record), 2):
            if not 0 <= hours <= HOURS:
                raise PacohError(f"Record {record}, line {line}: {hours:.2f} hours is not within {HOURS}.")
            entry = columns.setdefault(variable, ([], [], []))
            for column, cell in zip(entry, (record, hours, value), strict=True):
                column.append(cell)
    arrays = {"records": np.array(sorted(texts), np.int64), "variables": np.array(sorted(columns), np.str_)}
    for variable, (record, hours, value) in columns.items():
        arrays |= {
            f"{variable}/record": np.array(record, np.int64),
            f"{variable}/hours": np.array(hours),
            f"{variable}/value": np.array(value),
        }
    return arrays


def _rows(content: bytes, record: int) -> list[tuple[float, str, float]]:
    """Hours, variable and value of each line `HH:MM,Parameter,Value` after the header."""
    try:
        lines = content.decode("ascii").split("\n")
        cells = [line.rstrip("\r").split(",") for line in lines[1:] if line.strip()]
        return [(int(time[:-3]) + int(time[-2:]) / 60, variable, float(value)) for time, variable, value in cells]
    except (ValueError, UnicodeDecodeError):
        raise PacohError(f"Record {record} is not lines of HH:MM,Parameter,Value: get the archive again.") from None


def facts(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Stays, and for GCS and HCT the values and the patients with four or more."""
    found: dict[str, Any] = {"stays": len(arrays["records"])}
    for variable in ("GCS", "HCT"):
        if f"{variable}/record" in arrays:
            _, counts = np.unique(arrays[f"{variable}/record"], return_counts=True)
            found[f"{variable} values"] = int(counts.sum())
            found[f"{variable} patients with 4 or more"] = int((counts >= 4).sum())
    if "GCS/value" in arrays:
        found["GCS range"] = [float(arrays["GCS/value"].min()), float(arrays["GCS/value"].max())]
    return found


PHYSIONET = Source(
    name="physionet2012",
    title="PhysioNet Challenge 2012 (set a)",
    licence="ODC-By 1.0",
    files=(
        File(
            "set-a.tar.gz",
            where="https://physionet.org/content/challenge-2012/1.0.0/",
            url="https://physionet.org/files/challenge-2012/1.0.0/set-a.tar.gz",
            checksum="sha256:8cb250f179cd0952b4b9ebcf8954b63d70383131670fac1cfee13deaa13ca920",
        ),
    ),
    parse=parse,
    facts=facts,
    expected={
        "stays": 4000,
        "GCS values": 61563,
        "GCS patients with 4 or more": 3929,
        "HCT values": 18271,
        "HCT patients with 4 or more": 2294,
        "GCS range": [3.0, 15.0],
    },
)
