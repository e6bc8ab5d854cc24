"""What a certificate of a model says: to people in lines, to machines as a record."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacoh.bounds import Certificate
from pacoh.bounds.base import plain

REMARK = (
    "The loss is that of a function drawn from a task's posterior, not of the mean prediction; training minimised the "
    "negative log-likelihood instead, which the theorem allows because both KLs are evaluated themselves."
)
_LABELS = {
    "emp": "empirical loss on the tasks",
    "kl_hyper": "KL of the hyper-posterior to the hyper-prior",
    "kl_task": "KL of the tasks' posteriors to the prior",
    "psi1": "deviation within tasks (Psi1)",
    "psi2": "deviation between tasks (Psi2)",
    "confidence": "confidence",
}


@dataclass(frozen=True)
class Report:
    """A certificate or the reasons against it, the terms in nats and losses, and what the caller vouches for.

    >>> import pacoh
    >>> from pacoh.bounds.losses import loss
    >>> from pacoh.certify import certify_model
    >>> from pacoh.testing import ragged_tasks
    >>> tasks = ragged_tasks()
    >>> report = certify_model(pacoh.fit(tasks, "pacoh-gp-map", steps=20), tasks, loss("outside-90"))
    >>> print(str(report)[:64])
    No certificate for the 0-1 error of the 90 % interval about f(x)
    >>> report.kl_hyper, report.kl_tasks.shape, report.record()["certified"]
    (inf, (4,), False)
    """

    certificate: Certificate
    emp_tasks: np.ndarray
    kl_hyper: float  # in nats; NaN where it is not known
    kl_tasks: np.ndarray
    notes: tuple[str, ...]
    weights: np.ndarray | None = None  # the hyper-posterior over candidates, where there are such

    @property
    def certified(self) -> bool:
        """True when the theory proves the bound."""
        return self.certificate.certified

    @property
    def unknown(self) -> dict[str, bool]:
        """Which of the KL terms are not known."""
        return {"kl_hyper": math.isnan(self.kl_hyper), "kl_task": bool(np.isnan(self.kl_tasks).any())}

    @property
    def open(self) -> bool:
        """Whether the sum hangs on a term that is not known."""
        infinite = math.isinf(self.kl_hyper) or bool(np.isinf(self.kl_tasks).any())
        return any(self.unknown.values()) and not infinite

    @property
    def vacuous(self) -> bool | None:
        """True when the bound is 1 or more, which any loss in [0, 1] keeps; None where terms not known decide."""
        return None if self.open and self.known < 1 else self.certificate.vacuous

    @property
    def known(self) -> float:
        """The sum of the finite terms alone: no bound unless all are finite, but below any bound with the others."""
        return math.fsum(value for value in self.certificate.bound.terms.values() if math.isfinite(value))

    def __str__(self) -> str:
        setting, bound = self.certificate.setting, self.certificate.bound
        sizes = f"{min(setting.m)}" if len(set(setting.m)) == 1 else f"{min(setting.m)} to {max(setting.m)}"
        if self.certified:
            lines = [str(self.certificate)]
        else:
            lines = [f"No certificate for the {self.certificate.loss} at delta = {setting.delta:g}, because"]
            lines += [f"  - {reason}" for reason in self.certificate.reasons]
        about = f"{setting.n} tasks of {sizes} points, lambda = {setting.lam:.4g}, beta = {setting.beta:.4g}"
        lines.append(f"Terms in units of the loss ({about}):")
        unknown = self.unknown
        for name, label in _LABELS.items():
            lines.append(f"  {label:<46}{_amount(getattr(bound, name), unknown.get(name, False))}")
        verdict = ", vacuous: no loss in [0, 1] exceeds 1" if self.vacuous else ""
        lines.append(f"  {'sum':<46}{_amount(bound.total, self.open)}{verdict}")
        if not math.isfinite(bound.total):
            more = ", which alone is vacuous" if self.known >= 1 else ""
            lines.append(f"  {'sum of the finite terms':<46}{self.known:.4g}{more}")
        return "\n".join([*lines, "You vouch that", *(f"  - {note}" for note in self.notes), REMARK])

    def record(self) -> dict[str, Any]:
        """All of it as plain values: infinite is "inf", not known is null."""
        terms = {name: value for name, value in self.certificate.bound.terms.items() if name in _LABELS}
        values = {
            "vacuous": self.vacuous,
            "bound": math.nan if self.open else self.certificate.bound.total,
            "terms": terms | {name: math.nan for name, unknown in self.unknown.items() if unknown},
            "finite_terms": self.known,
            "kl_hyper": self.kl_hyper,
            "kl_tasks": self.kl_tasks,
            "emp_tasks": self.emp_tasks,
            "weights": self.weights,
            "vouched": self.notes,
            "remark": REMARK,
            "words": str(self),
        }
        return self.certificate.record() | _without_nan(plain(values))


def _amount(value: float, unknown: bool) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "not known" if unknown else "infinite"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if value == "nan" else value
