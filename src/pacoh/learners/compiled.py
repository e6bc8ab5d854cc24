"""Adapting and predicting as compiled calls of little overhead: a small task takes less time than a call."""

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax

from pacoh.compiling import compile_options
from pacoh.data import Dataset
from pacoh.learners.base import AbstractMetaModel
from pacoh.predictive import AbstractPredictive
from pacoh.priors.base import AbstractPredictor
from pacoh.types import Key

Rows = tuple[Any, Any, Any]  # x, y and mask, in NumPy: the compiled call takes them to the device


@jax.tree_util.register_pytree_node_class
class _New:
    """A predictor without the leaves that are its model's own, which every call would copy."""

    def __init__(self, leaves: Any, plan: tuple[Any, tuple[int | None, ...]]):
        self.leaves, self.plan = leaves, plan

    @staticmethod
    def of(predictor: AbstractPredictor, meta: AbstractMetaModel) -> "_New":
        own = {id(leaf): place for place, leaf in enumerate(jax.tree.leaves(meta))}
        leaves, treedef = jax.tree.flatten(predictor)
        origins = tuple(own.get(id(leaf)) for leaf in leaves)
        return _New([leaf for leaf, origin in zip(leaves, origins, strict=True) if origin is None], (treedef, origins))

    def whole(self, meta: AbstractMetaModel) -> AbstractPredictor:
        own, new, (treedef, origins) = jax.tree.leaves(meta), iter(self.leaves), self.plan
        return jax.tree.unflatten(treedef, [next(new) if origin is None else own[origin] for origin in origins])

    def tree_flatten(self) -> tuple[Any, Any]:
        return tuple(self.leaves), self.plan

    @classmethod
    def tree_unflatten(cls, plan: Any, leaves: Any) -> "_New":
        return cls(leaves, plan)


def _adapt(meta: AbstractMetaModel, context: Rows, key: Key) -> _New:
    return _New.of(meta.adapt(Dataset(*context), key), meta)


def _adapt_and_predict(meta: AbstractMetaModel, context: Rows, key: Key, x: Any) -> tuple[_New, AbstractPredictive]:
    predictor = meta.adapt(Dataset(*context), key)
    return _New.of(predictor, meta), predictor(x)


def _predict(predictor: AbstractPredictor, x: Any) -> AbstractPredictive:
    return predictor(x)


class Compiled(NamedTuple):
    """The three calls, for any model of one kind."""

    adapt: Callable[[AbstractMetaModel, Rows, Key], _New]
    adapt_and_predict: Callable[[AbstractMetaModel, Rows, Key, Any], tuple[_New, AbstractPredictive]]
    predict: Callable[[AbstractPredictor, Any], AbstractPredictive]


@cache
def _calls(jit: Callable[..., Any]) -> Compiled:
    return Compiled(*(jit(call, compiler_options=compile_options()) for call in (_adapt, _adapt_and_predict, _predict)))


def compiled(meta: AbstractMetaModel) -> Compiled:
    """The calls for a model: with jax's own `jit`, the faster one, where all its leaves are arrays."""
    return _calls(jax.jit if all(eqx.is_array(leaf) for leaf in jax.tree.leaves(meta)) else eqx.filter_jit)


class Adaptation:
    """A model and the context of a task. It adapts once, when first asked: one compiled call for both.

    Copies and pickles hold the model and the context, and adapt anew.
    """

    def __init__(self, calls: Compiled, meta: AbstractMetaModel, context: Rows, key: Key):
        self._calls, self._given, self._new = calls, (meta, context, key), None

    def __getstate__(self) -> tuple[AbstractMetaModel, Rows, jax.Array]:
        meta, context, key = self._given
        return meta, context, jax.random.key_data(key)

    def __setstate__(self, state: tuple[AbstractMetaModel, Rows, jax.Array]) -> None:
        meta, context, data = state
        self.__init__(compiled(meta), meta, context, jax.random.wrap_key_data(data))

    @cached_property
    def predictor(self) -> AbstractPredictor:
        """The adapted model."""
        self._new = self._calls.adapt(*self._given) if self._new is None else self._new
        return self._new.whole(self._given[0])

    def predict(self, x: Any) -> AbstractPredictive:
        """The prediction at inputs in learner units, padded."""
        if self._new is None:
            self._new, predictive = self._calls.adapt_and_predict(*self._given, x)
            return predictive
        return self._calls.predict(self.predictor, x)
