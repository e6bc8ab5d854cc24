"""Families of priors {P_phi}, and hyper-priors over their parameters."""

from pacoh.priors.base import AbstractHyperPrior, AbstractPredictor, AbstractPrior, Param
from pacoh.priors.bnn import BNNPrior
from pacoh.priors.gp import GPPrior, paper_gp
from pacoh.priors.hyper import Flat, Gaussian, GroupGaussian
from pacoh.priors.kernels import SE, Linear, Matern, Product, Sum, Warped, Waves
from pacoh.priors.last_layer import LastLayerBNN
from pacoh.priors.likelihoods import Categorical, Coded, GaussianNoise
from pacoh.priors.means import Constant, LinearMean, Network, SumMean
from pacoh.priors.nets import MLP
from pacoh.priors.scaled import ScaledGPPrior
from pacoh.priors.weights import DiagonalGaussian

__all__ = [
    "MLP",
    "SE",
    "AbstractHyperPrior",
    "AbstractPredictor",
    "AbstractPrior",
    "BNNPrior",
    "Categorical",
    "Coded",
    "Constant",
    "DiagonalGaussian",
    "Flat",
    "GPPrior",
    "Gaussian",
    "GaussianNoise",
    "GroupGaussian",
    "LastLayerBNN",
    "Linear",
    "LinearMean",
    "Matern",
    "Network",
    "Param",
    "Product",
    "ScaledGPPrior",
    "Sum",
    "SumMean",
    "Warped",
    "Waves",
    "paper_gp",
]
