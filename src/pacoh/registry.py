"""Names to objects: methods and environments, for the command line and for `pacoh.fit`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pacoh.environments.base import AbstractEnvironment
from pacoh.environments.berkeley import Berkeley
from pacoh.environments.cauchy import Cauchy
from pacoh.environments.ellipses import Ellipses
from pacoh.environments.mhc import MHC
from pacoh.environments.omniglot import Omniglot
from pacoh.environments.physionet import gcs, hct
from pacoh.environments.sinusoid import Sinusoid
from pacoh.environments.swissfel import SwissFEL, SwissFELStandIn
from pacoh.errors import PacohError
from pacoh.inference.base import AbstractInference, Adam
from pacoh.inference.map import MAP
from pacoh.inference.nuts import NUTS
from pacoh.inference.svgd import SVGD
from pacoh.inference.vi import VI
from pacoh.learners.base import AbstractMetaLearner
from pacoh.learners.bmaml import BMAML
from pacoh.learners.episodic import Episodic
from pacoh.learners.guard import Guard
from pacoh.learners.maml import FOMAML, MAML, AbstractMAML, Inner, Reptile
from pacoh.learners.mlap import MLAP, AbstractComplexity, Family, McAllester, Seeger
from pacoh.learners.mr_maml import AbstractMRMAML, Coder, MRMAMLActivations, MRMAMLWeights
from pacoh.learners.multitask import MTGP, Coregionalised
from pacoh.learners.naive import ContextMean, LastValue, PooledRidge
from pacoh.learners.naive_classes import MajorityClass, NearestPrototype
from pacoh.learners.neural_process import AbstractPath, Attention, DecodedNoise, Mean, NeuralProcess
from pacoh.learners.pacoh import PACOH
from pacoh.learners.points import AbstractLoss, CrossEntropy, Squared
from pacoh.learners.vanilla import Fixed, Vanilla
from pacoh.priors.bnn import AbstractDrawnPrior, BNNPrior
from pacoh.priors.conv import image_net
from pacoh.priors.gp import GPPrior, paper_gp
from pacoh.priors.hyper import GroupGaussian, NoHyperPrior
from pacoh.priors.kernels import SE, AbstractKernel, Linear, Matern, Product, Sum, Warped
from pacoh.priors.last_layer import LastLayerBNN
from pacoh.priors.likelihoods import AbstractLikelihood, Categorical, GaussianNoise
from pacoh.priors.means import AbstractMean, Constant, LinearMean, Network
from pacoh.priors.nets import MLP, AbstractNet
from pacoh.priors.weights import DiagonalGaussian
from pacoh.theory import Rates


class Shape(NamedTuple):
    """What a default may depend on: tasks, mean points a task, inputs, and the classes where there are any."""

    n: int
    m: float
    d: int
    classes: int | None = None  # of targets that are classes


@dataclass(frozen=True)
class Method:
    """A method: how its learner is made from a shape and settings, and what it can do."""

    make: Callable[..., AbstractMetaLearner]
    summary: str
    has_prior: bool = True  # an empty context is answered
    distributional: bool = True  # predicts distributions, not points
    numbers: bool = True  # takes targets that are numbers
    classes: bool = False  # takes targets that are classes
    holds_data: bool = False  # its model keeps the meta-train tasks


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
    mean: str = "network",
    kernel: str = "se+linear",
    layers: int = 4,
    width: int = 32,
    features: int = 2,
    activation: str = "gelu",
    reach: float = 1.0,
) -> GPPrior:
    """A GP prior from names: `network`, `constant` or `linear` mean; kernels combine with + and *."""
    net = MLP((width,) * layers, activation, reach)
    return GPPrior(_mean(mean, net), _kernel(kernel, net, features))


_SDS = {"input": 4.0, "weight": 7.5, "bias": 4.0, "scale": 3.0, "noise": 1.0, "mean": 3.0}
"""The hyper-prior's sds by parameter group, in the groups' units: one rule for all data.

