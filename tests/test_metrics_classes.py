"""Metrics of classes have the values of their formulas; what a predictive does not say is never invented."""

import numpy as np
import pytest

from pacoh import metrics
from pacoh.categorical import CategoricalMixture, PointClass
from pacoh.predictive import GaussianMixture, Point


def of_probs(probs) -> CategoricalMixture:
    """One categorical at each point of (n, q, C)."""
    with np.errstate(divide="ignore"):
        return CategoricalMixture(np.log(np.asarray(probs, float))[:, None])


def confident(confidence, ways: int = 5) -> CategoricalMixture:
    """Class 0 with the given probability (above one half), the rest shared by the others: (n, q)."""
    confidence = np.asarray(confidence, float)
    rest = np.broadcast_to(((1 - confidence) / (ways - 1))[..., None], (*confidence.shape, ways - 1))
    return of_probs(np.concatenate([confidence[..., None], rest], -1))


def everything(y) -> np.ndarray:
    return np.ones(np.shape(y), bool)


def ece_by_definition(probs: np.ndarray, y: np.ndarray) -> float:
    """sum_h |B_h| / m |acc - conf|, bin by bin."""
    confidence, right, total = probs.max(-1), probs.argmax(-1) == y, 0.0
    for h in range(1, 21):
        inside = (confidence > (h - 1) / 20) & (confidence <= h / 20)
        if inside.any():
            total += inside.sum() / len(y) * abs(right[inside].mean() - confidence[inside].mean())
    return total


@pytest.fixture(scope="module")
def random_case() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    probs = random.dirichlet([0.5] * 4, size=(6, 30))
    mask = np.arange(30) < random.integers(5, 31, size=(6, 1))
    return probs, random.integers(0, 4, size=(6, 30)), mask


def test_metrics_of_classes_are_their_definitions_over_ragged_tasks(random_case):
    probs, y, mask = random_case
    predictive = of_probs(probs)
    per_task = [(probs[i][mask[i]], y[i][mask[i]]) for i in range(6)]
    accuracy = np.mean([(p.argmax(-1) == t).mean() for p, t in per_task])
    likelihood = np.mean([np.log(p[np.arange(len(t)), t]).mean() for p, t in per_task])
    assert metrics.accuracy(predictive, y, mask) == pytest.approx(accuracy)
    assert metrics.log_likelihood(predictive, y, mask) == pytest.approx(likelihood)
    pooled = ece_by_definition(probs[mask], y[mask])
    assert metrics.ece(predictive, y, mask) == pytest.approx(pooled)
    by_task = np.mean([ece_by_definition(p, t) for p, t in per_task])
    assert metrics.ece_by_task(predictive, y, mask) == pytest.approx(by_task)
    assert by_task > pooled


@pytest.mark.parametrize("edge", [0.55, 0.6, 0.7, 0.85, 0.95])
def test_the_upper_edge_of_a_bin_belongs_to_it_and_the_lower_to_the_one_below(edge):
    """A right point at the edge and a wrong one above fall into two bins: their gaps do not cancel."""
    at, above, below = edge, edge + 0.01, edge - 0.01
    y = np.array([[0, 1]])
    assert metrics.ece(confident([[at, above]]), y, everything(y)) == pytest.approx(((1 - at) + above) / 2)
    assert metrics.ece(confident([[at, below]]), y, everything(y)) == pytest.approx(abs((1 - at) - below) / 2)


def test_full_confidence_has_a_bin_and_costs_its_errors():
    y = np.array([[0, 0, 0, 1]])
    sure = confident(np.ones((1, 4)))
    assert metrics.ece(sure, y, everything(y)) == pytest.approx(0.25)
    assert metrics.ece(sure, np.zeros((1, 4), int), everything(y)) == 0
    rounded = CategoricalMixture(np.log(np.array([1 + 1e-15, 1e-300]))[None, None, None])
    assert metrics.ece(rounded, np.zeros((1, 1), int), np.ones((1, 1), bool)) == pytest.approx(0, abs=1e-12)


def test_classes_drawn_from_their_predictive_are_calibrated():
    random = np.random.default_rng(1)
    probs = random.dirichlet([0.7] * 5, size=(20, 5000))
    y = (random.uniform(size=(20, 5000, 1)) > probs.cumsum(-1)).sum(-1).clip(max=4)
    predictive = of_probs(probs)
    assert metrics.ece(predictive, y, everything(y)) < 0.006
    sharper = CategoricalMixture(3 * np.log(probs)[:, None])
    assert metrics.ece(sharper, y, everything(y)) > 0.1


def test_pooled_gaps_cancel_where_gaps_by_task_do_not():
    y = np.array([[0, 0], [1, 1]])
    halves = confident(np.full((2, 2), 0.501), ways=2)
    assert metrics.ece(halves, y, everything(y)) == pytest.approx(0.001)
    assert metrics.ece_by_task(halves, y, everything(y)) == pytest.approx(0.5)


def test_a_summary_has_the_metrics_of_its_kind_and_none_of_the_other():
    y = np.zeros((2, 3), int)
    cases = {
        "classes": (confident(np.full((2, 3), 0.9)), {"accuracy", "log_likelihood", "ece", "ece_by_task"}),
        "point classes": (PointClass(y), {"accuracy"}),
        "numbers": (GaussianMixture(np.zeros((2, 1, 3)), np.ones((2, 1, 3))), set(metrics.OF_NUMBERS)),
        "points": (Point(np.zeros((2, 3))), {"rmse", "pooled_rmse"}),
    }
    for name, (predictive, expected) in cases.items():
        summary = metrics.summary(predictive, y, everything(y))
        assert {key for key, value in summary.items() if value is not None} == expected, name
        assert set(summary) == {*metrics.OF_NUMBERS, *metrics.OF_CLASSES}


def test_a_summary_of_classes_leaves_out_tasks_without_a_query_point(random_case):
    probs, y, mask = random_case
    mask = mask.copy()
    mask[2] = False
    kept = np.arange(6) != 2
    assert metrics.summary(of_probs(probs), y, mask) == metrics.summary(of_probs(probs[kept]), y[kept], mask[kept])
