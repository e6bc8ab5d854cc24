"""The front of the library: people's arrays in, predictive distributions in their own units out."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pacoh import __version__, metrics, persistence, registry
from pacoh.categorical import named
from pacoh.data import Dataset, Standardizer, bucket, padded, stack
from pacoh.encoding import Codec, counted, default_columns, listed
from pacoh.environments.base import AbstractEnvironment, Pair
from pacoh.errors import PacohError
from pacoh.inference.base import Budget, Trained
from pacoh.learners.base import (
    AbstractMetaLearner,
    AbstractMetaModel,
    AbstractTrainedLearner,
    apart,
    complain,
    fit_each,
    lanes,
)
from pacoh.learners.compiled import Adaptation, Compiled, compiled
from pacoh.predictive import AbstractPredictive, to_host
from pacoh.ranges import Ranges
from pacoh.reading import Split, Tasks, read, read_context, read_points
from pacoh.tuning import Choice, Tune, choice, choose_method
from pacoh.types import Key

_TASKS_AT_ONCE = 512


@lru_cache(maxsize=128)
def _key(seed: int) -> Key:
    return jax.random.key(seed)


@eqx.filter_jit
def predict_stack(meta: AbstractMetaModel, contexts: Dataset, x: jax.Array, keys: Key) -> AbstractPredictive:
    """A model's predictions for a stack of contexts, all in learner units."""
    return jax.vmap(lambda context, query, key: meta.adapt(context, key)(query))(contexts, x, keys)


@dataclass(frozen=True)
class Predictor:
    """A model adapted to one task: call it on inputs.

    >>> import pacoh
    >>> from pacoh.testing import ragged_tasks
    >>> predictor = pacoh.fit(ragged_tasks(), "pacoh-gp-map", steps=20).adapt([0.0, 1.0], [0.1, 0.9])
    >>> predictive = predictor([0.5, 0.7, 0.9])
    >>> predictive.mean.shape, predictive.std.shape
    ((3,), (3,))
    """

    task: Adaptation
    units: Standardizer
    codec: Codec
    ranges: Ranges | None = None
    classes: tuple | None = None  # what class ids stand for, where that is known

    def __call__(self, X: Any) -> AbstractPredictive:
        """The predictive distribution of y at the rows of X, in original units; of classes, with their labels."""
        return self._at(self.inputs(X))

    def blocks(self, X: Any, rows: int = 64) -> list[AbstractPredictive]:
        """The same in blocks of rows: one compiled program for any number, and no row's answer depends on the others.

        To the last bit, too: the same program predicts a row alone and among others.
        """
        x = self.inputs(X)
        _ = self.task.predictor  # it adapts apart from predicting
        return [self._at(x[start : start + rows], rows) for start in range(0, len(x), rows)]

    def inputs(self, X: Any) -> np.ndarray:
        """Rows as numbers in original units; one warning where some are far from everything seen."""
        x = read_points(X, name="query", codec=self.codec)
        if self.ranges is not None:
            self.ranges.warn(x, stacklevel=4)
        return x

    def _at(self, x: np.ndarray, rows: int | None = None) -> AbstractPredictive:
        asked = padded(self.units.inputs(x), np.zeros(len(x)), rows)[0]
        predictive = to_host(self.task.predict(asked), len(x), self.units.y_loc, self.units.y_scale)
        return predictive if self.classes is None else named(predictive, self.classes)


