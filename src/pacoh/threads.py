"""How many threads XLA has on machines of few cores, said before it starts."""

import os

_FEW = 8


def keep_apart() -> None:
    """Gives XLA one thread on the CPU where there are few cores.

    jaxlib (seen with 0.10.2) divides a batch of triangular solves over the threads that run operations, and waits for
    the parts: two such solves at once on two threads wait for each other forever, now and then, from about a hundred
    points a task on. One thread divides nothing, and is as fast: the batches of small matrices here gain nothing from
    two. XLA reads NPROC when it starts, so this is for before its first use; who sets NPROC decides for himself.
    """
    if _cores() < _FEW:
        os.environ.setdefault("NPROC", "1")


def single() -> bool:
    """Whether XLA runs operations on the CPU in one thread."""
    return int(os.environ.get("NPROC") or _cores()) == 1


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
