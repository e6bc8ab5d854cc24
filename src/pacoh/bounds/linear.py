"""The linear-Gaussian case study in closed form (theory section 2).

Loss log(2 pi s2)/2 + (y - w'x)^2/(2 s2), priors N(mu, sP2 I), hyper-prior N(muH, sH2 I) over mu. Tasks of unequal size
share one beta; each then has its own tau_i = beta/(m_i s2), and every formula holds unchanged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pacoh.bounds.base import check_number
from pacoh.errors import PacohError


@dataclass(frozen=True)
class Gaussian:
    """A normal distribution over prior means mu.

    >>> from pacoh.bounds import Gaussian
    >>> wide, narrow = Gaussian.isotropic(0.0, 4.0, d=2), Gaussian.isotropic([1.0, 0.0], 1.0, d=2)
    >>> round(narrow.kl(wide), 4), narrow.kl(narrow)
    (0.7613, 0.0)
    """

    mean: np.ndarray
    cov: np.ndarray

    @classmethod
    def isotropic(cls, mean: float | Sequence[float] | np.ndarray, var: float, d: int) -> "Gaussian":
        """N(mean, var I_d); a scalar mean is the same in every coordinate."""
        centre = np.asarray(mean, float)
        if centre.shape not in ((), (1,), (d,)) or not np.isfinite(centre).all():
            raise PacohError(f"A mean is one finite number or {d} of them, one per input; got shape {centre.shape}.")
        return cls(np.broadcast_to(centre, (d,)).copy(), check_number("var", var, 0) * np.eye(d))

    def kl(self, other: "Gaussian") -> float:
        """KL(self, other) = (tr(C^{-1} S) + |a - b|^2_{C^{-1}} - d + logdet C - logdet S)/2."""
        root = np.linalg.cholesky(other.cov)
        ratio = np.linalg.eigvalsh(np.linalg.solve(root, np.linalg.solve(root, self.cov).T))
        step = np.linalg.solve(root, self.mean - other.mean)
        return float(np.sum(ratio - 1 - np.log(ratio)) + step @ step) / 2


@dataclass(frozen=True)
class LinearTasks:
    """n regression tasks, stacked: unused rows of shorter tasks are zero, which changes no formula.

    >>> import numpy as np
    >>> from pacoh.bounds import Gaussian, LinearTasks
    >>> x = np.array([[1.0], [2.0]])
    >>> tasks = LinearTasks.of([(x, 2 * x[:, 0]), (x, 3 * x[:, 0])], noise_var=1.0, prior_var=1.0, beta=2.0)
    >>> tasks.log_z(np.array([2.0])).round(3)  # the first task has the slope 2
    array([-2.734, -3.15 ])
    >>> tasks.mean_kl(Gaussian.isotropic(2.0, 0.1, d=1)).round(3)
    array([0.514, 0.861])
    """

    x: np.ndarray  # n, m, d
    y: np.ndarray  # n, m
    m: np.ndarray  # n
    noise_var: float
    prior_var: float
    beta: float

    @classmethod
    def of(cls, tasks: Sequence[tuple[np.ndarray, np.ndarray]], noise_var: float, prior_var: float, beta: float):
        """Stack (X, y) pairs with any number of rows each."""
        check_number("noise_var", noise_var, 0)
        check_number("prior_var", prior_var, 0)
        check_number("beta", beta, 0)
        sizes = np.array([len(y) for _, y in tasks])
        d = tasks[0][0].shape[1]
        x, y = np.zeros((len(tasks), sizes.max(), d)), np.zeros((len(tasks), sizes.max()))
        for i, (xi, yi) in enumerate(tasks):
            x[i, : len(yi)], y[i, : len(yi)] = xi, yi
        return cls(x, y, sizes, noise_var, prior_var, beta)

    @cached_property
    def tau(self) -> np.ndarray:
        """beta / (m_i s2)."""
        return self.beta / (self.m * self.noise_var)

    @cached_property
    def gram(self) -> np.ndarray:
        """X_i' X_i."""
        return np.einsum("...mi,...mj->...ij", self.x, self.x)

    @cached_property
    def shrink(self) -> np.ndarray:
        """K_i = V_i / sP2 = (I + tau sP2 X'X)^{-1}, section 2 item 2."""
        eye = np.eye(self.x.shape[-1])
        return np.linalg.inv(eye + (self.tau * self.prior_var)[:, None, None] * self.gram)

    @cached_property
    def curvature(self) -> np.ndarray:
        """A_i = tau X'X (I + tau sP2 X'X)^{-1}, section 2 item 1."""
        a = self.tau[:, None, None] * self.gram @ self.shrink
        return (a + a.swapaxes(-1, -2)) / 2

    def _pull(self, y: np.ndarray) -> np.ndarray:
        """X_i' y_i."""
        return np.einsum("...mi,...m->...i", self.x, y)

    def score(self, mu: np.ndarray) -> np.ndarray:
        """b_i - A_i mu: the gradient of log Z_i at mu, section 2 item 1."""
        residual = self.y - self.x @ mu
        return self.tau[:, None] * np.einsum("nij,nj->ni", self.shrink, self._pull(residual))

    def log_z(self, mu: np.ndarray) -> np.ndarray:
        """log Z_i(mu) = -(beta/2) log(2 pi s2) - logdet G_i/2 - (tau/2) r'G_i^{-1} r, r = y - X mu, section 2 item 1.

        r'G^{-1}r is the ridge minimum |r - Xk|^2 + |k|^2/(tau sP2): a sum of squares, so nothing cancels.
        """
        residual = self.y - self.x @ mu
        k = self.prior_var * self.score(mu)
        fit = np.sum((residual - np.einsum("nmi,ni->nm", self.x, k)) ** 2, -1)
        energy = self.tau * fit + np.sum(k**2, -1) / self.prior_var
        logdet = -np.linalg.slogdet(self.shrink)[1]
        return -(self.beta * math.log(2 * math.pi * self.noise_var) + logdet + energy) / 2

    def mean_log_z(self, over: Gaussian) -> np.ndarray:
        """E_{mu ~ N(a, S)} log Z_i = log Z_i(a) - tr(A_i S)/2, section 2 item 4."""
        return self.log_z(over.mean) - np.einsum("nij,ji->n", self.curvature, over.cov) / 2

    def posterior(self, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean mu + sP2 (b_i - A_i mu) and covariance V_i of the Gibbs posterior Q_i, section 2 item 2."""
        return mu + self.prior_var * self.score(mu), self.prior_var * self.shrink

    def _spread(self, over: Gaussian) -> np.ndarray:
        """K S K' + V: the covariance of w under Q_i with mu ~ N(a, S)."""
        return self.shrink @ over.cov @ self.shrink.swapaxes(-1, -2) + self.prior_var * self.shrink

    def mean_emp(self, over: Gaussian) -> np.ndarray:
        """E Lh(Q_i, S_i) = log(2 pi s2)/2 + (|y - X mw|^2 + tr(X Cw X'))/(2 m s2), section 2 item 5."""
        mw, _ = self.posterior(over.mean)
        fit = np.sum((self.y - np.einsum("nmi,ni->nm", self.x, mw)) ** 2, -1)
        spread = np.einsum("nij,nji->n", self.gram, self._spread(over))
        return math.log(2 * math.pi * self.noise_var) / 2 + (fit + spread) / (2 * self.m * self.noise_var)

    def emp_parts(self, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(e0, e1, e2): E Lh = log(2 pi s2)/2 + e0 - 2 e1'(a - mu) + (a - mu)'e2 (a - mu) + tr(e2 S), section 2 item 5.

        Sums over tasks of these parts give the mean empirical loss at any N(a, S).
        """
        mw, cov = self.posterior(mu)
        residual = self.y - np.einsum("nmi,ni->nm", self.x, mw)
        e0 = np.sum(residual**2, -1) + np.einsum("nij,nji->n", self.gram, cov)
        e1 = np.einsum("nij,nj->ni", self.shrink, self._pull(residual))
        e2 = self.shrink @ self.gram @ self.shrink
        scale = 2 * self.m * self.noise_var
        return e0 / scale, e1 / scale[:, None], e2 / scale[:, None, None]

    def mean_risk(self, over: Gaussian, truth: np.ndarray, x_var: float, eps_var: float) -> np.ndarray:
        """E L(Q_i, D_i) = log(2 pi s2)/2 + (se2 + sx2 (|mw - w*|^2 + tr Cw))/(2 s2), section 2 item 5."""
        mw, _ = self.posterior(over.mean)
        miss = np.sum((mw - truth) ** 2, -1) + np.trace(self._spread(over), axis1=-2, axis2=-1)
        return math.log(2 * math.pi * self.noise_var) / 2 + (eps_var + x_var * miss) / (2 * self.noise_var)

    def mean_kl(self, over: Gaussian) -> np.ndarray:
        """E KL = [(tr V + |(K-I)a+k|^2 + tr((K-I)S(K-I)'))/sP2 - d + d log sP2 - logdet V]/2, section 2 item 6."""
        d = self.x.shape[-1]
        mw, cov = self.posterior(over.mean)
        pull = self.shrink - np.eye(d)
        moved = np.sum((mw - over.mean) ** 2, -1) + np.einsum("nij,jk,nik->n", pull, over.cov, pull)
        logdet = np.linalg.slogdet(self.shrink)[1]
        return ((np.trace(cov, axis1=-2, axis2=-1) + moved) / self.prior_var - d - logdet) / 2


@dataclass(frozen=True)
class LinearPacoh:
    """The PACOH of linear-Gaussian tasks, from A = om sum A_i and g = om sum (b_i - A_i muH), section 2 item 3.

    `base` is om sum_i log Z_i(muH). Leading axes of a, g and base are separate problems.

    >>> import numpy as np
    >>> from pacoh.bounds import LinearPacoh, LinearTasks
    >>> x = np.array([[1.0], [2.0]])
    >>> tasks = LinearTasks.of([(x, 2 * x[:, 0]), (x, 3 * x[:, 0])], noise_var=1.0, prior_var=1.0, beta=2.0)
    >>> best = LinearPacoh.of(tasks, omega=0.5, hyper_mean=np.zeros(1), hyper_var=100.0)
    >>> best.posterior.mean.round(2), round(float(best.kl_hyper), 2)
    (array([2.47]), 1.75)
    """

    a: np.ndarray
    g: np.ndarray
    base: np.ndarray
    hyper_mean: np.ndarray
    hyper_var: float

    @classmethod
    def of(cls, tasks: LinearTasks, omega: float, hyper_mean: np.ndarray, hyper_var: float) -> "LinearPacoh":
        """Collect the sums over tasks."""
        a, g = omega * tasks.curvature.sum(0), omega * tasks.score(hyper_mean).sum(0)
        return cls(a, g, omega * tasks.log_z(hyper_mean).sum(), hyper_mean, hyper_var)

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(self.a)
        return self.hyper_var * np.clip(values, 0, None), vectors, np.einsum("...ji,...j->...i", vectors, self.g)

    @cached_property
    def posterior(self) -> Gaussian:
        """N(muH + Lam^{-1} g, Lam^{-1}), Lam = I/sH2 + A."""
        ev, vectors, g = self._eigen
        scale = self.hyper_var / (1 + ev)
        mean = self.hyper_mean + np.einsum("...ij,...j->...i", vectors, scale * g)
        return Gaussian(mean, np.einsum("...ij,...j,...kj->...ik", vectors, scale, vectors))

    @property
    def log_z2(self) -> np.ndarray:
        """log Z2 = om sum log Z_i(muH) - logdet(I + sH2 A)/2 + g'Lam^{-1}g/2."""
        ev, _, g = self._eigen
        return self.base + np.sum(self.hyper_var * g**2 / (1 + ev) - np.log1p(ev), -1) / 2

    @property
    def kl_hyper(self) -> np.ndarray:
        """KL(Qc*, Pc) = [sum_j log(1 + ev_j) - ev_j/(1 + ev_j) + sH2 g_j^2/(1 + ev_j)^2]/2."""
        ev, _, g = self._eigen
        return np.sum(np.log1p(ev) - ev / (1 + ev) + self.hyper_var * (g / (1 + ev)) ** 2, -1) / 2

    @property
    def reverse_kl(self) -> np.ndarray:
        """KL(Pc, Qc*) = g'Lam^{-1}g/2 + sum_j (ev_j - log(1 + ev_j))/2, section 2 item 7; Delta is pre times this."""
        ev, _, g = self._eigen
        return np.sum(self.hyper_var * g**2 / (1 + ev) + ev - np.log1p(ev), -1) / 2
