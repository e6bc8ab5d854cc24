"""What a training step costs in time and memory as meta-train tasks grow: PACOH-NN beside MLAP, on Sinusoid.

    PYTHONPATH=src python benchmarks/scalability.py --out figures

PACOH-NN draws a batch of tasks a step and keeps nothing of a task. MLAP keeps a posterior for every task: its step goes
over all of them, and with a batch of tasks it still holds, and its optimiser still moves, every posterior. Each row is
measured in a process of its own on one core: CPU time a step, the most memory that the training program holds at once
(arguments, results and what lies between), and the process' peak, most of which is Python, jax and its compiler.
"""

import argparse
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

TASKS = (10, 20, 50, 100, 200, 500)
BATCH = 4
LABELS = {
    "pacoh-nn-svgd": f"PACOH-NN-SVGD, {BATCH} tasks a step",
    "mlap-m": "MLAP-M, all tasks a step",
    "mlap-m-batch": f"MLAP-M, {BATCH} tasks a step",
}


def measure(name: str, n: int) -> dict:
    """One row, in this process."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # this and the environment: before jax starts threads
    import resource
    import time

    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from pacoh import registry
    from pacoh.compiling import compile_options
    from pacoh.data import Standardizer, stack
    from pacoh.inference.base import _chunk, _start
    from pacoh.learners.base import lanes

    train = registry.environment("sinusoid", n=n, tests=1, valids=1).draw(0).train.pairs()
    units = Standardizer.fit(train)
    tasks = stack([units(x, y) for x, y in train])
    steps = 2000 // n + 40
    method, batch = name.removesuffix("-batch"), n if name == "mlap-m" else BATCH
    learner = registry.learner(method, registry.Shape(*tasks.x.shape), steps=steps, batch=batch)
    problem = lanes([learner.problem(tasks)])
    keys = jax.random.split(jax.random.key(0), 1)
    given = problem, _start(problem, keys), keys, jnp.asarray(1)
    jit = eqx.filter_jit(inspect.unwrap(_chunk), compiler_options=compile_options())  # as training compiles it
    program = jit.lower(*given, steps).compile()
    seconds = []
    while len(seconds) < 3 or sum(seconds) < 3:  # the least of several: others may be at work on the machine
        began = time.process_time()
        jax.block_until_ready(program(*given, steps))
        seconds.append(time.process_time() - began)
    sizes = program.compiled.memory_analysis()
    held = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = {"method": name, "tasks": n, "ms_a_step": 1e3 * min(seconds) / steps}
    return row | {"training_mib": held / 2**20, "process_peak_mib": peak}


def apart(name: str, n: int) -> dict:
    """One row, in a process of its own."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    call = [sys.executable, __file__, "--one", name, str(n)]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name} with {n} tasks failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def draw(rows: list[dict], path: Path) -> None:
    """Two panels over the number of tasks."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, value, label in zip(
        panels, ("ms_a_step", "training_mib"), ("CPU ms a step", "peak memory of training, MiB"), strict=True
    ):
        for name, text in LABELS.items():
            some = [row for row in rows if row["method"] == name]
            panel.plot([row["tasks"] for row in some], [row[value] for row in some], "o-", label=text)
        panel.set(xlabel="meta-train tasks", ylabel=label, xscale="log", yscale="log")
        panel.set_xticks(TASKS, [str(n) for n in TASKS])
        panel.minorticks_off()
    panels[0].legend(fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("."), help="a folder for scalability.json and scalability.png")
    parser.add_argument("--tasks", type=int, nargs="+", default=list(TASKS))
    parser.add_argument("--methods", nargs="+", default=list(LABELS), choices=list(LABELS))
    parser.add_argument("--one", nargs=2, metavar=("METHOD", "TASKS"), help="one row, in this process")
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.one[0], int(asked.one[1]))))
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in asked.methods:
        for n in asked.tasks:
            rows.append(apart(name, n))
            memory = "{training_mib:8.2f} MiB, process {process_peak_mib:6.0f} MiB".format(**rows[-1])
            print(f"{name:14} {n:4d} tasks: {rows[-1]['ms_a_step']:9.3f} ms a step, {memory}", flush=True)
    (asked.out / "scalability.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows, asked.out / "scalability.png")


if __name__ == "__main__":
    main()
