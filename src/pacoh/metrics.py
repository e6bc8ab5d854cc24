"""How good a predictive distribution is, as functions of (predictive, y, mask).

Arrays carry a leading task axis (n, q); a metric is computed for each task and then averaged over the tasks, unless its
name says pooled. Everything is computed in NumPy's float64, in the units of y.
"""

from collections.abc import Callable

import jax
import numpy as np

from pacoh.errors import PacohError
from pacoh.predictive import AbstractDistribution, AbstractPredictive

CODE_LEVELS = np.linspace(0.05, 0.95, 20)
"""The levels behind the published tables (the default)."""
PAPER_LEVELS = np.linspace(0.0, 1.0, 20)
"""Twenty equally spaced levels between 0 and 1, as the paper says."""
FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean-absolute": lambda gap: np.abs(gap).mean(-1),
    "root-mean-square": lambda gap: np.sqrt((gap**2).mean(-1)),
}
"""How the gaps at the levels become one number; the published GP cells may carry the second."""


def rmse(predictive: AbstractPredictive, y: np.ndarray, mask: np.ndarray) -> float:
    """sqrt(mean (mean - y)^2) of each task, averaged over tasks."""
    return float(np.mean(np.sqrt(_task_mean((predictive.mean - y) ** 2, mask))))


def log_likelihood(predictive: AbstractDistribution, y: np.ndarray, mask: np.ndarray) -> float:
    """Mean log predictive density a point, of each task, averaged over tasks."""
    return float(np.mean(_task_mean(predictive.log_prob(y), mask)))


def crps(predictive: AbstractDistribution, y: np.ndarray, mask: np.ndarray) -> float:
    """Mean continuous ranked probability score of each task, averaged over tasks."""
    return float(np.mean(_task_mean(predictive.crps(y), mask)))


def calibration_error(
    predictive: AbstractDistribution,
    y: np.ndarray,
    mask: np.ndarray,
    levels: np.ndarray = CODE_LEVELS,
    form: str = "mean-absolute",
) -> float:
    """|share of points with cdf <= level - level| over the levels, of each task, averaged over tasks."""
    below = np.asarray(predictive.cdf(y))[..., None] <= levels
    share = _task_mean(np.moveaxis(below, -1, 0), mask)
    return float(np.mean(_form(form)(np.moveaxis(share, 0, -1) - levels)))


def pooled_calibration_error(
    predictive: AbstractDistribution,
    y: np.ndarray,
    mask: np.ndarray,
    *,
    levels: np.ndarray = CODE_LEVELS,
    form: str = "mean-absolute",
) -> float:
    """The calibration error of all points of all tasks taken together."""
    share = (np.asarray(predictive.cdf(y))[mask][:, None] <= levels).mean(0)
    return float(_form(form)(share - levels))


def coverage(predictive: AbstractDistribution, y: np.ndarray, mask: np.ndarray, level: float = 0.9) -> float:
    """The share of all points inside the central interval of the given level."""
    tail = 0.5 * (1 - level)
    cdf = predictive.cdf(y)[mask]
    return float(np.mean((cdf >= tail) & (cdf <= 1 - tail)))


def summary(predictive: AbstractPredictive, y: np.ndarray, mask: np.ndarray) -> dict[str, float | None]:
    """Every metric by name; None where the predictive has none. Tasks without a query point are left out."""
    asked = np.asarray(mask.any(-1))
    if not asked.any():
        raise PacohError("No task has a point to predict: use fewer context points a task.")
    y = np.where(mask, y, 0.0)
    if not asked.all():
        predictive = _tasks(predictive, asked)
        y, mask = y[asked], mask[asked]
    result: dict[str, float | None] = {"rmse": rmse(predictive, y, mask)}
    for name, metric in _DISTRIBUTIONAL.items():
        result[name] = metric(predictive, y, mask) if isinstance(predictive, AbstractDistribution) else None
    return result


_DISTRIBUTIONAL = {
    "log_likelihood": log_likelihood,
    "calibration_error": calibration_error,
    "pooled_calibration_error": pooled_calibration_error,
    "coverage_90": coverage,
    "crps": crps,
}


def _form(name: str) -> Callable[[np.ndarray], np.ndarray]:
    if name not in FORMS:
        raise PacohError(f"A calibration error has the forms {', '.join(FORMS)}; got {name!r}.")
    return FORMS[name]


def _task_mean(values, mask: np.ndarray) -> np.ndarray:
    return np.where(mask, values, 0.0).sum(-1) / mask.sum(-1)


def _tasks(predictive: AbstractPredictive, keep: np.ndarray) -> AbstractPredictive:
    return jax.tree.map(lambda leaf: leaf[keep], predictive)
