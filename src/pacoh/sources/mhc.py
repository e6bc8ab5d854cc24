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

    try:
        content = scipy.io.loadmat(paths[0])
        arrays = {
            "x": np.array(content["examples"], np.float64).T,
            "y": np.array(content["labels"], np.float64).ravel(),
            "allele": np.array(content["contexts"]).ravel().astype(np.int64),
            "names": np.array([str(name).strip() for name in np.ravel(content["MHC_alleles"])], np.str_),
        }
    except (OSError, ValueError, KeyError, TypeError, NotImplementedError) as error:
        raise PacohError(
            f"{paths[0]} is no MATLAB file with examples, labels, contexts and MHC_alleles ({error}): get it again."
        ) from None
    if arrays["x"].ndim != 2 or len({len(arrays[key]) for key in ("x", "y", "allele")}) != 1:
        raise PacohError(f"{paths[0]}: examples, labels and contexts differ in length: get it again.")
    return arrays


def facts(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Peptides of each allele, by id; inputs; and whether every number can be one."""
    ids, counts = np.unique(arrays["allele"], return_counts=True)
    names = arrays["names"]
    return {
        "inputs": arrays["x"].shape[1],
        "sizes": {str(names[i]) if i < len(names) else str(i): int(c) for i, c in zip(ids, counts, strict=True)},
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
