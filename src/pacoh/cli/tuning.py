"""What `pacoh fit --tune` asks of the library, and what it tells of the choice."""

from collections.abc import Callable
from typing import Any

from pacoh import registry
from pacoh.cli.output import text
from pacoh.tuning import Tune

MOST = 256  # settings within a budget in seconds alone


def asked(
    seconds: float | None, settings: int | None, source: str, draw: int, progress: Callable[[int, int, float], None]
) -> Tune | None:
    """How much to search; None where neither budget is given. An environment's validation tasks judge."""
    if seconds is None and settings is None:
        return None
    valid = registry.environment(source).draw(draw).valid if source in registry.ENVIRONMENTS else None
    return Tune(MOST if settings is None else settings, seconds, valid=valid, progress=progress)


def told(record: dict[str, Any]) -> str:
    """What was chosen and why, in a line."""
    chosen = ", ".join(f"{name} {value:.4g}" for name, value in record["chosen"].items()) or "the default"
    score, default = text(record["score"]), text(record["default_score"])
    return (
        f"{chosen} ({record['by']} {score} on {record['on']}, the default's {default}; "
        f"{record['settings_tried']} settings tried)"
    )
