"""What is compared with learning each task alone: the one place where a method and its settings are chosen."""

from typing import Any

from pacoh.api import shape_of
from pacoh.reading import Tasks
from pacoh.tuning import Choice, guarded, rule


def choose(tasks: Tasks, method: str | None, settings: dict[str, Any]) -> Choice:
    """The method that was asked for, else the first by the size of the tasks: a fold for each is then a minute's work.

    PACOH-GP is guarded unless the settings say otherwise, as `pacoh fit` does it.
    """
    reasons = ["It was asked for."]
    if method is None:
        method, reason = next(iter(rule(shape_of(tasks)).items()))
        reasons = [f"By the size of the tasks: {reason}."]
    if guarded(method):
        settings = {"guard": True} | settings
        if settings["guard"]:
            reasons.append("A guard lets a weak GP take over where a context speaks against the learned prior.")
    return Choice(method, settings, {"why": reasons})
