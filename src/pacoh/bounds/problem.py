"""Bounds and case studies from a plain problem: a dictionary in, a dictionary of values out.

The four kinds are "arithmetic", "linear", "logistic" and "cgf". Infinite values are the string "inf" in the answer.
"""

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np

from pacoh.bounds.base import Bound, Setting, check_count, check_number, plain
from pacoh.bounds.cgf import Gap, SquaredLoss, log_moment
from pacoh.bounds.comparison import amit_meir, pentina_lampert
from pacoh.bounds.linear import Gaussian, LinearPacoh, LinearTasks
from pacoh.bounds.meta import meta_bound
from pacoh.errors import PacohError

Problem = Mapping[str, Any]
Tasks = list[tuple[np.ndarray, np.ndarray]]


def evaluate(problem: object, terms: bool = False) -> dict[str, Any]:
    """Every value of a problem, ready for JSON; with `terms`, each bound's terms, assumptions and standing too.

    >>> from pacoh.bounds import evaluate
    >>> problem = {"kind": "arithmetic", "emp": 0.1, "kl_hyper": 1.0, "kl_tasks": [0.5] * 16, "n": 16, "m": 25}
    >>> values = evaluate(problem | {"delta": 0.1, "lam": 4.0, "beta": 5.0})
    >>> sorted(values), round(values["meta_holder"], 4)
    (['amit_meir', 'meta_holder', 'meta_paper', 'meta_union', 'pentina_lampert'], 1.1232)
    """
    if not isinstance(problem, Mapping):
        raise PacohError(f"A problem is a JSON object with a 'kind', got {type(problem).__name__}.")
    kind = problem.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise PacohError(f"'kind' must be one of {', '.join(_KINDS)}; got {kind!r}.")
    solve, keys = _KINDS[kind]
    for key in sorted(set(map(str, problem)) - {"kind", *keys}):  # notes may travel along, misspelt keys may not
        if close := difflib.get_close_matches(key.lower(), keys, 1, 0.7):
            raise PacohError(f"Unknown key {key!r} for kind {kind!r}: did you mean {close[0]!r}?")
    values, bounds = solve(problem)
    if terms and bounds:
        values["terms"] = {name: bound.record() for name, bound in bounds.items()}
    return plain(values)  # type: ignore[return-value]


Answer = tuple[dict[str, Any], dict[str, Bound]]


def _arithmetic(problem: Problem) -> Answer:
    n = check_count("n", _need(problem, "n"))
    if ("m" in problem) == ("m_i" in problem):
        raise PacohError("Give the task sizes once: 'm' (one number for all tasks) or 'm_i' (one number per task).")
    kls = _need(problem, "kl_tasks")
    if not isinstance(kls, list):
        raise PacohError(f"'kl_tasks' must be a list with one KL per task, got {kls!r}.")
    kl_tasks = [check_number("kl_tasks", kl, 0, strict=False, inf=True) for kl in kls]
    sizes = problem["m"] if "m" in problem else problem["m_i"]
    if not isinstance(sizes, (int, float, list)):
        raise PacohError(f"'m' must be a whole number and 'm_i' a list of them, got {sizes!r}.")
    setting = Setting(n, sizes, _positive(problem, "lam"), _positive(problem, "beta"), _delta(problem))
    emp = check_number("emp", _need(problem, "emp"), 0, 1, strict=False)
    bounds = _bounded_bounds(emp, _need(problem, "kl_hyper"), kl_tasks, setting)
    return {name: bound.total for name, bound in bounds.items()}, bounds


def _bounded_bounds(emp: float, kl_hyper: Any, kl_tasks: Any, setting: Setting) -> dict[str, Bound]:
    risk = (emp, check_number("kl_hyper", kl_hyper, 0, strict=False, inf=True), kl_tasks)
    return {
        "meta_holder": meta_bound(risk, setting, conf="holder"),
        "meta_union": meta_bound(risk, setting, conf="union"),
        "meta_paper": meta_bound(risk, setting, conf="paper"),
        "pentina_lampert": pentina_lampert(risk, setting),
        "amit_meir": amit_meir(risk, setting),
    }


def _linear(problem: Problem) -> Answer:
    data = _tasks(problem)
    d = data[0][0].shape[1]
    lam, beta, hyper_var = (_positive(problem, key) for key in ("lam", "beta", "hyper_var"))
    prior = Gaussian.isotropic(_vector(problem, "hyper_mean", d, np.zeros(d)), hyper_var, d)
    tasks = LinearTasks.of(data, _positive(problem, "noise_var"), _positive(problem, "prior_var"), beta)
    setting = Setting(len(data), [len(y) for _, y in data], lam, beta, 0.5)
    best = LinearPacoh.of(tasks, setting.omega, prior.mean, hyper_var)
    values = {
        "log_z": tasks.log_z(_vector(problem, "mu", d, prior.mean)),
        "mean": best.posterior.mean,
        "cov": best.posterior.cov,
        "log_z2": best.log_z2,
        "pacoh": -setting.pre * best.log_z2,
        "per_task": -float(tasks.mean_log_z(prior).mean()) / beta,
        "improvement": setting.pre * best.reverse_kl,
        "kl_hyper": best.kl_hyper,
    }
    return values, {}


