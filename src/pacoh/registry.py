"""Names to objects: methods and environments, for the command line and for `pacoh.fit`."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import equinox as eqx

from pacoh.environments.base import AbstractEnvironment
from pacoh.environments.berkeley import Berkeley
from pacoh.environments.cauchy import Cauchy
from pacoh.environments.ellipses import Ellipses
from pacoh.environments.mhc import MHC
from pacoh.environments.omniglot import Omniglot
from pacoh.environments.optima import Branin, Hartmann3, Hartmann6
from pacoh.environments.physionet import gcs, hct
from pacoh.environments.sinusoid import Sinusoid
from pacoh.environments.swissfel import SwissFEL, SwissFELStandIn
from pacoh.errors import PacohError
from pacoh.learners.base import AbstractMetaLearner
from pacoh.learners.change import changed
from pacoh.learners.guard import Guard
from pacoh.learners.maml import MAML, Reptile
from pacoh.learners.mlap import McAllester, Seeger
from pacoh.learners.moved import Moved
from pacoh.learners.mr_maml import MRMAMLActivations, MRMAMLWeights
from pacoh.learners.naive import ContextMean, LastValue, PooledRidge
from pacoh.learners.naive_classes import MajorityClass, NearestPrototype
from pacoh.learners.neural_process import Attention, Mean
from pacoh.learners.pacoh import PACOH
from pacoh.learners.warp import TargetScale
from pacoh.learners.whiten import Whitening
from pacoh.priors.gp import GPPrior
from pacoh.priors.scaled import ScaledGPPrior
from pacoh.priors.weights import DiagonalGaussian
from pacoh.recipes.base import Shape as Shape
from pacoh.recipes.base import by_map, by_stein, by_variation
from pacoh.recipes.baselines import bmaml, maml, mlap, mr_maml, mtgp, neural_process
from pacoh.recipes.bnn import bnn_prior as bnn_prior
from pacoh.recipes.bnn import pacoh_nn, vanilla_bnn
from pacoh.recipes.gp import gp_prior as gp_prior
from pacoh.recipes.gp import lone_gp, mll_gp, moved_gp, pacoh_gp, pacoh_gp_nuts, vanilla_gp


@dataclass(frozen=True)
class Method:
    """A method: how its learner is made from a shape and settings, and what it can do.

    >>> from pacoh.registry import METHODS
    >>> METHODS["maml"].summary
    'an initialisation that a few gradient steps adapt, by second derivatives'
    >>> METHODS["maml"].distributional, METHODS["maml"].classes, METHODS["mtgp"].holds_data
    (False, True, True)
    """

    make: Callable[..., AbstractMetaLearner]
    summary: str
    has_prior: bool = True  # an empty context is answered
    distributional: bool = True  # predicts distributions, not points
    numbers: bool = True  # takes targets that are numbers
    classes: bool = False  # takes targets that are classes
    holds_data: bool = False  # its model keeps the meta-train tasks


METHODS: dict[str, Method] = {
    "pacoh-gp-map": Method(by_map(pacoh_gp), "PACOH with a GP prior, its mode"),
    "pacoh-gp-svgd": Method(by_stein(pacoh_gp, particles=10), "PACOH with a GP prior, Stein particles"),
    "pacoh-gp-vi": Method(
        by_variation(pacoh_gp, samples=10, predict=100), "PACOH with a GP prior, a variational Gaussian"
    ),
    "pacoh-gp-nuts": Method(pacoh_gp_nuts, "PACOH with a small GP prior (no networks), exact draws"),
    "pacoh-nn-map": Method(by_map(pacoh_nn), "PACOH with a Bayesian-network prior, its mode", classes=True),
    "pacoh-nn-svgd": Method(
        by_stein(pacoh_nn, particles=4), "PACOH with Bayesian-network priors, Stein particles", classes=True
    ),
    "pacoh-nn-vi": Method(
        by_variation(pacoh_nn, samples=3, predict=10),
        "PACOH with Bayesian-network priors, a variational Gaussian",
        classes=True,
    ),
    "vanilla-bnn": Method(vanilla_bnn, "a Bayesian network on each task alone", classes=True),
    "mll-gp": Method(mll_gp, "a GP prior by maximal evidence, without a hyper-prior"),
    "vanilla-gp": Method(vanilla_gp, "a GP on each task alone"),
    "dkl-gp": Method(
        lambda shape, steps=500, rate=5e-3, kernel="network", **settings: vanilla_gp(
            shape, steps=steps, rate=rate, kernel=kernel, **settings
        ),
        "a deep-kernel GP on each task alone",
    ),
    "last-value": Method(
        lambda _shape, **settings: LastValue(**settings),
        "no learning: the context's value at its largest first input, or an input column (lag)",
        distributional=False,
    ),
    "context-mean": Method(
        lambda _shape, **settings: ContextMean(**settings), "no learning: the context's mean", distributional=False
    ),
    "pooled-ridge": Method(
        lambda _shape, **settings: PooledRidge(**settings),
        "one linear regression on the points of all tasks",
        distributional=False,
    ),
    "majority-class": Method(
        lambda shape: MajorityClass(shape.classes),
        "no learning: the context's most frequent class",
        distributional=False,
        numbers=False,
        classes=True,
    ),
    "nearest-prototype": Method(
        lambda shape: NearestPrototype(shape.classes),
        "no learning: the class whose mean in the context is nearest",
        distributional=False,
        numbers=False,
        classes=True,
    ),
    "maml": Method(
        lambda shape, **settings: maml(shape, MAML, **settings),
        "an initialisation that a few gradient steps adapt, by second derivatives",
        distributional=False,
        classes=True,
    ),
    "fo-maml": Method(
        lambda shape, **settings: maml(shape, partial(MAML, second_order=False), **settings),
        "MAML without second derivatives",
        distributional=False,
        classes=True,
    ),
    "reptile": Method(
        lambda shape, **settings: maml(shape, Reptile, **settings),
        "an initialisation near the weights of every task",
        distributional=False,
        classes=True,
    ),
    "mr-maml-w": Method(
        lambda shape, spread=0.07, **settings: mr_maml(
            shape, MRMAMLWeights, weights=DiagonalGaussian(spread), **settings
        ),
        "MAML with an information bottleneck on the weights",
        distributional=False,
        classes=True,
    ),
    "mr-maml-a": Method(
        lambda shape, **settings: mr_maml(shape, MRMAMLActivations, **settings),
        "MAML with an information bottleneck on the activations",
        distributional=False,
        classes=True,
    ),
    "bmaml": Method(bmaml, "Bayesian MAML: Stein particles, trained by the chaser loss", classes=True),
    "np": Method(
        lambda shape, **settings: neural_process(shape, lambda _: None, **settings),
        "a neural process: one latent summary a task",
        classes=True,
    ),
    "cnp": Method(
        lambda shape, **settings: neural_process(shape, lambda _: Mean(), codes=0, whole=True, **settings),
        "a conditional neural process: a summary without randomness",
        classes=True,
    ),
    "anp": Method(
        lambda shape, heads=4, **settings: neural_process(
            shape, lambda net: Attention(net, heads), whole=True, **settings
        ),
        "a neural process whose queries attend to the context",
        classes=True,
    ),
    "mlap-m": Method(
        lambda shape, **settings: mlap(shape, McAllester, **settings),
        "a prior and a posterior a task on McAllester's PAC-Bayes bound",
        classes=True,
    ),
    "mlap-s": Method(
        lambda shape, **settings: mlap(shape, Seeger, **settings),
        "a prior and a posterior a task on Seeger's PAC-Bayes bound",
        classes=True,
    ),
    "moved-gp": Method(
        moved_gp, "one landscape as a GP that tasks are moved on; its model holds the tasks", holds_data=True
    ),
    "mtgp": Method(
        mtgp, "one GP over all tasks (coregionalisation); its model holds the meta-train tasks", holds_data=True
    ),
}
"""Every method by its name; `pacoh list` prints them."""

ENVIRONMENTS: dict[str, Callable[..., AbstractEnvironment]] = {
    "sinusoid": Sinusoid,
    "cauchy": Cauchy,
    "ellipses": Ellipses,
    "swissfel": SwissFEL,
    "swissfel-sim": SwissFELStandIn,
    "physionet-gcs": gcs,
    "physionet-hct": hct,
    "berkeley": Berkeley,
    "omniglot": Omniglot,
    "mhc": MHC,
    "branin": Branin,
    "hartmann3": Hartmann3,
    "hartmann6": Hartmann6,
}
"""Every environment by its name."""


_LEAST = {"layers": 0, "warmup": 0}  # whole numbers; those below start at 1
_LEAST |= dict.fromkeys(("steps", "batch", "width", "features", "particles", "samples", "predict", "draws", "thin"), 1)
_LEAST |= dict.fromkeys(("hypotheses", "adapt_steps", "points"), 1) | {"waves": 0}
_POSITIVE = (
    "rate",
    "adapt_rate",
    "inner_rate",
    "temperature",
    "predict_beta",
    "sd",
    "paper",
    "spread",
    "noise",
    "length",
    "reach",
    "head",
)
_ZERO_OR_MORE = ("decay", "beta", "own", "own_scale")


def _check_setting(name: str, value: Any) -> None:
    """Refuses numbers that no method can use, before anything is trained; None and arrays pass."""
    if isinstance(value, bool | str | list | dict):
        number = float("nan")
    elif isinstance(value, int | float):
        number = float(value)
    else:
        return
    if name in _LEAST and not (isinstance(value, int) and number >= _LEAST[name]):
        raise PacohError(f"The setting {name} is a whole number of {_LEAST[name]} or more; got {value!r}.")
    if name in _POSITIVE and not 0 < number < float("inf"):
        raise PacohError(f"The setting {name} is a positive number; got {value!r}.")
    if name in _ZERO_OR_MORE and not 0 <= number < float("inf"):
        raise PacohError(f"The setting {name} is zero or a positive number; got {value!r}.")


def _check_kind(method: str, shape: Shape) -> None:
    """Refuses targets that a method cannot take, and names methods that can."""
    kind, other = ("numbers", "classes") if shape.classes is None else ("classes", "numbers")
    if not getattr(METHODS[method], kind):
        able = [name for name, one in METHODS.items() if getattr(one, kind)]
        raise PacohError(f"{method} is for targets that are {other}, and these are {kind}. Use {', '.join(able)}.")


def learner(
    method: str, shape: Shape, *, guard: bool = False, warp: bool = False, whiten: bool = False, **settings: Any
) -> AbstractMetaLearner:
    """The learner that a name and settings stand for; `guard` mixes in a weak GP where a context asks for it.

    With `warp` it learns and predicts numbers on a scale on which the targets of all tasks look Gaussian. With `whiten`
    it sees inputs turned so that those of all tasks together are uncorrelated and of unit size.

    >>> from pacoh import registry
    >>> type(registry.learner("pacoh-gp-map", registry.Shape(n=20, m=5.0, d=2), steps=500)).__name__
    'PACOH'
    >>> registry.learner("gp", registry.Shape(n=20, m=5.0, d=2))
    Traceback (most recent call last):
        ...
    pacoh.errors.PacohError: There is no method 'gp'. Methods: pacoh-gp-map, pacoh-gp-svgd, pacoh-gp-vi, ...
    """
    if method not in METHODS:
        raise PacohError(f"There is no method {method!r}. Methods: {', '.join(METHODS)}.")
    _check_kind(method, shape)
    for name, value in settings.items():
        _check_setting(name, value)
    try:
        made = METHODS[method].make(shape, **settings)
    except TypeError as error:
        raise PacohError(f"The settings of {method} do not fit: {error}.") from error
    made = _guarded(method, made) if guard else made
    made = _warped(method, shape, made) if warp else made
    return _whitened(method, made) if whiten else made


def _warped(method: str, shape: Shape, made: AbstractMetaLearner) -> AbstractMetaLearner:
    if shape.classes is not None:
        raise PacohError("Only numbers can be on another scale, and these targets are classes: leave out `warp`.")
    if not METHODS[method].distributional:
        raise PacohError(f"A scale on which targets look Gaussian is for distributions; {method} predicts points.")
    return changed(made, TargetScale)


def _whitened(method: str, made: AbstractMetaLearner) -> AbstractMetaLearner:
    if isinstance(made, LastValue):
        raise PacohError(f"{method} reads its first input, or a lag, as it is: leave out `whiten`.")
    return changed(made, Whitening)


def _guarded(method: str, made: AbstractMetaLearner) -> Guard:
    if not isinstance(made, Moved) and not (
        isinstance(made, PACOH) and isinstance(made.prior, GPPrior | ScaledGPPrior)
    ):
        raise PacohError(f"The guard is for methods that learn a GP prior; {method} has none to guard.")
    return Guard(made, own=lone_gp().model() if isinstance(made, Moved) else None)


_SIZES = ((5, 5.0, 1), (20, 20.0, 2), (100, 200.0, 9))
_SHAPES = [Shape(*size, classes) for classes in (None, 5) for size in _SIZES]


@cache
def defaults(method: str) -> str:
    """A hash of what a method is without settings, on a few shapes: it changes when a default does.

    >>> from pacoh import registry
    >>> registry.defaults("pacoh-gp-map") == registry.defaults("pacoh-gp-svgd")
    False
    """
    known = METHODS[method]
    shapes = [shape for shape in _SHAPES if (known.numbers if shape.classes is None else known.classes)]
    said = [eqx.tree_pformat(known.make(shape), width=1000, short_arrays=False) for shape in shapes]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:8]


def environment(name: str, **settings: Any) -> AbstractEnvironment:
    """The environment that a name and settings stand for.

    >>> from pacoh import registry
    >>> draw = registry.environment("sinusoid").draw(0)
    >>> len(draw.train), draw.train.sizes[0], len(draw.test.context)
    (20, 5, 20)
    """
    if name not in ENVIRONMENTS:
        raise PacohError(f"There is no environment {name!r}. Environments: {', '.join(ENVIRONMENTS)}.")
    try:
        return ENVIRONMENTS[name](**settings)
    except TypeError as error:
        raise PacohError(f"The settings of {name} do not fit: {error}.") from error
