"""Which methods are worth comparing on data of a size: the one place to read and to change it."""

from typing import Any

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

QUICK = {
    "pacoh-nn-map": {"layers": 2, "steps": 600, "rate": 0.02, "draws": 30, "batch": 4, "points": 20}
    | {"hypotheses": 10, "adapt_steps": 100, "sharpen": False},
    "vanilla-bnn": {"layers": 2, "adapt_steps": 200, "adapt_rate": 0.05},
}
"""Settings of networks for classes that train, and adapt, in about a tenth of the time that the defaults take.

On tasks of Ellipses, 5 and 25 of 50 points as context, the error of `vanilla-bnn` was .468 and .181 and its median
log-likelihood -1.98 and -.50 (by default .480, .172, -2.00 and -.54).
"""

SLOW_STEPS = 20
"""How much longer all steps of the defaults take, about."""

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


def quick(shape: Shape, method: str) -> dict[str, Any]:
    """Settings that a method is compared with, where its defaults take too long to compare."""
    if shape.classes is None or method not in QUICK:
        return {}
    few = 4 * shape.classes
    return {name: max(value, few) if name == "points" else value for name, value in QUICK[method].items()}


def guarded(method: str) -> bool:
    """Whether a method learns a GP prior: it is then guarded, unless it was said otherwise."""
    return method.startswith(("pacoh-gp", "moved-gp"))
