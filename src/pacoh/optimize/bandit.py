"""A bandit over a finite pool: many runs at once, each from a start of its own, under one learned model."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from pacoh.api import Model
from pacoh.data import Dataset
from pacoh.optimize.optimizer import rows_for
from pacoh.optimize.search import Known, Rule, from_pool
from pacoh.types import Key


def play(
    model: Model,
    rule: Rule,
    pool: tuple[Float[np.ndarray, "q d"], Float[np.ndarray, " q"]],
    first: Int[np.ndarray, " s"],
    rounds: int,
) -> Int[np.ndarray, "s t"]:
    """The rows of the pool that each run chooses, round by round, after its first one, whose reward it is told.

    Runs differ in their first row and in the keys of what is drawn. All go on together: a round is one compiled call.
    """
    rows, targets = model.units.inputs(pool[0]), model.units.targets(pool[1])
    taken = np.zeros((len(first), rounds + 1), int)
    taken[:, 0] = first
    size = rows_for(rounds)  # one length for all rounds: compiling takes longer than what padding costs
    for t in range(1, rounds + 1):
        at = np.pad(taken[:, :t], ((0, 0), (0, size - t)))
        mask = jnp.broadcast_to(np.arange(size) < t, at.shape)
        data = Dataset(jnp.asarray(rows[at]), jnp.asarray(targets[at]), mask)
        keys = jax.random.split(jax.random.fold_in(jax.random.key(1), t), len(first))
        taken[:, t] = np.asarray(_choose(model.meta, Known(data, jnp.zeros_like(mask)), rule, jnp.asarray(rows), keys))
    return taken[:, 1:]


@eqx.filter_jit
def _choose(meta: Any, known: Known, rule: Rule, rows: Float[Array, "q d"], keys: Key) -> Int[Array, " s"]:
    open_: Bool[Array, " q"] = jnp.ones(len(rows), bool)
    return jax.vmap(lambda one, key: from_pool(meta, one, rule, (rows, open_), key))(known, keys)


def regrets(rewards: Float[np.ndarray, "*s t"], most: float) -> tuple[np.ndarray, np.ndarray]:
    """max r - (1/t) sum_{s<=t} r(a_s) and max r - max_{s<=t} r(a_s) after each round t: average and simple regret.

    >>> from pacoh.optimize.bandit import regrets
    >>> average, simple = regrets(np.array([1.0, 3.0, 2.0]), most=4.0)
    >>> average.tolist(), simple.tolist()
    ([3.0, 2.0, 2.0], [3.0, 1.0, 1.0])
    """
    counts = np.arange(1, rewards.shape[-1] + 1)
    return most - rewards.cumsum(-1) / counts, most - np.maximum.accumulate(rewards, -1)
