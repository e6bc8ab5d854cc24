"""Task distributions: synthetic ones with their Bayes-optimal predictors, and real data."""

from pacoh.environments.base import AbstractEnvironment, Draw
from pacoh.environments.cauchy import Cauchy
from pacoh.environments.sinusoid import Sinusoid

__all__ = ["AbstractEnvironment", "Cauchy", "Draw", "Sinusoid"]
