"""Algorithms that go from tasks to predictors, one family a file."""

from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel, AbstractTrainedLearner, fit_lanes
from pacoh.learners.guard import Guard, Guarded
from pacoh.learners.pacoh import PACOH, PACOHModel
from pacoh.learners.vanilla import Vanilla

__all__ = [
    "PACOH",
    "AbstractMetaLearner",
    "AbstractMetaModel",
    "AbstractTrainedLearner",
    "Guard",
    "Guarded",
    "PACOHModel",
    "Vanilla",
    "fit_lanes",
]