@dataclass(frozen=True, repr=False)
class Model:
    """What was learned from the tasks, with the units it was learned in and a card that says how.

    >>> import pacoh
    >>> from pacoh.testing import ragged_tasks
    >>> tasks = pacoh.read(ragged_tasks())
    >>> model = pacoh.fit(tasks, "pacoh-gp-map", steps=20)
    >>> model.card["method"], model.card["tasks"], model.card["points"]["in_all"]
    ('pacoh-gp-map', 4, 18)
    >>> low, high = model.adapt([0.0, 1.0], [0.1, 0.9])([0.5]).interval(0.9)
    >>> bool(low[0] < high[0])
    True
    >>> sorted(name for name, value in model.evaluate(tasks.split(2)).items() if value is not None)
    ['calibration_error', 'coverage_90', 'crps', 'log_likelihood', 'pooled_calibration_error', 'pooled_rmse', 'rmse']
    """

    meta: AbstractMetaModel
    units: Standardizer
    card: dict[str, Any]
    seconds: float | None = None  # what fitting took; not saved, so that the same fit gives the same file
    curve: np.ndarray | None = None  # the log-density over training, in windows of 25 steps; not saved

    def adapt(self, X: Any = None, y: Any = None, *, seed: int = 0) -> Predictor:
        """The predictor for a task with context (X, y); without arguments the prior's.

        Where labels are each task's own, the context must name all classes; without points they stay ids.
        """
        codec = self.codec
        x, y, classes = read_context(np.empty((0, len(codec.columns))) if X is None else X, y, codec)
        task = Adaptation(self._calls, self.meta, padded(*self.units(x, y)), _key(seed))
        return Predictor(task, self.units, codec, self._ranges, classes)

    def __repr__(self) -> str:
        method = self.card.get("method", type(self.meta).__name__)
        return f"Model({method}, learned from {counted(self.card.get('tasks', 0), 'task')})"

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: compiled calls are made anew in a copy."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def _calls(self) -> Compiled:
        return compiled(self.meta)

    @cached_property
    def _ranges(self) -> Ranges | None:
        return Ranges.of(self.codec.names, self.card["ranges"]) if "ranges" in self.card else None

    @cached_property
    def codec(self) -> Codec:
        """How columns and labels become numbers; plain numbers where the model was made without a card."""
        if "codec" not in self.card:
            return Codec(default_columns(len(self.units.x_loc)))
        return Codec.from_json(self.card["codec"])

    def predict_tasks(
        self, contexts: Sequence[Pair], queries: Sequence[np.ndarray], *, seed: int = 0
    ) -> AbstractPredictive:
        """Predictions for many tasks at once, in original units: a leading task axis, queries padded alike.

        Targets of class contexts are ids. Predictions of classes have labels where all tasks share them.
        """
        if self._ranges is not None:
            self._ranges.warn(np.concatenate(queries))
        keys = jax.random.split(jax.random.key(seed), len(contexts))
        context_size = bucket(max(len(x) for x, _ in contexts))
        query_size = bucket(max(len(x) for x in queries))
        parts = []
        for start in range(0, len(contexts), _TASKS_AT_ONCE):
            some = slice(start, start + _TASKS_AT_ONCE)
            context = stack([self.units(x, np.asarray(y, self._kind)) for x, y in contexts[some]], context_size)
            asked = stack([(self.units.inputs(x), np.zeros(len(x))) for x in queries[some]], query_size)
            parts.append(predict_stack(self.meta, context, asked.x, keys[some]).numpy())
        whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
        predictive = whole.affine(self.units.y_loc, self.units.y_scale)
        return named(predictive, None if self.codec.by_task else self.codec.classes)

    @property
    def _kind(self) -> type:
        return np.float64 if self.codec.classes is None else np.int64

    def evaluate(self, split: Split, *, seed: int = 0) -> dict[str, float | None]:
        """Every metric on tasks with context and query: adapt to the one, score on the other."""
        return metrics.summary(*self.answers(split, seed=seed))

    def answers(self, split: Split, *, seed: int = 0) -> tuple[AbstractPredictive, np.ndarray, np.ndarray]:
        """What every metric takes: predictions of the queries, their targets, and which of them are no padding."""
        _check_targets(self.codec, split)
        predictive = self.predict_tasks(split.context.pairs(), split.query.x, seed=seed)
        size = bucket(max(split.query.sizes))
        y = np.stack([np.pad(y, (0, size - len(y))) for y in split.query.y])
        return predictive, y, np.arange(size) < np.array(split.query.sizes)[:, None]

    def update(self, tasks: Any, *, seed: int = 0, budget: Budget | None = None, **settings: Any) -> "Model":
        """Goes on training from where this model is, on all of `tasks`: the old ones (a model keeps none) and new ones.

        Units stay as they were. Settings are those of the first fit, but for those given here (say, fewer steps).
        """
        known = read(tasks, codec=self.codec)
        method, settings = self.card["method"], self.card["settings"] | settings
        learner = registry.learner(method, shape_of(known), **settings)
        if not isinstance(learner, AbstractTrainedLearner):
            raise PacohError(f"{method} learns nothing from tasks that an update could add to: fit it anew.")
        card = _card(known, method, seed, settings) | {"updates": self.card.get("updates", 0) + 1}
        card |= {"tuned": self.card["tuned"]} if "tuned" in self.card else {}
        return _fit(partial(learner.fit, start=self.meta), known.pairs(), self.units, card, seed, budget)

    def save(self, path: str | Path) -> None:
        """Writes the model as one file. It holds no data of the tasks beyond their means, scales and ranges.

        Methods that need the tasks to predict (`mtgp`, `moved-gp`) are the exception: `pacoh list` says which.
        """
        persistence.save(path, {"meta": self.meta, "units": self.units}, self.card)


