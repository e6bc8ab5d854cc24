"""Which methods are worth comparing on data of a size: the one place to read and to change it."""

from pacoh.recipes.base import Shape

GP_POINTS = 200
"""Points a task up to which a Gaussian process is trained: a step costs the cube of them."""
ALONE_POINTS = 1000
"""Points a task up to which a Gaussian process is fitted to one task alone."""
NETWORK_TASKS, NETWORK_POINTS = 10, 400
"""Tasks, and points in all, from which a prior over network weights is compared with one over functions."""

WAVES = {"mean": "linear+network", "kernel": "se+linear+waves"}
"""Settings of PACOH-GP that find what all tasks repeat along an input, whatever its phase in each."""
WAVE_INPUTS = 4
"""Inputs up to which they are tried: waves run along each."""

PARTICLES = {"pacoh-gp-map": "pacoh-gp-svgd", "pacoh-nn-map": "pacoh-nn-svgd"}
"""Where a mode was the best, Stein particles are tried last, with its settings."""
PARTICLE_STEPS = 13
"""Steps of a mode that take as long as one of its Stein particles, about."""

_ALONE = "each task alone, in case what the tasks share does harm"


def rule(shape: Shape) -> dict[str, str]:
    """The methods to compare, the first first, each with its reason.

    The first is what serves where there is no time, or nothing, to compare it with.
    """
    if shape.classes is not None:
        return {"pacoh-nn-map": "classes need a prior over network weights", "vanilla-bnn": _ALONE}
    alone = {"vanilla-gp" if shape.m <= ALONE_POINTS else "vanilla-bnn": _ALONE}
    if shape.m > GP_POINTS:
        return {"pacoh-nn-map": f"above {GP_POINTS} points a task Gaussian processes are slow to train"} | alone
    first = {"pacoh-gp-map": f"up to {GP_POINTS} points a task a Gaussian-process prior is quick to train"}
    if shape.n < NETWORK_TASKS or shape.n * shape.m < max(NETWORK_POINTS, 10 * shape.d):
        return first | alone
    return first | alone | {"pacoh-nn-map": "tasks and points enough for a prior over network weights"}


def guarded(method: str) -> bool:
    """Whether a method learns a GP prior: it is then guarded, unless it was said otherwise."""
    return method.startswith(("pacoh-gp", "moved-gp"))
