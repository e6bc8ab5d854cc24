"""Where cores are few, XLA has one thread: two of its triangular solves cannot wait for each other."""

import os
import subprocess
import sys

import pytest

COUNT = """
import os, pacoh.api, jax.numpy as jnp
START
names = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
print(names.count("tf_XLAEigen"))
"""
SOLVES = """
import pacoh, jax, jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
solve = jax.vmap(lambda a, b: solve_triangular(a, b, lower=True))
a = 2 * jnp.eye(144)[None].repeat(10, 0)
both = lambda _, c: (solve(a, c[0]) + 1, solve(a, c[1]) + 1)
run = jax.jit(lambda c: jax.lax.fori_loop(0, 500, both, c))
print(float(run((jnp.ones((10, 144, 288)), jnp.ones((10, 144, 144))))[0].mean()))
"""


def run(code: str, **variables: str) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "NPROC"} | variables
    command = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:2])), sys.executable, "-c", code]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted as Linux names them")
def test_few_cores_have_one_thread_unless_it_was_said_otherwise_and_none_before_it_is_needed():
    begun = COUNT.replace("START", "jnp.ones(3).block_until_ready()")
    assert run(begun) == 1
    assert run(begun, NPROC="2") == 2
    assert run(COUNT.replace("START", "")) == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="two cores are taken as Linux gives them")
def test_solves_at_once_come_to_an_end():
    assert run(SOLVES) == pytest.approx(2.0)
