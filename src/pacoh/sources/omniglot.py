"""Omniglot: 1623 letters of 50 alphabets, each drawn by 20 people."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pacoh.errors import PacohError
from pacoh.sources.archives import Limits, members
from pacoh.sources.base import File, Source

SIDE, DRAWN, DRAWINGS = 28, 105, 20
_LIMITS = Limits(members=40_000, each=2**16, whole=2**25)
_PICKED = ((np.arange(SIDE) + 0.5) * DRAWN / SIDE).astype(int)
"""The rows and columns of a 105 x 105 drawing that nearest-neighbour sampling keeps."""


def parse(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """`ink` (drawings, 28, 28), 1 for ink; `letter` of each drawing; `alphabet` and `official` of each letter.

    Letters are in order of alphabet and number; `official` is True for the alphabets of the background set.
    """
    drawings: dict[tuple[str, str], list[tuple[str, np.ndarray]]] = {}
    official: dict[str, bool] = {}
    for place, path in enumerate(paths):
        for name, content in members(path, _LIMITS):
            parts = name.split("/")
            if len(parts) != 4 or not name.endswith(".png"):
                continue
            official[parts[1]] = place == 0
            drawings.setdefault((parts[1], parts[2]), []).append((parts[3], _ink(content, name, path)))
    if not drawings:
        raise PacohError(f"{paths[0]} holds no images_*/<alphabet>/<character>/*.png: remove it and get it again.")
    letters = sorted(drawings)
    images = [image for letter in letters for _, image in sorted(drawings[letter], key=lambda one: one[0])]
    return {
        "ink": np.stack(images),
        "letter": np.repeat(np.arange(len(letters)), [len(drawings[letter]) for letter in letters]),
        "alphabet": np.array([alphabet for alphabet, _ in letters], np.str_),
        "official": np.array([official[alphabet] for alphabet, _ in letters]),
    }


def _ink(content: bytes, name: str, path: Path) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError:
        raise PacohError('Omniglot needs pillow: pip install "pacoh[data]".') from None
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            if image.size != (DRAWN, DRAWN):
                raise ValueError(f"its size is {image.size}, expected {DRAWN} x {DRAWN}")
            paper = np.asarray(image.convert("1"))
    except (OSError, ValueError, SyntaxError) as error:
        raise PacohError(f"{path}: {name} is no drawing ({error}). Get the archive again.") from None
    return ~paper[np.ix_(_PICKED, _PICKED)]


def facts(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Alphabets, letters and drawings."""
    official = arrays["official"]
    counts = np.bincount(arrays["letter"])
    return {
        "alphabets": [len(set(arrays["alphabet"][official])), len(set(arrays["alphabet"][~official]))],
        "characters": [int(official.sum()), int((~official).sum())],
        "images": len(arrays["ink"]),
        "drawings of each character": sorted({int(count) for count in counts}),
    }


_PAGE = "https://github.com/brendenlake/omniglot"

OMNIGLOT = Source(
    name="omniglot",
    title="Omniglot",
    licence="MIT",
    files=tuple(
        File(
            name,
            where=f"{_PAGE} (folder python)",
            url=f"{_PAGE}/raw/master/python/{name}",
            checksum=f"md5:{digits}",
        )
        for name, digits in (
            ("images_background.zip", "68d2efa1b9178cc56df9314c21c6e718"),
            ("images_evaluation.zip", "6b91aef0f799c5bb55b94e3f2daec811"),
        )
    ),
    parse=parse,
    facts=facts,
    expected={
        "alphabets": [30, 20],
        "characters": [964, 659],
        "images": 32460,
        "drawings of each character": [DRAWINGS],
    },
)
