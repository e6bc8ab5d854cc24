"""The numbers behind the figures of the case studies: bounds and improvement against n (theory section 2.2).

Every quantity is a function of sums over tasks, so one pool of simulated tasks serves all n: disjoint groups of n
tasks are the draws at n, and the groups at 2n are pairs of them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pacoh.bounds.base import Setting
from pacoh.bounds.comparison import amit_meir, pentina_lampert
from pacoh.bounds.linear import LinearPacoh, LinearTasks
from pacoh.bounds.linear_cgf import LinearWorld
from pacoh.bounds.logistic_grid import LogisticWorld
from pacoh.bounds.meta import holder, meta_bound

DELTA = 0.1
Row = dict[str, float]


@dataclass(frozen=True)
class Sweep:
    """How much to simulate: draws at the largest n, the seed, the grid of n and the most draws at small n."""

    draws: int
    seed: int
    grid: tuple[int, ...]
    most: int = 32768


def doubling(first: int, last: int, max_n: int | None) -> tuple[int, ...]:
    """first, 2 first, ... up to `last`, or to `max_n` where that is smaller."""
    stop = last if max_n is None else max(first, min(max_n, last))
    return tuple(first * 2**k for k in range(int(math.log2(stop / first)) + 1))


def summary(columns: dict[str, np.ndarray]) -> Row:
    """Mean and standard error of each column over draws, with their number."""
    row = {name: float(np.mean(values)) for name, values in columns.items()}
    draws = len(next(iter(columns.values())))
    row["draws"] = draws
    for name, values in columns.items():
        row[f"{name}_se"] = float(np.std(values, ddof=1) / math.sqrt(draws))
    return row


def consistent(n: int, m: int) -> Setting:
    """lam = sqrt n, beta = sqrt m, delta = 0.1."""
    return Setting(n, m, math.sqrt(n), math.sqrt(m), DELTA)


# --- linear regression -------------------------------------------------------------------------------------------


def linear_tasks(world: LinearWorld, rng: np.random.Generator, count: int) -> LinearTasks:
    """Simulated tasks with tasks' mean and hyper-prior mean at 0: shifts enter later, through A_i."""
    truth = math.sqrt(world.task_var) * rng.standard_normal((count, world.d))
    x = math.sqrt(world.x_var) * rng.standard_normal((count, world.m, world.d))
    y = np.einsum("nmi,ni->nm", x, truth) + math.sqrt(world.eps_var) * rng.standard_normal((count, world.m))
    sizes = np.full(count, world.m)
    return LinearTasks(x, y, sizes, world.noise_var, world.prior_var, math.sqrt(world.m))


Parts = tuple[np.ndarray, ...]


def nested(
    simulate: Callable[[np.random.Generator, int], Parts], sweep: Sweep, world_seed: Sequence[int]
) -> Iterator[tuple[int, Parts]]:
    """Sums over groups of n tasks for each n of the grid: a pool of tasks, then pairs of neighbouring groups."""
    largest, first = sweep.grid[-1], sweep.grid[0]
    pools = []
    for draw in range(sweep.draws):
        rng = np.random.default_rng([sweep.seed, *world_seed, draw])
        parts = simulate(rng, largest)
        pools.append([part.reshape(-1, first, *part.shape[1:]).sum(1) for part in parts])
    sums = tuple(np.concatenate(part) for part in zip(*pools, strict=True))
    for n in sweep.grid:
        if n > first:
            sums = tuple(part.reshape(-1, 2, *part.shape[1:]).sum(1) for part in sums)
        yield n, tuple(part[: sweep.most] for part in sums)


def fig3_rows(sweep: Sweep, dims: Sequence[int] = (5, 10)) -> list[Row]:
    """Delta = pre KL(Pc, Qc*) against n, for shifts of the hyper-prior's mean and for its sds, section 2 item 7."""
    cases = [(0.4, 0.0), (0.4, 0.2), (0.4, 0.4), (0.1, 0.0), (0.2, 0.0), (0.6, 0.0), (0.8, 0.0)]
    rows = []
    for d in dims:
        world = LinearWorld(d=d)

        def parts(rng: np.random.Generator, count: int, world: LinearWorld = world) -> Parts:
            tasks = linear_tasks(world, rng, count)
            return tasks.curvature, tasks.score(np.zeros(world.d))

        for n, (a, b) in nested(parts, sweep, (3, d)):
            setting = consistent(n, world.m)
            for sd, shift in cases:
                g = b + shift * a.sum(-1)
                best = LinearPacoh(setting.omega * a, setting.omega * g, np.zeros(len(a)), np.zeros(d), sd**2)
                row = summary({"improvement": setting.pre * best.reverse_kl})
                rows.append({"d": d, "hyper_sd": sd, "shift": shift, "n": n, **row})
    return sorted(rows, key=lambda row: (row["d"], row["hyper_sd"], row["shift"], row["n"]))


def fig3_limit(d: int, hyper_sd: float, shift: float, draws: int = 200_000) -> float:
    """n -> inf: Delta -> abar (d sH2 + |muT - muH|^2)/(2 beta), abar = E tr A/d, section 2 item 7."""
    world = LinearWorld(d=d, draws=draws)
    beta = math.sqrt(world.m)
    k, _ = world.posterior_shape(beta)
    abar = float(np.mean(1 - k)) / world.prior_var
    return abar * d * (hyper_sd**2 + shift**2) / (2 * beta)