Found by random search for the validation log-likelihood on Sinusoid and Cauchy together (draws 100-105; 5 and 20
tasks). Weights are measured by fan-in and the rest in standardised units, so n, m and d need not enter.
"""


def _hyper(
    sds: Mapping[str, float] | None = None, factor: float = 1.0, default: dict[str, float] = _SDS
) -> GroupGaussian:
    """The default hyper-prior with some sds replaced, all times `factor`."""
    unknown = set(sds or ()) - set(default)
    if unknown:
        raise PacohError(f"Parameter groups are {', '.join(default)}; got {', '.join(sorted(unknown))}.")
    return GroupGaussian({group: factor * sd for group, sd in (default | dict(sds or {})).items()})


def _batch(shape: Shape) -> int | None:
    """Tasks a step: all of them, or 32 where there are many, so that a step costs the same for any number of tasks."""
    return None if shape.n <= 64 else 32


def _pacoh_gp(
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
    """PACOH-GP with an engine; `paper` is the s of the paper's literal prior family and hyper-prior N(0, s^2 I).

    The sds shrink with the root of the temperature: it then tempers the hyper-posterior as a whole, which moves its
    spread and leaves its mode where it is.
    """
    if paper is None:
        family, hyper = gp_prior(**prior), _hyper(sds, temperature**0.5)
    elif sds is not None:
        raise PacohError("The paper's hyper-prior has one sd for everything: give `paper` or `sds`, not both.")
    else:
        family, hyper = paper_gp(**prior), _paper_hyper(_SDS, paper)
    batch = _batch(shape) if batch is None else batch
    return PACOH(family, hyper, engine(Adam(rate, steps)), temperature=temperature, batch=batch)


def _pacoh_gp_nuts(
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
    del shape
    hyper = _hyper(sds, temperature**0.5)
    return PACOH(gp_prior(mean, kernel, **prior), hyper, NUTS(draws, warmup, thin), temperature=temperature)


def _mll_gp(shape: Shape, *, steps: int = 200, rate: float = 0.004, batch: int | None = None, **prior: Any) -> PACOH:
    batch = _batch(shape) if batch is None else batch
    return PACOH(gp_prior(**prior), NoHyperPrior(), MAP(Adam(rate, steps)), batch=batch)


_ALONE = dict.fromkeys(_SDS, 1.0)
"""Sds for learners that see one task: there is little to learn them from."""


def _vanilla_gp(
    shape: Shape, *, steps: int = 300, rate: float = 0.05, mean: str = "constant", kernel: str = "se", **prior: Any
) -> Vanilla:
    del shape
    return Vanilla(gp_prior(mean, kernel, **prior), _hyper(_ALONE), MAP(Adam(rate, steps)))


_NN_SDS = {"input": 8.0, "weight": 10.0, "bias": 1.4, "spread": 0.06, "level": 5.0, "noise": 1.2}
_NN_SDS |= {"wave": 6.5, "length": 1.0, "share": 0.3}
"""The same for Bayesian networks: means in the groups of the weights, log sds ("spread") and their levels.

