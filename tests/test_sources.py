"""Data of others: found, fetched, checked and read; what is wrong is never used and never left behind."""

import hashlib
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import source_cases as cases
from pacoh.errors import PacohError
from pacoh.sources import SOURCES, File, Source, source
from pacoh.sources.archives import Limits, members
from pacoh.sources.places import cache_folder, find

LIMITS = Limits(members=50, each=2**20, whole=2**22)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """No data but those of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PACOH_DATA_DIR", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path


@pytest.fixture
def web():
    with cases.serving() as server:
        yield server


def lines(paths) -> dict[str, np.ndarray]:
    """The numbers of a text file, or of the members of a tar."""
    if paths[0].suffix == ".txt":
        return {"numbers": np.array([float(line) for line in paths[0].read_text().split()])}
    return {"numbers": np.array([float(content) for _, content in members(paths[0], LIMITS)])}


def toy(url: str | None, content: bytes, name: str = "numbers.txt", **changes) -> Source:
    checksum = f"sha256:{hashlib.sha256(content).hexdigest()}" if url else None
    file = File(name, "its maker", url, checksum)
    made = Source("toy", "Toy", "none", (file,), lines, lambda arrays: {"count": len(arrays["numbers"])})
    return replace(made, **changes)


CONTENT = b"\n".join(b"%d" % i for i in range(60_000))


def left(name: str = "numbers.txt") -> list[str]:
    """What lies in the cache of the toy source under other names than its own."""
    folder = cache_folder() / "toy"
    return sorted(path.name for path in folder.iterdir() if path.name != name) if folder.is_dir() else []


def test_a_complete_download_is_used_and_asked_for_once(web):
    web.files["/numbers.txt"] = CONTENT
    one = toy(f"{web.address}/numbers.txt", CONTENT)
    for _ in range(2):
        np.testing.assert_array_equal(one.load()["numbers"], np.arange(60_000))
    assert len(web.asked) == 1
    assert left() == []


def test_a_truncated_download_is_not_used_and_the_next_call_asks_for_the_rest(web):
    web.files["/numbers.txt"], web.cut = CONTENT, 100_000
    one = toy(f"{web.address}/numbers.txt", CONTENT)
    with pytest.raises(PacohError, match=r"numbers.txt, but .*stopped .*goes on.*get it from its maker"):
        one.load()
    assert find("toy", "numbers.txt") is None
    web.cut = None
    assert len(one.load()["numbers"]) == 60_000
    start = int(web.asked[-1][1].removeprefix("bytes=").rstrip("-"))
    assert 0 < start <= 100_000
    assert left() == []


def test_a_server_that_knows_no_ranges_is_asked_for_the_whole(web):
    web.files["/numbers.txt"], web.cut, web.ranges = CONTENT, 100_000, False
    one = toy(f"{web.address}/numbers.txt", CONTENT)
    with pytest.raises(PacohError):
        one.load()
    web.cut = None
    assert len(one.load()["numbers"]) == 60_000


def test_a_download_with_another_hash_is_thrown_away(web):
    web.files["/numbers.txt"] = CONTENT + b"\n7"
    one = toy(f"{web.address}/numbers.txt", CONTENT)
    with pytest.raises(PacohError, match="another checksum and was thrown away"):
        one.load()
    assert find("toy", "numbers.txt") is None
    assert left() == []


@pytest.mark.parametrize("stale", [b"9\n9\n9\n", CONTENT + b"\n1\n2"])
def test_the_half_of_another_file_is_not_gone_on_from(web, stale):
    web.files["/numbers.txt"] = CONTENT
    one = toy(f"{web.address}/numbers.txt", CONTENT)
    part = cache_folder() / "toy" / "numbers.txt.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(stale)
    np.testing.assert_array_equal(one.load()["numbers"], np.arange(60_000))
    assert left() == []


def test_a_whole_part_is_accepted_without_its_bytes_being_sent_again(web):
    web.files["/numbers.txt"] = CONTENT
    part = cache_folder() / "toy" / "numbers.txt.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT)
    assert len(toy(f"{web.address}/numbers.txt", CONTENT).load()["numbers"]) == 60_000


@pytest.mark.parametrize("path", ["/nowhere", None])
def test_without_a_server_one_sentence_says_where_to_get_and_put_the_file(web, path):
    url = f"{web.address}{path}" if path else "http://127.0.0.1:9/numbers.txt"
    with pytest.raises(PacohError, match=r"^Toy needs the file numbers.txt, but .*: get it from its maker") as caught:
        toy(url, CONTENT).load()
    assert str(cache_folder() / "toy" / "numbers.txt") in str(caught.value)
    assert str(caught.value).count(". ") == 0


SCRIPT = """
import sys
from pacoh.sources.base import File
from pacoh.sources.download import download
from pacoh.sources.places import cache_folder
download(File("numbers.txt", "its maker", sys.argv[1], sys.argv[2]), cache_folder() / "toy")
"""


def test_a_download_that_is_killed_leaves_no_file_and_goes_on(web, monkeypatch):
    content = CONTENT * 20
    web.files["/numbers.txt"] = content
    one = toy(f"{web.address}/numbers.txt", content)
    slow = "import time; import requests.models as m; was = m.Response.iter_content\n"
    slow += "def iter_content(self, size):\n    for block in was(self, size):\n        yield block; time.sleep(0.05)\n"
    slow += "m.Response.iter_content = iter_content\n"
    command = [sys.executable, "-c", slow + SCRIPT, one.files[0].url, one.files[0].checksum]
    process = subprocess.Popen(command, env=os.environ)
    part = cache_folder() / "toy" / "numbers.txt.part"
    ends = time.monotonic() + 30
    while not (part.exists() and part.stat().st_size > 3 * 2**16) and time.monotonic() < ends:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    have = part.stat().st_size
    assert 0 < have < len(content)
    assert find("toy", "numbers.txt") is None
    assert left() == ["numbers.txt.part"]
    assert len(one.load()["numbers"]) == len(content.split())
    assert web.asked[-1][1] == f"bytes={have}-"
    assert left() == []


def hostile(folder: Path) -> dict[str, Path]:
    """Archives that a reader must refuse, by what is wrong with them."""
    good = {"a/1.txt": b"1", "a/2.txt": b"2"}
    made = {
        "a name that climbs": cases.tar_gz(folder / "1.tar.gz", good | {"../3.txt": b"3"}),
        "an absolute name": cases.tar_gz(folder / "2.tar.gz", good | {str(folder / "evil.txt"): b"3"}),
        "a symbolic link": cases.tar_gz(folder / "3.tar.gz", good, [cases.link("a/3.txt", "/etc/hostname")]),
        "a hard link": cases.tar_gz(folder / "4.tar.gz", good, [cases.link("a/3", "a/1.txt", tarfile.LNKTYPE)]),
        "a device": cases.tar_gz(folder / "5.tar.gz", good, [cases.link("a/3", "", tarfile.CHRTYPE)]),
        "a bomb": cases.gzip_bomb(folder / "6.tar.gz", 300),
        "too many members": cases.tar_gz(folder / "7.tar.gz", {f"a/{i}.txt": b"1" for i in range(60)}),
    }
    contents = {"8.zip": {"../3.txt": b"3"}, "9.zip": {"/3.txt": b"3"}, "10.zip": {"a/b.txt": bytes(2**21)}}
    for name, extra in contents.items():
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in (good | extra).items():
                archive.writestr(member, content)
        made[f"zip {name}"] = folder / name
    with zipfile.ZipFile(folder / "11.zip", "w") as archive:
        member = zipfile.ZipInfo("a/link")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/hostname")
    made["a link in a zip"] = folder / "11.zip"
    return made


def test_hostile_archives_are_refused_whole_and_write_nothing(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for what, path in hostile(folder).items():
        before = set(tmp_path.rglob("*"))
        with pytest.raises(PacohError, match="is refused") as caught:
            list(members(path, LIMITS))
        assert str(path) in str(caught.value), what
        assert set(tmp_path.rglob("*")) == before, what


def test_a_bomb_is_stopped_before_it_is_unpacked(tmp_path):
    import tracemalloc

    path = cases.gzip_bomb(tmp_path / "bomb.tar.gz", 300)
    assert path.stat().st_size < 2**20
    tracemalloc.start()
    with pytest.raises(PacohError, match="refused"):
        list(members(path, LIMITS))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


@pytest.mark.parametrize("name", ["numbers.tar.gz", "numbers.zip"])
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_an_archive_cut_short_is_refused(tmp_path, name, keep):
    files = {f"a/{i}.txt": os.urandom(2000) for i in range(20)}
    whole = tmp_path / name
    if name.endswith("zip"):
        with zipfile.ZipFile(whole, "w") as archive:
            for member, content in files.items():
                archive.writestr(member, content)
    else:
        cases.tar_gz(whole, files)
    assert dict(members(whole, LIMITS)) == files
    whole.write_bytes(whole.read_bytes()[: int(keep * whole.stat().st_size)])
    with pytest.raises(PacohError, match="cut short or no archive"):
        list(members(whole, LIMITS))


def test_a_hostile_archive_with_the_right_hash_gives_no_data(web, tmp_path):
    path = cases.tar_gz(tmp_path / "x.tar.gz", {"a/1.txt": b"1", "../../evil.txt": b"3"})
    web.files["/numbers.tar.gz"] = path.read_bytes()
    one = toy(f"{web.address}/numbers.tar.gz", path.read_bytes(), "numbers.tar.gz")
    for _ in range(2):
        with pytest.raises(PacohError, match=r"evil.txt' leads out"):
            one.load()
    assert not list(tmp_path.rglob("evil.txt"))
    assert not (cache_folder() / "parsed").exists()


def test_the_users_own_folder_comes_before_the_cache_and_the_cache_before_the_web(web, tmp_path, monkeypatch):
    web.files["/numbers.txt"] = b"1"
    one = toy(f"{web.address}/numbers.txt", b"1")
    assert one.load()["numbers"] == [1]
    cached = cache_folder() / "toy" / "numbers.txt"
    cached.write_text("2")
    assert one.load()["numbers"] == [2]
    (tmp_path / "own" / "toy").mkdir(parents=True)
    (tmp_path / "own" / "toy" / "numbers.txt").write_text("3")
    monkeypatch.setenv("PACOH_DATA_DIR", str(tmp_path / "own"))
    assert one.load()["numbers"] == [3]
    assert len(web.asked) == 1


def test_parsing_happens_once_for_each_state_of_the_files(tmp_path, monkeypatch):
    monkeypatch.setenv("PACOH_DATA_DIR", str(tmp_path))
    path = tmp_path / "toy" / "numbers.txt"
    path.parent.mkdir()
    path.write_text("1\n2")
    parsed = []
    one = toy(None, b"", parse=lambda paths: parsed.append(1) or lines(paths))
    assert one.load()["numbers"].tolist() == one.load("numbers")["numbers"].tolist() == [1, 2]
    assert len(parsed) == 1
    path.write_text("1\n2\n3")
    assert len(one.load()["numbers"]) == 3
    assert len(replace(one, version=2).load()["numbers"]) == 3
    assert len(parsed) == 3
    for stored in (cache_folder() / "parsed").glob("*.npz"):
        stored.write_bytes(stored.read_bytes()[:100])
    assert len(one.load()["numbers"]) == 3
    assert len(parsed) == 4


def test_facts_that_are_not_as_expected_are_named_and_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("PACOH_DATA_DIR", str(tmp_path))
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "numbers.txt").write_text("1\n2")
    one = toy(None, b"", expected={"count": 3})
    with pytest.raises(PacohError, match="count should be 3 and is 2"):
        one.load()
    assert not (cache_folder() / "parsed").exists()


def test_a_cache_that_cannot_be_written_to_costs_time_only(tmp_path, monkeypatch):
    monkeypatch.setenv("PACOH_DATA_DIR", str(tmp_path))
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "numbers.txt").write_text("1\n2")
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(toy(None, b"").load()["numbers"]) == 2


def test_every_source_without_data_says_where_to_get_which_file(monkeypatch):
    import requests

    def no_network(*args, **kwargs):
        raise requests.ConnectionError("no route")

    monkeypatch.setattr(requests, "get", no_network)
    for name, one in SOURCES.items():
        with pytest.raises(PacohError, match="get it from") as caught:
            one.load()
        assert one.files[0].name in str(caught.value), name
        assert one.files[0].where in str(caught.value), name
        assert "PACOH_DATA_DIR" in str(caught.value), name


def test_what_can_be_downloaded_has_a_checksum():
    assert all(file.checksum for one in SOURCES.values() for file in one.files if file.url is not None)


def test_an_unknown_source_is_answered_with_those_there_are():
    with pytest.raises(PacohError, match=r"no data named .mnist..*omniglot"):
        source("mnist")


def test_data_commands_say_what_is_there(call, tmp_path, monkeypatch):
    import json

    monkeypatch.setenv("PACOH_DATA_DIR", str(tmp_path))
    one = SOURCES["berkeley"]
    any_file = tuple(replace(file, checksum=None) for file in one.files)
    monkeypatch.setitem(SOURCES, "berkeley", replace(one, files=any_file))
    (tmp_path / "berkeley").mkdir()
    cases.berkeley(tmp_path / "berkeley" / "berkeley_data.mat")
    there = {row["name"]: row["there"] for row in json.loads(call("data", "list", "--json").out)}
    assert there == {name: name == "berkeley" for name in SOURCES}
    assert call("data", "path", "mhc").out.split("\n")[0] == str(tmp_path / "mhc")
    verified = json.loads(call("data", "verify", "--json").out)
    assert verified["berkeley"]["sensors"] == 46
    assert verified["mhc"] == {"missing": "iedb_benchmark.mat"}
    assert call("data", "verify", "mhc").code == 2
    cases.berkeley(tmp_path / "berkeley" / "berkeley_data.mat", sensors=45)
    reply = call("data", "verify")
    assert reply.code == 2
    assert reply.err == "pacoh: Not right: berkeley.\n"
    assert "sensors should be 46 and is 45" in call("data", "verify", "berkeley").err


def test_names_of_environments_are_there_without_the_libraries_that_read_their_files():
    code = "import sys, pacoh.registry; print({*sys.modules} & {'pandas', 'h5py', 'PIL', 'pooch', 'requests'} or '')"
    # matplotlib and scipy are the core's own; what counts is the extra `data`
    reply = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert reply.stdout.strip() == ""


@pytest.mark.parametrize("name", ["swissfel", "physionet-gcs", "physionet-hct", "berkeley", "omniglot", "mhc"])
def test_an_environment_without_data_and_network_ends_in_one_sentence(call, monkeypatch, name):
    import requests

    def no_network(*args, **kwargs):
        raise requests.ConnectionError("no route")

    monkeypatch.setattr(requests, "get", no_network)
    reply = call("describe", name)
    assert (reply.code, reply.out) == (2, "")
    assert reply.err.count("\n") == 1
    assert ": get it from " in reply.err
    assert not cache_folder().exists() or not list(cache_folder().rglob("*.*"))
