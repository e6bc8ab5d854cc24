"""What a setting is judged on: tasks to train on and tasks to validate with, several folds as one stack."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.data import Dataset, Standardizer, Task, bucket, stack
from pacoh.environments.base import AbstractEnvironment
from pacoh.errors import PacohError
from pacoh.reading import Split, Tasks


class Fold(eqx.Module):
    """Training and validation tasks in the units of the training tasks, and the scale that leads back.

    A stack of folds is the same type with a leading axis.
    """

    train: Dataset
    valid: Task
    y_scale: Float[Array, ""]


def fold(train: Tasks, valid: Split, sizes: tuple[int, int, int]) -> Fold:
    """One fold, padded to the given numbers of rows (train, context, query)."""
    units = Standardizer.fit(train.pairs())
    parts = (train, valid.context, valid.query)
    stacks = [stack([units(x, y) for x, y in part.pairs()], size) for part, size in zip(parts, sizes, strict=True)]
    return Fold(stacks[0], Task(stacks[1], stacks[2]), jnp.asarray(units.y_scale, float))


def folds(pairs: Sequence[tuple[Tasks, Split]]) -> Fold:
    """Several folds of equal numbers of tasks as one stack."""
    most = [(max(t.sizes), max(v.context.sizes), max(v.query.sizes)) for t, v in pairs]
    sizes = tuple(bucket(int(size)) for size in np.max(most, 0))
    made = [fold(train, valid, sizes) for train, valid in pairs]  # pyright: ignore[reportArgumentType]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)


def environment_folds(environment: AbstractEnvironment, draws: Sequence[int]) -> Fold:
    """Draws of an environment with validation tasks, to train on the one and score on the other; no test tasks."""
    made = [environment.draw(number) for number in draws]
    if any(draw.valid is None for draw in made):
        raise PacohError("This environment has no validation tasks: use leave_out_folds on its meta-train tasks.")
    return folds([(draw.train, draw.valid) for draw in made if draw.valid is not None])


def leave_out_folds(tasks: Tasks, count: int, context: float, seed: int) -> Fold:
    """`count` folds that each leave other tasks out; of a left-out task a share `context` of its points is context.

    Every fold leaves out the same number of tasks, so that all train in one stack.
    """
    n = len(tasks)
    out = max(1, n // count)
    if n < 3:
        raise PacohError(f"Leaving tasks out needs 3 tasks or more, got {n}: give more tasks, or fix the settings.")
    random = np.random.default_rng(seed)
    order = random.permutation(n)
    made = []
    for start in range(0, min(count, n // out) * out, out):
        left = order[start : start + out]
        made.append((_select(tasks, np.setdiff1d(order, left)), _select(tasks, left, random).split(context)))
    return folds(made)


def _select(tasks: Tasks, index: np.ndarray, shuffle: np.random.Generator | None = None) -> Tasks:
    """Some of the tasks, their points shuffled where a generator is given."""
    x, y = [], []
    for i in index:
        rows = np.arange(len(tasks.y[i])) if shuffle is None else shuffle.permutation(len(tasks.y[i]))
        x.append(tasks.x[i][rows])
        y.append(tasks.y[i][rows])
    return Tasks(tuple(tasks.names[i] for i in index), tuple(x), tuple(y), tasks.columns)
