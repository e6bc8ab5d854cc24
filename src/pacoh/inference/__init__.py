"""Engines that turn a log-density into draws; they know nothing of tasks."""

from pacoh.inference.base import AbstractInference, AbstractLogDensity, Adam, Budget, Problem, Trained, run, scan
from pacoh.inference.map import MAP
from pacoh.inference.nuts import NUTS
from pacoh.inference.svgd import SVGD
from pacoh.inference.vi import VI

__all__ = [
    "MAP",
    "NUTS",
    "SVGD",
    "VI",
    "AbstractInference",
    "AbstractLogDensity",
    "Adam",
    "Budget",
    "Problem",
    "Trained",
    "run",
    "scan",
]
