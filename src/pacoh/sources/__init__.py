"""Data of others: where their files lie, how they are fetched, checked and read. Nothing here knows of tasks."""

from pacoh.errors import PacohError
from pacoh.sources.base import File, Source
from pacoh.sources.berkeley import BERKELEY
from pacoh.sources.mhc import MHC
from pacoh.sources.omniglot import OMNIGLOT
from pacoh.sources.physionet import PHYSIONET
from pacoh.sources.swissfel import SWISSFEL

__all__ = ["SOURCES", "File", "Source", "source"]

SOURCES: dict[str, Source] = {one.name: one for one in (PHYSIONET, BERKELEY, SWISSFEL, OMNIGLOT, MHC)}


def source(name: str) -> Source:
    """The source of this name."""
    if name not in SOURCES:
        raise PacohError(f"There are no data named {name!r}. Data: {', '.join(SOURCES)}.")
    return SOURCES[name]
