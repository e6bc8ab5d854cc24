"""Hundreds of settings, seeds and test tasks in one program on an accelerator: seconds after compiling.

    JAX_DEFAULT_MATMUL_PRECISION=highest PYTHONPATH=src python benchmarks/accelerator.py

Training is timed from the end of its first chunk, which compiles, to the end of its last, and scaled to all its steps.
"""

import time
from functools import partial

import jax
import jax.numpy as jnp

from pacoh import registry
from pacoh.data import Dataset
from pacoh.inference.base import Budget
from pacoh.learners.base import AbstractTrainedLearner, fit_lanes, lanes
from pacoh.tuning.folds import environment_folds
from pacoh.tuning.search import draw_settings
from pacoh.tuning.space import SPACES, merged


def stacked(environment: str, **sizes: int) -> Dataset:
    return environment_folds(registry.environment(environment, **sizes), [100]).train


def settings(method: str, count: int) -> list[dict]:
    return [merged({}, setting) for setting in draw_settings(SPACES[method], count, 0)]


def train(learners: list[AbstractTrainedLearner], tasks: Dataset, chunk: int) -> tuple[float, float]:
    """Seconds for all steps after compiling, and seconds for the first chunk with compiling."""
    count, times = len(learners), [time.monotonic()]
    keys = jax.random.split(jax.random.key(0), count)
    budget = Budget(chunk, progress=lambda *_: times.append(time.monotonic()))
    _, trained = fit_lanes(lanes(learners), jax.tree.map(lambda leaf: jnp.repeat(leaf, count, 0), tasks), keys, budget)
    return (times[-1] - times[1]) * trained.steps / (trained.steps - chunk), times[1] - times[0]


def adapt(tasks: Dataset) -> tuple[float, float]:
    """200 new tasks, 15 hypotheses in all, 5,000 steps."""
    learner = partial(registry.learner, "pacoh-nn-svgd", registry.Shape(*tasks.x.shape[1:]))
    prior = learner(**PAPER, hypotheses=5, adapt_steps=5000).prior
    problem = learner(**PAPER).problem(jax.tree.map(lambda leaf: leaf[0], tasks))
    phis = jax.vmap(problem.draw)(jax.random.split(jax.random.key(0), 3))
    contexts = jax.tree.map(lambda leaf: leaf[0], tasks)

    @jax.jit
    def everything(keys):
        def one(context, key):
            return prior.condition_all(phis, context, jnp.asarray(5.0), key)(context.x).mean

        return jax.vmap(one)(contexts, keys)

    times = [time.monotonic()]
    for seed in range(2):
        everything(jax.random.split(jax.random.key(seed), len(contexts.x))).block_until_ready()
        times.append(time.monotonic())
    return times[2] - times[1], times[1] - times[0]


PAPER = {"exact": False, "waves": 0, "draws": 10, "particles": 3, "batch": 4, "activation": "relu"}


def main() -> None:
    print(jax.devices()[0], jax.__version__, jax.config.jax_default_matmul_precision, flush=True)
    cauchy, sines = stacked("cauchy", n=20, m=20), stacked("sinusoid", n=20, m=5)

    def made(method: str, tasks: Dataset, each: list[dict], **fixed) -> list:
        return [registry.learner(method, registry.Shape(*tasks.x.shape[1:]), **(fixed | one)) for one in each]

    gp, nn = partial(made, "pacoh-gp-map", cauchy), partial(made, "pacoh-nn-svgd", sines)
    stein = made("pacoh-gp-svgd", cauchy, [{}] * 32, steps=10_000, particles=10)
    rows = {
        "256 settings of PACOH-GP-MAP x 3,000 steps on Cauchy (< 10 s)": lambda: train(
            gp(settings("pacoh-gp-map", 256), steps=3000), cauchy, 500
        ),
        "32 seeds of PACOH-GP-SVGD x 10,000 steps, 10 particles, on Cauchy (< 30 s)": lambda: train(stein, cauchy, 500),
        "200 new tasks, 15 hypotheses, 5,000 steps (< 10 s)": lambda: adapt(stacked("sinusoid", n=200, m=5)),
        "128 settings of PACOH-NN-SVGD x 20,000 steps, K = 3, L = 10 (< 30 s)": lambda: train(
            nn(settings("pacoh-nn-svgd", 128), steps=20_000, **PAPER), sines, 1000
        ),
    }
    for name, measure in rows.items():
        seconds, first = measure()
        print(f"{name}: {seconds:.1f} s (first part with compiling {first:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
