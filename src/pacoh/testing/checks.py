"""The checks: each states one law in its docstring and fails with a sentence that says how it was broken."""

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pacoh import persistence
from pacoh.categorical import AbstractClasses, CategoricalMixture, PointClass
from pacoh.data import Dataset, bucket, stack
from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel, AbstractTrainedLearner
from pacoh.predictive import AbstractDistribution, AbstractNumeric, AbstractPredictive, Point
from pacoh.priors.base import AbstractPredictor
from pacoh.testing.compare import are_close, are_equal, compilations, is_a, is_finite
from pacoh.testing.subject import QUERIES, SIZES, Subject, ragged_tasks
from pacoh.types import Key


class _Parts(NamedTuple):
    """Everything that one adaptation can be asked, from one compiled function."""

    predictor: AbstractPredictor
    y: AbstractPredictive
    f: AbstractPredictive
    draw: Array


@eqx.filter_jit
def _parts(model: AbstractMetaModel, context: Dataset, x: Array, key: Key) -> _Parts:
    predictor = model.adapt(context, key)
    return _Parts(predictor, predictor(x), predictor.latent(x), predictor.function(key)(x))


@eqx.filter_jit
def _answers(model: AbstractMetaModel, contexts: Dataset, x: Array, keys: Key) -> AbstractPredictive:
    return jax.vmap(lambda context, key: model.adapt(context, key)(x))(contexts, keys)


@eqx.filter_jit
def _density(learner: AbstractTrainedLearner, tasks: Dataset, key: Key) -> Array:
    problem = learner.problem(tasks)
    return problem.log_density(problem.draw(key), key)


def _answer(subject: Subject, context: Dataset, key: Key, model: AbstractMetaModel | None = None) -> AbstractPredictive:
    return _parts(subject.model if model is None else model, context, subject.queries, key).y


def _contract(subject: Subject) -> None:
    """Types and shapes of everything that a learner, a model and a predictor return."""
    is_a(subject.learner, AbstractMetaLearner, "the learner")
    is_a(subject.model, AbstractMetaModel, "what fit returns")
    parts = _parts(subject.model, subject.task(1), subject.queries, jax.random.key(1))
    is_a(parts.predictor, AbstractPredictor, "what adapt returns")
    for what, predictive in (("predictor(x)", parts.y), ("predictor.latent(x)", parts.f)):
        _well_formed(predictive, subject, what)
        if isinstance(predictive, AbstractDistribution):
            is_finite(predictive.std, (QUERIES,), f"{what}.std")
            is_finite(predictive.log_prob(predictive.mean), (QUERIES,), f"{what}.log_prob(y)")
            assert (np.asarray(predictive.std) > 0).all(), f"{what}.std must be positive, got {predictive.std}"
        if isinstance(predictive, CategoricalMixture):
            is_finite(predictive.probs, subject.shape, f"{what}.probs")
            is_finite(predictive.log_prob(predictive.mode), (QUERIES,), f"{what}.log_prob(y)")
    is_finite(parts.draw, subject.shape, "predictor.function(key)(x)")
    if subject.classes is not None:
        sums = np.asarray(parts.draw.sum(-1))
        assert np.allclose(sums, 1, atol=1e-4), f"predictor.function(key)(x) must be probabilities, got sums {sums}"


def _well_formed(predictive: AbstractPredictive, subject: Subject, what: str) -> None:
    """A finite mean, or class ids in their range, at every query."""
    if subject.classes is None:
        is_a(predictive, AbstractNumeric, what)
        assert isinstance(predictive, AbstractNumeric)
        is_finite(predictive.mean, (QUERIES,), f"{what}.mean")
        return
    is_a(predictive, AbstractClasses, f"with classes={subject.classes}, {what}")
    assert isinstance(predictive, AbstractClasses)
    is_finite(predictive.mode, (QUERIES,), f"{what}.mode")
    ids = np.asarray(predictive.mode)
    assert ((ids >= 0) & (ids < subject.classes)).all(), f"{what}.mode must be ids below {subject.classes}, got {ids}"


def _kind(subject: Subject) -> None:
    """A method that says so predicts distributions, any other points, of y and of f alike."""
    parts = _parts(subject.model, subject.task(1), subject.queries, jax.random.key(1))
    kinds = (PointClass, CategoricalMixture) if subject.classes is not None else (Point, AbstractDistribution)
    expected = kinds[subject.distributional]
    is_a(parts.y, expected, f"with distributional={subject.distributional}, predictor(x)")
    is_a(parts.f, expected, f"with distributional={subject.distributional}, predictor.latent(x)")
    if isinstance(parts.y, AbstractDistribution) and isinstance(parts.f, AbstractDistribution):
        gap = float(np.max(np.asarray(parts.f.std) - np.asarray(parts.y.std)))
        assert gap <= subject.tolerance, f"f is more uncertain than y = f + noise, by a std of {gap:.2g}"


def _same_key(subject: Subject) -> None:
    """Fitting and adapting again with the same key gives the same numbers to the last bit; the learner is unchanged."""
    before = jax.tree.map(np.array, eqx.filter(subject.learner, eqx.is_array))
    again = subject.learner.fit(subject.tasks, jax.random.key(0))
    are_equal(subject.model, again, "the models of two fits with the same key")
    are_equal(before, eqx.filter(subject.learner, eqx.is_array), "the learner before and after fit")
    first, second = (_answer(subject, subject.task(0), jax.random.key(3)) for _ in range(2))
    are_equal(first, second, "two predictions with the same key")


