"""Engines that turn a log-density into draws; they know nothing of tasks."""

from pacoh.inference.base import AbstractInference, AbstractLogDensity, Adam, Budget, Problem, Trained, run, scan
from pacoh.inference.map import MAP
from pacoh.inference.svgd import SVGD

__all__ = [
    "MAP",
    "SVGD",
    "AbstractInference",
    "AbstractLogDensity",
    "Adam",
    "Budget",
    "Problem",
    "Trained",
    "run",
    "scan",
]
