"""What a source is: files of others, where to get them, how to read them, and the facts that show they are right."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pacoh.errors import PacohError
from pacoh.sources.download import download
from pacoh.sources.parsed import kept
from pacoh.sources.places import VARIABLE, cache_folder, find, folders

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class File:
    """One file: its name under the source's folder, and where it is to be had.

    `checksum` (sha256:... or md5:...) is that of the public source. An archive put there by hand may be packed anew; a
    file that cannot be downloaded and has a checksum must be that very file, since damaged ones crash their readers.
    """

    name: str
    where: str
    url: str | None = None
    checksum: str | None = None


@dataclass(frozen=True)
class Source:
    """A data set of others.

    `parse` turns paths (in the order of `files`) into arrays, `facts` counts what is in them, and `expected` are the
    facts of the right files. `version` is raised whenever `parse` changes.
    """

    name: str
    title: str
    licence: str
    files: tuple[File, ...]
    parse: Callable[[Sequence[Path]], dict[str, np.ndarray]]
    facts: Callable[[Arrays], dict[str, Any]]
    expected: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1

    def load(self, *wanted: str) -> Arrays:
        """The named arrays (default: all), from files that are right; downloads what is missing and can be."""
        paths = self.fetch()
        return kept(self.name, self.version, paths, lambda: self._checked(paths), wanted)

    def fetch(self) -> list[Path]:
        """Paths of all files, downloading those that are nowhere."""
        return [find(self.name, file.name) or self._download(file) for file in self.files]

    def missing(self) -> list[File]:
        """The files that are nowhere yet."""
        return [file for file in self.files if find(self.name, file.name) is None]

    def verify(self) -> dict[str, Any]:
        """The facts of the files that are there, parsed anew; an error where they are not right."""
        absent = self.missing()
        if absent:
            raise PacohError(self._remedy(absent[0]))
        paths = self.fetch()
        pairs = zip(paths, self.files, strict=True)
        known = [file.checksum is not None and checksum(path, file.checksum) for path, file in pairs]
        facts = self.facts(self._checked(paths))
        return facts | ({"checksum": "that of the public source"} if all(known) else {})

    def _checked(self, paths: Sequence[Path]) -> dict[str, np.ndarray]:
        for path, file in zip(paths, self.files, strict=True):
            if file.url is None and file.checksum is not None and not checksum(path, file.checksum):
                raise PacohError(f"{path} has another checksum than {self.title}: remove it. {self._remedy(file)}")
        try:
            arrays = self.parse(paths)
            facts = self.facts(arrays)
        except PacohError:
            raise
        except Exception as error:  # readers of other formats meet damaged files with errors of every kind
            raise PacohError(
                f"{', '.join(map(str, paths))} cannot be read ({error}). Remove it, then get it from "
                f"{self.files[0].where}."
            ) from error
        for fact, value in self.expected.items():
            if facts.get(fact) != value:
                raise PacohError(
                    f"{', '.join(map(str, paths))}: {fact} should be {value} and is {facts.get(fact)}. This is not the "
                    f"whole of {self.title}: remove it, then get it from {self.files[0].where}."
                )
        return arrays

    def _download(self, file: File) -> Path:
        if file.url is None:
            raise PacohError(self._remedy(file))
        try:
            return download(file, cache_folder() / self.name)
        except PacohError as error:
            raise PacohError(self._remedy(file, f", but {error}")) from None

    def _remedy(self, file: File, why: str = "") -> str:
        """The sentence that says where to get a file and where to put it."""
        places = folders(self.name)
        other = "" if len(places) > 1 else f" (or under {self.name}/ in the folder that ${VARIABLE} names)"
        return (
            f"{self.title} needs the file {file.name}{why}: get it from {file.where}, and put it at "
            f"{places[0] / file.name}{other}."
        )


def checksum(path: Path, expected: str) -> bool:
    """Whether a file has the hash `algorithm:digits`."""
    algorithm, _, digits = expected.partition(":")
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest() == digits
