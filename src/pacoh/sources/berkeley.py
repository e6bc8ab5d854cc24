"""Temperatures of 46 sensors in the Intel Berkeley lab: five days, a reading a minute."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pacoh.errors import PacohError
from pacoh.sources.base import File, Source

OUTLIER = (4278, 6)
"""A reading of 4.2 degrees among ones of 21: replaced by the mean of its neighbours."""


def parse(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """`temperature` (minutes, sensors) with the outlier patched, and `outlier`, what stood there."""
    import scipy.io

    temperature = np.array(scipy.io.loadmat(paths[0])["berkeley_data"]["data"][0, 0], np.float64)
    row, column = OUTLIER
    if temperature.ndim != 2 or temperature.shape[0] <= row + 1 or temperature.shape[1] <= column:
        raise PacohError(f"{paths[0]}: berkeley_data.data has shape {temperature.shape}, expected (7205, 46).")
    outlier = temperature[row, column].copy()
    temperature[row, column] = temperature[[row - 1, row + 1], column].mean()
    return {"temperature": temperature, "outlier": outlier[None]}


def facts(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Shape, range and the outlier."""
    temperature = arrays["temperature"]
    plausible = bool(np.isfinite(temperature).all() and temperature.min() > 5 and temperature.max() < 50)
    return {
        "minutes": temperature.shape[0],
        "sensors": temperature.shape[1],
        "temperatures within 5 and 50": plausible,
        "outlier patched": round(float(arrays["outlier"][0]), 4),
    }


BERKELEY = Source(
    name="berkeley",
    title="Berkeley-Sensor",
    licence="see its source",
    files=(
        File(
            "berkeley_data.mat",
            where="the authors of the PACOH paper (the raw log is at http://db.csail.mit.edu/labdata/labdata.html)",
            checksum="sha256:666164209b45e8e620dc7eee444881449fa5afd375eb81d49f3152d4dc7c08eb",
        ),
    ),
    parse=parse,
    facts=facts,
    expected={
        "minutes": 7205,
        "sensors": 46,
        "temperatures within 5 and 50": True,
        "outlier patched": 4.2006,
    },
)
