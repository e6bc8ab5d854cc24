"""What may be claimed about the error on a new task, from the facts of a meta-learned model."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pacoh.bounds.base import Bound, Setting, check_number, plain
from pacoh.bounds.meta import Confidence, meta_bound
from pacoh.errors import PacohError


@dataclass(frozen=True)
class Certificate:
    """A bound on the expected bounded loss on a new task, and whether it is a certificate.

    >>> import math
    >>> from pacoh.bounds import Setting, certify
    >>> setting = Setting(n=100, m=100, lam=30.0, beta=30.0, delta=0.1)
    >>> given = certify(([0.05] * 100, 1.0, [1.0] * 100), setting)
    >>> given.certified, given.vacuous, round(given.bound.total, 3)
    (True, False, 0.27)
    >>> print(certify(([0.05] * 100, math.inf, [1.0] * 100), setting).reasons[0])
    the hyper-posterior has infinite KL to the hyper-prior (it is made of point masses)
    """

    bound: Bound
    setting: Setting
    loss: str
    reasons: tuple[str, ...]

    @property
    def certified(self) -> bool:
        """True when the theory proves the bound for this model."""
        return not self.reasons

    @property
    def vacuous(self) -> bool:
        """True when the bound says nothing: a loss in [0, 1] is below it anyway."""
        return self.bound.total >= 1

    def __str__(self) -> str:
        terms = ", ".join(f"{name} {value:.4g}" for name, value in self.bound.terms.items() if value)
        size = f"{self.setting.n} tasks"
        if not self.certified:
            why = "; ".join(self.reasons)
            return f"No certificate, because {why}. For information, the bound's terms from {size} are: {terms}."
        sure = f"with probability at least {1 - self.setting.delta:g} over the draw of the {size}"
        claim = f"the expected {self.loss} on a new task of the same kind is at most {self.bound.total:.4g}"
        note = " This is vacuous: the loss never exceeds 1." if self.vacuous else ""
        return f"Certificate: {sure}, {claim} ({terms}).{note}"

    def record(self) -> dict[str, object]:
        """All of it as plain values; infinities are the string "inf"."""
        setting = self.setting
        facts = {"n": setting.n, "m_i": list(setting.m), "lam": setting.lam, "beta": setting.beta}
        values = {
            "certified": self.certified,
            "vacuous": self.vacuous,
            "loss": self.loss,
            "bound": self.bound.total,
            "terms": self.bound.terms,
            "delta": setting.delta,
            **facts,
            "assumptions": list(self.bound.assumptions),
            "reasons": list(self.reasons),
            "words": str(self),
        }
        return plain(values)  # type: ignore[return-value]

    def to_json(self) -> str:
        """The record as JSON text."""
        return json.dumps(self.record(), indent=2, allow_nan=False)


def certify(
    risk: tuple[Sequence[float], float, Sequence[float]],
    setting: Setting,
    reasons: Sequence[str] = (),
    loss: str = "0-1 error",
    conf: Confidence = "holder",
) -> Certificate:
    """The meta-learning theorem for a loss in [0, 1] (section 1.2), as a claim that never exceeds the theory.

    `risk` is (empirical loss per task, KL(hyper-posterior, hyper-prior), mean KL(Q_i, P) per task); KLs may be
    infinite, or NaN where they are not known. `reasons` lists why the theory does not cover the model; any of them, or
    a KL that is infinite or not known, withdraws it.

    >>> from pacoh.bounds import Setting, certify
    >>> setting = Setting(n=100, m=100, lam=30.0, beta=30.0, delta=0.1)
    >>> given = certify(([0.05] * 100, 1.0, [1.0] * 100), setting)
    >>> print(str(given)[:82], "...")
    Certificate: with probability at least 0.9 over the draw of the 100 tasks, the exp ...
    """
    emp_tasks, kl_hyper, kl_tasks = risk
    unknown = bool(np.isnan([kl_hyper, *kl_tasks]).any())
    emp = [check_number("empirical loss", value, 0, 1, strict=False) for value in emp_tasks]
    if len(emp) != setting.n:
        raise PacohError(f"A certificate needs one empirical loss for each of the {setting.n} tasks, got {len(emp)}.")
    kls = [math.inf if math.isnan(value) else value for value in (kl_hyper, *kl_tasks)]
    bound = meta_bound((float(np.mean(emp)), kls[0], kls[1:]), setting, conf=conf)
    found = list(reasons)
    if unknown and not found:
        found.append("a KL is not known")
    if math.isinf(kl_hyper):
        found.append("the hyper-posterior has infinite KL to the hyper-prior (it is made of point masses)")
    if np.isinf(kl_tasks).any():
        found.append("some task's posterior has infinite KL to the prior (it is a point mass)")
    if not bound.certificate:
        found.append(bound.why)
    return Certificate(bound, setting, loss, tuple(found))
