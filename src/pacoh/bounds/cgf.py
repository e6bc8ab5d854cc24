"""Exact level-I moments of the squared loss in the linear-Gaussian case study (theory section 2.1).

Where w - w* is Gaussian, E_z exp(gamma V(w)) depends on |w - w*|^2 only, so each moment is a one-dimensional integral.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, poisson

from pacoh.bounds.base import check_count, check_number, log_sum

_DROP = 44.0  # e^-44 of the integrand's peak is below double precision


@dataclass(frozen=True)
class SquaredLoss:
    """The noise variance of the model (s2), the input variance (sx2) and the true noise variance (se2).

    >>> from pacoh.bounds import SquaredLoss
    >>> SquaredLoss(noise_var=1.0, x_var=1.0, eps_var=0.25).eps_var
    0.25
    """

    noise_var: float
    x_var: float
    eps_var: float

    def __post_init__(self):
        check_number("noise_var", self.noise_var, 0)
        check_number("x_var", self.x_var, 0, strict=False)
        check_number("eps_var", self.eps_var, 0, strict=False)


@dataclass(frozen=True)
class Gap:
    """w - w* is Gaussian in d dimensions: variance `var` per coordinate, squared length `dist2` of its mean.

    >>> from pacoh.bounds import Gap
    >>> Gap(d=2, var=0.5, dist2=1.0)
    Gap(d=2, var=0.5, dist2=1.0)
    """

    d: int
    var: float
    dist2: float

    def __post_init__(self):
        check_count("d", self.d)
        check_number("var", self.var, 0, strict=False)
        check_number("dist2", self.dist2, 0, strict=False)


def point_log_moment(gamma: float, v: float | np.ndarray, noise_var: float) -> np.ndarray:
    """log E_z e^{gamma V} = gamma v/(2 s2) - log(1 + gamma v/s2)/2, v = sx2 |w - w*|^2 + se2, section 2.1."""
    z = gamma * np.asarray(v, float) / noise_var
    return (z - np.log1p(z)) / 2


def log_moment(gamma: float, power: float, gap: Gap, loss: SquaredLoss) -> float:
    """log E_w[(E_z e^{gamma V(w)})^power], section 2.1; +inf unless power gamma sx2 var < s2.

    The exponential part is taken out by exact tilting. The rest, E (1 + gamma v/s2)^{-power/2}, is an integral of
    Laplace transforms: a^{-p} = int s^{p-1} e^{-as} ds / Gamma(p), and E e^{-s|w-w*|^2} has a closed form. That leaves
    one smooth integral over log s, for which the trapezoid rule converges geometrically.

    >>> from pacoh.bounds import Gap, SquaredLoss, log_moment
    >>> loss = SquaredLoss(noise_var=1.0, x_var=1.0, eps_var=0.25)
    >>> round(log_moment(0.1, 5, Gap(d=2, var=0.5, dist2=1.0), loss), 4)
    0.0848
    >>> log_moment(0.5, 5, Gap(d=2, var=0.5, dist2=1.0), loss)  # power gamma sx2 var is not below s2
    inf
    """
    check_number("gamma", gamma, 0, strict=False)
    check_number("power", power, 0)
    rate = gamma / loss.noise_var
    if gap.var == 0 or loss.x_var == 0 or gamma == 0:
        return float(power * point_log_moment(gamma, loss.x_var * gap.dist2 + loss.eps_var, loss.noise_var))
    room = 1 - power * rate * loss.x_var * gap.var
    if room <= 0:
        return math.inf
    spread = rate * loss.x_var * gap.var / room  # variance of sqrt(gamma sx2 / s2) (w - w*) after tilting
    shift = rate * loss.x_var * gap.dist2 / room**2
    tilt = power * rate * loss.x_var * gap.dist2 / (2 * room) - gap.d / 2 * math.log(room)
    noise = rate * loss.eps_var

    def rest(y: np.ndarray) -> np.ndarray:
        s = power / 2 * np.exp(y)
        width = 2 * spread * s
        return -power * noise / 2 * np.expm1(y) - gap.d / 2 * np.log1p(width) - shift * s / (1 + width)

    return tilt + _log_gamma_mean(rest, power / 2, power * noise / 2)


def _log_gamma_mean(rest, shape: float, lift: float) -> float:
    """log of E exp(rest(log(s/shape))) for s ~ Gamma(shape), where rest <= lift everywhere."""

    def kernel(y: np.ndarray) -> np.ndarray:
        return shape * (y - np.expm1(y))

    def full(y: np.ndarray) -> np.ndarray:
        return kernel(y) + rest(y)

    return _log_integral(full, shape, lift) - _log_integral(kernel, shape, 0.0)


def _log_integral(log_f, shape: float, lift: float) -> float:
    """log int exp(log_f) over the line, for log_f(y) <= shape (y - expm1(y)) + lift: trapezoid, steps halved."""
    peak = float(log_f(np.linspace(-3.0, 1.0, 201)).max())
    y = values = np.empty(0)
    for _ in range(3):  # the range of a better peak is smaller
        fall = _DROP + lift - peak
        y = np.linspace(-fall / shape - 1, math.log1p(fall / shape) + 2, 8193)
        values = log_f(y)
        peak = max(peak, float(values.max()))
    keep = np.flatnonzero(values > peak - _DROP)
    low, high = y[max(keep[0] - 1, 0)], y[min(keep[-1] + 1, y.size - 1)]
    last = math.inf
    for count in 2 ** np.arange(7, 22):
        y, step = np.linspace(low, high, count + 1, retstep=True)
        value = log_sum(log_f(y)) + math.log(step)
        if abs(value - last) < 1e-14 * max(1.0, abs(value)):
            return value
        last = value
    return last


def upper_log_moment(gamma: float, gap: Gap, loss: SquaredLoss) -> float:
    """gam se2/(2 s2) - (d/2) log(1 - a s) + a |w* - muH|^2/(2(1 - a s)), a = gam sx2/s2, s = var: erratum E14.

    A closed upper bound of `log_moment` at power 1; +inf unless a s < 1.
    """
    a = gamma * loss.x_var / loss.noise_var
    room = 1 - a * gap.var
    if room <= 0:
        return math.inf
    return gamma * loss.eps_var / (2 * loss.noise_var) - gap.d / 2 * math.log(room) + a * gap.dist2 / (2 * room)


def radius_rule(gap: Gap, count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Nodes r and weights for E f(|w - w*|): Gauss-Legendre in r against the noncentral chi density, section 2.1."""
    if gap.var == 0:
        return np.array([math.sqrt(gap.dist2)]), np.ones(1)
    nc = gap.dist2 / gap.var
    centre, spread = math.sqrt(nc + gap.d), 11.0
    nodes, weights = np.polynomial.legendre.leggauss(count)
    low, high = max(centre - spread, 0.0), centre + spread
    r = low + (high - low) * (nodes + 1) / 2
    middle, wide = nc / 2, 12 * math.sqrt(nc / 2) + 40  # a Poisson mixture of central densities, robust in every d
    k = np.arange(max(0, math.floor(middle - wide)), math.ceil(middle + wide))
    density = np.exp(poisson.logpmf(k, middle) + chi2.logpdf(r[:, None] ** 2, gap.d + 2 * k)).sum(-1)
    mass = weights * r * density
    return r * math.sqrt(gap.var), mass / mass.sum()


