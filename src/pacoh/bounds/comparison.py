"""Earlier meta-learning bounds for a loss in [0, 1], at the same empirical error and KLs (theory section 1.7)."""

import math

import numpy as np

from pacoh.bounds.base import Bound, Risk, Setting
from pacoh.bounds.meta import check_risk

_ASSUMPTIONS = ("loss in [0, 1]", "tasks are independent draws of one task distribution")


def pentina_lampert(risk: Risk, setting: Setting) -> Bound:
    """emp + (KLH + 1/8 + log(2/delta))/sqrt n + (KLH + sum_i KL_i)/(n sqrt mb) + (1/8 + log(2/delta)/n)/sqrt mb.

    Section 1.7 (Pentina & Lampert 2014, Theorem 1), mb the harmonic mean of the m_i. Its temperatures are sqrt(n) and
    sqrt(mb), whatever the setting's lam and beta are.

    >>> from pacoh.bounds import Setting, meta_bound, pentina_lampert
    >>> setting, risk = Setting(n=16, m=25, lam=4.0, beta=5.0, delta=0.1), (0.1, 1.0, [0.5] * 16)
    >>> round(pentina_lampert(risk, setting).total, 6) == round(meta_bound(risk, setting, conf="union").total, 6)
    True
    """
    emp, kl_hyper, kl_tasks = check_risk(risk, setting)
    root_n, root_m, level = math.sqrt(setting.n), 1 / math.sqrt(setting.inverse_m), math.log(2 / setting.delta)
    return Bound(
        "pentina_lampert",
        emp,
        kl_hyper / root_n + kl_hyper / (setting.n * root_m),
        float(kl_tasks.mean()) / root_m,
        1 / (8 * root_m),
        1 / (8 * root_n),
        level / root_n + level / (setting.n * root_m),
        certificate=True,
        assumptions=_ASSUMPTIONS,
        why="two events of probability delta/2 each",
    )


def amit_meir(risk: Risk, setting: Setting) -> Bound:
    """emp + mean_i sqrt((KLH + KL_i + log(2 n m_i/delta))/(2(m_i-1))) + sqrt((KLH + log(2n/delta))/(2(n-1))).

    Section 1.7 (Amit & Meir 2018, Theorem 2); +inf when n = 1 or some m_i = 1.

    >>> from pacoh.bounds import Setting, amit_meir
    >>> setting = Setting(n=16, m=25, lam=4.0, beta=5.0, delta=0.1)
    >>> round(amit_meir((0.1, 1.0, [0.5] * 16), setting).total, 4)
    1.0424
    """
    emp, kl_hyper, kl_tasks = check_risk(risk, setting)
    n, sizes = setting.n, np.asarray(setting.m, float)
    if n == 1 or (sizes == 1).any():
        joint = math.inf
    else:
        inner = kl_hyper + kl_tasks + np.log(2 * n * sizes / setting.delta)
        across = kl_hyper + math.log(2 * n / setting.delta)
        joint = float(np.mean(np.sqrt(inner / (2 * (sizes - 1))))) + math.sqrt(across / (2 * (n - 1)))
    return Bound("amit_meir", emp, joint=joint, certificate=True, assumptions=_ASSUMPTIONS, why="a union over tasks")
