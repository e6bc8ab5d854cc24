"""Many logistic tasks on one shared grid: fast tables over prior means for figures and coverage (theory section 3).

Each task becomes three tables over the grid of prior means: log Z_i(mu), the 0-1 error of Q_i(mu) on its own sample and
KL(Q_i(mu), P_mu). Sums over tasks of these tables give the PACOH and every term of the bounds, for any group of tasks.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit


@dataclass(frozen=True)
class Tables:
    """Per task (rows) and prior mean (columns): log evidence, empirical 0-1 error, KL(Q_i(mu), P_mu)."""

    log_z: np.ndarray
    emp: np.ndarray
    kl: np.ndarray


@dataclass(frozen=True)
class LogisticWorld:
    """w* ~ N(muT, sT2 I), x ~ U([-1, 1]^2), P(y=1) = sigmoid(w*'x), with the constants of theory 2.2.

    Integrals are trapezoid sums; the step of the weights is small against 1/|x|, that of the means against sP.
    """

    m: int = 5
    task_mean: float = 10.0
    task_sd: float = 3.0
    prior_sd: float = 10.0
    hyper_sd: float = 20.0
    mean_step: float = 4.0
    weight_step: float = 2.0

    @property
    def beta(self) -> float:
        """sqrt(m)."""
        return math.sqrt(self.m)

    @cached_property
    def means(self) -> np.ndarray:
        """Prior means along one axis, 6 sds of the hyper-prior around the tasks' mean."""
        half = 6 * self.hyper_sd / self.mean_step
        return self.task_mean + self.mean_step * np.arange(-math.ceil(half), math.ceil(half) + 1)

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights along one axis, 5.5 sds of the prior beyond the means."""
        half = (self.means[-1] - self.task_mean + 5.5 * self.prior_sd) / self.weight_step
        return self.task_mean + self.weight_step * np.arange(-math.ceil(half), math.ceil(half) + 1)

    @cached_property
    def _kernel(self) -> np.ndarray:
        gap = (self.means[:, None] - self.weights) / self.prior_sd
        return np.exp(-(gap**2) / 2) * self.weight_step / (self.prior_sd * math.sqrt(2 * math.pi))

    @cached_property
    def _log_hyper_prior(self) -> np.ndarray:
        line = -(self.means**2) / (2 * self.hyper_sd**2)
        line = line - math.log(self.hyper_sd * math.sqrt(2 * math.pi) / self.mean_step)
        return (line[:, None] + line).ravel()

    def simulate(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(w*, x, y) of `count` tasks."""
        truth = self.task_mean + self.task_sd * rng.standard_normal((count, 2))
        x = rng.uniform(-1, 1, (count, self.m, 2))
        y = rng.uniform(size=(count, self.m)) < expit(np.einsum("tmi,ti->tm", x, truth))
        return truth, x, y.astype(int)

    @cached_property
    def _fine(self) -> np.ndarray:
        """The weights with one more between each two."""
        return np.linspace(self.weights[0], self.weights[-1], 2 * self.weights.size - 1)

    def log_f(self, x: np.ndarray, y: np.ndarray, axis: np.ndarray | None = None) -> np.ndarray:
        """-beta Lh(w) of one task on the grid of weights; exponentials of sums are products along the axes."""
        axis = self.weights if axis is None else axis
        total = np.zeros((axis.size, axis.size))
        for (x0, x1), label in zip(x, y, strict=True):
            sign = 1 - 2 * label
            total += np.log(1 + np.outer(np.exp(sign * x0 * axis), np.exp(sign * x1 * axis)))
        return -self.beta / len(y) * total

    def smooth(self, values: np.ndarray) -> np.ndarray:
        """int N(w; mu, sP2 I) values(w) dw at every prior mean: two products with one Gaussian kernel, section 3."""
        return (self._kernel @ values @ self._kernel.T).reshape(*values.shape[:-2], -1)

    def _wrong(self, f: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """f times the 0-1 error, on the grid of weights; f comes on the grid with half the step.

        The error jumps along w'x = 0. Cell averages of it leave an error of order step^2, which two steps cancel.
        """
        fine = f * cell_errors(self._fine, x, y)
        coarse = f[::2, ::2] * cell_errors(self.weights, x, y)
        return (4 * halve(halve(fine).T).T - coarse) / 3

    def tables(self, x: np.ndarray, y: np.ndarray) -> Tables:
        """The three tables of each task; KL(Q_i, P_mu) = -beta E_Q Lh - log Z_i(mu), section 3."""
        size = self.means.size**2
        log_z, emp, kl = (np.empty((len(x), size), kind) for kind in (np.float64, np.float32, np.float32))
        for i in range(len(x)):
            fine = self.log_f(x[i], y[i], self._fine)
            f, log_f = np.exp(fine), fine[::2, ::2]
            values = np.stack([f[::2, ::2], self._wrong(f, x[i], y[i]), f[::2, ::2] * log_f])
            z, wrong, energy = self.smooth(values)
            log_z[i], emp[i] = np.log(z), wrong / z
            kl[i] = np.maximum(energy / z - log_z[i], 0)
        return Tables(log_z, emp, kl)

    def risk_table(self, truth: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard error over tasks of the true 0-1 error of Q(S, mu), at every prior mean."""
        angle = np.arctan2(*np.meshgrid(self.weights, self.weights, indexing="ij")[::-1])
        total = np.zeros((2, self.means.size**2))
        for w, xi, yi in zip(truth, x, y, strict=True):
            f = np.exp(self.log_f(xi, yi))
            z, wrong = self.smooth(np.stack([f, f * true_error(w, angle)]))
            total += np.stack([wrong / z, (wrong / z) ** 2])
        mean, square = total / len(x)
        return mean, np.sqrt(np.maximum(square - mean**2, 0) / (len(x) - 1))

    def hyper_posterior(self, log_z_sum: np.ndarray, n: int, lam: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(weights of prior means, KL(Qc*, Pc), log Z2) of the PACOH for each row of summed log Z_i, section 1.4."""
        omega = lam / (n * self.beta + lam)
        log_joint = self._log_hyper_prior + omega * log_z_sum
        top = log_joint.max(-1, keepdims=True)
        weight = np.exp(log_joint - top)
        total = weight.sum(-1, keepdims=True)
        weight, log_z2 = weight / total, (top + np.log(total))[..., 0]
        return weight, omega * np.sum(weight * log_z_sum, -1) - log_z2, log_z2


def true_error(truth: np.ndarray, angle: np.ndarray, count: int = 720) -> np.ndarray:
    """P(1(w'x > 0) != y) for x ~ U([-1, 1]^2), P(y=1) = sigmoid(truth'x): a function of the angle of w, section 3.

    Inputs x and -x err alike, so it is twice an integral over the half-plane w'x > 0: a running sum over angles.
    """
    phi = 2 * np.pi * (np.arange(count) + 0.5) / count
    direction = np.stack([np.cos(phi), np.sin(phi)])
    edge = 1 / np.abs(direction).max(0)  # the square's border in direction phi
    nodes, weights = np.polynomial.legendre.leggauss(24)
    r = edge[:, None] * (nodes + 1) / 2
    ring = np.sum(weights * edge[:, None] / 2 * r * expit(-r * (truth @ direction)[:, None]), -1) / 4
    turns = np.concatenate([[0], np.cumsum(np.tile(ring, 3))]) * 2 * np.pi / count
    edges = 2 * np.pi * np.arange(3 * count + 1) / count
    centre = angle % (2 * np.pi) + 2 * np.pi
    half = np.interp(centre + np.pi / 2, edges, turns) - np.interp(centre - np.pi / 2, edges, turns)
    return 2 * half


def cell_errors(axis: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Share of a sample that w gets wrong, averaged over each cell of a grid across the boundaries w'x = 0."""
    total = np.zeros((axis.size, axis.size))
    step = axis[1] - axis[0]
    for (x0, x1), label in zip(x, y, strict=True):
        width = step * max(abs(x0) + abs(x1), 1e-12) * (2 * label - 1)
        total += np.clip(np.add.outer(0.5 - x0 / width * axis, -x1 / width * axis), 0, 1)
    return total / len(y)


def halve(values: np.ndarray) -> np.ndarray:
    """Sums over rows that keep the integral against smooth functions, at every second row and with twice its step."""
    kept = values[::2].copy()
    kept[:-1] += values[1::2] / 2
    kept[1:] += values[1::2] / 2
    return kept / 2