Found by random search for the validation log-likelihood below the Bayes-optimal predictor's, on Sinusoid and Cauchy
together (draws 100-105, MAP, 2,000 steps, two draws an evidence: longer training and more draws fit them too well).
"""


def bnn_prior(
    shape: Shape,
    *,
    net: str = "mlp",
    layers: int = 4,
    width: int = 32,
    activation: str = "gelu",
    reach: float = 1.0,
    waves: int | None = None,
    spread: float | None = None,
    noise: float = 0.2,
    draws: int | None = None,
    average: bool = False,
    points: int | None = None,
    coupled: bool = False,
    exact: bool = True,
    hypotheses: int = 5,
    adapt_steps: int = 200,
    adapt_rate: float = 0.03,
    prior_weight: float = 1.0,
) -> AbstractDrawnPrior:
    """A prior over the weights of a network, from names and numbers; `conv` is for inputs that are square images.

    In regression the last layer is integrated out (`exact`), two draws of the others are enough, and 64 waves stand
    beside them; else all is drawn (ten times, for classes fifty), and there are none.
    """
    exact = exact and shape.classes is None and net == "mlp"
    draws = (2 if exact else 10 if shape.classes is None else 50) if draws is None else draws
    waves = (64 if exact else 0) if waves is None else waves
    spread = (0.23 if shape.classes is None else 0.4) if spread is None else spread
    sizes, weights = ((width,) * layers, activation, reach), DiagonalGaussian(spread)
    networks: dict[str, Callable[[], AbstractNet]] = {
        "mlp": lambda: MLP(*sizes, waves),
        "conv": lambda: image_net(shape.d, *sizes),
    }
    network: Any = _choose("net", net, networks)()
    engine = SVGD(particles=hypotheses, optimizer=Adam(adapt_rate, adapt_steps))
    rest: dict[str, Any] = {"weights": weights, "adaptation": engine, "prior_weight": prior_weight, "draws": draws}
    rest |= {"points": points, "average": average, "coupled": coupled}
    if shape.classes is not None:
        return BNNPrior(net=network, likelihood=Categorical(outputs=shape.classes), **rest)
    kind = LastLayerBNN if exact else BNNPrior
    return kind(net=network, likelihood=GaussianNoise(noise=noise), **rest)


def _pacoh_nn(
    shape: Shape,
    engine: Callable[[Adam], AbstractInference],
    *,
    steps: int = 2000,
    rate: float | None = None,
    temperature: float = 1.0,
    batch: int | None = None,
    beta_power: float = 1.0,
    lam_power: float = 1.0,
    predict_beta: float = 0.5,
    sds: Mapping[str, float] | None = None,
    paper: float | None = None,
    **prior: Any,
) -> PACOH:
    """PACOH-NN with an engine; `paper` is the s of the paper's hyper-prior N(0, s^2 I).

    Predictions take beta = `predict_beta` m: with the noise and the last layer's spread learned from the same points,
    the posterior at beta = m is too sure of itself (90 % intervals hold 83 % on Cauchy; 88 % at m/2).
    """
    if paper is not None and sds is not None:
        raise PacohError("The paper's hyper-prior has one sd for everything: give `paper` or `sds`, not both.")
    rate = (0.003 if shape.classes is None else 0.01) if rate is None else rate
    hyper = _hyper(sds, temperature**0.5, _NN_SDS) if paper is None else _paper_hyper(_NN_SDS, paper)
    return PACOH(
        bnn_prior(shape, **prior),
        hyper,
        engine(Adam(rate, steps)),
        Rates(lam_power, beta_power),
        Rates(1.0, 1.0, predict_beta),
        temperature,
        _batch(shape) if batch is None else batch,
    )


def _paper_hyper(groups: dict[str, float], s: float) -> GroupGaussian:
    """N(0, s^2 I) over every parameter, whatever its unit."""
    return GroupGaussian(dict.fromkeys(groups, s), exact=True)


def _vanilla_bnn(
    shape: Shape,
    *,
    spread: float | None = None,
    activation: str = "tanh",
    exact: bool = False,
    hypotheses: int = 10,
    adapt_steps: int = 1000,
    **prior: Any,
) -> Fixed:
    """A network of zero-centred weights, all drawn, learned from one task by Stein particles."""
    spread = (2.0 if shape.classes is None else 4.0) if spread is None else spread
    settings = {
        "activation": activation,
        "exact": exact,
        "hypotheses": hypotheses,
        "adapt_steps": adapt_steps,
        "spread": spread,
    }
    return Fixed(bnn_prior(shape, **settings, **prior))


def _net(layers: int = 4, width: int = 32, activation: str = "gelu", reach: float = 1.0) -> MLP:
    return MLP((width,) * layers, activation, reach)


def _loss(shape: Shape) -> AbstractLoss:
    return Squared() if shape.classes is None else CrossEntropy(shape.classes)


def _maml(
    shape: Shape,
    kind: Callable[..., AbstractMAML],
    *,
    steps: int = 1500,
    rate: float = 0.002,
    batch: int | None = None,
    inner_steps: int = 5,
    inner_rate: float = 0.01,
    test_steps: int = 10,
    **settings: Any,
) -> Episodic:
    """A rule of the MAML family, trained by Adam; `share` is the share of a task's points in the context."""
    own = {name: settings.pop(name) for name in ("share",) if name in settings}
    rule = kind(_net(**settings), _loss(shape), Inner(inner_steps, inner_rate, test_steps), **own)
    return Episodic(rule, MAP(Adam(rate, steps)), _batch(shape) if batch is None else batch)


