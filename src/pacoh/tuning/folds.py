"""What a setting is judged on: tasks to train on and tasks to validate with, several folds as one stack."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.data import Dataset, Task, bucket, stack
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
    units = train.units()
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
    """Draws of an environment, to train on meta-train tasks and score on validation tasks; no test tasks.

    Where the data allow no validation tasks, meta-train tasks are left out instead: five folds a draw, half of the
    points of a left-out task as context.
    """
    pairs = []
    for number in draws:
        draw = environment.draw(number)
        half = left_out(draw.train, 5, lambda some: some.split(0.5), number) if draw.valid is None else []
        pairs += half if draw.valid is None else [(draw.train, draw.valid)]
    return folds(pairs)


def leave_out_folds(tasks: Tasks, count: int, context: float, seed: int) -> Fold:
    """`count` folds that each leave other tasks out; of a left-out task a share `context` of its points is context.

    Every fold leaves out the same number of tasks, so that all train in one stack.
    """
    return folds(left_out(tasks, count, lambda some: some.split(context), seed))


def left_out(
    tasks: Tasks, count: int, divide: Callable[[Tasks], Split], seed: int, most: int | None = None
) -> list[tuple[Tasks, Split]]:
    """Tasks to train on and tasks left out (`most` at most), shuffled and divided into context and query, a fold."""
    return [
        (select(tasks, rest), divide(select(tasks, left, random)))
        for rest, left, random in turns(len(tasks), count, seed, most)
    ]


def rehearsed(learn: Tasks, judge: Split, count: int, seed: int, most: int | None = None) -> list[tuple[Tasks, Split]]:
    """The same with a context and a query that are given for every task."""
    return [
        (select(learn, rest), Split(select(judge.context, left), select(judge.query, left)))
        for rest, left, _ in turns(len(learn), count, seed, most)
    ]


def turns(
    n: int, count: int, seed: int, most: int | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.random.Generator]]:
    """A fold: who trains, who is left out (`most` at most), and the generator of the folds."""
    out = max(1, n // max(count, 2))  # one fold leaves half of the tasks
    out = out if most is None else min(out, most)
    if n < 3:
        raise PacohError(f"Leaving tasks out needs 3 tasks or more, got {n}: give more tasks, or fix the settings.")
    random = np.random.default_rng(seed)
    order = random.permutation(n)
    for start in range(0, min(count, n // out) * out, out):
        left = order[start : start + out]
        yield np.setdiff1d(order, left), left, random


def select(tasks: Tasks, index: np.ndarray, shuffle: np.random.Generator | None = None) -> Tasks:
    """The tasks at `index`, their points shuffled where a generator is given."""
    x, y = [], []
    for i in index:
        rows = np.arange(len(tasks.y[i])) if shuffle is None else shuffle.permutation(len(tasks.y[i]))
        x.append(tasks.x[i][rows])
        y.append(tasks.y[i][rows])
    names = tuple(tasks.names[i] for i in index)
    return replace(tasks, names=names, x=tuple(x), y=tuple(y), context=None, split_column=None)
