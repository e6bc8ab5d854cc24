"""Families of priors {P_phi}, and hyper-priors over their parameters."""

from pacoh.priors.base import AbstractHyperPrior, AbstractPredictor, AbstractPrior, Param
from pacoh.priors.gp import GPPrior, paper_gp
from pacoh.priors.hyper import Flat, Gaussian, GroupGaussian
from pacoh.priors.kernels import SE, Linear, Matern, Product, Sum, Warped
from pacoh.priors.means import Constant, LinearMean, Network
from pacoh.priors.nets import MLP

__all__ = [
    "MLP",
    "SE",
    "AbstractHyperPrior",
    "AbstractPredictor",
    "AbstractPrior",
    "Constant",
    "Flat",
    "GPPrior",
    "Gaussian",
    "GroupGaussian",
    "Linear",
    "LinearMean",
    "Matern",
    "Network",
    "Param",
    "Product",
    "Sum",
    "Warped",
    "paper_gp",
]
