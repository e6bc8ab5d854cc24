"""Tasks, losses and settings that the tests of certificates share."""

import dataclasses

import jax
import numpy as np

from pacoh.bounds.losses import ClippedAbsolute, ClippedSquared, Outside
from pacoh.priors.base import draw_start
from pacoh.priors.gp import GPPrior

LOSSES = [ClippedAbsolute(0.7), ClippedSquared(0.7), Outside()]
LOSS = ClippedAbsolute(1.0)


def lines(n: int = 6, m: int = 5, d: int = 1, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Tasks of slope near 2 in each input."""
    rng = np.random.default_rng(seed)
    xs = rng.uniform(-1, 1, (n, m, d))
    ws = 2 + 0.1 * rng.normal(size=(n, d))
    return [(x, x @ w + 0.1 * rng.normal(size=m)) for x, w in zip(xs, ws, strict=True)]


def ragged() -> list[tuple[np.ndarray, np.ndarray]]:
    return [(x[: 5 - i % 3], y[: 5 - i % 3]) for i, (x, y) in enumerate(lines())]


def draws(prior: GPPrior, count: int, d: int = 1) -> dict:
    """Settings of a prior about its loc, each moved by N(0, 0.5^2)."""
    spread = jax.tree.map(lambda spec: dataclasses.replace(spec, start=0.5), prior.specs(d))
    return jax.vmap(lambda key: draw_start(spread, key))(jax.random.split(jax.random.key(1), count))
