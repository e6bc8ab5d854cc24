"""Task distributions: synthetic ones with their Bayes-optimal predictors, and real data."""

from pacoh.environments.base import PUBLISHED, AbstractEnvironment, Draw
from pacoh.environments.berkeley import Berkeley
from pacoh.environments.cauchy import Cauchy
from pacoh.environments.ellipses import Ellipses
from pacoh.environments.mhc import MHC
from pacoh.environments.omniglot import Omniglot
from pacoh.environments.optima import Branin, Hartmann3, Hartmann6
from pacoh.environments.physionet import PhysioNet
from pacoh.environments.sinusoid import Sinusoid
from pacoh.environments.swissfel import SwissFEL, SwissFELStandIn

__all__ = [
    "MHC",
    "PUBLISHED",
    "AbstractEnvironment",
    "Berkeley",
    "Branin",
    "Cauchy",
    "Draw",
    "Ellipses",
    "Hartmann3",
    "Hartmann6",
    "Omniglot",
    "PhysioNet",
    "Sinusoid",
    "SwissFEL",
    "SwissFELStandIn",
]