def load(path: str | Path) -> Model:
    """Reads a model that `Model.save` wrote.

    >>> import pacoh
    >>> from pacoh.testing import ragged_tasks
    >>> pacoh.fit(ragged_tasks(), "pooled-ridge").save("model.safetensors")
    >>> pacoh.load("model.safetensors").card["method"]
    'pooled-ridge'
    """
    content, card = persistence.load(path)
    return Model(content["meta"], content["units"], card)


def fit(
    tasks: Any,
    method: str | AbstractMetaLearner | None = None,
    *,
    seed: int = 0,
    budget: Budget | None = None,
    tune: Tune | None = None,
    classes: bool | str = False,
    categorical: Sequence[str] | None = None,
    **settings: Any,
) -> Model:
    """Learns a prior from tasks: a list of (X, y), a dict by name, a DataFrame, a folder of CSVs or an NPZ file.

    `method` is a registered name (with its settings as keywords) or a learner of your own; without one it is chosen, as
    `choose` does, within a minute for small tasks. `tune` first searches the settings that are not given (without a
    method it says how long to choose). The card says what was chosen and why. `classes` says that the targets are
    labels: True where they mean the same in all tasks, "task" where each task has labels of its own, as many in every
    task. `categorical` names inputs that are labels; `pacoh.read` has more ways to say what is what.

    >>> import numpy as np
    >>> import pacoh
    >>> slopes = [1.8, 2.0, 2.1, 2.2]
    >>> tasks = [(np.arange(4.0), slope * np.arange(4.0)) for slope in slopes]
    >>> model = pacoh.fit(tasks, "pooled-ridge")
    >>> model.adapt([0.0, 1.0], [0.0, 2.1])([2.0, 3.0]).mean.round(2)
    array([4.05, 6.07])
    >>> labels = [(np.arange(4.0), ["low", "low", "high", "high"]) for _ in range(3)]
    >>> few = pacoh.fit(labels, "nearest-prototype", classes=True)
    >>> few.adapt([0.0, 3.0], ["low", "high"])([0.4, 2.9]).labels
    array(['low', 'high'], dtype=object)
    """
    known = read(tasks, classes=classes, categorical=categorical)
    pairs = known.pairs()
    tuned: dict[str, Any] = {}
    if method is None:
        method, settings, tuned["tuned"] = _chosen(known, settings, tune or Tune(), seed, budget)
    elif tune is not None:
        _, settings, tuned["tuned"] = _tuned(known, method, settings, tune, seed, budget)
    learner = registry.learner(method, shape_of(known), **settings) if isinstance(method, str) else method
    units = known.units()
    card = _card(known, method if isinstance(method, str) else type(method).__name__, seed, settings) | tuned
    return _fit(learner.fit, pairs, units, card, seed, budget)


