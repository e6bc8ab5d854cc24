"""Where cells are computed when not in this process: processes of their own here, or workers of a Ray cluster."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax

from pacoh.bench.run import Executor, Order, Outcome, attempt
from pacoh.bench.spec import Cell
from pacoh.errors import PacohError


def processes(count: int) -> Executor:
    """`count` cells at a time, each in a process of its own: one that runs out of memory takes no other with it."""

    def execute(order: Order) -> Iterator[tuple[Cell, Outcome]]:
        def one(cell: Cell) -> Outcome | None:
            return _in_process(cell, order.store.checkpoint(cell)) if order.begin(cell) else None

        with ThreadPoolExecutor(count) as pool:
            running = {pool.submit(one, cell): cell for cell in order.cells}
            try:
                for future in as_completed(running):
                    outcome = future.result()
                    if outcome is not None:
                        yield running[future], outcome
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    return execute


def _in_process(cell: Cell, checkpoint: Path) -> Outcome:
    command = [sys.executable, "-m", "pacoh.bench.executors"]
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, env=_environment(), **streams) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write((json.dumps({"what": cell.what, "checkpoint": str(checkpoint.resolve())}) + "\n").encode())
        process.stdin.flush()  # it stays open: its end tells the worker that nobody waits any more
        said: list[bytes] = []
        reader = threading.Thread(target=lambda: said.append(process.stderr.read()))  # pyright: ignore[reportOptionalMemberAccess]
        reader.start()
        answer = process.stdout.read()
        code = process.wait()
        reader.join()
    if code == 0:
        return Outcome(**json.loads(answer))
    how = f"signal {-code}" if code < 0 else f"code {code}"
    return Outcome(None, f"The process of this cell ended with {how}.", b"".join(said).decode(errors="replace")[-5000:])


def _environment() -> dict[str, str]:
    """That of this process, with its compilation cache, and without taking all memory of an accelerator at once."""
    known = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    folder = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if folder:
        known |= {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    return known | os.environ


def _leave_with_parent() -> None:
    """Ends this process when the one that began it is gone: two must not write one checkpoint."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def worker() -> None:
    """Computes the cell that standard input describes, and answers with its outcome."""
    asked = json.loads(sys.stdin.buffer.readline())
    _leave_with_parent()
    answer = json.dumps(asdict(attempt(asked["what"], Path(asked["checkpoint"]))))
    sys.stdout.write(answer)
    sys.stdout.flush()
    os._exit(0)  # the thread that waits for the parent holds the standard input


def ray_cluster(address: str | None, retries: int = 10) -> Executor:
    """Every cell is a task of an existing Ray cluster; a worker that dies is replaced, and its cell computed again.

    The records come back to this process, which alone writes files: a cell is kept once, wherever it was computed.
    """
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise PacohError('Cells on a cluster need Ray: pip install "pacoh[ray]".') from None

    def execute(order: Order) -> Iterator[tuple[Cell, Outcome]]:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
        unit = "GPU" if ray.cluster_resources().get("GPU", 0) else "CPU"
        remote = ray.remote(num_cpus=1, num_gpus=int(unit == "GPU"), max_retries=retries)(attempt)
        todo, waiting = list(reversed(order.cells)), {}
        try:
            while todo or waiting:
                while todo and len(waiting) < ray.cluster_resources().get(unit, 1):
                    cell = todo.pop()
                    if not order.begin(cell):
                        todo.clear()
                        break
                    waiting[remote.remote(cell.what)] = cell
                if not waiting:
                    return
                (ready,), _ = ray.wait(list(waiting), num_returns=1)
                cell = waiting.pop(ready)
                try:
                    yield cell, ray.get(ready)
                except ray.exceptions.RayError as error:  # pyright: ignore[reportAttributeAccessIssue]
                    yield cell, Outcome(None, f"{type(error).__name__}: {error}"[:500], str(error))
        finally:
            ray.shutdown()

    return execute


if __name__ == "__main__":
    worker()