def _mr_maml(
    shape: Shape,
    kind: Callable[..., AbstractMRMAML],
    *,
    steps: int = 1500,
    rate: float = 0.002,
    batch: int | None = None,
    inner_steps: int = 5,
    inner_rate: float = 0.01,
    test_steps: int = 10,
    layers: int = 3,
    head_layers: int = 1,
    width: int = 32,
    activation: str = "gelu",
    reach: float = 1.0,
    **own: Any,
) -> Episodic:
    """MR-MAML: an encoder of `layers`, a decoder of `head_layers` that adapts; `beta` prices what the encoder knows."""
    net = Coder(_net(layers, width, activation, reach), _net(head_layers, width, activation), width)
    rule = kind(net, _loss(shape), Inner(inner_steps, inner_rate, test_steps), **own)
    return Episodic(rule, MAP(Adam(rate, steps)), _batch(shape) if batch is None else batch)


def _likelihood(shape: Shape, noise: float) -> AbstractLikelihood:
    return GaussianNoise(noise=noise) if shape.classes is None else Categorical(shape.classes)


def _bmaml(
    shape: Shape,
    *,
    steps: int = 1500,
    rate: float = 0.002,
    batch: int | None = 4,
    inner_steps: int = 5,
    inner_rate: float = 0.02,
    test_steps: int = 10,
    noise: float = 0.3,
    layers: int = 4,
    width: int = 32,
    activation: str = "gelu",
    reach: float = 1.0,
    **own: Any,
) -> Episodic:
    """BMAML; `chase` is by how many steps the leader is ahead; few tasks a step, for a step moves particles twice."""
    net, inner = _net(layers, width, activation, reach), Inner(inner_steps, inner_rate, test_steps)
    rule = BMAML(net, _likelihood(shape, noise), inner, **own)
    return Episodic(rule, MAP(Adam(rate, steps)), batch)


def _neural_process(
    shape: Shape,
    path: Callable[[MLP], AbstractPath | None],
    *,
    steps: int = 1000,
    rate: float = 0.002,
    batch: int | None = None,
    layers: int = 3,
    width: int = 32,
    activation: str = "gelu",
    reach: float = 1.0,
    **own: Any,
) -> Episodic:
    """A neural process; encoders and decoder have `layers`, summaries `width` numbers."""
    net = _net(layers, width, activation, reach)
    likelihood = DecodedNoise() if shape.classes is None else Categorical(shape.classes)
    rule = NeuralProcess(net, net, likelihood, path(net), width, **own)
    return Episodic(rule, MAP(Adam(rate, steps)), _batch(shape) if batch is None else batch)


def _mlap(
    shape: Shape,
    complexity: Callable[[float], AbstractComplexity],
    *,
    steps: int = 3000,
    rate: float = 0.003,
    batch: int | None = None,
    adapt_steps: int = 500,
    adapt_rate: float = 0.01,
    predict: int = 20,
    delta: float = 0.1,
    spread: float = 0.1,
    noise: float = 0.2,
    layers: int = 4,
    width: int = 32,
    activation: str = "gelu",
    reach: float = 1.0,
    **own: Any,
) -> MLAP:
    """MLAP; `wide` and `narrow` are the sds of hyper-prior and hyper-posterior."""
    net, likelihood = _net(layers, width, activation, reach), _likelihood(shape, noise)
    family = Family(net, likelihood, DiagonalGaussian(spread), complexity(delta), **own)
    engines = MAP(Adam(rate, steps)), MAP(Adam(adapt_rate, adapt_steps))
    return MLAP(family, *engines, predict, _batch(shape) if batch is None else batch)


