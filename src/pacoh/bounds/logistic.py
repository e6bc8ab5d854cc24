"""The logistic case study in two dimensions, by accurate quadrature (theory section 3).

Priors N(mu, sP2 I), hyper-prior N(muH, sH2 I), training loss log(1 + e^{-s w'x}), bounded loss 1(prediction != y).
The evidence form does not bound the 0-1 error, because the training loss is another one: the bounds of this module
are the theorem (section 1.2) at the PACOH, with the 0-1 error and both KLs computed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from pacoh.bounds.base import log_sum
from pacoh.bounds.polar import Box, polar_rule
from pacoh.errors import PacohError

_REACH = 8.5  # sds of the prior that an integral over weights covers
_DROP = 34.0  # log-density below its peak at which the hyper-posterior is cut
_TINY = 1e-280  # evidence below this is summed in logs
_WIDEST = 50  # sds of the prior in one sd of the hyper-prior


@dataclass(frozen=True)
class LogisticModel:
    """Prior and hyper-prior variances, the hyper-prior's mean and the temperature beta."""

    prior_var: float
    hyper_var: float
    beta: float
    hyper_mean: np.ndarray

    @property
    def scale(self) -> float:
        """sP."""
        return math.sqrt(self.prior_var)


def nll_sum(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """sum_j log(1 + e^{-s_j w'x_j}), s = 2y - 1, at every row of w."""
    z = (w @ x.T) * (1 - 2 * y)
    return np.logaddexp(0.0, z).sum(-1)


def error_rate(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """mean_j 1(1(w'x_j > 0) != y_j) at every row of w."""
    return np.mean((w @ x.T > 0) != (y == 1), axis=-1)


def modes(mu: np.ndarray, x: np.ndarray, y: np.ndarray, model: LogisticModel) -> np.ndarray:
    """argmin_w |w - mu|^2/(2 sP2) + beta Lh(w) for each row of mu: where the Gibbs posterior sits, by damped Newton."""
    rate, sign = model.beta / len(y), 1 - 2.0 * y

    def value(w: np.ndarray) -> np.ndarray:
        return ((w - mu) ** 2).sum(-1) / (2 * model.prior_var) + rate * nll_sum(w, x, y)

    w = mu.copy()
    for _ in range(40):
        slope = expit((w @ x.T) * sign)
        gradient = (w - mu) / model.prior_var + rate * (slope * sign) @ x
        bend = rate * np.einsum("pj,ji,jk->pik", slope * (1 - slope), x, x) + np.eye(2) / model.prior_var
        step = np.linalg.solve(bend, gradient[..., None])[..., 0]
        size, here = np.ones(len(w)), value(w)
        for _ in range(30):
            worse = value(w - size[:, None] * step) > here
            size = np.where(worse, size / 2, size)
        w = w - size[:, None] * step
        if np.abs(size[:, None] * step).max() < 1e-3 * model.scale:
            break
    return w


def weight_box(x: np.ndarray, y: np.ndarray, model: LogisticModel, box: Box) -> tuple[Box, float]:
    """A box that holds the Gibbs posteriors of all prior means in a box, and how far a mode moves from its mean.

    The mode is a proximal map of the mean, so it moves no further than the mean does: modes on a grid bound them all.
    The posterior is narrower than the prior around its mode.
    """
    axes = [np.linspace(box.low[k], box.high[k], 13) for k in range(2)]
    mu = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    w = modes(mu, x, y, model)
    slack = float(np.linalg.norm(box.high - box.low)) / 24 + _REACH * model.scale
    moved = float(np.sqrt(((w - mu) ** 2).sum(-1)).max()) + slack
    return Box(w.min(0), w.max(0)).grown(slack), moved


class TaskRule:
    """Quadrature of one task over weights, for all prior means inside a box."""

    def __init__(self, x: np.ndarray, y: np.ndarray, model: LogisticModel, box: Box, order: int = 10):
        self.model = model
        cover, self.reach = weight_box(x, y, model, box)
        w, log_weight = polar_rule(x, model.scale, cover, order)
        cells = np.floor((w - cover.low) / (6 * model.scale)).astype(int)
        self.cell = cells[:, 0] * (cells[:, 1].max() + 1) + cells[:, 1]
        if len(w) > 65536:  # neighbours next to each other, so that a part of the nodes needs few prior means
            rank = np.argsort(self.cell, kind="stable")
            w, log_weight, self.cell = w[rank], log_weight[rank], self.cell[rank]
        self.w = w
        self.log_f = -model.beta / len(y) * nll_sum(w, x, y)
        self.log_mass = self.log_f + log_weight - math.log(2 * math.pi * model.prior_var)
        self.error = error_rate(w, x, y)

    def _parts(self, mu: tuple[np.ndarray, np.ndarray]) -> Iterator[tuple[slice, tuple[slice, slice]]]:
        """Runs of nodes, each with the range of prior means that can see them."""
        if len(self.w) > 65536:
            starts = np.flatnonzero(np.diff(self.cell, prepend=-1))
        else:
            starts = np.arange(0, len(self.w), 16384)
        for first, last in zip(starts, [*starts[1:], len(self.w)], strict=True):
            w = self.w[first:last]
            low, high = w.min(0) - self.reach, w.max(0) + self.reach
            window = [slice(*np.searchsorted(mu[k], [low[k], high[k]])) for k in range(2)]
            if all(part.stop > part.start for part in window):
                yield slice(first, last), (window[0], window[1])

    def _kernel(self, axis: int, part: slice, mu: np.ndarray) -> np.ndarray:
        return np.exp(-((mu[:, None] - self.w[part, axis]) ** 2) / (2 * self.model.prior_var))

    def log_z(self, mu: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """log Z_i on the grid of prior means mu[0] x mu[1]: log int N(w; mu, sP2 I) e^{-beta Lh(w)} dw, section 3."""
        z = np.zeros((mu[0].size, mu[1].size))
        mass = np.exp(self.log_mass)
        for part, (rows, columns) in self._parts(mu):
            seen = self._kernel(0, part, mu[0][rows]) * mass[part]
            z[rows, columns] += seen @ self._kernel(1, part, mu[1][columns]).T
        with np.errstate(divide="ignore"):
            log_z = np.log(z)
        for i, j in np.argwhere(z < _TINY):
            log_z[i, j] = self.log_z_at(np.array([mu[0][i], mu[1][j]]))
        return log_z

    def log_z_at(self, mu: np.ndarray) -> float:
        """log Z_i at one prior mean, summed in logs."""
        return log_sum(self.log_mass - ((self.w - mu) ** 2).sum(-1) / (2 * self.model.prior_var))

    def averages(self, mu: tuple[np.ndarray, np.ndarray], weight: np.ndarray, log_z: np.ndarray) -> tuple[float, float]:
        """(E log f, E 0-1 error) over w ~ Q_i(mu), mu ~ weight: one pass over the averaged posterior, section 3."""
        with np.errstate(divide="ignore"):
            log_ratio = np.log(weight) - log_z
        top = float(log_ratio.max())
        ratio = np.exp(log_ratio - top)
        back = np.zeros(len(self.w))
        for part, (rows, columns) in self._parts(mu):
            seen = ratio[rows, columns] @ self._kernel(1, part, mu[1][columns])
            back[part] = np.sum(self._kernel(0, part, mu[0][rows]) * seen, 0)
        with np.errstate(divide="ignore"):
            q = np.exp(self.log_mass + np.log(back) + top)
        mass = q.sum()
        if abs(mass - 1) > 1e-5:
            raise PacohError(
                f"The posterior's mass came out as {mass:.6f}, not 1: these inputs and variances are too far apart in "
                "scale for this quadrature. Rescale the inputs so that |x| times the prior's sd is below about 1000."
            )
        return float(q @ self.log_f / mass), float(q @ self.error / mass)


@dataclass(frozen=True)
class LogisticPacoh:
    """What the bounds need of the PACOH of logistic tasks (section 3)."""

    log_z2: float
    kl_hyper: float
    kl_tasks: np.ndarray
    emp01: float
    mean: np.ndarray
    cov: np.ndarray


def logistic_log_z(tasks: Sequence[tuple[np.ndarray, np.ndarray]], model: LogisticModel, mu: np.ndarray) -> np.ndarray:
    """log Z_i(mu) for each task at one prior mean, section 3."""
    box = Box(mu, mu)
    return np.array([TaskRule(x, y, model, box).log_z_at(mu) for x, y in tasks])


def logistic_pacoh(tasks: Sequence[tuple[np.ndarray, np.ndarray]], model: LogisticModel, lam: float) -> LogisticPacoh:
    """Qc*(mu) ∝ Pc(mu) exp(om sum_i log Z_i(mu)) on a grid of means, with the KLs and the 0-1 error, section 3."""
    if model.hyper_var > _WIDEST**2 * model.prior_var:
        raise PacohError(
            f"The hyper-prior's sd is {math.sqrt(model.hyper_var / model.prior_var):.0f} times the prior's (at most "
            f"{_WIDEST}): the quadrature would need too many nodes. Use a smaller hyper_var or a larger prior_var."
        )
    omega = lam / (len(tasks) * model.beta + lam)
    box = _locate(tasks, model, omega)
    step = _step(model, omega * len(tasks))
    counts = np.ceil((box.high - box.low) / step).astype(int) + 1
    mu = (np.linspace(box.low[0], box.high[0], counts[0]), np.linspace(box.low[1], box.high[1], counts[1]))
    tables = [TaskRule(x, y, model, box).log_z(mu) for x, y in tasks]
    log_prior = _log_hyper_prior(mu, model) + math.log((mu[0][1] - mu[0][0]) * (mu[1][1] - mu[1][0]))
    log_joint = log_prior + omega * sum(tables)
    log_z2 = log_sum(log_joint)
    weight = np.exp(log_joint - log_z2)
    kls, errors = [], []
    for (x, y), table in zip(tasks, tables, strict=True):
        log_f, error = TaskRule(x, y, model, box).averages(mu, weight, table)
        kls.append(log_f - float(np.sum(weight * table)))
        errors.append(error)
    kl_hyper = omega * float(np.sum(weight * sum(tables))) - log_z2
    mean, cov = _moments(mu, weight)
    return LogisticPacoh(log_z2, kl_hyper, np.array(kls), float(np.mean(errors)), mean, cov)


def _moments(mu: tuple[np.ndarray, np.ndarray], weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.array([weight.sum(1) @ mu[0], weight.sum(0) @ mu[1]])
    d0, d1 = mu[0] - mean[0], mu[1] - mean[1]
    cross = d0 @ weight @ d1
    return mean, np.array([[weight.sum(1) @ d0**2, cross], [cross, weight.sum(0) @ d1**2]])


def _log_hyper_prior(mu: tuple[np.ndarray, np.ndarray], model: LogisticModel) -> np.ndarray:
    d0, d1 = mu[0] - model.hyper_mean[0], mu[1] - model.hyper_mean[1]
    square = d0[:, None] ** 2 + d1[None, :] ** 2
    return -square / (2 * model.hyper_var) - math.log(2 * math.pi * model.hyper_var)


def _step(model: LogisticModel, weight: float) -> float:
    """A step no wider than the hyper-posterior's smallest possible sd: its precision is at most 1/sH2 + om n/sP2."""
    narrowest = (1 / model.hyper_var + weight / model.prior_var) ** -0.5
    return min(narrowest, 0.6 * model.scale)


def _locate(tasks: Sequence[tuple[np.ndarray, np.ndarray]], model: LogisticModel, omega: float) -> Box:
    """A box around all of the hyper-posterior above e^-34 of its peak; it is log-concave, so zooming finds it."""
    wide = math.sqrt(2 * _DROP * model.hyper_var)
    box = Box(model.hyper_mean - wide, model.hyper_mean + wide)
    for _ in range(12):
        mu = (np.linspace(box.low[0], box.high[0], 25), np.linspace(box.low[1], box.high[1], 25))
        log_joint = _log_hyper_prior(mu, model)
        for x, y in tasks:
            log_joint = log_joint + omega * TaskRule(x, y, model, box, order=4).log_z(mu)
        keep = log_joint > log_joint.max() - _DROP
        rows, columns = np.flatnonzero(keep.any(1)), np.flatnonzero(keep.any(0))
        cell = (box.high - box.low) / 24
        low = np.array([mu[0][rows[0]], mu[1][columns[0]]]) - cell
        high = np.array([mu[0][rows[-1]], mu[1][columns[-1]]]) + cell
        shrink = np.max((high - low) / (box.high - box.low))
        box = Box(low, high)
        if shrink > 0.7:
            break
    return box
