"""The learned prior and its references on the same points of tasks that were left out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import numpy as np

from pacoh.api import Model, shape_of
from pacoh.data import stack
from pacoh.learners.base import AbstractMetaModel
from pacoh.learners.clouds import LearnedClouds, averaged_clouds
from pacoh.learners.guard import WeakModel, weak_gp, weak_phis
from pacoh.reading import Tasks
from pacoh.registry import METHODS, Shape
from pacoh.transfer.contexts import FEW_POINTS, HALF, Contexts
from pacoh.transfer.judge import Paired
from pacoh.transfer.scores import Scores, score
from pacoh.tuning.rule import quick

LEARNED, PLAIN_GP, PLAIN_CLOUDS = "learned", "plain-gp", "plain-clouds"
LABELS = {
    LEARNED: "the learned prior",
    "vanilla-gp": "a GP on the task alone (vanilla-gp)",
    "averaged-gp": "a GP on the task alone, averaged over 64 settings",
    "level-and-scale": "the same, knowing the level and the scale of y from the other tasks",
    PLAIN_GP: "a plain GP whose length-scale, scale and noise are learned from the other tasks",
    "vanilla-bnn": "a Bayesian network on the task alone (vanilla-bnn)",
    "averaged-clouds": "classes as round clouds of points, on the task alone",
    PLAIN_CLOUDS: "clouds whose width, distance and shares are learned from the other tasks",
}
ALONE = ("vanilla-gp", "averaged-gp", "vanilla-bnn", "averaged-clouds")


def references(shape: Shape) -> dict[str, AbstractMetaModel]:
    """What the learned prior is compared with; none of them learns more from other tasks than level and scale."""

    def made(method: str) -> AbstractMetaModel:
        learner = METHODS[method].make(shape, **quick(shape, method))
        return learner.fit(None, jax.random.key(0))  # pyright: ignore[reportArgumentType] - it learns nothing here

    if shape.classes is not None:
        return {"vanilla-bnn": made("vanilla-bnn"), "averaged-clouds": averaged_clouds(shape.classes)}
    prior = weak_gp()
    phis = weak_phis(prior, shape.d, 64, 1.5)
    return {
        "vanilla-gp": made("vanilla-gp"),
        "averaged-gp": WeakModel(prior, phis),
        "level-and-scale": WeakModel(prior, phis, own=False),
    }


@dataclass(frozen=True)
class Comparison:
    """Scores by learner and amount of context, an entry a task in `able`; NaN where a task is too small for it."""

    able: np.ndarray
    scores: dict[str, dict[str, Scores]]

    @property
    def of_classes(self) -> bool:
        """Whether errors are shares of wrong classes."""
        return PLAIN_CLOUDS in self.scores

    def error(self, learner: str, amount: str) -> np.ndarray:
        """The error on each task."""
        return self.scores[learner][amount].error[:, 0]

    def log_likelihood(self, learner: str, amount: str) -> np.ndarray | None:
        """The log-likelihood a point on each task."""
        known = self.scores[learner][amount].log_likelihood
        return None if known is None else known[:, 0]

    def alone(self, amount: str) -> str:
        """The best reference among those that learn from the task alone: the least mean of log errors.

        Of classes of errors, which may be none.
        """

        def mean(name: str) -> float:
            error = self.error(name, amount)
            return float(np.nanmean(error if self.of_classes else _log(error)))

        return min((name for name in self.scores if name in ALONE), key=mean)

    def gain(self, amount: str, reference: str) -> np.ndarray | None:
        """What the learned prior gains in log-likelihood a point of each task; None where one predicts points."""
        mine, other = self.log_likelihood(LEARNED, amount), self.log_likelihood(reference, amount)
        return None if mine is None or other is None else mine - other

    def changes(self, amount: str, reference: str, classes: bool, learner: str = LEARNED) -> np.ndarray:
        """ln(the learner's error / the reference's) of each task; of classes the difference."""
        mine, other = self.error(learner, amount), self.error(reference, amount)
        return mine - other if classes else _log(mine) - _log(other)

    def ratio(self, amount: str, error: np.ndarray | None = None) -> float:
        """exp of the mean ln(error / that of learning alone), of classes the ratio of the means.

        `error` (lanes, all tasks) stands for the learned one.
        """
        mine = self.error(LEARNED, amount) if error is None else error[:, self.able]
        other = self.error(self.alone(amount), amount)
        if self.of_classes:
            return float(np.nanmean(mine) / max(np.nanmean(other), 1e-12))
        return float(np.exp(np.nanmean(_log(mine) - _log(other))))

    def paired(self, reference: str, classes: bool) -> Paired:
        """Gains over a reference, averaged over few points and half of a task; of classes with few points.

        Half of a task tells most learners all that there is to know of its classes.
        """
        amounts = (FEW_POINTS,) if classes else (FEW_POINTS, HALF)
        error = -np.mean([self.changes(amount, reference, classes) for amount in amounts], 0)
        density = [self.gain(amount, reference) for amount in amounts]
        known = [one for one in density if one is not None]
        return Paired(reference, reference in ALONE, error, np.mean(known, 0) if known else None, reference == PLAIN_GP)


def weak(models: Sequence[Model], tasks: Tasks) -> list[Model]:
    """The reference that knows least beyond the task, in each model's units."""
    known = references(shape_of(tasks))
    return [replace(model, meta=list(known.values())[-1]) for model in models]


def plain_clouds(model: Model, tasks: Tasks) -> Model:
    """Clouds learned from the tasks that a model of classes was learned from, in its units."""
    assert tasks.classes is not None
    learner, whole = LearnedClouds(len(tasks.classes)), stack([model.units(x, y) for x, y in tasks.pairs()])
    return replace(model, meta=learner.fit(whole, jax.random.key(0)))


def _log(error: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(error, 1e-12))


def compare(
    models: Sequence[Model],
    plain: Sequence[Model],
    groups: Sequence[np.ndarray],
    able: np.ndarray,
    contexts: Contexts,
) -> Comparison:
    """Every learner on the tasks that each model (and each plain one) left out, in that model's units."""
    known = references(shape_of(contexts.tasks))
    learners = {LEARNED: list(models)}
    learners |= {name: [replace(model, meta=meta) for model in models] for name, meta in known.items()}
    learners[PLAIN_GP if contexts.tasks.classes is None else PLAIN_CLOUDS] = list(plain)

    def scored(each: list[Model], amount: str) -> Scores:
        return _by_task(score(each, groups, contexts, amount), groups, able, contexts.amounts[amount])

    first = contexts.first_of_equals()
    once = {name: {amount: scored(each, amount) for amount in set(first.values())} for name, each in learners.items()}
    scores = {name: {amount: of[first[amount]] for amount in first} for name, of in once.items()}
    return Comparison(able, scores)


def _by_task(scores: Scores, groups: Sequence[np.ndarray], able: np.ndarray, counts: np.ndarray) -> Scores:
    """Scores by lane and place as a row a task, in the order of `able`."""
    places = {
        int(task): (lane, place)
        for lane, group in reversed(list(enumerate(groups)))
        for place, task in enumerate(group)
    }
    index = tuple(np.array([places[int(task)] for task in able]).T)
    fits = counts[able] > 0
    density = None if scores.log_likelihood is None else np.where(fits, scores.log_likelihood[index], np.nan)[:, None]
    sure = None if scores.sure is None else [[scores.sure[lane][place]] for lane, place in zip(*index, strict=True)]
    return Scores(np.where(fits, scores.error[index], np.nan)[:, None], density, sure)