def _logistic(problem: Problem) -> Answer:
    from pacoh.bounds.logistic import LogisticModel, logistic_log_z, logistic_pacoh

    data = _tasks(problem)
    if data[0][0].shape[1] != 2:
        raise PacohError(
            f"The logistic case study integrates over two weights; X has {data[0][0].shape[1]} columns. Use two inputs."
        )
    for _, y in data:
        if not np.isin(y, (0, 1)).all():
            raise PacohError(f"Logistic labels are 0 or 1, got {y[~np.isin(y, (0, 1))][0]:g}: write -1 as 0.")
    lam, beta = _positive(problem, "lam"), _positive(problem, "beta")
    centre = _vector(problem, "hyper_mean", 2, np.zeros(2))
    mu = _vector(problem, "mu", 2, centre)
    setting = Setting(len(data), [len(y) for _, y in data], lam, beta, _delta(problem))
    model = LogisticModel(_positive(problem, "prior_var"), _positive(problem, "hyper_var"), beta, centre)
    best = logistic_pacoh(data, model, lam)
    kl_hyper, kl_tasks = max(best.kl_hyper, 0.0), np.maximum(best.kl_tasks, 0.0)
    bounds = _bounded_bounds(best.emp01, kl_hyper, kl_tasks, setting)
    values = {
        "log_z": logistic_log_z(data, model, mu),
        "log_z2": best.log_z2,
        "kl_hyper": kl_hyper,
        "kl_tasks": kl_tasks,
        "emp01": best.emp01,
    }
    return values | {name: bound.total for name, bound in bounds.items()}, bounds


def _cgf(problem: Problem) -> Answer:
    numbers = {key: check_number(key, _need(problem, key), 0, strict=False) for key in ("gamma", "var", "dist2")}
    gap = Gap(check_count("d", _need(problem, "d")), numbers["var"], numbers["dist2"])
    loss = SquaredLoss(_need(problem, "noise_var"), _need(problem, "x_var"), _need(problem, "eps_var"))
    return {"log_moment": log_moment(numbers["gamma"], _positive(problem, "power"), gap, loss)}, {}


_KINDS = {
    "arithmetic": (_arithmetic, ("emp", "kl_hyper", "kl_tasks", "n", "m", "m_i", "delta", "lam", "beta")),
    "linear": (
        _linear,
        ("X", "y", "noise_var", "prior_var", "hyper_var", "hyper_mean", "lam", "beta", "mu", "delta"),
    ),
    "logistic": (
        _logistic,
        ("X", "y", "prior_var", "hyper_var", "hyper_mean", "lam", "beta", "delta", "mu"),
    ),
    "cgf": (_cgf, ("d", "gamma", "var", "dist2", "power", "noise_var", "x_var", "eps_var")),
}


def _need(problem: Problem, key: str) -> Any:
    if problem.get(key) is None:
        raise PacohError(f"The problem of kind {problem['kind']!r} lacks '{key}': add it.")
    return problem[key]


def _positive(problem: Problem, key: str) -> float:
    return check_number(key, _need(problem, key), 0)


def _delta(problem: Problem) -> float:
    return check_number("delta", _need(problem, "delta"), 0, 1)


def _vector(problem: Problem, key: str, d: int, default: np.ndarray) -> np.ndarray:
    """A mean: one number for every coordinate or one per input."""
    if problem.get(key) is None:
        return default
    value = _array(problem[key], f"'{key}'")
    if value.shape not in ((), (d,)):
        raise PacohError(f"'{key}' must be one number or a list of {d}, one per input; got shape {value.shape}.")
    return np.broadcast_to(value, (d,)).astype(float)


def _array(value: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        raise PacohError(f"{name} must hold numbers in rows of equal length, got {str(value)[:60]}.") from None
    if not np.isfinite(array).all():
        raise PacohError(f"{name} holds a value that is not a finite number: remove or repair it.")
    return array


def _tasks(problem: Problem) -> Tasks:
    """(X_i, y_i) of every task; numbers of rows may differ, numbers of columns may not."""
    xs, ys = _need(problem, "X"), _need(problem, "y")
    if not isinstance(xs, list) or not isinstance(ys, list) or not xs or len(xs) != len(ys):
        sizes = " and ".join(str(len(v)) if isinstance(v, list) else type(v).__name__ for v in (xs, ys))
        raise PacohError(f"'X' and 'y' must be lists with one entry per task, of equal length; got {sizes}.")
    tasks = [
        (_array(x, f"X of task {i}"), _array(y, f"y of task {i}")) for i, (x, y) in enumerate(zip(xs, ys, strict=True))
    ]
    for i, (x, y) in enumerate(tasks):
        if x.ndim != 2 or y.shape != (len(x),) or not y.size or not x.shape[1]:
            raise PacohError(
                f"Task {i} needs a matrix of inputs and one target per row, got shapes {x.shape} and {y.shape}. "
                "Inputs of one dimension are rows of length 1."
            )
        if x.shape[1] != tasks[0][0].shape[1]:
            raise PacohError(f"Task {i} has {x.shape[1]} columns, task 0 has {tasks[0][0].shape[1]}: they must agree.")
    return tasks
