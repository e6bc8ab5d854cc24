"""What a learner is: fit on tasks gives a model, the model adapts to a context and gives a predictor.

Learners work in learner units (standardised inputs and targets) on stacks of padded tasks; `pacoh.api` translates from
and to people's units.
"""

import abc
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pacoh.data import Dataset, Task
from pacoh.errors import PacohError, PacohWarning
from pacoh.inference.base import Budget, Particles, Problem, Trained, run
from pacoh.priors.base import AbstractPredictor
from pacoh.types import Key


class AbstractMetaModel(eqx.Module):
    """What was learned from the tasks."""

    @abc.abstractmethod
    def adapt(self, context: Dataset, key: Key) -> AbstractPredictor:
        """The predictor for a task with this context (no points: the prior's); pure, so many tasks are one `vmap`."""


class AbstractMetaLearner(eqx.Module):
    """An algorithm with its settings. Learning never changes it."""

    @abc.abstractmethod
    def fit(
        self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None
    ) -> AbstractMetaModel:
        """Learns from a stack of tasks; `valid` is for learners that stop or choose by validation tasks."""


class AbstractTrainedLearner(AbstractMetaLearner):
    """A learner that is an engine on a log-density: it needs no loop of its own."""

    @abc.abstractmethod
    def problem(self, tasks: Dataset) -> Problem:
        """The engine, the density and the starting points, for one lane."""

    @abc.abstractmethod
    def model(self, state: Any, tasks: Dataset, key: Key) -> AbstractMetaModel:
        """The model at the end of training, for one lane."""

    def check(self, tasks: Dataset) -> None:
        """Refuses what cannot work, before anything is compiled."""
        del tasks

    def restart(self, model: Any) -> Particles:
        """Where training goes on from a fitted model of this learner."""
        raise PacohError(f"{type(self).__name__} cannot go on from a fitted {type(model).__name__}: fit it anew.")

    def fit(
        self,
        tasks: Dataset,
        key: Key,
        valid: Task | None = None,
        budget: Budget | None = None,
        start: AbstractMetaModel | None = None,
    ) -> AbstractMetaModel:
        """Trains one lane; with `start` from a fitted model on, else from the beginning."""
        del valid
        particles = None if start is None else self.restart(start)
        learners, stacks, particles = _map_arrays(lambda leaf: leaf[None], (self, tasks, particles))
        models, trained = fit_lanes(learners, stacks, key[None], budget, particles)
        complain(self, tasks, trained, stacklevel=4)
        return _map_arrays(lambda leaf: leaf[0], models)


def complain(learner: AbstractTrainedLearner, tasks: Dataset, trained: Trained, stacklevel: int = 3) -> None:
    """Warns of steps that were undone, and of what the engine says of each lane; `tasks` are those of one lane."""
    engine = learner.problem(tasks).engine
    said = [trained.complaint(), *(engine.complaint(state) for state in apart(trained.state, len(trained.skipped)))]
    for complaint in dict.fromkeys(filter(None, said)):
        warnings.warn(complaint, PacohWarning, stacklevel=stacklevel)


def fit_lanes(
    learners: AbstractTrainedLearner,
    tasks: Dataset,
    keys: Key,
    budget: Budget | None = None,
    particles: Particles | None = None,
) -> tuple[Any, Trained]:
    """Trains many lanes at once: seeds, continuous settings and draws of the tasks are one leading axis."""
    learners.check(tasks)
    problem = eqx.filter_vmap(lambda learner, stack: learner.problem(stack))(learners, tasks)
    if particles is not None:
        problem = Problem(problem.engine, problem.log_density, particles)
    trained = run(problem, keys, budget)
    return _models(learners, trained.state, tasks, keys), trained


def fit_each(
    learners: list[Any], tasks: Dataset, keys: Key, budget: Budget | None = None
) -> tuple[Any, Trained | None]:
    """A model a lane as one module: learners of one structure train together; those without training go one by one."""
    if isinstance(learners[0], AbstractTrainedLearner):
        return fit_lanes(lanes(learners), tasks, keys, budget)
    each = zip(learners, apart(tasks, len(learners)), keys, strict=True)
    return lanes([learner.fit(stack, key) for learner, stack, key in each]), None


@eqx.filter_jit
def _models(learners: AbstractTrainedLearner, states: Any, tasks: Dataset, keys: Key) -> Any:
    def lane(learner, state, stack, key):
        return learner.model(state, stack, jax.random.fold_in(key, np.iinfo(np.int32).max))

    return eqx.filter_vmap(lane)(learners, states, tasks, keys)


def _map_arrays(change: Callable[[jax.Array], jax.Array], tree: Any) -> Any:
    return jax.tree.map(lambda leaf: change(leaf) if eqx.is_array(leaf) else leaf, tree)


def lanes(items: list[Any]) -> Any:
    """Modules of one structure as one module with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *items)


def apart(stacked: Any, count: int) -> list[Any]:
    """The lanes of a module, each as a module of its own: what `lanes` put together."""
    return [_map_arrays(lambda leaf, i=i: leaf[i], stacked) for i in range(count)]