def _jit(subject: Subject) -> None:
    """Compiled whole and run operation by operation, adapt and predict agree."""
    context, key = subject.task(1), jax.random.key(4)
    eager = subject.model.adapt(context, key)(subject.queries)
    are_close(_answer(subject, context, key), eager, subject.tolerance, "adapt and predict, compiled and not")


def _ragged(subject: Subject) -> None:
    """All tasks in one padded stack get the predictions that each gets alone; the smallest also without padding."""
    keys = jax.random.split(jax.random.key(5), len(SIZES))
    together = _answers(subject.model, subject.tasks, subject.queries, keys)
    for index, size in enumerate(SIZES):
        stacked = jax.tree.map(lambda leaf, i=index: leaf[i], together)
        answer = _answer(subject, subject.task(index), keys[index])
        are_close(stacked, answer, subject.tolerance, f"a task of {size} points in a stack and alone")


def _padding(subject: Subject) -> None:
    """Padding, and the numbers in it, change neither predictions nor the log-density that fit climbs."""
    key, smallest = jax.random.key(6), int(np.argmin(SIZES))
    rows = jax.tree.map(lambda leaf: leaf[: SIZES[smallest]], subject.task(smallest))
    bare = _answer(subject, rows, key)
    padded = _answer(subject, subject.task(smallest), key)
    filled = _answer(subject, _refilled(subject.task(smallest)), key)
    are_close(padded, bare, subject.tolerance, "predictions with and without padding")
    are_close(filled, bare, subject.tolerance, "predictions with numbers in the masked rows and without the rows")
    if isinstance(subject.learner, AbstractTrainedLearner):
        wider = _refilled(stack(subject.pairs(), bucket(2 * max(SIZES))))
        narrow, wide = (_density(subject.learner, tasks, key) for tasks in (subject.tasks, wider))
        are_close(wide, narrow, 1e-4, "the log-density at a start of training with more padding and with less")


def _empty(subject: Subject) -> None:
    """No points give the prior predictive: finite, whatever the number of masked rows and the numbers in them."""
    task, key = subject.task(1), jax.random.key(8)
    nothing = Dataset(task.x, task.y, jnp.zeros_like(task.mask))
    fewer = jax.tree.map(lambda leaf: leaf[: min(SIZES)], nothing)
    prior = _answer(subject, fewer, key)
    _well_formed(prior, subject, "the prior predictive")
    what = "an empty context as more masked rows and as fewer"
    are_close(_answer(subject, nothing, key), prior, subject.tolerance, what)


def _files(subject: Subject) -> None:
    """A model read back from its file predicts the same to the last bit; unless it says so, it holds no data."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        persistence.save(path, subject.model, {})
        loaded, _ = persistence.load(path)
        content = path.read_bytes()
    are_equal(subject.model, loaded, "a model before saving and after loading")
    context, key = subject.task(2), jax.random.key(9)
    before, after = (_answer(subject, context, key, model) for model in (subject.model, loaded))
    are_equal(before, after, "predictions before saving and after loading")
    for index, (x, y) in enumerate([] if subject.holds_data else subject.pairs()):
        parts = {"inputs": x} if subject.classes is not None else {"inputs": x, "targets": y}  # ids are not unique
        for (part, values), kind in itertools.product(parts.items(), (np.float32, np.float64)):
            assert values.astype(kind).tobytes() not in content, f"the file holds the {part} of task {index}"


def _one_compilation(subject: Subject) -> None:
    """New tasks of a known shape compile nothing, neither in fit nor in adapt and predict."""
    others = stack(ragged_tasks(subject.tasks.x.shape[-1], 1, SIZES[::-1], subject.classes))
    keys = jax.random.split(jax.random.key(10), len(SIZES))
    cases = [(jax.tree.map(lambda leaf, i=i: leaf[i], others), keys[i]) for i in range(len(SIZES))]
    _answer(subject, subject.task(0), keys[0])
    with compilations() as names:
        for context, key in cases:
            _answer(subject, context, key)
    assert not names, f"{len(cases)} tasks of one shape compiled {len(names)} more functions: {', '.join(names)}"
    subject.learner.fit(subject.tasks, keys[0])
    with compilations() as names:
        subject.learner.fit(others, keys[1])
    assert not names, f"fit on other tasks of the same shape compiled {len(names)} functions: {', '.join(names)}"


def _refilled(tasks: Dataset) -> Dataset:
    """The same tasks with threes in every masked place."""
    mask = tasks.mask
    return Dataset(jnp.where(mask[..., None], tasks.x, 3.0), jnp.where(mask, tasks.y, 3).astype(tasks.y.dtype), mask)


CHECKS: dict[str, Callable[[Subject], None]] = {
    "contract": _contract,
    "points or distributions as claimed": _kind,
    "same key same model": _same_key,
    "jit is no jit": _jit,
    "ragged tasks in a stack are as alone": _ragged,
    "padding changes nothing": _padding,
    "an empty context gives the prior": _empty,
    "save and load change nothing": _files,
    "one compilation for many tasks": _one_compilation,
}
"""The checks by name, cheapest first."""
