"""Downloads that resume, are checked by their hash, and appear under their final name only when they are right."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacoh.errors import PacohError

if TYPE_CHECKING:
    from pacoh.sources.base import File

_MOST = 2**30  # bytes; no file here is near it
_BLOCK = 2**16
_SECONDS = 30  # without a byte


def download(file: "File", folder: Path) -> Path:
    """The file from its public source, checked; what came of a broken download is kept as `.part` and gone on from.

    Where it fails, the error is the clause that says why; the source makes a sentence of it.
    """
    assert file.url is not None
    pooch, requests = _libraries()
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{file.name}.part"
    resumed = part.exists()
    try:
        _receive(file.url, part, requests)
        try:
            return _accept(file, folder, part, pooch)
        except ValueError:
            if not resumed:
                raise
        _receive(file.url, part, requests)  # what was there before may have been the wrong half
        return _accept(file, folder, part, pooch)
    except requests.RequestException as error:
        raise PacohError(_reason(error, file.url)) from None
    except ValueError as error:
        if isinstance(error, PacohError):
            raise
        raise PacohError(f"what {file.url} sent has another checksum and was thrown away") from None


def _libraries() -> tuple[Any, Any]:
    try:
        import pooch
        import requests
    except ImportError:
        raise PacohError('downloads need pooch (pip install "pacoh[data]")') from None
    return pooch, requests


def _accept(file: "File", folder: Path, part: Path, pooch: Any) -> Path:
    """Moves a whole download to its name if its hash is right; throws it away and raises ValueError if not."""
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")
    try:
        return Path(
            pooch.retrieve(
                file.url,
                known_hash=file.checksum,
                fname=file.name,
                path=folder,
                downloader=lambda _url, temporary, _pooch: os.replace(part, temporary),
            )
        )
    finally:
        logger.setLevel(level)


def _receive(url: str, part: Path, requests: Any) -> None:
    """Bytes from `url` to the end of `part`, from where it stops if the server can do that."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, stream=True, timeout=_SECONDS, headers=headers) as response:
        told = response.headers.get("Content-Range", "")
        if have and response.status_code == 416:
            if told == f"bytes */{have}":
                return
            part.unlink()
            return _receive(url, part, requests)
        response.raise_for_status()
        follows = response.status_code == 206 and told.startswith(f"bytes {have}-")
        length = response.headers.get("Content-Length", "")
        whole = int(length) + have * follows if length.isdecimal() else None
        received = have * follows
        with part.open("ab" if follows else "wb") as stream:
            for block in response.iter_content(_BLOCK):
                received += len(block)
                if received > _MOST:
                    break
                stream.write(block)
    if received > _MOST:
        part.unlink()
        raise PacohError(f"{url} sent more than {_MOST} bytes, which were thrown away")
    if whole is not None and received < whole:
        raise PacohError(
            f"its download stopped after {received} of {whole} bytes (the same command goes on from there)"
        )


def _reason(error: Exception, url: str) -> str:
    """What a reader needs of a network error."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"{url} answers {response.status_code}"
    if "IncompleteRead" in str(error):
        return "its download stopped before the end (the same command goes on from there)"
    return f"{url} could not be reached"
