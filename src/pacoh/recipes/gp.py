"""Gaussian-process learners."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from pacoh.errors import PacohError
from pacoh.inference.base import AbstractInference, Adam
from pacoh.inference.map import MAP
from pacoh.inference.nuts import NUTS
from pacoh.learners.moved import Moved, MovedCovariance, Search
from pacoh.learners.pacoh import PACOH
from pacoh.learners.vanilla import Vanilla
from pacoh.priors.gp import GPPrior, paper_gp
from pacoh.priors.hyper import NoHyperPrior
from pacoh.priors.kernels import SE, AbstractKernel, Linear, Matern, Product, Stretched, Sum, Warped, Waves
from pacoh.priors.means import AbstractMean, Basins, Constant, LinearMean, Network, SumMean
from pacoh.priors.nets import MLP
from pacoh.priors.scaled import ScaledGPPrior
from pacoh.recipes.base import Shape, choose, group_prior, task_batch

GP_SDS = {"input": 4.0, "weight": 7.5, "bias": 4.0, "scale": 3.0, "noise": 1.0, "mean": 3.0}
"""The hyper-prior's sds by parameter group, in the groups' units: one rule for all data.

Found by random search for the validation log-likelihood on Sinusoid and Cauchy together (draws 100-105; 5 and 20
tasks). Weights are measured by fan-in and the rest in standardised units, so n, m and d need not enter.
"""


def _mean(name: str, net: MLP) -> AbstractMean:
    if "+" in name:
        return SumMean(tuple(_mean(part, net) for part in name.split("+")))
    return choose("mean", name, {"network": Network(net), "constant": Constant(), "linear": LinearMean()})


_LENGTHS = ("se", "matern12", "matern32", "matern52")


def kernel_of(name: str, net: MLP, features: int, length: float = 1.0) -> AbstractKernel:
    """A kernel from its name; `a+b` and `a*b` combine. `length` stretches those that have length-scales on inputs."""
    for sign, combine in (("+", Sum), ("*", Product)):
        if sign in name:
            return combine(tuple(kernel_of(part, net, features, length) for part in name.split(sign)))
    kernels = {
        "network": Warped(SE(), net, features),
        "se": SE(),
        "matern12": Matern(nu=0.5),
        "matern32": Matern(nu=1.5),
        "matern52": Matern(nu=2.5),
        "linear": Linear(),
        "waves": Waves(),
    }
    kernel = choose("kernel", name, kernels)
    return Stretched(kernel, length) if length != 1 and name in _LENGTHS else kernel


def _check_length(kernel: str, length: float) -> None:
    if length != 1 and not set(re.split(r"[+*]", kernel)) & set(_LENGTHS):
        raise PacohError(
            f"The setting length is of kernels with length-scales on the inputs ({', '.join(_LENGTHS)}); the kernel "
            f"{kernel!r} has none: leave it out."
        )


def gp_prior(
    mean: str = "network",
    kernel: str = "se+linear",
    layers: int = 4,
    width: int = 32,
    features: int = 2,
    activation: str = "gelu",
    reach: float = 1.0,
    noise: float = 0.2,
    own: float = 0.0,
    own_scale: float = 0.0,
    length: float = 1.0,
) -> GPPrior | ScaledGPPrior:
    """A GP prior from names: `network`, `constant` or `linear` means combine with +, kernels with + and *.

    `noise` is the sd about which the learned noise is sought, in learner units, `own` that of a task's factor on the
    mean, `own_scale` that of the log of a task's factor on all else. `length` is about where the length-scales of `se`
    and Matern kernels are sought, in sds of standardised inputs (times the root of their number).
    """
    _check_length(kernel, length)
    net = MLP((width,) * layers, activation, reach)
    prior = GPPrior(_mean(mean, net), kernel_of(kernel, net, features, length), noise, own)
    return ScaledGPPrior(prior, own_scale) if own_scale else prior


def pacoh_gp(
    shape: Shape,
    engine: Callable[[Adam], AbstractInference],
    *,
    steps: int = 3000,
    rate: float = 0.012,
    temperature: float = 1.0,
    batch: int | None = None,
    sds: Mapping[str, float] | None = None,
    paper: float | None = None,
    **prior: Any,
) -> PACOH:
    """PACOH-GP with an engine; `paper` is the s of the paper's literal prior family and hyper-prior N(0, s^2 I)."""
    hyper = group_prior(GP_SDS, sds, temperature, paper)
    family = gp_prior(**prior) if paper is None else paper_gp(**prior)
    batch = task_batch(shape) if batch is None else batch
    return PACOH(family, hyper, engine(Adam(rate, steps)), temperature=temperature, batch=batch)


