"""What recipes share: the shape of the data, hyper-priors by group, task batches."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pacoh.errors import PacohError
from pacoh.inference.base import Adam
from pacoh.inference.map import MAP
from pacoh.inference.svgd import SVGD
from pacoh.inference.vi import VI
from pacoh.learners.base import AbstractMetaLearner
from pacoh.priors.conv import image_net
from pacoh.priors.hyper import GroupGaussian
from pacoh.priors.likelihoods import AbstractLikelihood, Categorical, Coded, GaussianNoise
from pacoh.priors.nets import MLP, AbstractHeaded, Skipping


class Shape(NamedTuple):
    """What a default may depend on: tasks, mean points a task, inputs, and the classes where there are any.

    >>> from pacoh.registry import Shape
    >>> Shape(n=20, m=5.0, d=2)
    Shape(n=20, m=5.0, d=2, classes=None)
    """

    n: int
    m: float
    d: int
    classes: int | None = None  # of targets that are classes


def choose(what: str, name: str, options: dict[str, Any]) -> Any:
    """The option of a name, or the error that lists them."""
    if name not in options:
        raise PacohError(f"A {what} is one of {', '.join(options)}; got {name!r}.")
    return options[name]


def group_prior(
    default: Mapping[str, float],
    sds: Mapping[str, float] | None = None,
    temperature: float = 1.0,
    paper: float | None = None,
) -> GroupGaussian:
    """The hyper-prior with the sds of `default`, some of them replaced; with `paper` the paper's N(0, s^2 I).

    The sds shrink with the root of the temperature: it then tempers the hyper-posterior as a whole, which moves its
    spread and leaves its mode where it is. The paper's are as they are, whatever a parameter's unit.
    """
    if paper is not None and sds is not None:
        raise PacohError("The paper's hyper-prior has one sd for everything: give `paper` or `sds`, not both.")
    if paper is not None:
        return GroupGaussian(dict.fromkeys(default, paper), exact=True)
    unknown = set(sds or ()) - set(default)
    if unknown:
        raise PacohError(f"Parameter groups are {', '.join(default)}; got {', '.join(sorted(unknown))}.")
    return GroupGaussian({group: temperature**0.5 * sd for group, sd in (dict(default) | dict(sds or {})).items()})


def task_batch(shape: Shape) -> int | None:
    """Tasks a step: all of a few small ones, else about a thousand points, 4 to 32 tasks.

    A step then costs the same for any number of tasks, and large tasks (m^3 operations in a Gaussian process) do not
    make it slow.
    """
    if shape.n <= 64 and shape.n * shape.m <= 2048:
        return None
    return min(max(int(1024 / shape.m), 4), 32)


def likelihood(shape: Shape, noise: float, unit: float = 1.0, *, coded: bool = False) -> AbstractLikelihood:
    """Of numbers Gaussian noise, of classes the categorical one, or noise on their codes."""
    if shape.classes is None:
        return GaussianNoise(noise=noise, unit=unit)
    return Coded(outputs=shape.classes, noise=noise, unit=unit) if coded else Categorical(outputs=shape.classes)


def network(
    shape: Shape,
    net: str,
    sizes: tuple[int, ...],
    activation: str,
    reach: float,
    waves: int = 0,
    length: float = 0.5,
    *,
    pool: bool = False,
    skip: bool = False,
) -> AbstractHeaded:
    """A network from its name: `mlp`, or `conv` for inputs that are the pixels of square images, which may `pool`.

    With `skip` the last layer sees the inputs, too.
    """
    networks: dict[str, Callable[[], AbstractHeaded]] = {
        "mlp": lambda: MLP(sizes, activation, reach, waves, length),
        "conv": lambda: image_net(shape.d, sizes, activation, reach, pool=pool),
    }
    if pool and net != "conv":
        raise PacohError('Only a convolutional network pools: leave out `pool`, or use net="conv".')
    made = choose("net", net, networks)()
    return Skipping(made) if skip else made


Recipe = Callable[..., AbstractMetaLearner]
"""(shape, engine from an optimiser, settings) -> learner."""


def by_map(recipe: Recipe) -> Recipe:
    """The recipe with the mode."""
    return lambda shape, **settings: recipe(shape, MAP, **settings)


def by_stein(recipe: Recipe, particles: int) -> Recipe:
    """The recipe with Stein particles."""

    def make(shape: Shape, particles: int = particles, **settings: Any) -> AbstractMetaLearner:
        return recipe(shape, lambda adam: SVGD(particles=particles, optimizer=adam), **settings)

    return make


def by_variation(recipe: Recipe, samples: int, predict: int) -> Recipe:
    """The recipe with a variational Gaussian, at the temperature that networks need."""

    def make(
        shape: Shape, samples: int = samples, predict: int = predict, sd: float = 0.01, **settings: Any
    ) -> AbstractMetaLearner:
        def engine(adam: Adam) -> VI:
            return VI(samples=samples, predict=predict, optimizer=adam, sd=sd)

        return recipe(shape, engine, **({"temperature": 0.01} | settings))

    return make