def _mtgp(
    shape: Shape,
    *,
    steps: int = 300,
    rate: float = 0.03,
    kernel: str = "se",
    rank: int = 2,
    noise: float = 0.2,
    adapt_steps: int = 100,
    adapt_rate: float = 0.05,
) -> MTGP:
    """A multi-task GP; `rank` is that of what tasks share."""
    if shape.classes is not None:
        raise PacohError("A multi-task GP predicts numbers; for classes choose another method.")
    prior = Coregionalised(_kernel(kernel, _net(), 2), rank, noise)
    engines = MAP(Adam(rate, steps)), MAP(Adam(adapt_rate, adapt_steps))
    return MTGP(_hyper(default=_ALONE | {"task": 1.0}), prior, *engines)


METHODS: dict[str, Method] = {
    "pacoh-gp-map": Method(
        lambda shape, **settings: _pacoh_gp(shape, MAP, **settings), "PACOH with a GP prior, its mode"
    ),
    "pacoh-gp-svgd": Method(
        lambda shape, particles=10, **settings: _pacoh_gp(
            shape, lambda adam: SVGD(particles=particles, optimizer=adam), **settings
        ),
        "PACOH with a GP prior, Stein particles",
    ),
    "pacoh-gp-vi": Method(
        lambda shape, samples=10, predict=100, sd=0.01, temperature=0.01, **settings: _pacoh_gp(
            shape,
            lambda adam: VI(samples=samples, predict=predict, optimizer=adam, sd=sd),
            temperature=temperature,
            **settings,
        ),
        "PACOH with a GP prior, a variational Gaussian",
    ),
    "pacoh-gp-nuts": Method(_pacoh_gp_nuts, "PACOH with a small GP prior (no networks), exact draws"),
    "pacoh-nn-map": Method(
        lambda shape, **settings: _pacoh_nn(shape, MAP, **settings),
        "PACOH with a Bayesian-network prior, its mode",
        classes=True,
    ),
    "pacoh-nn-svgd": Method(
        lambda shape, particles=4, **settings: _pacoh_nn(
            shape, lambda adam: SVGD(particles=particles, optimizer=adam), **settings
        ),
        "PACOH with Bayesian-network priors, Stein particles",
        classes=True,
    ),
    "pacoh-nn-vi": Method(
        lambda shape, samples=3, predict=10, sd=0.01, temperature=0.01, **settings: _pacoh_nn(
            shape,
            lambda adam: VI(samples=samples, predict=predict, optimizer=adam, sd=sd),
            temperature=temperature,
            **settings,
        ),
        "PACOH with Bayesian-network priors, a variational Gaussian",
        classes=True,
    ),
    "vanilla-bnn": Method(_vanilla_bnn, "a Bayesian network on each task alone", classes=True),
    "mll-gp": Method(_mll_gp, "a GP prior by maximal evidence, without a hyper-prior"),
    "vanilla-gp": Method(_vanilla_gp, "a GP on each task alone"),
    "dkl-gp": Method(
        lambda shape, steps=500, rate=5e-3, kernel="network", **settings: _vanilla_gp(
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
        lambda shape, **settings: _maml(shape, MAML, **settings),
        "an initialisation that a few gradient steps adapt, by second derivatives",
        distributional=False,
    ),
    "fo-maml": Method(
        lambda shape, **settings: _maml(shape, FOMAML, **settings),
        "MAML without second derivatives",
        distributional=False,
    ),
    "reptile": Method(
        lambda shape, **settings: _maml(shape, Reptile, **settings),
        "an initialisation near the weights of every task",
        distributional=False,
    ),
    "mr-maml-w": Method(
        lambda shape, spread=0.1, **settings: _mr_maml(
            shape, MRMAMLWeights, weights=DiagonalGaussian(spread), **settings
        ),
        "MAML with an information bottleneck on the weights",
        distributional=False,
    ),
    "mr-maml-a": Method(
        lambda shape, **settings: _mr_maml(shape, MRMAMLActivations, **settings),
        "MAML with an information bottleneck on the activations",
        distributional=False,
    ),
    "bmaml": Method(_bmaml, "Bayesian MAML: Stein particles, trained by the chaser loss"),
    "np": Method(
        lambda shape, **settings: _neural_process(shape, lambda _: None, **settings),
        "a neural process: one latent summary a task",
    ),
    "cnp": Method(
        lambda shape, **settings: _neural_process(shape, lambda _: Mean(), codes=0, whole=True, **settings),
        "a conditional neural process: a summary without randomness",
    ),
    "anp": Method(
        lambda shape, heads=4, **settings: _neural_process(
            shape, lambda net: Attention(net, heads), whole=True, **settings
        ),
        "a neural process whose queries attend to the context",
    ),
    "mlap-m": Method(
        lambda shape, **settings: _mlap(shape, McAllester, **settings),
        "a prior and a posterior a task on McAllester's PAC-Bayes bound",
    ),
    "mlap-s": Method(
        lambda shape, **settings: _mlap(shape, Seeger, **settings),
        "a prior and a posterior a task on Seeger's PAC-Bayes bound",
    ),
    "mtgp": Method(
        _mtgp, "one GP over all tasks (coregionalisation); its model holds the meta-train tasks", holds_data=True
    ),
}

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
}


