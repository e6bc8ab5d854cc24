"""The meta-learning theorem and its forms (theory sections 1.2 to 1.6)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pacoh.bounds.base import Bound, Risk, Setting, check_number
from pacoh.errors import PacohError

Confidence = Literal["holder", "union", "paper"]

_SHARED = (
    "tasks are independent draws of one task distribution",
    "hyper-prior, prior family, lam and beta do not depend on the tasks",
)


@dataclass(frozen=True)
class Cgf:
    """Values for Psi1(beta) and Psi2(lam), the condition they rest on, and whether they bound the theorem's moments.

    `only` names the one form of the bound ("per_task") for which they do, if it is not every form.

    >>> from pacoh.bounds import Cgf
    >>> Cgf(psi1=0.01, psi2=0.02, assumption="loss in [0, 1]").proved
    True
    """

    psi1: float
    psi2: float
    assumption: str
    proved: bool = True
    only: str = ""


def bounded(setting: Setting, low: float = 0.0, high: float = 1.0) -> Cgf:
    """Psi1 = beta (b-a)^2 mean_i(1/m_i) / 8, Psi2 = lam (b-a)^2 / (8 n), section 1.2 [corr:bounded].

    >>> from pacoh.bounds import Setting, bounded
    >>> moments = bounded(Setting(n=16, m=25, lam=4.0, beta=5.0, delta=0.1))
    >>> moments.psi1, moments.psi2  # beta/(8 m) and lam/(8 n)
    (0.025, 0.03125)
    """
    width = check_number("high", high, check_number("low", low)) - low
    psi1 = setting.beta * width**2 * setting.inverse_m / 8
    return Cgf(psi1, setting.lam * width**2 / (8 * setting.n), f"loss in [{low:g}, {high:g}]")


def sub_gamma(setting: Setting, task: tuple[float, float], meta: tuple[float, float]) -> Cgf:
    """Psi1 = beta s1^2 / (2m (1 - c1 beta/m)), Psi2 = lam s2^2 / (2n (1 - c2 lam/n)), section 1.2 [corr:sub_gamma].

    `task` and `meta` are (variance factor s^2, scale c), uniform in h and in P; +inf outside c1 beta < m, c2 lam < n.

    >>> from pacoh.bounds import Setting, sub_gamma
    >>> setting = Setting(n=16, m=25, lam=4.0, beta=5.0, delta=0.1)
    >>> round(sub_gamma(setting, task=(1.0, 0.5), meta=(1.0, 0.5)).psi1, 4)
    0.1111
    >>> sub_gamma(setting, task=(1.0, 5.0), meta=(1.0, 0.5)).psi1  # 5 beta is not below m
    inf
    """
    psi1 = float(np.mean([_sub_gamma_term(setting.beta, m, *task) for m in setting.m]))
    return Cgf(psi1, _sub_gamma_term(setting.lam, setting.n, *meta), "loss sub-gamma, uniformly in h and in P")


def sub_gaussian(setting: Setting, task: float, meta: float) -> Cgf:
    """Psi1 = beta s1^2 / (2m), Psi2 = lam s2^2 / (2n): the sub-gamma case with c = 0, section 1.2.

    >>> from pacoh.bounds import Setting, sub_gaussian
    >>> setting = Setting(n=16, m=25, lam=4.0, beta=5.0, delta=0.1)
    >>> sub_gaussian(setting, task=1.0, meta=1.0).psi1
    0.1
    """
    return sub_gamma(setting, (task, 0.0), (meta, 0.0))


def _sub_gamma_term(rate: float, count: int, s2: float, c: float) -> float:
    room = 1 - check_number("c", c) * rate / count
    return rate * check_number("s2", s2, 0, strict=False) / (2 * count * room) if room > 0 else math.inf


def holder(setting: Setting) -> float:
    """(1/lam + 1/(n beta)) log(1/delta): proved for any lam, beta > 0, section 1.2."""
    return setting.pre * math.log(1 / setting.delta)


def union(setting: Setting) -> float:
    """(1/lam + 1/(n beta)) log(2/delta): proved, two events, section 1.2."""
    return setting.pre * math.log(2 / setting.delta)


def paper(setting: Setting) -> float:
    """log(1/delta) / sqrt(n): as printed, unproven, section 1.2 [theorem:meta-learning-bound]."""
    return math.log(1 / setting.delta) / math.sqrt(setting.n)


_CONFIDENCE: dict[str, Callable[[Setting], float]] = {"holder": holder, "union": union, "paper": paper}


def meta_bound(risk: Risk, setting: Setting, cgf: Cgf | None = None, conf: Confidence = "holder") -> Bound:
    """emp + pre KL(Qc, Pc) + mean_i E KL(Q_i, P)/beta + Psi1 + Psi2 + conf, 1.2 [theorem:meta-learning-bound].

    `risk` is (emp, kl_hyper, kl_tasks): the mean empirical loss of the base learner's posteriors over tasks and over
    the hyper-posterior, KL(hyper-posterior, hyper-prior), and each task's mean KL to the prior. Any base learner.

    >>> from pacoh.bounds import Setting, meta_bound
    >>> setting = Setting(n=16, m=25, lam=4.0, beta=5.0, delta=0.1)
    >>> round(meta_bound((0.1, 1.0, [0.5] * 16), setting).total, 4)
    1.1232
    >>> meta_bound((0.1, 1.0, [0.5] * 16), setting, conf="paper").certificate
    False
    """
    emp, kl_hyper, kl_tasks = check_risk(risk, setting)
    return _assemble("meta", (emp, kl_hyper, float(kl_tasks.mean())), setting, cgf, conf)


def gibbs_bound(
    log_z: Sequence[float] | np.ndarray,
    kl_hyper: float,
    setting: Setting,
    cgf: Cgf | None = None,
    conf: Confidence = "holder",
) -> Bound:
    """-mean_i E log Z_i / beta + pre KL(Qc, Pc) + C, section 1.3 [eq:meta-level_pac_bound_with_mll].

    `log_z` holds E over the hyper-posterior of log Z_i; `emp` of the answer is empirical loss plus KL(Q_i, P) / beta.

    >>> from pacoh.bounds import Setting, gibbs_bound
    >>> setting = Setting(n=16, m=25, lam=4.0, beta=5.0, delta=0.1)
    >>> round(gibbs_bound([-1.0] * 16, 1.0, setting).total, 4)
    1.1232
    """
    emp = -float(np.mean(_per_task_array("log_z", log_z, setting))) / setting.beta
    check_number("kl_hyper", kl_hyper, 0, strict=False, inf=True)
    return _assemble("gibbs", (emp, kl_hyper, 0.0), setting, cgf, conf)


def pacoh_bound(log_z2: float, setting: Setting, cgf: Cgf | None = None, conf: Confidence = "holder") -> Bound:
    """-pre log Z2 + C, section 1.4 [cor:meta_bound_pacoh].

    `emp` of the answer is -pre log Z2, which is empirical loss plus both KL terms at the PAC-optimal hyper-posterior.

    >>> from pacoh.bounds import Setting, pacoh_bound
    >>> setting = Setting(n=16, m=25, lam=4.0, beta=5.0, delta=0.1)
    >>> round(pacoh_bound(-1.5, setting).total, 4)
    1.0544
    """
    return _assemble("pacoh", (-setting.pre * check_number("log_z2", log_z2), 0.0, 0.0), setting, cgf, conf)


def per_task_bound(
    log_z: Sequence[float] | np.ndarray, setting: Setting, cgf: Cgf | None = None, conf: Confidence = "holder"
) -> Bound:
    """-mean_i E_Pc log Z_i / beta + C, section 1.5 [theorem:single_task_bound_hyper_prior].

    `log_z` holds E over the hyper-prior of log Z_i. The hyper-prior is not learned, so this form is also a certificate
    for unbounded losses when `cgf` holds the m-power Psi1 and the same-P Psi2.

    >>> from pacoh.bounds import Setting, per_task_bound
    >>> setting = Setting(n=16, m=25, lam=4.0, beta=5.0, delta=0.1)
    >>> round(per_task_bound([-1.5] * 16, setting).total, 4)
    0.9607
    """
    emp = -float(np.mean(_per_task_array("log_z", log_z, setting))) / setting.beta
    return _assemble("per_task", (emp, 0.0, 0.0), setting, cgf, conf)


def improvement(log_z2: float, mean_log_z: Sequence[float] | np.ndarray, setting: Setting) -> float:
    """Delta = pre [log Z2 - om sum_i E_Pc log Z_i] = pre KL(Pc, Qc*) >= 0, section 1.6 [prop:single_vs_meta].

    >>> from pacoh.bounds import Setting, improvement
    >>> setting = Setting(n=16, m=25, lam=4.0, beta=5.0, delta=0.1)
    >>> round(improvement(-0.9, [-1.5] * 16, setting), 4)
    0.0637
    """
    total = float(np.sum(_per_task_array("mean_log_z", mean_log_z, setting)))
    return setting.pre * (log_z2 - setting.omega * total)


def check_risk(risk: Risk, setting: Setting) -> tuple[float, float, np.ndarray]:
    """(emp, kl_hyper, kl_tasks) as numbers, with one KL of at least 0 per task."""
    emp, kl_hyper, kl_tasks = risk
    values = _per_task_array("kl_tasks", kl_tasks, setting)
    for value in values:
        check_number("kl_tasks", float(value), 0, strict=False, inf=True)
    return check_number("emp", emp), check_number("kl_hyper", kl_hyper, 0, strict=False, inf=True), values


def _per_task_array(name: str, values: Sequence[float] | np.ndarray, setting: Setting) -> np.ndarray:
    array = np.atleast_1d(np.asarray(values, float))
    if array.shape != (setting.n,):
        raise PacohError(f"'{name}' needs one value for each of the {setting.n} tasks, got shape {array.shape}.")
    return array


def _assemble(
    name: str, parts: tuple[float, float, float], setting: Setting, cgf: Cgf | None, conf: Confidence
) -> Bound:
    if conf not in _CONFIDENCE:
        raise PacohError(f"The confidence term is one of {', '.join(_CONFIDENCE)}; got {conf!r}.")
    cgf = bounded(setting) if cgf is None else cgf
    emp, kl_hyper, kl_task = parts
    covered = cgf.proved and cgf.only in ("", name)
    unproved = [] if covered else [f"Psi1 and Psi2 do not bound the theorem's moments ({cgf.assumption})"]
    if conf == "paper":
        unproved.append("the printed confidence term treats two dependent remainders as independent")
        if setting.lam < math.sqrt(setting.n):
            unproved.append(f"it also asks for lam >= sqrt(n), and lam={setting.lam:g}")
    return Bound(
        f"{name}_{conf}",
        emp,
        setting.pre * kl_hyper,
        kl_task / setting.beta,
        cgf.psi1,
        cgf.psi2,
        _CONFIDENCE[conf](setting),
        certificate=not unproved,
        assumptions=(*_SHARED, cgf.assumption),
        why="; ".join(unproved) or "change of measure at both levels, Markov's inequality on the joint remainder",
    )
