"""What parsing gave, kept in the cache as plain arrays: the second load of thousands of text files is one read."""

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pacoh.sources.places import cache_folder

Arrays = Mapping[str, np.ndarray]


def kept(name: str, version: int, paths: Sequence[Path], parse: Callable[[], Arrays], wanted: Sequence[str]) -> Arrays:
    """The wanted arrays (all, if none are named) of what `parse` gives, from the cache if these files were parsed."""
    target = cache_folder() / "parsed" / f"{name}-{_key(version, paths)}.npz"
    found = _read(target, wanted)
    if found is None:
        parsed = parse()
        _write(target, parsed)
        found = {key: parsed[key] for key in wanted or parsed}
    return found


def _key(version: int, paths: Sequence[Path]) -> str:
    """One word for these files as they are now: place, size and time of change."""
    facts = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return hashlib.sha256(repr((version, facts)).encode()).hexdigest()[:20]


def _read(path: Path, wanted: Sequence[str]) -> Arrays | None:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in wanted or archive.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _write(path: Path, arrays: Arrays) -> None:
    """Whole or not at all; where the cache cannot be written to, the next load parses again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, **dict(arrays))  # pyright: ignore[reportArgumentType]
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
