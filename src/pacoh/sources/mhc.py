"""MHC-I peptide binding: affinities of nine-residue peptides to seven alleles."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pacoh.errors import PacohError
from pacoh.sources.base import File, Source


def parse(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """`x` (peptides, 45), `y` = log10(500 / IC50), `allele` (ids) and `names` of the alleles."""
    import scipy.io

    content = scipy.io.loadmat(paths[0])
    names = [str(name).strip() for name in np.ravel(content["MHC_alleles"])]
    ids = np.array(content["contexts"], np.float64).ravel()
    if not np.isin(ids, np.arange(len(names))).all():
        raise PacohError(f"{paths[0]}: contexts are numbers of alleles, 0 to {len(names) - 1}: get it again.")
    arrays = {
        "x": np.array(content["examples"], np.float64).T,
        "y": np.array(content["labels"], np.float64).ravel(),
        "allele": ids.astype(np.int64),
        "names": np.array(names, np.str_),
    }
    if arrays["x"].ndim != 2 or len({len(arrays[key]) for key in ("x", "y", "allele")}) != 1:
        raise PacohError(f"{paths[0]}: examples, labels and contexts differ in length: get it again.")
    return arrays


def facts(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Peptides of each allele, by id; inputs; and whether every number can be one."""
    ids, counts = np.unique(arrays["allele"], return_counts=True)
    names = arrays["names"]
    return {
        "inputs": arrays["x"].shape[1],
        "sizes": {str(names[i]): int(count) for i, count in zip(ids, counts, strict=True)},
        "all finite": bool(np.isfinite(arrays["x"]).all() and np.isfinite(arrays["y"]).all()),
    }


MHC = Source(
    name="mhc",
    title="MHC-I",
    licence="see its source",
    files=(
        File(
            "iedb_benchmark.mat",
            where="the authors of the PACOH paper (raw affinities are at http://tools.iedb.org)",
            checksum="sha256:8e87311f5ac5d627e932f04a116281e6ca48f0a34233e328f3a62cf556aa490f",
        ),
    ),
    parse=parse,
    facts=facts,
    expected={
        "inputs": 45,
        "sizes": {
            "A_6901": 833,
            "A_0202": 1447,
            "A_0203": 1443,
            "A_0201": 3089,
            "A_2301": 104,
            "A_2402": 197,
            "A_2403": 254,
        },
        "all finite": True,
    },
)
