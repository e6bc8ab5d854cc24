"""Environment-level quantities of the linear case study: transfer error and level-II moments (theory 2 item 8, 2.1).

All depend on the inputs X only through the eigenvalues of X'X, so X is the one thing that is averaged by simulation;
the rest is closed or one-dimensional quadrature.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pacoh.bounds.base import Setting, log_sum
from pacoh.bounds.cgf import Gap, SquaredLoss, log_moment, tilted_log_mean
from pacoh.bounds.linear import Gaussian
from pacoh.bounds.meta import Cgf


@dataclass(frozen=True)
class LinearWorld:
    """The environment w* ~ N(muT, sT2 I), x ~ N(0, sx2 I), noise se2, with the model's variances (theory 2.2).

    Every mean is the same number in each coordinate. `draws` and `seed` fix the simulated X.
    """

    d: int = 5
    m: int = 5
    task_mean: float = 0.2
    task_var: float = 0.01
    x_var: float = 1.0
    eps_var: float = 1 / 9
    hyper_mean: float = 0.0
    hyper_var: float = 0.25
    prior_var: float = 0.04
    noise_var: float = 1.0
    draws: int = 100_000
    seed: int = 0

    @property
    def loss(self) -> SquaredLoss:
        """The three variances that the moments of the loss need."""
        return SquaredLoss(self.noise_var, self.x_var, self.eps_var)

    @property
    def gap(self) -> Gap:
        """w - w* over hyper-prior, prior and tasks: variance sP2 + sH2 + sT2, centre muH - muT."""
        return Gap(self.d, self.prior_var + self.hyper_var + self.task_var, self.shift2)

    @property
    def shift2(self) -> float:
        """|muH - muT|^2."""
        return self.d * (self.hyper_mean - self.task_mean) ** 2

    @cached_property
    def _spectra(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of X'X, and squared coordinates of one Haar direction in its eigenbasis."""
        rng = np.random.default_rng(self.seed)
        x = math.sqrt(self.x_var) * rng.standard_normal((self.draws, self.m, self.d))
        values = np.clip(np.linalg.eigvalsh(np.einsum("rmi,rmj->rij", x, x)), 0, None)
        u2 = rng.standard_normal((self.draws, self.d)) ** 2
        return values, u2 / u2.sum(-1, keepdims=True)

    def posterior_shape(self, beta: float) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of K and of tau^2 V X'X V for each simulated X, section 2 item 8."""
        tau = beta / (self.m * self.noise_var)
        values, _ = self._spectra
        k = 1 / (1 + tau * self.prior_var * values)
        return k, (tau * self.prior_var * k) ** 2 * values

    def transfer(self, over: Gaussian, beta: float) -> float:
        """log(2 pi s2)/2 + [se2 + sx2 (v1 + k2 (|a - muT|^2 + tr S + d sT2) + se2 e1)]/(2 s2), section 2 item 8."""
        miss = float(np.sum((over.mean - self.task_mean) ** 2) + np.trace(over.cov))
        return self.transfer_at(miss, beta)

    def transfer_at(self, miss: float, beta: float) -> float:
        """The transfer error where E |mu - muT|^2 = miss, section 2 item 8."""
        k, noise = self.posterior_shape(beta)
        k2, v1, e1 = np.mean(k**2), self.prior_var * k.sum(-1).mean(), noise.sum(-1).mean()
        inner = v1 + k2 * (miss + self.d * self.task_var) + self.eps_var * e1
        return math.log(2 * math.pi * self.noise_var) / 2 + float(self.eps_var + self.x_var * inner) / (
            2 * self.noise_var
        )

    def level1(self, beta: float, power: float) -> float:
        """Psi1: (m/beta) log-moment at power 1 (tasks inside), (1/beta) log-moment at power m, section 2.1.

        `power` = m is what the per-task bound needs; `power` = 1 is the smaller, single-sample value of the figures.
        """
        return self.m / (power * beta) * log_moment(beta / self.m, power, self.gap, self.loss)

    def level2_log_mean(self, kappa: float, beta: float, r: np.ndarray) -> np.ndarray:
        """log E_{(D,S)} e^{kap (Lbar_P - L(Q(S,P), D))} at |mu - muT| = r, centred at the same P, section 2.1."""
        rate = kappa * self.x_var / (2 * self.noise_var)
        k, noise = self.posterior_shape(beta)
        _, u2 = self._spectra
        var = self.task_var * k**2 + self.eps_var * noise
        width = 1 + 2 * rate * var
        fixed = -rate * self.prior_var * k.sum(-1) - np.log(width).sum(-1) / 2
        lean = rate * np.sum(u2 * k**2 / width, -1)
        tail = np.array([log_sum(fixed - lean * x**2) for x in r]) - math.log(self.draws)
        # the mean with the same draws, so that their errors cancel
        centre = rate * ((self.prior_var * k.sum(-1) + var.sum(-1)).mean() + np.sum(u2 * k**2, -1).mean() * r**2)
        return centre + tail

    def level2(self, setting: Setting, power: int = 1) -> float:
        """Psi2 = (n/(lam power)) log E_Pc (E_{(D,S)} e^{kap V2})^power with same-P centring, sections 1.5 and 2.1.

        `power` = 1 is exact for the per-task bound; `power` = n is what the meta-learning theorem needs.
        """
        kappa = setting.lam / setting.n
        k, _ = self.posterior_shape(setting.beta)
        growth = power * kappa * self.x_var / (2 * self.noise_var) * float(np.sum(self._spectra[1] * k**2, -1).mean())
        gap = Gap(self.d, self.hyper_var, self.shift2)
        mean = tilted_log_mean(gap, growth, lambda r: power * self.level2_log_mean(kappa, setting.beta, r), 60)
        return setting.n / (setting.lam * power) * mean

    def figure_cgf(self, setting: Setting) -> Cgf:
        """Single-sample Psi1 and Psi2: the values behind the regression figure, not a certificate, section 2.1."""
        why = "single-sample moments; the theorem needs joint ones, which are infinite here"
        return Cgf(self.level1(setting.beta, 1), self.level2(setting), why, proved=False)

    def per_task_cgf(self, setting: Setting) -> Cgf:
        """m-power Psi1 and same-P Psi2: proved for the per-task bound and nothing else, section 1.5."""
        psi1, psi2 = self.level1(setting.beta, self.m), self.level2(setting)
        return Cgf(psi1, psi2, "squared loss in the simulated environment", only="per_task")
