"""What `pacoh fit --tune` and `--budget` ask of the library, and what they tell of the choice."""

import re
from collections.abc import Callable
from typing import Any

from pacoh import registry
from pacoh.cli.output import text
from pacoh.errors import PacohError
from pacoh.tuning import SECONDS, Tune

MOST = 256  # settings within a budget in seconds alone
_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def duration(told: str) -> float:
    """Seconds, from 90, 90s, 2m or 1h."""
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(s|m|min|h|)\s*", told)
    if found is None or not float(found[1]):
        raise PacohError(f"A budget is a time above zero, as 90, 90s, 2m or 1h; got {told!r}.")
    return float(found[1]) * _UNITS[found[2]]


def asked(
    seconds: float | None, settings: int | None, source: str, draw: int, progress: Callable[[int, int, float], None]
) -> Tune | None:
    """How much to search; None where neither budget is given. An environment's validation tasks judge."""
    if seconds is None and settings is None:
        return None
    return Tune(MOST if settings is None else settings, seconds, valid=_valid(source, draw), progress=progress)


def chosen_within(
    budget: str | None, began: float, source: str, draw: int, progress: Callable[[int, int, float], None]
) -> Tune:
    """How long to choose a method: the budget counts from when the command began."""
    seconds = SECONDS if budget is None else duration(budget)
    return Tune(MOST, seconds, valid=_valid(source, draw), progress=progress, began=began)


def check(method: str | None, budget: str | None, tuned: bool, settings: bool) -> None:
    """Refuses options that speak of one method where it is to be chosen, and a budget where there is no choice."""
    if method is None and (tuned or settings):
        what = "--set gives a setting" if settings else "--tune searches the settings"
        raise PacohError(
            f"{what} of one method: name it with --method. Without it both are chosen, within --budget (60s)."
        )
    if method is not None and budget is not None:
        raise PacohError("--budget is for choosing a method, and --method names one: leave one out, or use --tune 60.")
    if budget is not None:
        duration(budget)


def _valid(source: str, draw: int) -> Any:
    return registry.environment(source).draw(draw).valid if source in registry.ENVIRONMENTS else None


def told(record: dict[str, Any]) -> str:
    """What was chosen and why: in a line, or, where the method was chosen too, in a line a reason."""
    if "why" in record:
        return "\n".join(record["why"])
    chosen = ", ".join(f"{name} {value:.4g}" for name, value in record["chosen"].items()) or "the default"
    score, default = text(record["score"]), text(record["default_score"])
    return (
        f"{chosen} ({record['by']} {score} on {record['on']}, the default's {default}; "
        f"{record['settings_tried']} settings tried)"
    )
