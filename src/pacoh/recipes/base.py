"""What recipes share: the shape of the data, hyper-priors by group, task batches."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pacoh.errors import PacohError
from pacoh.priors.hyper import GroupGaussian


class Shape(NamedTuple):
    """What a default may depend on: tasks, mean points a task, inputs, and the classes where there are any."""

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
    default: Mapping[str, float], sds: Mapping[str, float] | None = None, factor: float = 1.0
) -> GroupGaussian:
    """The hyper-prior with the sds of `default`, some of them replaced, all times `factor`."""
    unknown = set(sds or ()) - set(default)
    if unknown:
        raise PacohError(f"Parameter groups are {', '.join(default)}; got {', '.join(sorted(unknown))}.")
    return GroupGaussian({group: factor * sd for group, sd in (dict(default) | dict(sds or {})).items()})


def task_batch(shape: Shape) -> int | None:
    """Tasks a step: all of them, or 32 where there are many, so that a step costs the same for any number of tasks."""
    return None if shape.n <= 64 else 32


def paper_hyper(groups: dict[str, float], s: float) -> GroupGaussian:
    """N(0, s^2 I) over every parameter, whatever its unit."""
    return GroupGaussian(dict.fromkeys(groups, s), exact=True)
