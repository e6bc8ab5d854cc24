"""Members of an archive, read in memory: nothing is ever unpacked, so nothing can be written anywhere.

Archives that try are refused whole: names that lead out of their folder, links, devices, and bombs.
"""

import gzip
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pacoh.errors import PacohError

_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class Limits:
    """The most that an archive may hold: members, bytes of one, bytes in all."""

    members: int
    each: int
    whole: int


def members(path: Path, limits: Limits) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file in a .zip or .tar.gz; PacohError where the archive is broken or hostile."""
    seen: set[str] = set()
    whole = 0
    try:
        for name, size, content in _zip(path) if path.suffix == ".zip" else _tar(path, limits):
            pure = PurePosixPath(name.replace("\\", "/"))
            if pure.is_absolute() or ".." in pure.parts or ":" in name:
                raise _hostile(path, f"the name {name!r} leads out of its folder")
            if name in seen:
                raise _hostile(path, f"it holds {name!r} twice")
            seen.add(name)
            whole += size
            if len(seen) > limits.members or size > limits.each or whole > limits.whole:
                raise _hostile(path, f"{name!r} makes it larger than these data are")
            yield name, content()
    except _BROKEN as error:
        raise PacohError(f"{path} is cut short or no archive ({error}): remove it and get it again.") from None


def _hostile(path: Path, reason: str) -> PacohError:
    return PacohError(f"{path} is refused: {reason}. Remove it, and get it from its public source.")


def _zip(path: Path) -> Iterator:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if stat.S_ISLNK(member.external_attr >> 16):
                raise _hostile(path, f"{member.filename!r} is a link")
            if member.is_dir():
                continue
            yield member.filename, member.file_size, lambda member=member: archive.read(member)


def _tar(path: Path, limits: Limits) -> Iterator:
    bounded: Any = _Bounded(path, limits)  # of a file, a tar stream needs `read` alone
    with bounded, tarfile.open(fileobj=bounded, mode="r|") as archive:
        for member in archive:
            if not (member.isfile() or member.isdir()):
                raise _hostile(path, f"{member.name!r} is a link or a device")
            if member.isfile():
                yield member.name, member.size, lambda member=member: _content(archive, member)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member)
    assert stream is not None  # it is a file
    return stream.read()


class _Bounded:
    """A stream that ends in an error where it holds more than the members may, headers and padding included."""

    def __init__(self, path: Path, limits: Limits):
        self._stream, self._path = gzip.GzipFile(path), path
        self._left = limits.whole + 2048 * (limits.members + 100)

    def __enter__(self) -> "_Bounded":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def read(self, size: int) -> bytes:
        """The next bytes."""
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise _hostile(self._path, "it unpacks to more than these data are")
        return content
