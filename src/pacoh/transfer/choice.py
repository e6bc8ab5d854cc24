"""What is compared with learning each task alone: the one place where a method and its settings are chosen."""

from typing import Any, NamedTuple

from pacoh.errors import PacohError
from pacoh.reading import Tasks
from pacoh.registry import METHODS


class Choice(NamedTuple):
    """A method, its settings, and why, a sentence each."""

    method: str
    settings: dict[str, Any]
    reasons: tuple[str, ...]


def choose(tasks: Tasks, method: str | None, settings: dict[str, Any]) -> Choice:
    """The method that was asked for, else the default family's mode: a fold for every task is then a minute's work.

    PACOH-GP is guarded unless the settings say otherwise, as `pacoh fit` does it.
    """
    numbers = tasks.classes is None
    if method is None:
        method = "pacoh-gp-map" if numbers else "pacoh-nn-map"
        reasons = (
            "The default: PACOH with a Gaussian-process prior, at its mode."
            if numbers
            else "The default for classes: PACOH with a prior over the weights of a Bayesian network, at its mode.",
        )
    else:
        reasons = ("It was asked for.",)
    if method not in METHODS:
        raise PacohError(f"There is no method {method!r}. Methods: {', '.join(METHODS)}.")
    if method.startswith("pacoh-gp"):
        settings = {"guard": True} | settings
        if settings["guard"]:
            reasons += ("A guard lets a weak GP take over where a context speaks against the learned prior.",)
    return Choice(method, settings, reasons)
