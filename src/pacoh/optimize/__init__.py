"""Bayesian optimisation: a learned prior chooses what to try next, over a box of parameters or a finite pool."""

from pacoh.optimize.acquisition import UCB, AbstractAcquisition, LogEI, Thompson
from pacoh.optimize.optimizer import Best, Optimizer
from pacoh.optimize.search import Effort
from pacoh.optimize.space import Choice, Integer, Pool, Real, Space
from pacoh.optimize.warp import Warp

__all__ = [
    "UCB",
    "AbstractAcquisition",
    "Best",
    "Choice",
    "Effort",
    "Integer",
    "LogEI",
    "Optimizer",
    "Pool",
    "Real",
    "Space",
    "Thompson",
    "Warp",
]
