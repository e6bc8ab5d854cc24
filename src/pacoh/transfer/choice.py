"""What is compared with learning each task alone: the one place where a method and its settings are chosen."""

from typing import Any

from pacoh.api import shape_of
from pacoh.reading import Tasks
from pacoh.tuning import Choice, guarded, rule
from pacoh.tuning.rule import WAVE_INPUTS, WAVES, quick

STEPS, POINTS = 500, 200
"""Steps that serve PACOH-GP with waves as well as six times as many from so many points in all on: a fold a task takes
its time."""
PLAIN = Choice(
    "pacoh-gp-map", {"mean": "constant", "kernel": "se+linear", "guard": True, "steps": 300, "rate": 0.05}, {}
)
"""A GP about a constant whose length-scales, scales and noise alone are learned from the tasks.

Its few parameters allow large steps, and need them: on lines with little noise 300 steps of the default rate ended at a
log-likelihood of .50, and 300 of these, or 1,500 of those, at .83 (half of 40 points as context).
"""


def choose(tasks: Tasks, method: str | None, settings: dict[str, Any]) -> Choice:
    """The method that was asked for, else the first by the size of the tasks: a fold for each is then a minute's work.

    PACOH-GP is guarded unless the settings say otherwise, as `pacoh fit` does it.
    """
    reasons = ["It was asked for."]
    if method is None:
        shape = shape_of(tasks)
        method, reason = next(iter(rule(shape).items()))
        reasons = [f"By the size of the tasks: {reason}."]
        if shape.classes is not None:
            settings = quick(shape, method) | settings
            reasons.append("A smaller network and fewer steps than by default: it is trained for every fold.")
        if guarded(method) and shape.d <= WAVE_INPUTS:
            settings = WAVES | ({"steps": STEPS} if shape.n * shape.m >= POINTS else {}) | settings
            reasons.append("Waves in its kernel find what all tasks repeat along an input, whatever the phase.")
    if guarded(method):
        settings = {"guard": True} | settings
        if settings["guard"]:
            reasons.append("A guard lets a weak GP take over where a context speaks against the learned prior.")
    return Choice(method, settings, {"why": reasons})