_LEAST = {"layers": 0, "warmup": 0}  # whole numbers; those below start at 1
_LEAST |= dict.fromkeys(("steps", "batch", "width", "features", "particles", "samples", "predict", "draws", "thin"), 1)
_LEAST |= dict.fromkeys(("hypotheses", "adapt_steps", "points"), 1) | {"waves": 0}
_POSITIVE = ("rate", "temperature", "sd", "paper", "predict_beta", "adapt_rate", "prior_weight", "spread", "noise")


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


def _check_kind(method: str, shape: Shape) -> None:
    """Refuses targets that a method cannot take, and names methods that can."""
    kind, other = ("numbers", "classes") if shape.classes is None else ("classes", "numbers")
    if not getattr(METHODS[method], kind):
        able = [name for name, one in METHODS.items() if getattr(one, kind)]
        raise PacohError(f"{method} is for targets that are {other}, and these are {kind}. Use {', '.join(able)}.")


def learner(method: str, shape: Shape, *, guard: bool = False, **settings: Any) -> AbstractMetaLearner:
    """The learner that a name and settings stand for; `guard` mixes in a weak GP where a context asks for it."""
    if method not in METHODS:
        raise PacohError(f"There is no method {method!r}. Methods: {', '.join(METHODS)}.")
    _check_kind(method, shape)
    for name, value in settings.items():
        _check_setting(name, value)
    try:
        made = METHODS[method].make(shape, **settings)
    except TypeError as error:
        raise PacohError(f"The settings of {method} do not fit: {error}.") from error
    if not guard:
        return made
    if not isinstance(made, PACOH) or not isinstance(made.prior, GPPrior):
        raise PacohError(f"The guard is for methods that learn a GP prior; {method} has none to guard.")
    return Guard(made)


def environment(name: str, **settings: Any) -> AbstractEnvironment:
    """The environment that a name and settings stand for."""
    if name not in ENVIRONMENTS:
        raise PacohError(f"There is no environment {name!r}. Environments: {', '.join(ENVIRONMENTS)}.")
    try:
        return ENVIRONMENTS[name](**settings)
    except TypeError as error:
        raise PacohError(f"The settings of {name} do not fit: {error}.") from error