def fig2b_rows(sweep: Sweep, world: LinearWorld | None = None) -> list[Row]:
    """Meta-learning and per-task bounds (single-sample CGFs, `holder`), their errors and Delta, sections 1.4 to 1.6.

    `per_task_certificate` is the per-task bound with the m-power Psi1, the one proved for this unbounded loss.
    """
    world = LinearWorld() if world is None else world
    zero = np.full(world.d, world.hyper_mean - world.task_mean)  # the hyper-prior's mean, seen from the tasks' mean

    def parts(rng: np.random.Generator, count: int) -> Parts:
        tasks = linear_tasks(world, rng, count)
        return (tasks.curvature, tasks.score(zero), tasks.log_z(zero), *tasks.emp_parts(zero))

    rows = []
    for n, sums in nested(parts, sweep, (2,)):
        setting = consistent(n, world.m)
        rows.append({"n": n, **summary(_fig2b_columns(sums, setting, world, zero))})
    return rows


def _fig2b_columns(sums: Parts, setting: Setting, world: LinearWorld, start: np.ndarray) -> dict[str, np.ndarray]:
    a, g, log_z, e0, e1, e2 = sums
    n, beta, omega, sh2 = setting.n, setting.beta, setting.omega, world.hyper_var
    best = LinearPacoh(omega * a, omega * g, omega * log_z, start, sh2)
    post = best.posterior
    moved = post.mean - start
    fit = e0 - 2 * np.sum(e1 * moved, -1) + np.einsum("...i,...ij,...j->...", moved, e2, moved)
    fit = (fit + np.einsum("...ij,...ji->...", e2, post.cov)) / n
    miss = np.sum(post.mean**2, -1) + np.trace(post.cov, axis1=-2, axis2=-1)
    cgf, proved = world.figure_cgf(setting), world.per_task_cgf(setting)
    extra = cgf.psi1 + cgf.psi2 + holder(setting)
    per_task = -(log_z - sh2 * np.trace(a, axis1=-2, axis2=-1) / 2) / (n * beta)
    flat = np.ones(len(a))
    k0, slope = world.transfer_at(0.0, beta), world.transfer_at(1.0, beta) - world.transfer_at(0.0, beta)
    return {
        "meta_bound": -setting.pre * best.log_z2 + extra,
        "per_task_bound": per_task + extra,
        "meta_train": math.log(2 * math.pi * world.noise_var) / 2 + fit,
        "transfer": k0 + slope * miss,
        "per_task_error": (k0 + slope * (world.shift2 + world.d * sh2)) * flat,
        "improvement": setting.pre * best.reverse_kl,
        "per_task_certificate": per_task + proved.psi1 + proved.psi2 + holder(setting),
    }


# --- logistic regression -----------------------------------------------------------------------------------------


def fig2a_rows(sweep: Sweep, world: LogisticWorld | None = None, test_tasks: int = 4000) -> list[Row]:
    """PACOH (`holder` and as printed), Pentina-Lampert and Amit-Meir bounds on the 0-1 error, sections 1.2, 1.7, 3."""
    world = LogisticWorld() if world is None else world
    columns: dict[int, list[Row]] = {n: [] for n in sweep.grid}
    risk, risk_se = world.risk_table(*world.simulate(np.random.default_rng([sweep.seed, 1]), test_tasks))
    for draw in range(sweep.draws):
        _, x, y = world.simulate(np.random.default_rng([sweep.seed, 2, draw]), sweep.grid[-1])
        tables = world.tables(x, y)
        for n in sweep.grid:
            for k in range(min(sweep.grid[-1] // n, math.ceil(sweep.most / sweep.draws))):
                part = slice(k * n, (k + 1) * n)
                weight, kl_hyper, _ = world.hyper_posterior(tables.log_z[part].sum(0), n, math.sqrt(n))
                emp, kls = tables.emp[part] @ weight, tables.kl[part] @ weight
                values = _fig2a_values(float(np.mean(emp)), float(kl_hyper), kls, consistent(n, world.m))
                columns[n].append(
                    {**values, "test_error": float(risk @ weight), "test_pool_se": float(risk_se @ weight)}
                )
    rows = []
    for n, found in columns.items():
        row = {"n": n, **summary({name: np.array([values[name] for values in found]) for name in found[0]})}
        pool = row.pop("test_pool_se")
        row.pop("test_pool_se_se")
        rows.append({**row, "test_error_se": math.hypot(row["test_error_se"], pool)})
    return rows


def _fig2a_values(emp: float, kl_hyper: float, kl_tasks: np.ndarray, setting: Setting) -> Row:
    risk = (emp, max(kl_hyper, 0.0), kl_tasks)
    return {
        "pacoh": meta_bound(risk, setting).total,
        "pacoh_paper": meta_bound(risk, setting, conf="paper").total,
        "pentina_lampert": pentina_lampert(risk, setting).total,
        "amit_meir": amit_meir(risk, setting).total,
        "train_error": emp,
        "kl_hyper": kl_hyper,
        "kl_task": float(np.mean(kl_tasks)),
    }
