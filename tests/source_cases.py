"""Small files in the layouts of the public sources, and a web server that can misbehave."""

import gzip
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np


def tar_gz(path: Path, files: dict[str, bytes], extra: list[tarfile.TarInfo] | None = None) -> Path:
    """A .tar.gz with these members, then the extra ones without content."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in extra or []:
            archive.addfile(member)
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    """A link in a tar archive."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def gzip_bomb(path: Path, megabytes: int) -> Path:
    """A .tar.gz of one small member and then endless zeros in a member that claims to be small."""
    with gzip.open(path, "wb", 9) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo("set-a/1.txt")
        member.size = megabytes * 2**20
        archive.addfile(member, Zeros())
    return path


class Zeros(io.RawIOBase):
    """As many zeros as are asked for."""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return bytes(size)


def record(number: int, rows: list[tuple[str, str, float]]) -> tuple[str, bytes]:
    """A stay as PhysioNet writes it: name and text."""
    lines = ["Time,Parameter,Value", f"00:00,RecordID,{number}", "00:00,Height,-1"]
    lines += [f"{time},{variable},{value:g}" for time, variable, value in rows]
    return f"set-a/{number}.txt", ("\n".join(lines) + "\n").encode()


def physionet(path: Path, patients: int, seed: int = 0) -> Path:
    """Stays of random lengths; every fourth has few values, every fifth none after a day, some two in one minute."""
    random = np.random.default_rng(seed)
    files = {}
    for i in range(patients):
        count = 3 if i % 4 == 3 else int(random.integers(6, 20))
        last = 23 if i % 5 == 4 else 48
        minutes = np.sort(random.integers(1, last * 60, size=count))
        if i % 7 == 0:
            minutes[1] = minutes[0]
        if last == 48 and count > 3:
            minutes[:4], minutes[-1] = np.sort(minutes[:4] % (24 * 60)), 47 * 60 + 30
            minutes = np.sort(minutes)
        times = [f"{minute // 60:02d}:{minute % 60:02d}" for minute in minutes]
        name, text = record(132539 + i, [(time, "GCS", float(random.integers(3, 16))) for time in times])
        files[name] = text
    tar_gz(path, files)
    return path


def berkeley(path: Path, minutes: int = 7205, sensors: int = 46) -> np.ndarray:
    """Temperatures that tell day, minute and sensor apart; the outlier is at its place."""
    import scipy.io

    time = np.arange(minutes)[:, None]
    matrix = 20 + 3 * np.sin(2 * np.pi * time / 1441 + np.arange(sensors)) + 1e-4 * time
    if minutes > 4279:
        matrix[4278, 6] = 4.2006
    scipy.io.savemat(path, {"berkeley_data": {"data": matrix, "usedDays": np.arange(5)}})
    return matrix


def mhc(path: Path, sizes: tuple[int, ...] = (833, 1447, 1443, 3089, 104, 197, 254)) -> None:
    """Random descriptors for alleles of the given sizes."""
    import scipy.io

    random = np.random.default_rng(0)
    total = sum(sizes)
    names = np.array(["A_6901", "A_0202", "A_0203", "A_0201", "A_2301", "A_2402", "A_2403"][: len(sizes)])
    content = {
        "examples": random.normal(size=(45, total)),
        "labels": random.normal(size=(total, 1)),
        "contexts": np.repeat(np.arange(len(sizes)), sizes)[:, None].astype(float),
        "MHC_alleles": names,
    }
    scipy.io.savemat(path, content)


def omniglot(folder: Path, letters: int = 11, background: int = 30, evaluation: int = 20) -> None:
    """Both zips: `letters` letters an alphabet; drawing k of letter l has l + 1 columns of ink and k + 1 rows."""
    from PIL import Image

    number = 0
    for kind, first, count in (("background", 0, background), ("evaluation", background, evaluation)):
        with zipfile.ZipFile(folder / f"images_{kind}.zip", "w") as archive:
            for alphabet in range(first, first + count):
                for letter in range(letters):
                    number += 1
                    for drawing in range(20):
                        paper = np.ones((105, 105), bool)
                        paper[: 5 * (drawing + 1), : 5 * (letter + 1)] = False
                        buffer = io.BytesIO()
                        Image.fromarray(paper).save(buffer, "PNG")
                        name = f"images_{kind}/Alphabet_{alphabet:02d}/character{letter + 1:02d}"
                        archive.writestr(f"{name}/{number:04d}_{drawing + 1:02d}.png", buffer.getvalue())


def swissfel(folder: Path, points: int = 420, inputs: int = 12) -> None:
    """Three experiments of three runs each; y is the number of the run plus the row's number over 1000."""
    import h5py

    random = np.random.default_rng(0)
    for e, experiment in enumerate(("line_ucb_ascent", "line_ucb", "neldermead")):
        place = folder / "2018_10_31" / experiment / "data"
        place.mkdir(parents=True)
        with h5py.File(place / "evaluations.hdf5", "w") as file:
            for run in range(3):
                table = np.zeros(points, [("t", "<i4"), ("x", "<f8", (inputs,)), ("y", "<f8"), ("y_std", "<f8")])
                table["x"] = random.normal(size=(points, inputs))
                table["y"] = 3 * e + run + np.arange(points) / 1000
                file[f"1/{run}"] = table


class Web:
    """A server on loopback: `files` by path; `cut` bytes after which a reply breaks off; `ranges` honoured or not."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []
        self.address = ""


@contextmanager
def serving() -> Iterator[Web]:
    """A running server."""
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            web.asked.append((self.path, wanted))
            content = web.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and web.ranges else 0
            if start >= len(content) and start:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start:] if web.cut is None else content[start : start + web.cut])
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    web.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
