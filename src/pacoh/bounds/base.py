"""What every bound shares: the setting it is evaluated in and the terms it returns."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pacoh.errors import PacohError

Risk = tuple[float, float, Sequence[float] | np.ndarray]  # empirical loss, KL of the hyper-posterior, KL per task


def log_sum(log_values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """log sum_k weights_k exp(log_values_k), without overflow."""
    return float(logsumexp(log_values, b=weights))  # pyright: ignore[reportArgumentType]


def check_number(
    name: str, value: object, low: float = -math.inf, high: float = math.inf, *, strict: bool = True, inf: bool = False
) -> float:
    """The value as a float inside (low, high) or, if not strict, [low, high]; a teaching error otherwise."""
    kind = f"{'between' if high < math.inf else 'above' if strict else 'at least'} {low:g}"
    expected = "a number" if low == -math.inf else f"a number {kind}" + (f" and {high:g}" if high < math.inf else "")
    if inf and value in ("inf", "Infinity"):
        value = math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise PacohError(f"'{name}' must be {expected}, got {value!r}: write it as a plain number.")
    number = float(value)
    inside = low < number < high if strict else low <= number <= high
    if inf and number == math.inf:
        return number
    if not math.isfinite(number) or not inside:
        raise PacohError(f"'{name}' must be {expected}, got {number:g}: change '{name}' to a value in that range.")
    return number


def check_count(name: str, value: object) -> int:
    """A positive whole number."""
    number = check_number(name, value, 0)
    if number != int(number):
        raise PacohError(f"'{name}' must be a whole number of at least 1, got {number:g}.")
    return int(number)


@dataclass(frozen=True)
class Setting:
    """n tasks of m_i points, the temperatures lam and beta, and the probability delta that the bound may fail.

    `m` is one number (all tasks alike) or one number per task. With unequal sizes beta is still one number:
    the joint change of measure over tasks forces one exponent for all of them.

    >>> from pacoh.bounds import Setting
    >>> setting = Setting(n=16, m=25, lam=4.0, beta=5.0, delta=0.1)
    >>> setting.pre, round(setting.omega, 4)
    (0.2625, 0.0476)
    """

    n: int
    m: tuple[int, ...]
    lam: float
    beta: float
    delta: float

    def __init__(self, n: int, m: float | Iterable[float], lam: float, beta: float, delta: float):
        count = check_count("n", n)
        sizes = [m] * count if isinstance(m, (int, float, np.integer, np.floating)) else list(m)
        if len(sizes) != count:
            raise PacohError(f"There are n={count} tasks but {len(sizes)} task sizes: give one per task, or one m.")
        object.__setattr__(self, "n", count)
        object.__setattr__(self, "m", tuple(check_count("m", size) for size in sizes))
        object.__setattr__(self, "lam", check_number("lam", lam, 0))
        object.__setattr__(self, "beta", check_number("beta", beta, 0))
        object.__setattr__(self, "delta", check_number("delta", delta, 0, 1))

    @property
    def pre(self) -> float:
        """1/lam + 1/(n beta): the coefficient of KL(hyper-posterior, hyper-prior), section 0."""
        return 1 / self.lam + 1 / (self.n * self.beta)

    @property
    def omega(self) -> float:
        """lam / (n beta + lam): the weight of each task's log evidence in the PACOH, section 0."""
        return self.lam / (self.n * self.beta + self.lam)

    @property
    def inverse_m(self) -> float:
        """mean_i 1/m_i: the reciprocal of the harmonic mean of the task sizes."""
        return float(np.mean(1 / np.asarray(self.m, float)))


@dataclass(frozen=True)
class Bound:
    """A bound as the sum of its terms, with what it assumes and whether it is proved for these inputs.

    `joint` holds what no single term owns: roots or inverses that mix a KL with the confidence.

    >>> from pacoh.bounds import Setting, meta_bound
    >>> bound = meta_bound((0.1, 1.0, [0.5] * 16), Setting(n=16, m=25, lam=4.0, beta=5.0, delta=0.1))
    >>> round(bound.total, 4), bound.certificate
    (1.1232, True)
    >>> {name: round(value, 4) for name, value in bound.terms.items()}
    {'emp': 0.1, 'kl_hyper': 0.2625, 'kl_task': 0.1, 'psi1': 0.025, 'psi2': 0.0312, 'confidence': 0.6044, 'joint': 0.0}
    """

    name: str
    emp: float
    kl_hyper: float = 0.0
    kl_task: float = 0.0
    psi1: float = 0.0
    psi2: float = 0.0
    confidence: float = 0.0
    joint: float = 0.0
    certificate: bool = False
    assumptions: tuple[str, ...] = ()
    why: str = ""

    @property
    def total(self) -> float:
        """The value of the bound: the sum of all terms."""
        return math.fsum(self.terms.values()) if math.isfinite(sum(self.terms.values())) else math.inf

    @property
    def terms(self) -> dict[str, float]:
        """Each term by name, in the units of the loss."""
        names = ("emp", "kl_hyper", "kl_task", "psi1", "psi2", "confidence", "joint")
        return {name: getattr(self, name) for name in names}

    def record(self) -> dict[str, object]:
        """The bound as plain values, ready for JSON once infinities are written as "inf"."""
        return {
            "name": self.name,
            "total": self.total,
            "terms": self.terms,
            "certificate": self.certificate,
            "assumptions": list(self.assumptions),
            "why": self.why,
        }


def plain(value: object) -> object:
    """The value with arrays as lists and infinities as the strings "inf" and "-inf", which JSON can hold."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return number if math.isfinite(number) else ("inf" if number > 0 else "-inf" if number < 0 else "nan")
    return value.item() if isinstance(value, np.generic) else value
