"""Names to objects: methods and environments, for the command line and for `pacoh.fit`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pacoh.environments.base import AbstractEnvironment
from pacoh.environments.cauchy import Cauchy
from pacoh.environments.sinusoid import Sinusoid
from pacoh.inference.base import Adam
from pacoh.inference.map import MAP
from pacoh.inference.svgd import SVGD
from pacoh.learners.base import AbstractMetaLearner
from pacoh.learners.pacoh import PACOH
from pacoh.learners.vanilla import Vanilla
from pacoh.priors.gp import GPPrior
from pacoh.priors.hyper import GroupGaussian, NoHyperPrior
from pacoh.priors.kernels import SE, AbstractKernel, Linear, Matern, Product, Sum, Warped
from pacoh.priors.means import AbstractMean, Constant, LinearMean, Network
from pacoh.priors.nets import MLP
from pacoh.types import PacohError


class Shape(NamedTuple):
    """What a default may depend on: tasks, mean points a task, inputs."""

    n: int
    m: float
    d: int


@dataclass(frozen=True)
class Method:
    """A method: how its learner is made from a shape and settings, and what it can do."""

    make: Callable[..., AbstractMetaLearner]
    summary: str
    has_prior: bool = True  # an empty context is answered
    distributional: bool = True  # predicts distributions, not points


def _mean(name: str, net: MLP) -> AbstractMean:
    return _choose("mean", name, {"network": Network(net), "constant": Constant(), "linear": LinearMean()})


def _kernel(name: str, net: MLP, features: int) -> AbstractKernel:
    """A kernel from its name; `a+b` and `a*b` combine."""
    for sign, combine in (("+", Sum), ("*", Product)):
        if sign in name:
            return combine(tuple(_kernel(part, net, features) for part in name.split(sign)))
    kernels = {
        "network": Warped(SE(), net, features),
        "se": SE(),
        "matern12": Matern(nu=0.5),
        "matern32": Matern(nu=1.5),
        "matern52": Matern(nu=2.5),
        "linear": Linear(),
    }
    return _choose("kernel", name, kernels)


def _choose(what: str, name: str, options: dict[str, Any]) -> Any:
    if name not in options:
        raise PacohError(f"A {what} is one of {', '.join(options)}; got {name!r}.")
    return options[name]


def gp_prior(
    mean: str = "network", kernel: str = "network", layers: int = 4, width: int = 32, features: int = 2
) -> GPPrior:
    """A GP prior from names: `network`, `constant` or `linear` mean; kernels combine with + and *."""
    net = MLP((width,) * layers)
    return GPPrior(_mean(mean, net), _kernel(kernel, net, features))


def _hyper(weight_sd: float, bias_sd: float, scale_sd: float, noise_sd: float, mean_sd: float) -> GroupGaussian:
    return GroupGaussian({"weight": weight_sd, "bias": bias_sd, "scale": scale_sd, "noise": noise_sd, "mean": mean_sd})


def pacoh_gp(
    shape: Shape,
    engine: Callable[[Adam], Any],
    *,
    steps: int = 3000,
    rate: float = 5e-3,
    temperature: float = 1.0,
    batch: int | None = None,
    sds: dict[str, float] | None = None,
    **prior: Any,
) -> PACOH:
    """PACOH-GP with an engine."""
    del shape
    spread = {"weight_sd": 2.0, "bias_sd": 1.0, "scale_sd": 1.0, "noise_sd": 1.0, "mean_sd": 1.0} | (sds or {})
    return PACOH(gp_prior(**prior), _hyper(**spread), engine(Adam(rate, steps)), temperature=temperature, batch=batch)


def _mll_gp(shape: Shape, *, steps: int = 3000, rate: float = 5e-3, batch: int | None = None, **prior: Any) -> PACOH:
    del shape
    return PACOH(gp_prior(**prior), NoHyperPrior(), MAP(Adam(rate, steps)), batch=batch)


def _vanilla_gp(
    shape: Shape, *, steps: int = 300, rate: float = 0.05, mean: str = "constant", kernel: str = "se"
) -> Vanilla:
    del shape
    return Vanilla(gp_prior(mean, kernel), _hyper(1.0, 1.0, 1.0, 1.0, 1.0), MAP(Adam(rate, steps)))


def _dkl_gp(shape: Shape, *, steps: int = 500, rate: float = 5e-3, mean: str = "constant", **prior: Any) -> Vanilla:
    del shape
    return Vanilla(gp_prior(mean, **prior), _hyper(1.0, 1.0, 1.0, 1.0, 1.0), MAP(Adam(rate, steps)))


METHODS: dict[str, Method] = {
    "pacoh-gp-map": Method(
        lambda shape, **settings: pacoh_gp(shape, MAP, **settings), "PACOH with a GP prior, its mode"
    ),
    "pacoh-gp-svgd": Method(
        lambda shape, particles=10, **settings: pacoh_gp(
            shape, lambda adam: SVGD(particles=particles, optimizer=adam), **settings
        ),
        "PACOH with a GP prior, Stein particles",
    ),
    "mll-gp": Method(_mll_gp, "a GP prior by maximal evidence, without a hyper-prior"),
    "vanilla-gp": Method(_vanilla_gp, "a GP on each task alone"),
    "dkl-gp": Method(_dkl_gp, "a deep-kernel GP on each task alone"),
}

ENVIRONMENTS: dict[str, Callable[..., AbstractEnvironment]] = {"sinusoid": Sinusoid, "cauchy": Cauchy}


def learner(method: str, shape: Shape, **settings: Any) -> AbstractMetaLearner:
    """The learner that a name and settings stand for."""
    if method not in METHODS:
        raise PacohError(f"There is no method {method!r}. Methods: {', '.join(METHODS)}.")
    try:
        return METHODS[method].make(shape, **settings)
    except TypeError as error:
        raise PacohError(f"The settings of {method} do not fit: {error}.") from error


def environment(name: str, **settings: Any) -> AbstractEnvironment:
    """The environment that a name and settings stand for."""
    if name not in ENVIRONMENTS:
        raise PacohError(f"There is no environment {name!r}. Environments: {', '.join(ENVIRONMENTS)}.")
    try:
        return ENVIRONMENTS[name](**settings)
    except TypeError as error:
        raise PacohError(f"The settings of {name} do not fit: {error}.") from error
