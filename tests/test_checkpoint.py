"""Laws of checkpoints: an interrupted run ends as the undisturbed one, bit for bit, and only its own is picked up."""

import os
import random
import signal
import subprocess
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pacoh.errors import PacohError
from pacoh.inference import MAP, NUTS, SVGD, VI, AbstractLogDensity, Adam, Budget, Problem, checkpoint, run
from pacoh.inference.checkpoint import Progress


class Normal(AbstractLogDensity):
    loc: jax.Array

    def __call__(self, phi, key):
        return -0.5 * ((phi - self.loc) ** 2).sum() + 0.1 * jax.random.normal(key) * phi.sum()


class Interrupt(Exception):
    pass


def draw(key):
    return jax.random.normal(key, (3,))


def problem(engine, loc=1.0) -> Problem:
    lane = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), engine)
    return Problem(lane, Normal(jnp.full((2, 3), loc)), draw)


def keys(seed=0):
    return jax.random.split(jax.random.key(seed), 2)


def interrupted(made: Problem, path, after: int, chunk: int = 20) -> None:
    def tell(done, total, value):
        if done >= after:
            raise Interrupt

    with pytest.raises(Interrupt):
        run(made, keys(), Budget(chunk=chunk, progress=tell, checkpoint=path))


def numbers(tree):
    return [
        np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)
        for leaf in jax.tree.leaves(tree)
    ]


@pytest.mark.parametrize(
    "engine",
    [
        MAP(Adam(0.05, 80)),
        SVGD(particles=3, optimizer=Adam(0.05, 80)),
        VI(optimizer=Adam(0.05, 80)),
        pytest.param(NUTS(count=50, warmup=30, thin=1, chains=1), marks=pytest.mark.slow),
    ],
    ids=lambda engine: type(engine).__name__,
)
def test_a_resumed_run_ends_bit_equal(engine, tmp_path):
    made = problem(engine)
    undisturbed = run(made, keys(), Budget(chunk=20))
    path = tmp_path / "run.checkpoint"
    interrupted(made, path, 20)
    interrupted(made, path, 60)
    seen = []
    resumed = run(made, keys(), Budget(chunk=20, progress=lambda done, *_: seen.append(done), checkpoint=path))
    assert seen == [80]
    for a, b in zip(numbers(undisturbed.state), numbers(resumed.state), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(undisturbed.curve, resumed.curve)
    np.testing.assert_array_equal(undisturbed.skipped, resumed.skipped)


def test_a_finished_run_gives_its_result_at_once(tmp_path):
    path, made = tmp_path / "run.checkpoint", problem(MAP(Adam(0.05, 40)))
    first = run(made, keys(), Budget(chunk=20, checkpoint=path))

    def never(*_):
        raise AssertionError("nothing is left to do")

    again = run(made, keys(), Budget(chunk=20, progress=never, checkpoint=path))
    np.testing.assert_array_equal(first.state.position, again.state.position)
    assert again.steps == 40
    checkpoint.remove(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("other", "seed", "chunk", "says"),
    [
        (problem(MAP(Adam(0.05, 40)), loc=2.0), 0, 20, "the data or numeric settings differ"),
        (problem(MAP(Adam(0.06, 40))), 0, 20, "the data or numeric settings differ"),
        (problem(MAP(Adam(0.05, 50))), 0, 20, "the settings differ"),
        (problem(MAP(Adam(0.05, 40))), 1, 20, "the seeds differ"),
        (problem(MAP(Adam(0.05, 40))), 0, 10, "the steps a chunk differ"),
    ],
)
def test_another_runs_checkpoint_is_refused_with_the_reason(other, seed, chunk, says, tmp_path):
    path = tmp_path / "run.checkpoint"
    interrupted(problem(MAP(Adam(0.05, 40))), path, 20)
    with pytest.raises(PacohError, match=says):
        run(other, keys(seed), Budget(chunk=chunk, checkpoint=path))


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a checkpoint")
    with pytest.raises(PacohError, match="no checkpoint"):
        run(problem(MAP(Adam(0.05, 40))), keys(), Budget(checkpoint=path))
    assert path.read_text() == "not a checkpoint"


def test_a_write_cut_short_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "run.checkpoint"
    old, new = (
        Progress(jnp.full(3, value), step, np.zeros((1, 0)), np.zeros(1)) for step, value in ((1, 1.0), (2, 2.0))
    )
    checkpoint.write(path, {}, old)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(Interrupt))
    with pytest.raises(Interrupt):
        checkpoint.write(path, {}, new)
    found = checkpoint.read(path, {}, jnp.zeros(3))
    assert found is not None
    assert found.done == 1
    np.testing.assert_array_equal(found.states, jnp.ones(3))


def test_the_fingerprint_is_the_same_in_another_process():
    made = problem(SVGD(particles=3))
    code = (
        "import tests.test_checkpoint as t; from pacoh.inference import SVGD, checkpoint;"
        "print(checkpoint.fingerprint(t.problem(SVGD(particles=3)), t.keys(), 7))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(checkpoint.fingerprint(made, keys(), 7)).replace("test_checkpoint:", "")


def test_keys_and_static_parts_of_a_state_come_back(tmp_path):
    path = tmp_path / "run.checkpoint"
    state = {"key": jax.random.split(jax.random.key(3), 2), "count": jnp.arange(3), "yes": jnp.array(True)}
    checkpoint.write(path, {}, Progress(state, 5, np.ones((2, 3)), np.array([0, 4])))
    like = eqx.filter_eval_shape(lambda: state)
    found = checkpoint.read(path, {}, like)
    assert found is not None
    assert found.states["key"].dtype == state["key"].dtype
    for a, b in zip(numbers(found.states), numbers(state), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_twenty_kills_leave_the_same_model_file(tmp_path):
    """kill -9 at random moments of `pacoh fit`, from importing to writing, and the same command until it ends."""
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)

    def command(out):
        settings = ["--set", "steps=15000", "--set", "layers=2", "--set", "width=16"]
        return [
            sys.executable,
            "-m",
            "pacoh",
            "fit",
            "sinusoid",
            "--method",
            "pacoh-gp-map",
            "--out",
            str(out),
            *settings,
        ]

    whole, killed = tmp_path / "whole.pacoh", tmp_path / "killed.pacoh"
    subprocess.run(command(whole), env=environment, check=True, capture_output=True)
    began = time.monotonic()
    subprocess.run(command(whole), env=environment, check=True, capture_output=True)
    usual = time.monotonic() - began
    moments, kills, progress = random.Random(0), 0, 0
    while kills < 20:
        with (tmp_path / "said").open("w") as said:
            process = subprocess.Popen(command(killed), env=environment, stdout=said, stderr=said)
        try:
            process.wait(moments.uniform(0.1, usual))
            assert process.returncode == 0, (tmp_path / "said").read_text()
            assert killed.read_bytes() == whole.read_bytes()
            killed.unlink()  # it ended before the kill: begin anew
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            progress += killed.with_name("killed.pacoh.checkpoint").exists()
    subprocess.run(command(killed), env=environment, check=True, capture_output=True)
    assert killed.read_bytes() == whole.read_bytes()
    assert not killed.with_name("killed.pacoh.checkpoint").exists()
    assert progress >= 5  # many kills fell into training