def choose(
    tasks: Any,
    *,
    tune: Tune | None = None,
    seed: int = 0,
    classes: bool | str = False,
    categorical: Sequence[str] | None = None,
    guard: bool | None = None,
) -> Choice:
    """The method and settings that `fit` takes where none is given, with a record and the reasons in sentences.

    The size of the tasks names the candidates (`pacoh.tuning.rule`); tasks that are not trained on judge them by their
    mean log-likelihood, within `tune.seconds` for this and the fit that follows. `pacoh.fit(tasks, choice.method,
    **choice.settings)` is that fit.

    >>> import pacoh
    >>> from pacoh.testing import ragged_tasks
    >>> tune = pacoh.Tune(methods={"vanilla-gp": {"steps": 20}})
    >>> pacoh.choose(ragged_tasks(), tune=tune).method
    'vanilla-gp'
    """
    known = read(tasks, classes=classes, categorical=categorical)
    return _chosen(known, {} if guard is None else {"guard": guard}, tune or Tune(), seed, None)


def fit_many(
    sources: Sequence[Any], method: str, seeds: Sequence[int], *, budget: Budget | None = None, **settings: Any
) -> list[Model]:
    """A model for each source of tasks with its seed, as `fit` gives them up to rounding, all trained in one `vmap`.

    The sources are draws of one kind: as many tasks of as many inputs in each.

    >>> from pacoh.api import fit_many
    >>> from pacoh.testing import ragged_tasks
    >>> draws = [ragged_tasks(seed=seed) for seed in (0, 1)]
    >>> models = fit_many(draws, "pooled-ridge", seeds=[0, 1])
    >>> [model.card["seed"] for model in models]
    [0, 1]
    """
    known = [read(source) for source in sources]
    shapes = [shape_of(tasks) for tasks in known]
    if len({(shape.n, shape.d, shape.classes) for shape in shapes}) != 1:
        raise PacohError("Models train together where their sources have as many tasks, inputs and classes as another.")
    shape = shapes[0]._replace(m=float(np.mean([shape.m for shape in shapes])))
    learner = registry.learner(method, shape, **settings)
    units = [tasks.units() for tasks in known]
    size = bucket(max(max(tasks.sizes) for tasks in known))
    pairs = [[one(x, y) for x, y in tasks.pairs()] for one, tasks in zip(units, known, strict=True)]
    stacks, keys = lanes([stack(each, size) for each in pairs]), jnp.stack([jax.random.key(seed) for seed in seeds])
    models, trained = fit_each([learner] * len(known), stacks, keys, budget)
    metas, curves = apart(models, len(known)), [None] * len(known) if trained is None else list(trained.curve)
    if isinstance(learner, AbstractTrainedLearner) and trained is not None:
        complain(learner, apart(stacks, 1)[0], trained)
    cards = [_card(tasks, method, seed, settings) for tasks, seed in zip(known, seeds, strict=True)]
    parts = zip(jax.block_until_ready(metas), units, cards, curves, strict=True)
    return [Model(meta, one, card, None, curve) for meta, one, card, curve in parts]


def _chosen(tasks: Tasks, settings: dict[str, Any], tune: Tune, seed: int, budget: Budget | None) -> Choice:
    unknown = [name for name in settings if name != "guard"]
    if unknown:
        raise PacohError(
            f"Settings belong to a method: name it with {listed(unknown)}, or leave them out for both to be chosen."
        )

    def make(method: str) -> choice.Make:
        return lambda shape, **chosen: registry.learner(method, shape, **chosen)

    for method, given in (tune.methods or {}).items():
        registry.learner(method, shape_of(tasks), **given)  # what cannot be trained is refused before the search
        if not registry.METHODS[method].distributional:
            raise PacohError(f"Methods are compared by log-likelihood, and {method} predicts points: leave it out.")
    path = None if budget is None else budget.checkpoint
    made_by = {} if path is None else choice.asked(None, settings, tasks, tune, seed)
    guard = settings.get("guard")
    return choice.choose_once(path, made_by, lambda: choose_method(make, shape_of(tasks), tasks, tune, guard, seed))


def _tuned(tasks: Tasks, method: Any, settings: dict[str, Any], tune: Tune, seed: int, budget: Budget | None) -> Choice:
    if not isinstance(method, str):
        raise PacohError("Tuning is for registered methods: search the settings of your own learner with pacoh.tuning.")
    if tasks.classes is not None:
        raise PacohError("Tuning is for targets that are numbers so far: leave it out, and give settings by hand.")

    def make(shape: tuple[int, float, int], **chosen: Any) -> AbstractMetaLearner:
        return registry.learner(method, registry.Shape(*shape), **chosen)

    registry.learner(method, shape_of(tasks), **settings)  # what cannot be trained is refused before the search
    path = None if budget is None else budget.checkpoint
    made_by = {} if path is None else choice.asked(method, settings, tasks, tune, seed)
    return choice.choose_once(path, made_by, lambda: choice.choose(method, make, settings, tasks, tune, seed))


