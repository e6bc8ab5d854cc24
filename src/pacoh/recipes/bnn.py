"""Learners of Bayesian networks."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pacoh.errors import PacohError
from pacoh.inference.base import AbstractInference, Adam
from pacoh.inference.map import MAP
from pacoh.inference.svgd import SVGD
from pacoh.learners.pacoh import PACOH
from pacoh.learners.sharpen import Sharpened
from pacoh.learners.vanilla import Fixed
from pacoh.priors.bnn import AbstractDrawnPrior, BNNPrior
from pacoh.priors.last_layer import LastLayerBNN
from pacoh.priors.weights import DiagonalGaussian
from pacoh.recipes.base import Shape, group_prior, likelihood, network, task_batch
from pacoh.theory import Rates

NN_SDS = {"input": 8.0, "weight": 10.0, "bias": 1.4, "spread": 0.06, "level": 5.0, "noise": 1.2}
NN_SDS |= {"wave": 6.5, "length": 1.0, "share": 0.3}
"""The hyper-prior's sds by parameter group: means in the groups of the weights, log sds ("spread"), their levels.

Found by random search for the validation log-likelihood below the Bayes-optimal predictor's, on Sinusoid and Cauchy
together (draws 100-105, MAP, 2,000 steps, two draws an evidence: longer training and more draws fit them too well).
"""


MANY = 64
"""Points of a task from which on learning it alone takes more steps."""


def bnn_prior(
    shape: Shape,
    *,
    net: str = "mlp",
    layers: int = 4,
    width: int = 32,
    activation: str = "gelu",
    reach: float = 1.0,
    pool: bool = False,
    skip: bool = False,
    waves: int | None = None,
    length: float = 0.5,
    spread: float | None = None,
    noise: float = 0.2,
    noise_unit: float = 1.0,
    draws: int | None = None,
    average: bool = False,
    points: int | None = None,
    coupled: bool = False,
    together: bool = False,
    exact: bool | None = None,
    exchangeable: bool | None = None,
    hypotheses: int = 5,
    adapt_steps: int = 200,
    adapt_rate: float = 0.03,
) -> AbstractDrawnPrior:
    """A prior over the weights of a network, from names and numbers; `conv` is for inputs that are square images.

    In regression the last layer is integrated out (`exact`), two draws of the others are enough, and 64 waves stand
    beside them; else all is drawn (ten times, for classes fifty), and there are none. With `exact` classes are codes
    with normal noise, for tasks whose labels are their own: draws of a last layer say nothing about such a task. Their
    outputs have one prior for all classes, unless `exchangeable` is False. The log noise sd has the prior sd `spread`
    `noise_unit`. With `skip` the last layer sees the inputs, too. With `together` the hypotheses of a task all move by
    the mean of their scores, Stein's direction for an endless bandwidth: they stay as different as they were drawn.
    """
    exact = (shape.classes is None and net == "mlp") if exact is None else exact
    draws = (2 if exact else 10 if shape.classes is None else 50) if draws is None else draws
    waves = (64 if exact and net == "mlp" else 0) if waves is None else waves
    spread = (0.23 if shape.classes is None or exact else 0.4) if spread is None else spread
    bandwidth = math.inf if together else None
    engine = SVGD(particles=hypotheses, optimizer=Adam(adapt_rate, adapt_steps), bandwidth=bandwidth)
    rest: dict[str, Any] = {"weights": DiagonalGaussian(spread), "adaptation": engine, "draws": draws}
    rest |= {"points": points, "average": average, "coupled": coupled}
    rest |= {"net": network(shape, net, (width,) * layers, activation, reach, waves, length, pool=pool, skip=skip)}
    rest |= {"likelihood": likelihood(shape, noise, noise_unit, coded=exact)}
    if not exact and exchangeable:
        raise PacohError("Outputs are exchangeable where the last layer is integrated out: add exact=True.")
    same = shape.classes is not None if exchangeable is None else exchangeable
    return LastLayerBNN(**rest, exchangeable=same) if exact else BNNPrior(**rest)


def pacoh_nn(
    shape: Shape,
    engine: Callable[[Adam], AbstractInference],
    *,
    steps: int = 2000,
    rate: float | None = None,
    temperature: float = 1.0,
    batch: int | None = None,
    beta_power: float = 1.0,
    lam_power: float = 1.0,
    predict_beta: float | None = None,
    sharpen: bool | None = None,
    sds: Mapping[str, float] | None = None,
    paper: float | None = None,
    hypotheses: int | None = None,
    **prior: Any,
) -> PACOH | Sharpened:
    """PACOH-NN with an engine; `paper` is the s of the paper's hyper-prior N(0, s^2 I).

    Predictions take beta = `predict_beta` m. Of numbers m/2: with the noise and the last layer's spread learned from
    the same points, the posterior at m is too sure of itself (validation tasks of a Cauchy draw: 90 % intervals hold
    83 %, and 88 % at m/2). Of classes 8 m: an evidence from draws finds priors that hedge, and the posterior at m is
    not sure enough (validation tasks of Ellipses, five shots: on one draw log-likelihood -.38 and ECE .042 at m, -.35
    and .038 at 8 m; on another -.40 and .051 at m, -.37 and .030 at 16 m; two shots likewise), and their probabilities
    are taken to a power that the meta-train tasks choose, unless `sharpen` is False. One prior alone gets 20 hypotheses
    of classes: five leave their probabilities rough.
    """
    drawn = shape.classes is not None and not prior.get("exact")
    predict_beta = (8.0 if drawn else 0.5 if shape.classes is None else 1.0) if predict_beta is None else predict_beta
    rate = (0.01 if drawn else 0.003) if rate is None else rate
    if sharpen and shape.classes is None:
        raise PacohError("Only probabilities of classes can be sharpened; for numbers leave out `sharpen`.")
    inference = engine(Adam(rate, steps))
    alone = isinstance(inference, MAP) and shape.classes is not None
    hypotheses = (20 if alone else 5) if hypotheses is None else hypotheses
    learner = PACOH(
        bnn_prior(shape, hypotheses=hypotheses, **prior),
        group_prior(NN_SDS, sds, temperature, paper),
        inference,
        Rates(lam_power, beta_power),
        Rates(1.0, 1.0, predict_beta),
        temperature,
        task_batch(shape) if batch is None else batch,
    )
    return learner if shape.classes is None or sharpen is False else Sharpened(learner)


class Alone(NamedTuple):
    """How a network learns one task alone."""

    layers: int
    spread: float
    noise: float
    noise_unit: float
    adapt_steps: int
    adapt_rate: float
    predict_beta: float
    together: bool
    own_units: bool | None


_FEW = Alone(4, 1.4, 0.2, 1.0, 1000, 0.03, 1.0, together=False, own_units=True)
_MANY = Alone(4, 1.4, 0.2, 1.0, 3000, 0.03, 1.0, together=False, own_units=True)
_CLASSES = Alone(4, 4.0, 0.2, 1.0, 1000, 0.03, 1.0, together=False, own_units=True)


def vanilla_bnn(
    shape: Shape, *, exact: bool = False, hypotheses: int = 10, reach: float = 1.0, head: float = 1.0, **settings: Any
) -> Fixed:
    """A network of zero-centred weights, all drawn, learned from one task by Stein particles.

    `spread` is the prior sd of all weights in their units, `reach` a factor on that of the first layer, `head` on that
    of the last.

    Validation tasks of Cauchy (draws 100 and 101): RMSE .304, log-likelihood -.43, calibration error .079. Where tasks
    share their level, three layers, noise .6 with the unit .2, rate .006, `predict_beta` 10, `together` and the units
    of all tasks serve better: .294, -.18 and .064; on Sinusoid 1.15, -1.44 and .141 instead of 1.33, -1.85 and .152. On
    30 validation patients of PhysioNet GCS they do harm: 2.40 and -2.60 instead of 1.57 and -1.60, so they are no
    default. Tasks of many points take more steps: on half of six meta-train sensors of Berkeley, learned from the
    other, 1,000 steps give an RMSE of .20 and 3,000 of .09.
    """
    idle = sorted({"draws", "points", "average", "coupled"} & set(settings))
    if idle:
        raise PacohError(f"Vanilla BNN estimates no evidence and has one prior: leave out {', '.join(idle)}.")
    kind = _CLASSES if shape.classes is not None else _MANY if shape.m > MANY else _FEW
    both = kind._asdict() | settings
    rates, own_units = Rates(1.0, 1.0, both.pop("predict_beta")), both.pop("own_units")
    return Fixed(bnn_prior(shape, exact=exact, hypotheses=hypotheses, **both), rates, own_units, reach, head)
