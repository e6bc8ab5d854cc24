"""PAC-Bayesian bounds for one task and one data-independent prior (theory section 1.1)."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import rel_entr

from pacoh.bounds.base import Bound, check_count, check_number, log_sum
from pacoh.errors import PacohError


def bounded_psi(beta: float, m: int, low: float = 0.0, high: float = 1.0) -> float:
    """Psi(beta, m) <= beta^2 (b - a)^2 / (8 m) for a loss in [a, b], section 1.1 (Hoeffding)."""
    width = check_number("high", high, check_number("low", low)) - low
    return beta**2 * width**2 / (8 * m)


def sub_gaussian_psi(beta: float, m: int, s2: float) -> float:
    """Psi(beta, m) <= beta^2 s^2 / (2 m) for a loss that is sub-Gaussian for every h, section 1.1."""
    return sub_gamma_psi(beta, m, s2, 0.0)


def sub_gamma_psi(beta: float, m: int, s2: float, c: float) -> float:
    """Psi(beta, m) <= beta^2 s^2 / (2 m (1 - c beta/m)), +inf unless c beta < m, section 1.1.

    The constants must hold for every hypothesis; a negative c only if the inequality was proved for it.
    """
    check_number("s2", s2, 0, strict=False)
    room = 1 - check_number("c", c) * beta / m
    return beta**2 * s2 / (2 * m * room) if room > 0 else math.inf


def discrete_psi(prior: Sequence[float], log_mgf: Sequence[float], m: int) -> float:
    """Psi(beta, m) = log sum_h P(h) M_h^m, M_h = E_z exp((beta/m)(L(h) - l(h, z))), section 1.1.

    The power m stands inside the mean over h, because all m points share one h. Multiplying m means over h instead
    is smaller (Jensen), and the bound built from it fails.
    """
    weights = np.asarray(prior, float)
    if weights.shape != np.shape(log_mgf) or (weights < 0).any() or not math.isclose(weights.sum(), 1, abs_tol=1e-9):
        raise PacohError(
            "A prior over hypotheses needs one weight of at least 0 per log-moment, with sum 1; "
            f"got weights of shape {weights.shape} and sum {weights.sum():g}, log-moments of shape {np.shape(log_mgf)}."
        )
    return log_sum(m * np.asarray(log_mgf, float), weights)


def single_bound(emp: float, kl: float, beta: float, delta: float, psi: float) -> Bound:
    """emp + (KL(Q, P) + log(1/delta) + Psi) / beta, section 1.1 [theorem:alquier_pac_bound].

    >>> from pacoh.bounds import single_bound
    >>> from pacoh.bounds.single import bounded_psi
    >>> round(single_bound(emp=0.1, kl=2.0, beta=10.0, delta=0.1, psi=bounded_psi(10.0, 100)).total, 4)
    0.5428
    """
    check_number("emp", emp)
    check_number("kl", kl, 0, strict=False, inf=True)
    check_number("beta", beta, 0)
    level = math.log(1 / check_number("delta", delta, 0, 1))
    return Bound(
        "single",
        emp,
        kl_task=kl / beta,
        psi1=psi / beta,
        confidence=level / beta,
        certificate=True,
        assumptions=("the prior does not depend on the sample", "beta is fixed before the sample", "psi bounds Psi"),
        why="change of measure and Markov's inequality hold for every posterior at once",
    )


def gibbs_single_bound(log_z: float, beta: float, delta: float, psi: float) -> Bound:
    """-log Z / beta + (log(1/delta) + Psi) / beta: the bound at the Gibbs posterior, section 1.1.

    `emp` holds -log Z / beta, which is empirical loss plus KL / beta.

    >>> from pacoh.bounds import gibbs_single_bound
    >>> from pacoh.bounds.single import bounded_psi
    >>> round(gibbs_single_bound(log_z=-3.0, beta=10.0, delta=0.1, psi=bounded_psi(10.0, 100)).total, 4)
    0.5428
    """
    return single_bound(-log_z / beta, 0.0, beta, delta, psi)


def binary_kl(q: float, p: float) -> float:
    """kl(q, p) = q log(q/p) + (1 - q) log((1 - q)/(1 - p))."""
    return float(rel_entr(q, p) + rel_entr(1 - q, 1 - p))


def kl_inverse(q: float, budget: float) -> float:
    """sup {p in [q, 1] : kl(q, p) <= budget}."""
    if budget <= 0 or q >= 1:
        return q
    top = math.nextafter(1.0, 0.0)
    if budget == math.inf or binary_kl(q, top) <= budget:
        return 1.0
    root = brentq(lambda p: binary_kl(q, p) - budget, q, top, xtol=1e-15)
    return float(root)  # pyright: ignore[reportArgumentType]


def maurer_seeger(emp: float, kl: float, m: int, delta: float) -> Bound:
    """kl^{-1}(emp | (KL(Q, P) + log(2 sqrt(m)/delta)) / m) for a loss in [0, 1] (Seeger 2002, Maurer 2004).

    >>> from pacoh.bounds import maurer_seeger
    >>> round(maurer_seeger(emp=0.1, kl=2.0, m=100, delta=0.1).total, 4)
    0.2507
    """
    emp, kl, m, delta = _bounded_inputs(emp, kl, m, delta)
    value = kl_inverse(emp, (kl + math.log(2 * math.sqrt(m) / delta)) / m)
    return Bound("maurer_seeger", emp, joint=value - emp, certificate=True, assumptions=_BOUNDED, why=_WHY)


def catoni(emp: float, kl: float, m: int, delta: float, beta: float) -> Bound:
    """(1 - exp(-C emp - (KL + log(1/delta))/m)) / (1 - e^{-C}), C = beta/m, loss in [0, 1] (Catoni 2007).

    >>> from pacoh.bounds import catoni
    >>> round(catoni(emp=0.1, kl=2.0, m=100, delta=0.1, beta=100.0).total, 4)
    0.2108
    """
    emp, kl, m, delta = _bounded_inputs(emp, kl, m, delta)
    rate = check_number("beta", beta, 0) / m
    value = math.expm1(-rate * emp - (kl + math.log(1 / delta)) / m) / math.expm1(-rate)
    return Bound("catoni", emp, joint=value - emp, certificate=True, assumptions=_BOUNDED, why=_WHY)


_BOUNDED = ("loss in [0, 1]", "the prior does not depend on the sample", "constants are fixed before the sample")
_WHY = "proved for every posterior at once"


def _bounded_inputs(emp: float, kl: float, m: int, delta: float) -> tuple[float, float, int, float]:
    return (
        check_number("emp", emp, 0, 1, strict=False),
        check_number("kl", kl, 0, strict=False, inf=True),
        check_count("m", m),
        check_number("delta", delta, 0, 1),
    )
