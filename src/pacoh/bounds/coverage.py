"""Measured coverage: how far bounds lie above the true transfer error on simulated problems, and how often below."""

import math
from dataclasses import dataclass

import numpy as np

from pacoh.bounds.base import Setting
from pacoh.bounds.figures import consistent, linear_tasks
from pacoh.bounds.linear import Gaussian
from pacoh.bounds.linear_cgf import LinearWorld
from pacoh.bounds.logistic_grid import LogisticWorld
from pacoh.bounds.meta import meta_bound, per_task_bound


@dataclass(frozen=True)
class Coverage:
    """Bound and true transfer error of each simulated problem, and the failure probability the bound allows."""

    bound: np.ndarray
    truth: np.ndarray
    delta: float

    @property
    def gap(self) -> np.ndarray:
        """Bound minus truth."""
        return self.bound - self.truth

    @property
    def failures(self) -> float:
        """The share of problems in which the bound lies below the truth; at most delta if the bound holds."""
        return float(np.mean(self.gap < 0))

    def __str__(self) -> str:
        low, middle, high = np.quantile(self.gap, [0, 0.5, 1])
        gap = f"bound minus truth {low:.4f} / {middle:.4f} / {high:.4f} (least / median / most)"
        allowed = f"below zero in {self.failures:.1%}, allowed {self.delta:.0%}"
        return f"{self.gap.size} problems: mean bound {self.bound.mean():.4f}, {gap}, {allowed}"


def logistic_coverage(
    problems: int = 300, n: int = 64, seed: int = 0, world: LogisticWorld | None = None, test_tasks: int = 4000
) -> Coverage:
    """The `holder` bound on the 0-1 error at the PACOH against its transfer error, sections 1.2 and 3.

    The transfer error of a hyper-posterior is its mean of one table over prior means, from `test_tasks` new tasks.
    """
    world = LogisticWorld() if world is None else world
    setting = consistent(n, world.m)
    risk, _ = world.risk_table(*world.simulate(np.random.default_rng([seed, 0]), test_tasks))
    bound, truth = np.empty(problems), np.empty(problems)
    for k in range(problems):
        _, x, y = world.simulate(np.random.default_rng([seed, 1, k]), n)
        tables = world.tables(x, y)
        weight, kl_hyper, _ = world.hyper_posterior(tables.log_z.sum(0), n, setting.lam)
        emp = float(np.mean(tables.emp @ weight))
        bound[k] = meta_bound((emp, max(float(kl_hyper), 0.0), tables.kl @ weight), setting).total
        truth[k] = risk @ weight
    return Coverage(bound, truth, setting.delta)


def per_task_coverage(
    problems: int = 300, n: int = 64, seed: int = 0, world: LinearWorld | None = None, setting: Setting | None = None
) -> Coverage:
    """The rigorous per-task bound of linear regression against its error, section 1.5."""
    world = LinearWorld() if world is None else world
    setting = consistent(n, world.m) if setting is None else setting
    start = Gaussian.isotropic(world.hyper_mean - world.task_mean, world.hyper_var, world.d)
    cgf = world.per_task_cgf(setting)
    truth = world.transfer_at(world.shift2 + world.d * world.hyper_var, setting.beta)
    bound = np.empty(problems)
    for k in range(problems):
        tasks = linear_tasks(world, np.random.default_rng([seed, k]), setting.n)
        bound[k] = per_task_bound(tasks.mean_log_z(start), setting, cgf).total
    return Coverage(bound, np.full(problems, truth), setting.delta)


def product_form_failures(samples: int, seed: int = 0) -> tuple[float, float]:
    """How often the single-task bound fails with the product-form Psi and with the exact one, erratum E6.

    Two hypotheses of prior mass 0.999 and 0.001; the first has a constant loss, the second's is N(L, 8). The posterior
    is the second one. m = beta = 20, delta = 0.1.
    """
    from pacoh.bounds.single import discrete_psi, single_bound

    m = beta = 20
    prior, log_mgf = (0.999, 0.001), (0.0, 8 / 2)  # at gamma = beta/m = 1
    exact = discrete_psi(prior, log_mgf, m)
    product = m * discrete_psi(prior, log_mgf, 1)
    slack = np.sqrt(8 / m) * np.random.default_rng(seed).standard_normal(samples)  # true minus empirical loss
    kl = math.log(1 / prior[1])
    shares = [np.mean(slack > single_bound(0.0, kl, beta, 0.1, psi).total) for psi in (product, exact)]
    return float(shares[0]), float(shares[1])