def pacoh_gp_nuts(
    shape: Shape,
    *,
    draws: int = 100,
    warmup: int = 500,
    thin: int = 5,
    temperature: float = 1.0,
    sds: Mapping[str, float] | None = None,
    mean: str = "linear",
    kernel: str = "se",
    **prior: Any,
) -> PACOH:
    """PACOH-GP by exact draws; for priors without networks."""
    del shape
    hyper = group_prior(GP_SDS, sds, temperature)
    return PACOH(gp_prior(mean, kernel, **prior), hyper, NUTS(draws, warmup, thin), temperature=temperature)


def mll_gp(
    shape: Shape,
    *,
    steps: int = 300,
    rate: float = 0.008,
    batch: int | None = None,
    kernel: str = "network",
    layers: int = 3,
    activation: str = "tanh",
    **prior: Any,
) -> PACOH:
    """The prior of maximal evidence; stopped early and on five tasks a step, or it fits the tasks too well.

    On validation tasks of Cauchy (draws 100-103, rates .006 and .01): log-likelihood .03 and .16, RMSE 1.26 and 1.17
    times the Bayes-optimal predictor's; of Sinusoid -.19 and -.33, 1.94 and 2.13. With four layers and all tasks a step
    the best rates gave -.14 and 1.34, -.24 and 2.00; with two layers and five tasks .22 and 1.15, -.30 and 2.32.
    """
    batch = min(task_batch(shape) or FEW, FEW) if batch is None else batch
    family = gp_prior(kernel=kernel, layers=layers, activation=activation, **prior)
    return PACOH(family, NoHyperPrior(), MAP(Adam(rate, steps)), batch=batch)


FEW = 5
"""Tasks a step where nothing but noise keeps a prior from fitting the tasks too well."""


ALONE = dict.fromkeys(GP_SDS, 1.0)
"""Sds for learners that see one task: there is little to learn them from."""


def vanilla_gp(
    shape: Shape,
    *,
    steps: int = 300,
    rate: float = 0.05,
    mean: str = "constant",
    kernel: str = "se",
    sds: Mapping[str, float] | None = None,
    **prior: Any,
) -> Vanilla:
    """A GP fitted to each task alone; `sds` say how far a few points may take its parameters from where they start."""
    del shape
    return Vanilla(gp_prior(mean, kernel, **prior), group_prior(ALONE, sds), MAP(Adam(rate, steps)))


def lone_gp() -> Vanilla:
    """A GP for one search without a past: a Matern kernel with a length-scale for each input, and little noise.

    Fitted, not averaged over scales that all inputs share: on Hartmann-3 it is within 1 % after 16 rounds (median of
    eight), and the average after 40.
    """
    return vanilla_gp(Shape(0, 0.0, 0), kernel="matern52", noise=0.01)


def moved_gp(
    shape: Shape,
    *,
    steps: int = 400,
    rate: float = 0.03,
    noise: float = 0.05,
    basins: int = 0,
    draws: int = 256,
    kept: int = 32,
    adapt_steps: int = 10,
    sds: Mapping[str, float] | None = None,
) -> Moved:
    """One landscape that tasks are moved on; with `basins` its mean is a sum of that many."""
    del shape
    engine = MAP(Adam(rate, steps))
    shared = MovedCovariance(noise=noise, basins=Basins(basins) if basins else None)
    return Moved(
        group_prior(ALONE | {"move": 1.0, "basin": 1.0}, sds), shared, engine, Search(draws, kept, adapt_steps)
    )
