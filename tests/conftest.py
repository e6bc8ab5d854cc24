"""One BLAS thread and a compilation cache, before jax is imported."""

import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

for _library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / "pacoh-test-compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")

MAPPINGS = 30_000  # half of what Linux grants a process by default; every compiled program takes some


@pytest.fixture(autouse=True)
def few_compiled_programs():
    """Forgets compiled programs before the process runs out of memory mappings."""
    yield
    held = Path("/proc/self/maps")
    if "jax" in sys.modules and held.exists() and held.read_bytes().count(b"\n") > MAPPINGS:
        sys.modules["jax"].clear_caches()


@pytest.fixture
def float64():
    """Double precision for a test."""
    import jax

    with jax.enable_x64(True):
        yield


class Reply(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def call(monkeypatch, capfd):
    """Runs `pacoh ...` in this process, as `main` would."""
    from pacoh.__main__ import main

    monkeypatch.setattr("pacoh.cli.output.prepare_jax", lambda: None)  # the tests have a cache of their own

    def run(*arguments) -> Reply:
        monkeypatch.setattr(sys, "argv", ["pacoh", *map(str, arguments)])
        capfd.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Reply(code, *capfd.readouterr())

    return run