def tilted_log_mean(gap: Gap, tilt: float, log_f: Callable[[np.ndarray], np.ndarray], count: int = 120) -> float:
    """log E e^{log_f(r)}, r = |w - w*|, section 2.1: exact tilting by e^{tilt r^2}, like which e^{log_f} grows."""
    left = 1 - 2 * tilt * gap.var
    if left <= 0:
        return math.inf
    r, weights = radius_rule(Gap(gap.d, gap.var / left, gap.dist2 / left**2), count)
    mean = log_sum(log_f(r) - tilt * r**2, weights)
    return tilt * gap.dist2 / left - gap.d / 2 * math.log(left) + mean


def joint_log_moment(beta: float, m: int, n: int, gaps: tuple[Gap, float], loss: SquaredLoss) -> float:
    """log E_mu[F(mu)^n], F(mu) = E_w (E_z e^{(beta/m) V(w)})^m at fixed mu, section 2.1; what theorem 1.2 needs.

    `gaps` is (mu - muT over the hyper-prior, the variance sP2 + sT2 of w - w* at fixed mu). +inf unless
    n < s2 (1 - t)/(beta sx2 sH2) with t = beta sx2 (sP2 + sT2)/s2.

    >>> from pacoh.bounds import Gap, SquaredLoss, joint_log_moment
    >>> loss = SquaredLoss(noise_var=1.0, x_var=1.0, eps_var=0.25)
    >>> round(joint_log_moment(0.5, 5, 2, (Gap(d=2, var=0.1, dist2=0.0), 0.2), loss), 4)
    0.0247
    """
    hyper, inner_var = gaps
    room = 1 - beta * loss.x_var * inner_var / loss.noise_var
    if room <= 0:
        return math.inf

    def log_f(r: np.ndarray) -> np.ndarray:
        return n * np.array([log_moment(beta / m, m, Gap(hyper.d, inner_var, float(x) ** 2), loss) for x in r])

    return tilted_log_mean(hyper, n * beta * loss.x_var / (2 * loss.noise_var * room), log_f)
