"""Baselines on the experiments of their own papers: MAML on its sinusoids, neural processes on draws of a GP.

    PYTHONPATH=src python benchmarks/origins.py [maml np] [--out figures.json]

MAML: f(x) = a sin(x - b), a ~ U(.1, 5), b ~ U(0, pi), x ~ U(-5, 5), no noise; ten points to learn from, networks of
2 x 40 ReLU units, one inner step of rate 0.01 in training, 25 tasks a step (Finn et al. 2017, section 5.1). Their
figure 2 falls from about 3 without a step to well below 1 after one step and goes on falling to the tenth.

Neural processes: x ~ U(-2, 2), f a GP with a squared exponential kernel of length 0.4 and sd 1, noise of sd 0.1. Their
log-likelihoods a point stand beside the exact GP's on the same points, which no method can exceed on average.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_factor, cho_solve

from pacoh import registry
from pacoh.data import Dataset, stack
from pacoh.inference.base import Adam
from pacoh.inference.map import MAP
from pacoh.learners.episodic import Episodic, EpisodicModel
from pacoh.learners.maml import MAML, Inner
from pacoh.learners.points import Squared
from pacoh.priors.nets import MLP

LENGTH, NOISE = 0.4, 0.1
CONTEXTS = (3, 5, 10, 20)


def sinusoids(count: int, points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of `count` tasks of MAML's paper."""
    draw = np.random.default_rng(seed)
    height, phase = draw.uniform(0.1, 5, (count, 1)), draw.uniform(0, np.pi, (count, 1))
    x = draw.uniform(-5, 5, (count, points))
    return x[..., None], height * np.sin(x - phase)


def maml(steps: int, tasks: int = 20_000) -> list[dict]:
    """The mean squared error on 600 new tasks (100 points each) after steps on ten points of each."""
    made = Episodic(
        MAML(MLP((40, 40), "relu"), Squared(), Inner(1, 0.01, longest=math.inf)), MAP(Adam(1e-3, steps)), 25
    )
    began = time.process_time()
    model = made.fit(stack(list(zip(*sinusoids(tasks, 20, 0), strict=True))), jax.random.key(0))
    seconds = time.process_time() - began
    x, y = (jnp.asarray(part, jnp.float32) for part in sinusoids(600, 110, 1))
    context = Dataset(x[:, :10], y[:, :10], jnp.ones((600, 10), bool))
    query = Dataset(x[:, 10:], y[:, 10:], jnp.ones((600, 100), bool))

    def error(count: int) -> np.ndarray:
        learned = jax.vmap(lambda one: made.rule.learned(model.theta, one, count))(context)
        return np.asarray(jax.vmap(made.rule.risk)(learned, query))

    rows = []
    for count in (0, 1, 2, 5, 10):
        each = error(count)
        rows.append(
            {"gradient_steps": count, "mse": float(each.mean()), "half_width_95": float(1.96 * each.std() / 600**0.5)}
        )
        print("maml: {gradient_steps:2d} gradient steps: MSE {mse:.3f} +- {half_width_95:.3f}".format(**rows[-1]))
    print(f"maml: {steps} training steps in {seconds:.0f} s", flush=True)
    return rows


def gram(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * ((x - z.T) / LENGTH) ** 2)


def gp_tasks(count: int, points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and noisy targets of `count` draws of the GP."""
    draw = np.random.default_rng(seed)
    x = draw.uniform(-2, 2, (count, points, 1))
    covariance = np.exp(-0.5 * ((x - x.transpose(0, 2, 1)) / LENGTH) ** 2) + NOISE**2 * np.eye(points)
    return x, np.einsum("nij,nj->ni", np.linalg.cholesky(covariance), draw.normal(size=(count, points)))


def exact_log_likelihood(x: np.ndarray, y: np.ndarray, size: int) -> float:
    """The mean of ln N(y*; mean, variance) at the points after the first `size`, given those."""
    seen, asked = x[:size], x[size:]
    factor = cho_factor(gram(seen, seen) + NOISE**2 * np.eye(size), lower=True)
    cross = gram(seen, asked)
    variance = 1 + NOISE**2 - (cross * cho_solve(factor, cross)).sum(0)
    off = y[size:] - cross.T @ cho_solve(factor, y[:size])
    return float(np.mean(-0.5 * off**2 / variance - 0.5 * np.log(2 * np.pi * variance)))


def learned_log_likelihood(model: EpisodicModel, x: np.ndarray, y: np.ndarray, size: int) -> float:
    """The same of a fitted model, all tasks at once."""
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)

    def of_task(x, y, key):
        context = Dataset(x, y, jnp.arange(len(y)) < size)
        return model.adapt(context, key)(x[size:]).log_prob(y[size:]).mean()

    return float(jax.jit(jax.vmap(of_task))(x, y, jax.random.split(jax.random.key(1), len(x))).mean())


def neural_processes(steps: int, tasks: int = 20_000) -> list[dict]:
    """Log-likelihoods a point on 500 new draws, for contexts of several sizes."""
    train = stack(list(zip(*gp_tasks(tasks, 40, 0), strict=True)))
    x, y = gp_tasks(500, 60, 1)
    rows = []

    def show(name: str, score: Callable[[int], float]) -> None:
        rows.append({"method": name} | {f"context_{size}": score(size) for size in CONTEXTS})
        print(f"{name:9}", *(f"context {size}: {rows[-1][f'context_{size}']:.3f}" for size in CONTEXTS), flush=True)

    show(
        "exact GP", lambda size: float(np.mean([exact_log_likelihood(*task, size) for task in zip(x, y, strict=True)]))
    )
    show("marginal", lambda size: float(np.mean(_log_normal(y[:, size:], 1 + NOISE**2))))
    for method in ("np", "cnp", "anp"):
        made = registry.learner(
            method, registry.Shape(tasks, 40, 1), steps=steps, rate=1e-3, batch=8, layers=3, width=64, decay=0.0
        )
        began = time.process_time()
        model = made.fit(train, jax.random.key(0))
        seconds = time.process_time() - began
        show(method, lambda size, model=model: learned_log_likelihood(model, x, y, size))
        print(f"{method}: {steps} training steps in {seconds:.0f} s", flush=True)
    return rows


def _log_normal(y: np.ndarray, variance: float) -> np.ndarray:
    return -0.5 * y**2 / variance - 0.5 * np.log(2 * np.pi * variance)


SECTIONS = {"maml": (maml, 30_000), "np": (neural_processes, 10_000)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), help=f"of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument(
        "--steps", type=int, help="training steps (default: 30,000 of MAML, 10,000 of neural processes)"
    )
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    asked = parser.parse_args()
    figures = {}
    for name in asked.sections:
        measure, steps = SECTIONS[name]
        figures[name] = measure(asked.steps or steps)
    if asked.out is not None:
        asked.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
