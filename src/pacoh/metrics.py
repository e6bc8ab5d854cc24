"""How good a predictive distribution is, as functions of (predictive, y, mask).

Arrays carry a leading task axis (n, q); a metric is computed for each task and then averaged over the tasks, unless its
name says pooled; `ece` is pooled, too. Everything is computed in NumPy's float64, in the units of y; classes are ids.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from pacoh.categorical import AbstractClasses, CategoricalMixture
from pacoh.errors import PacohError
from pacoh.predictive import AbstractDistribution, AbstractNumeric, AbstractPredictive

CODE_LEVELS = np.linspace(0.05, 0.95, 20)
"""The levels behind the published tables (the default)."""
PAPER_LEVELS = np.linspace(0.0, 1.0, 20)
"""Twenty equally spaced levels between 0 and 1, as the paper says."""
FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean-absolute": lambda gap: np.abs(gap).mean(-1),
    "root-mean-square": lambda gap: np.sqrt((gap**2).mean(-1)),
}
"""How the gaps at the levels become one number; the published GP cells may carry the second."""
BINS = 20
"""Bins of the confidence: ((h - 1) / 20, h / 20]."""


def rmse(predictive: AbstractNumeric, y: np.ndarray, mask: np.ndarray) -> float:
    """sqrt(mean (mean - y)^2) of each task, averaged over tasks.

    >>> import numpy as np
    >>> from pacoh import metrics
    >>> from pacoh.predictive import GaussianMixture
    >>> said = GaussianMixture(loc=np.zeros((1, 1, 2)), scale=np.ones((1, 1, 2)))  # a task, a component, two queries
    >>> metrics.rmse(said, np.array([[3.0, 4.0]]), np.array([[True, True]])) == 12.5**0.5
    True
    >>> metrics.rmse(said, np.array([[3.0, 4.0]]), np.array([[True, False]]))
    3.0
    """
    return float(np.mean(_rmse(predictive, y, mask)))


def pooled_rmse(predictive: AbstractNumeric, y: np.ndarray, mask: np.ndarray) -> float:
    """sqrt(mean (mean - y)^2) over the points of all tasks together.

    Of tasks with one query each `rmse` is the mean absolute error, which the median makes least, not the mean.

    >>> import numpy as np
    >>> from pacoh import metrics
    >>> from pacoh.predictive import Point
    >>> arguments = Point(np.zeros((2, 1))), np.array([[0.0], [4.0]]), np.ones((2, 1), bool)
    >>> metrics.rmse(*arguments), metrics.pooled_rmse(*arguments) == 8**0.5
    (2.0, True)
    """
    return float(np.sqrt(np.mean((predictive.mean - y)[mask] ** 2)))


def _rmse(predictive: AbstractNumeric, y: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.sqrt(_task_mean((predictive.mean - y) ** 2, mask))


def log_likelihood(predictive: AbstractDistribution | CategoricalMixture, y: np.ndarray, mask: np.ndarray) -> float:
    """Mean log predictive density (of a class: log-probability) a point, of each task, averaged over tasks.

    >>> import numpy as np
    >>> from pacoh import metrics
    >>> from pacoh.predictive import GaussianMixture
    >>> said = GaussianMixture(loc=np.zeros((1, 1, 2)), scale=np.ones((1, 1, 2)))
    >>> round(metrics.log_likelihood(said, np.zeros((1, 2)), np.ones((1, 2), bool)), 4)  # -ln(2 pi)/2
    -0.9189
    """
    return float(np.mean(_log_likelihood(predictive, y, mask)))


def _log_likelihood(predictive: Any, y: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return _task_mean(predictive.log_prob(y), mask)


def crps(predictive: AbstractDistribution, y: np.ndarray, mask: np.ndarray) -> float:
    """Mean continuous ranked probability score of each task, averaged over tasks.

    >>> import numpy as np
    >>> from pacoh import metrics
    >>> from pacoh.predictive import GaussianMixture
    >>> said = GaussianMixture(loc=np.zeros((1, 1, 2)), scale=np.ones((1, 1, 2)))
    >>> round(metrics.crps(said, np.zeros((1, 2)), np.ones((1, 2), bool)), 4)  # (sqrt(2) - 1)/sqrt(pi)
    0.2337
    """
    return float(np.mean(_task_mean(predictive.crps(y), mask)))


def calibration_error(
    predictive: AbstractDistribution,
    y: np.ndarray,
    mask: np.ndarray,
    levels: np.ndarray = CODE_LEVELS,
    form: str = "mean-absolute",
) -> float:
    """|share of points with cdf <= level - level| over the levels, of each task, averaged over tasks.

    >>> import numpy as np
    >>> from scipy.special import ndtri
    >>> from pacoh import metrics
    >>> from pacoh.predictive import GaussianMixture
    >>> said = GaussianMixture(loc=np.zeros((1, 1, 99)), scale=np.ones((1, 1, 99)))
    >>> y, mask = ndtri(np.arange(1, 100) / 100)[None], np.ones((1, 99), bool)  # as calibrated as 99 points can be
    >>> round(metrics.calibration_error(said, y, mask), 3), round(metrics.calibration_error(said, 3 * y, mask), 3)
    (0.004, 0.144)
    """
    return float(np.mean(_calibration_error(predictive, y, mask, levels, form)))


def _calibration_error(
    predictive: AbstractDistribution,
    y: np.ndarray,
    mask: np.ndarray,
    levels: np.ndarray = CODE_LEVELS,
    form: str = "mean-absolute",
) -> np.ndarray:
    below = np.asarray(predictive.cdf(y))[..., None] <= levels
    share = _task_mean(np.moveaxis(below, -1, 0), mask)
    return _form(form)(np.moveaxis(share, 0, -1) - levels)


def pooled_calibration_error(
    predictive: AbstractDistribution,
    y: np.ndarray,
    mask: np.ndarray,
    *,
    levels: np.ndarray = CODE_LEVELS,
    form: str = "mean-absolute",
) -> float:
    """The calibration error of all points of all tasks taken together.

    >>> import numpy as np
    >>> from pacoh import metrics
    >>> from pacoh.predictive import GaussianMixture
    >>> random = np.random.default_rng(0)
    >>> y, mask = random.normal(size=(200, 4)), np.ones((200, 4), bool)  # 200 tasks of four queries
    >>> said = GaussianMixture(loc=np.zeros((200, 1, 4)), scale=np.ones((200, 1, 4)))
    >>> round(metrics.pooled_calibration_error(said, y, mask), 2), round(metrics.calibration_error(said, y, mask), 2)
    (0.01, 0.17)
    """
    share = (np.asarray(predictive.cdf(y))[mask][:, None] <= levels).mean(0)
    return float(_form(form)(share - levels))


def coverage(predictive: AbstractDistribution, y: np.ndarray, mask: np.ndarray, level: float = 0.9) -> float:
    """The share of all points inside the central interval of the given level.

    >>> import numpy as np
    >>> from pacoh import metrics
    >>> from pacoh.predictive import GaussianMixture
    >>> said = GaussianMixture(loc=np.zeros((1, 1, 4)), scale=np.ones((1, 1, 4)))
    >>> metrics.coverage(said, np.array([[-2.0, -1.0, 0.5, 1.6]]), np.ones((1, 4), bool), level=0.9)
    0.75
    """
    tail = 0.5 * (1 - level)
    cdf = predictive.cdf(y)[mask]
    return float(np.mean((cdf >= tail) & (cdf <= 1 - tail)))


def accuracy(predictive: AbstractClasses, y: np.ndarray, mask: np.ndarray) -> float:
    """The share of points whose most probable class is theirs, of each task, averaged over tasks.

    >>> import numpy as np
    >>> from pacoh import metrics
    >>> from pacoh.categorical import PointClass
    >>> metrics.accuracy(PointClass(np.array([[0, 1, 1, 2]])), np.array([[0, 1, 2, 2]]), np.ones((1, 4), bool))
    0.75
    """
    return float(np.mean(_accuracy(predictive, y, mask)))


def _accuracy(predictive: AbstractClasses, y: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return _task_mean(predictive.mode == y, mask)


def ece(predictive: CategoricalMixture, y: np.ndarray, mask: np.ndarray) -> float:
    """sum_h |B_h| / m |accuracy in B_h - mean confidence in B_h|: the expected calibration error of all points.

    >>> import numpy as np
    >>> from pacoh import metrics
    >>> from pacoh.categorical import CategoricalMixture
    >>> said = CategoricalMixture(np.log(np.full((1, 1, 10, 2), [0.3, 0.7])))  # at ten points: 0.7 for class 1
    >>> y = np.array([[1, 1, 1, 1, 1, 1, 1, 0, 0, 0]])
    >>> [round(metrics.ece(said, true, np.ones((1, 10), bool)), 6) for true in (y, 1 - y)]
    [0.0, 0.4]
    """
    right, confidence = np.asarray(predictive.mode == y), np.asarray(predictive.confidence)
    return _ece(right[mask], confidence[mask])


def ece_by_task(predictive: CategoricalMixture, y: np.ndarray, mask: np.ndarray) -> float:
    """The expected calibration error of each task, averaged over tasks: on few points it is large for anyone.

    >>> import numpy as np
    >>> from pacoh import metrics
    >>> from pacoh.categorical import CategoricalMixture
    >>> said = CategoricalMixture(np.zeros((2, 1, 1, 2)))  # even odds in two tasks of one point each
    >>> y, mask = np.array([[0], [1]]), np.ones((2, 1), bool)
    >>> metrics.ece_by_task(said, y, mask), metrics.ece(said, y, mask)
    (0.5, 0.0)
    """
    right, confidence = np.asarray(predictive.mode == y), np.asarray(predictive.confidence)
    return float(np.mean([_ece(r[keep], c[keep]) for r, c, keep in zip(right, confidence, mask, strict=True)]))


def _ece(right: np.ndarray, confidence: np.ndarray) -> float:
    edges = np.arange(1, BINS) / BINS
    bins = np.searchsorted(edges, confidence, side="left")  # the upper edge belongs to its bin
    return float(np.abs(np.bincount(bins, right - confidence, BINS)).sum() / len(right))


def summary(predictive: AbstractPredictive, y: np.ndarray, mask: np.ndarray) -> dict[str, float | None]:
    """Every metric by name; None where the predictive has none. Tasks without a query point are left out.

    >>> import numpy as np
    >>> from pacoh import metrics
    >>> from pacoh.predictive import Point
    >>> values = metrics.summary(Point(np.zeros((1, 2))), np.array([[1.0, 1.0]]), np.ones((1, 2), bool))
    >>> values["rmse"], values["log_likelihood"]
    (1.0, None)
    """
    predictive, y, mask = _asked(predictive, y, mask)
    known: dict[str, float | None] = {}
    if isinstance(predictive, AbstractNumeric):
        known |= {"rmse": rmse(predictive, y, mask), "pooled_rmse": pooled_rmse(predictive, y, mask)}
    if isinstance(predictive, AbstractDistribution):
        known |= {name: metric(predictive, y, mask) for name, metric in _DISTRIBUTIONAL.items()}
    if isinstance(predictive, AbstractClasses):
        known["accuracy"] = accuracy(predictive, y, mask)
    if isinstance(predictive, CategoricalMixture):
        known |= {name: metric(predictive, y, mask) for name, metric in _CATEGORICAL.items()}
    return dict.fromkeys((*OF_NUMBERS, *OF_CLASSES)) | known


def by_task(predictive: AbstractPredictive, y: np.ndarray, mask: np.ndarray) -> dict[str, np.ndarray]:
    """The metrics that are averages over tasks, before the average; tasks without a query point are left out.

    >>> import numpy as np
    >>> from pacoh import metrics
    >>> from pacoh.predictive import Point
    >>> metrics.by_task(Point(np.zeros((2, 1))), np.array([[1.0], [3.0]]), np.ones((2, 1), bool))["rmse"]
    array([1., 3.])
    """
    predictive, y, mask = _asked(predictive, y, mask)
    kinds = {
        "rmse": (AbstractNumeric, _rmse),
        "log_likelihood": ((AbstractDistribution, CategoricalMixture), _log_likelihood),
        "calibration_error": (AbstractDistribution, _calibration_error),
        "accuracy": (AbstractClasses, _accuracy),
    }
    return {name: of(predictive, y, mask) for name, (kind, of) in kinds.items() if isinstance(predictive, kind)}


def _asked(
    predictive: AbstractPredictive, y: np.ndarray, mask: np.ndarray
) -> tuple[AbstractPredictive, np.ndarray, np.ndarray]:
    """The tasks that have a query point, zeros where there is padding."""
    asked = np.asarray(mask.any(-1))
    if not asked.any():
        raise PacohError("No task has a point to predict: use fewer context points a task.")
    y = np.where(mask, y, 0)
    return (predictive, y, mask) if asked.all() else (_tasks(predictive, asked), y[asked], mask[asked])


_DISTRIBUTIONAL = {
    "log_likelihood": log_likelihood,
    "calibration_error": calibration_error,
    "pooled_calibration_error": pooled_calibration_error,
    "coverage_90": coverage,
    "crps": crps,
}
_CATEGORICAL = {"log_likelihood": log_likelihood, "ece": ece, "ece_by_task": ece_by_task}
OF_NUMBERS, OF_CLASSES = ("rmse", "pooled_rmse", *_DISTRIBUTIONAL), ("accuracy", *_CATEGORICAL)
"""The names in a summary that speak of numbers, and those that speak of classes."""


def _form(name: str) -> Callable[[np.ndarray], np.ndarray]:
    if name not in FORMS:
        raise PacohError(f"A calibration error has the forms {', '.join(FORMS)}; got {name!r}.")
    return FORMS[name]


def _task_mean(values, mask: np.ndarray) -> np.ndarray:
    return np.where(mask, values, 0.0).sum(-1) / mask.sum(-1)


def _tasks(predictive: AbstractPredictive, keep: np.ndarray) -> AbstractPredictive:
    return jax.tree.map(lambda leaf: leaf[keep], predictive)
