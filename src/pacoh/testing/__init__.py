"""The conformance suite: what anything that calls itself a learner must do, as named checks.

`check_learner(MyLearner())` runs them all on tiny tasks and raises one AssertionError that lists every check that
failed. To see each as a test of its own, parametrise over `CHECKS` and call `check(name, subject)`.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from pacoh import registry
from pacoh.data import stack
from pacoh.errors import PacohError
from pacoh.learners.base import AbstractMetaLearner
from pacoh.testing.checks import CHECKS
from pacoh.testing.compare import compilations
from pacoh.testing.subject import SIZES, Subject, ragged_tasks

__all__ = ["CHECKS", "SIZES", "Subject", "check", "check_learner", "compilations", "prepare", "ragged_tasks"]


def prepare(
    learner: AbstractMetaLearner | str,
    *,
    d: int = 1,
    classes: int | None = None,
    settings: Mapping[str, Any] | None = None,
    skip: Mapping[str, str] | None = None,
    **claims: Any,
) -> Subject:
    """Fits a learner, or a registered method with `settings`, once for all checks.

    `classes` is the number of classes for a learner that predicts them, None for one that predicts numbers. `claims`
    are `has_prior`, `distributional` and `holds_data` (a registered method brings its own) and `tolerance`; `skip` maps
    the name of a check that cannot apply to the reason.

    >>> from pacoh.testing import prepare
    >>> subject = prepare("pooled-ridge", d=2)
    >>> subject.distributional, subject.tasks.x.shape
    (False, (4, 6, 2))
    """
    if isinstance(learner, str):
        shape = registry.Shape(len(SIZES), float(np.mean(SIZES)), d, classes)
        made = registry.learner(learner, shape, **(settings or {}))
        method = registry.METHODS[learner]
        own = {name: getattr(method, name) for name in ("has_prior", "distributional", "holds_data")}
        claims = own | claims
    else:
        made = learner
    unknown = set(skip or {}) - set(CHECKS)
    if unknown:
        raise PacohError(f"There is no check {sorted(unknown)[0]!r}. Checks: {', '.join(CHECKS)}.")
    tasks = stack(ragged_tasks(d, classes=classes))
    return Subject(made, made.fit(tasks, jax.random.key(0)), tasks, classes, skip=skip or {}, **claims)


def check(name: str, subject: Subject) -> str | None:
    """Runs one check: AssertionError where it fails; the reason where it does not apply.

    >>> from pacoh.testing import check, prepare
    >>> subject = prepare("pooled-ridge")
    >>> check("an empty context gives the prior", subject) is None  # it applies, and holds
    True
    """
    reason = subject.reason(name)
    if reason is None:
        CHECKS[name](subject)
    return reason


def check_learner(learner: AbstractMetaLearner | str, **flags: Any) -> dict[str, str | None]:
    """Every check on one learner; the flags are those of `prepare`. Returns the reasons of those that do not apply.

    >>> from pacoh.learners.naive import ContextMean
    >>> from pacoh.testing import check_learner
    >>> reasons = check_learner(ContextMean(), distributional=False)
    >>> sorted(name for name, why in reasons.items() if why)
    []
    """
    subject = prepare(learner, **flags)
    reasons, failures = {}, []
    for name in CHECKS:
        try:
            reasons[name] = check(name, subject)
        except AssertionError as error:
            failures.append(f"{name}: {error}")
    if failures:
        raise AssertionError(f"{type(subject.learner).__name__} does not conform.\n" + "\n".join(failures))
    return reasons