def fit_oracle(environment: AbstractEnvironment, draw: int) -> Model:
    """The Bayes-optimal predictor of an environment, as a model.

    >>> from pacoh import registry
    >>> from pacoh.api import fit_oracle
    >>> best = fit_oracle(registry.environment("sinusoid"), draw=0)
    >>> best.card["method"], best.adapt()([0.0, 1.0]).mean.shape
    ('oracle', (2,))
    """
    learner = environment.oracle()
    if learner is None:
        raise PacohError(
            f"The Bayes-optimal predictor of {type(environment).__name__} is not known: choose another method."
        )
    tasks = environment.draw(draw).train
    card = _card(tasks, "oracle", 0, {})
    return _fit(learner.fit, tasks.pairs(), Standardizer.identity(tasks.x[0].shape[1]), card, 0, None)


def shape_of(tasks: Tasks) -> registry.Shape:
    """What defaults may depend on.

    >>> import pacoh
    >>> pacoh.api.shape_of(pacoh.read([([0.0, 1.0], [0.5, 0.7]), ([2.0], [0.1])]))
    Shape(n=2, m=1.5, d=1, classes=None)
    """
    classes = None if tasks.classes is None else len(tasks.classes)
    return registry.Shape(len(tasks), float(np.mean(tasks.sizes)), tasks.x[0].shape[1], classes)


def _check_targets(codec: Codec, split: Split) -> None:
    """Refuses targets of another kind than the model's, and contexts that do not name all classes of their own."""
    if split.query.classes != codec.classes:
        told = [
            "numbers" if one is None else f"the classes {listed(one)}" for one in (codec.classes, split.query.classes)
        ]
        raise PacohError(
            f"The model predicts {told[0]}, and the targets of these tasks are {told[1]}. Read them as its own were: "
            "pacoh.read(..., codec=model.codec)."
        )
    if not codec.by_task:
        return
    for name, given, asked in zip(split.context.names, split.context.y, split.query.y, strict=True):
        unknown = np.setdiff1d(asked, given)
        if len(unknown):
            raise PacohError(
                f"Task {name!r}: its context has no point of {len(unknown)} of the classes that are asked for, and its "
                "labels are its own. Give at least one point of each class as context: tasks.shots(1), or more rows."
            )


def _fit(
    learn: Callable[..., AbstractMetaModel],
    pairs: list[Pair],
    units: Standardizer,
    card: dict,
    seed: int,
    budget: Budget | None,
) -> Model:
    began = time.perf_counter()
    scaled = stack([units(x, y) for x, y in pairs])
    runs: list[Trained] = []
    budget = budget or Budget()
    told = budget.finished

    def finished(trained: Trained) -> None:
        runs.append(trained)
        if told is not None:
            told(trained)

    meta = jax.block_until_ready(learn(scaled, jax.random.key(seed), budget=replace(budget, finished=finished)))
    curve = runs[0].curve[0] if runs else None
    return Model(meta, units, card, round(time.perf_counter() - began, 2), curve)


def _card(tasks: Tasks, method: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    sizes = [len(x) for x in tasks.x]
    pooled = np.concatenate(tasks.x)
    return {
        "method": method,
        "settings": settings,
        "seed": seed,
        "pacoh": __version__,
        "jax": jax.__version__,
        "precision": str(jnp.zeros(()).dtype),
        "tasks": len(sizes),
        "points": {"least": min(sizes), "most": max(sizes), "in_all": sum(sizes)},
        "inputs": list(tasks.columns),
        "classes": None if tasks.classes is None else len(tasks.classes),
        "codec": tasks.codec.to_json() if tasks.codec is not None else None,
        "ranges": [[float(low), float(high)] for low, high in zip(pooled.min(0), pooled.max(0), strict=True)],
    }
