"""The baselines.

Defaults of the methods that learn from episodes were found, for numbers, by a search on Sinusoid and Cauchy together
(validation tasks of draws 100 and 101, `benchmarks/joint.py`). With twenty tasks these methods memorise: few steps and
some decay serve them better than many steps. Give more steps where there are many tasks. Defaults for classes were not
searched.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from pacoh.errors import PacohError
from pacoh.inference.base import Adam
from pacoh.inference.map import MAP
from pacoh.learners.bmaml import BMAML
from pacoh.learners.episodic import AbstractRule, Episodic, Shuffled
from pacoh.learners.maml import AbstractMAML, Inner
from pacoh.learners.mlap import MLAP, AbstractComplexity, Family
from pacoh.learners.mr_maml import AbstractMRMAML, Coder
from pacoh.learners.multitask import MTGP, Coregionalised
from pacoh.learners.neural_process import AbstractPath, DecodedNoise, NeuralProcess
from pacoh.learners.points import AbstractLoss, CrossEntropy, Squared
from pacoh.priors.likelihoods import Categorical
from pacoh.priors.nets import MLP
from pacoh.priors.weights import DiagonalGaussian
from pacoh.recipes.base import Shape, group_prior, likelihood, network, task_batch
from pacoh.recipes.gp import ALONE, kernel_of


def _mlp(layers: int = 4, width: int = 32, activation: str = "gelu", reach: float = 1.0) -> MLP:
    return MLP((width,) * layers, activation, reach)


def _found(shape: Shape, given: float | None, numbers: float | None, classes: float | None) -> Any:
    """A setting as it is given, else its default for targets of this kind."""
    return given if given is not None else numbers if shape.classes is None else classes


def _loss(shape: Shape) -> AbstractLoss:
    return Squared() if shape.classes is None else CrossEntropy(shape.classes)


class Training(NamedTuple):
    """How a rule is trained; None stands for the default."""

    steps: int | None
    rate: float | None
    decay: float | None


_CLASSES = Training(1500, 0.002, 0.0)


def maml(
    shape: Shape,
    kind: Callable[..., AbstractMAML],
    *,
    steps: int | None = None,
    rate: float | None = None,
    decay: float | None = None,
    batch: int | None = None,
    inner_steps: int = 5,
    inner_rate: float | None = None,
    test_steps: int = 10,
    net: str = "mlp",
    layers: int = 4,
    width: int = 32,
    activation: str = "gelu",
    reach: float = 1.0,
    pool: bool = False,
    skip: bool = False,
    shuffle: bool = False,
    **own: Any,
) -> Episodic:
    """A rule of the MAML family, trained by Adam; `share` is the share of a task's points in the context.

    With `shuffle` an episode renames its classes: for tasks whose labels are their own.
    """
    inner = Inner(inner_steps, _found(shape, inner_rate, 0.015, 0.01), test_steps)
    weights = network(shape, net, (width,) * layers, activation, reach, pool=pool, skip=skip)
    rule = kind(weights, _loss(shape), inner, **own)
    return _episodic(
        shape, _renamed(shape, rule, shuffle), Training(steps, rate, decay), Training(300, 0.0025, 5e-5), batch
    )


def _episodic(shape: Shape, rule: AbstractRule, given: Training, numbers: Training, batch: int | None) -> Episodic:
    """Training by Adam as it is given, else as it was found for numbers, or as it is for all rules on classes."""
    steps, rate, decay = (_found(shape, *three) for three in zip(given, numbers, _CLASSES, strict=True))
    return Episodic(rule, MAP(Adam(rate, steps)), task_batch(shape) if batch is None else batch, decay)


def _renamed(shape: Shape, rule: AbstractRule, shuffle: bool) -> AbstractRule:
    if shuffle and shape.classes is None:
        raise PacohError("Classes are renamed where there are any; for numbers leave out `shuffle`.")
    return Shuffled(rule, shape.classes) if shuffle and shape.classes is not None else rule


def mr_maml(
    shape: Shape,
    kind: Callable[..., AbstractMRMAML],
    *,
    steps: int | None = None,
    rate: float | None = None,
    decay: float | None = None,
    batch: int | None = None,
    inner_steps: int = 5,
    inner_rate: float | None = None,
    test_steps: int = 10,
    net: str = "mlp",
    layers: int = 3,
    head_layers: int = 1,
    width: int = 32,
    activation: str = "gelu",
    reach: float = 1.0,
    pool: bool = False,
    skip: bool = False,
    shuffle: bool = False,
    **own: Any,
) -> Episodic:
    """MR-MAML: an encoder of `layers`, a decoder of `head_layers` that adapts; `beta` prices what the encoder knows."""
    encoder = network(shape, net, (width,) * layers, activation, reach, pool=pool, skip=skip)
    decoder = network(shape, "mlp", (width,) * head_layers, activation, 1.0, skip=skip)
    coder = Coder(encoder, decoder, width)
    rule = kind(coder, _loss(shape), Inner(inner_steps, _found(shape, inner_rate, 0.02, 0.01), test_steps), **own)
    return _episodic(
        shape, _renamed(shape, rule, shuffle), Training(steps, rate, decay), Training(300, 0.005, 1e-5), batch
    )


def bmaml(
    shape: Shape,
    *,
    steps: int | None = None,
    rate: float | None = None,
    decay: float = 0.0,
    batch: int | None = 4,
    inner_steps: int = 5,
    inner_rate: float | None = None,
    test_steps: int = 10,
    noise: float = 0.3,
    net: str = "mlp",
    layers: int = 4,
    width: int = 32,
    activation: str = "gelu",
    reach: float = 1.0,
    pool: bool = False,
    skip: bool = False,
    shuffle: bool = False,
    longest: float = math.inf,
    **own: Any,
) -> Episodic:
    """BMAML; `chase` is by how many steps the leader is ahead; few tasks a step, for a step moves particles twice.

    A particle's score a point is shortened to `longest`, for tasks on which Stein steps run away (on Berkeley they did
    with two seeds of five). Where they do not, a limit costs log-likelihood: with 100 Cauchy has .01 instead of .07.
    """
    inner = Inner(inner_steps, _found(shape, inner_rate, 0.0125, 0.02), test_steps, longest)
    weights = network(shape, net, (width,) * layers, activation, reach, pool=pool, skip=skip)
    rule = BMAML(weights, likelihood(shape, noise), inner, **own)
    return _episodic(
        shape, _renamed(shape, rule, shuffle), Training(steps, rate, decay), Training(300, 0.005, 0.0), batch
    )


def neural_process(
    shape: Shape,
    path: Callable[[MLP], AbstractPath | None],
    *,
    steps: int | None = None,
    rate: float | None = None,
    decay: float | None = None,
    batch: int | None = None,
    layers: int = 3,
    width: int = 32,
    activation: str = "gelu",
    reach: float = 1.0,
    skip: bool = False,
    **own: Any,
) -> Episodic:
    """A neural process; encoders and decoder have `layers`, summaries `width` numbers; a decoder may `skip`."""
    net = _mlp(layers, width, activation, reach)
    decoder = network(shape, "mlp", (width,) * layers, activation, reach, skip=skip)
    decoded = DecodedNoise() if shape.classes is None else Categorical(shape.classes)
    rule = NeuralProcess(net, decoder, decoded, path(net), width, **own)
    return _episodic(shape, rule, Training(steps, rate, decay), Training(500, 0.008, 7e-4), batch)


def mlap(
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
    net: str = "mlp",
    layers: int = 4,
    width: int = 32,
    activation: str = "gelu",
    reach: float = 1.0,
    pool: bool = False,
    skip: bool = False,
    **own: Any,
) -> MLAP:
    """MLAP; `wide` and `narrow` are the sds of hyper-prior and hyper-posterior."""
    weights = network(shape, net, (width,) * layers, activation, reach, pool=pool, skip=skip)
    family = Family(weights, likelihood(shape, noise), DiagonalGaussian(spread), complexity(delta), **own)
    engines = MAP(Adam(rate, steps)), MAP(Adam(adapt_rate, adapt_steps))
    return MLAP(family, *engines, predict, task_batch(shape) if batch is None else batch)


def mtgp(
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
    del shape
    prior = Coregionalised(kernel_of(kernel, _mlp(), 2), rank, noise)
    engines = MAP(Adam(rate, steps)), MAP(Adam(adapt_rate, adapt_steps))
    return MTGP(group_prior(default=ALONE | {"task": 1.0}), prior, *engines)
