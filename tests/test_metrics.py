"""Metrics have their closed-form values; padding counts for nothing; pooled is not per task."""

import numpy as np
import pytest

from pacoh import metrics
from pacoh.errors import PacohError
from pacoh.metrics import CODE_LEVELS, FORMS, PAPER_LEVELS
from pacoh.predictive import GaussianMixture, Point

EVERY = ["rmse", "pooled_rmse", "log_likelihood", "calibration_error", "pooled_calibration_error", "coverage", "crps"]


def normal(loc, scale=1.0) -> GaussianMixture:
    """One normal at each point of (n, q)."""
    loc = np.asarray(loc, float)
    return GaussianMixture(loc[:, None], np.broadcast_to(np.asarray(scale, float), loc.shape)[:, None])


def everything(y) -> np.ndarray:
    return np.ones(np.shape(y), bool)


@pytest.fixture(scope="module")
def oracle() -> tuple[GaussianMixture, np.ndarray]:
    """Targets drawn from their own predictive: 20 tasks of 2,000 points."""
    random = np.random.default_rng(0)
    loc, scale = random.normal(size=(20, 2000)), random.uniform(0.5, 2, size=(20, 2000))
    return normal(loc, scale), random.normal(loc, scale)


def test_rmse_is_the_root_within_and_the_mean_over_tasks():
    y = np.array([[3.0, 4.0], [0.0, 0.0]])
    assert metrics.rmse(Point(np.zeros((2, 2))), y, everything(y)) == pytest.approx(0.5 * 12.5**0.5)


def test_log_likelihood_of_a_standard_normal_at_its_mean():
    y = np.zeros((2, 3))
    assert metrics.log_likelihood(normal(y), y, everything(y)) == pytest.approx(-0.5 * np.log(2 * np.pi))


def test_crps_of_a_normal_at_its_mean():
    y = np.zeros((1, 1))
    assert metrics.crps(normal(y, 3.0), y, everything(y)) == pytest.approx(3 * (2**0.5 - 1) / np.pi**0.5)


def test_tasks_count_alike_whatever_their_size():
    y, mask = np.array([[2.0, 2.0, 2.0], [4.0, 0.0, 0.0]]), np.array([[1, 1, 1], [1, 0, 0]], bool)
    assert metrics.rmse(Point(np.zeros((2, 3))), y, mask) == pytest.approx(3.0)
    expected = -0.5 * np.log(2 * np.pi) - 0.5 * (4 + 16) / 2
    assert metrics.log_likelihood(normal(np.zeros((2, 3))), y, mask) == pytest.approx(expected)


def test_pooled_points_count_alike_whatever_their_task():
    y, mask = np.array([[2.0, 2.0, 2.0], [4.0, 9.0, 9.0]]), np.array([[1, 1, 1], [1, 0, 0]], bool)
    assert metrics.pooled_rmse(Point(np.zeros((2, 3))), y, mask) == pytest.approx(((3 * 4 + 16) / 4) ** 0.5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("levels", [CODE_LEVELS, PAPER_LEVELS], ids=["code", "paper"])
def test_targets_drawn_from_their_predictive_are_calibrated(oracle, levels, form):
    predictive, y = oracle
    for metric in (metrics.calibration_error, metrics.pooled_calibration_error):
        assert metric(predictive, y, everything(y), levels=levels, form=form) < 0.012


def test_targets_drawn_from_their_predictive_are_covered(oracle):
    predictive, y = oracle
    for level in (0.5, 0.9, 0.99):
        assert metrics.coverage(predictive, y, everything(y), level) == pytest.approx(level, abs=0.008)


def test_the_level_grids_are_those_that_their_names_say():
    assert (len(CODE_LEVELS), CODE_LEVELS[0], CODE_LEVELS[-1]) == (20, 0.05, 0.95)
    assert (len(PAPER_LEVELS), PAPER_LEVELS[0], PAPER_LEVELS[-1]) == (20, 0.0, 1.0)


@pytest.mark.parametrize(("levels", "absolute", "square"), [(CODE_LEVELS, 0.5, 0.5697), (PAPER_LEVELS, 0.5, 0.5849)])
def test_a_predictive_far_above_every_target_misses_each_level_by_one_minus_it(levels, absolute, square):
    """Every cdf is 0, so each share is 1: mean |1 - q| is 1/2 on both grids, the root mean square is not."""
    y = np.zeros((2, 5))
    arguments = normal(y + 1e3), y, everything(y)
    assert metrics.calibration_error(*arguments, levels=levels) == pytest.approx(absolute)
    assert metrics.calibration_error(*arguments, levels, "root-mean-square") == pytest.approx(square, abs=1e-4)
    assert metrics.pooled_calibration_error(*arguments, levels=levels) == pytest.approx(absolute)


def test_an_infinitely_wide_predictor_scores_a_quarter_on_any_data():
    """Every cdf is 1/2, so the share jumps from 0 to 1 there: mean min(q, 1 - q) over the levels, .263."""
    y = np.random.default_rng(0).normal(size=(50, 2))
    wide = normal(np.zeros((50, 2)), 1e12)
    assert metrics.calibration_error(wide, y, everything(y)) == pytest.approx(0.263, abs=5e-4)
    assert metrics.coverage(wide, y, everything(y)) == 1


def test_on_two_points_a_task_the_true_predictive_scores_no_better_than_useless_width():
    """Why the pooled error stands beside the one by task: only the former tells them apart."""
    random = np.random.default_rng(0)
    y = random.normal(size=(500, 2))
    true, wide = normal(np.zeros((500, 2))), normal(np.zeros((500, 2)), 1e12)
    assert metrics.calibration_error(true, y, everything(y)) > 0.2
    assert metrics.pooled_calibration_error(true, y, everything(y)) < 0.03
    assert metrics.pooled_calibration_error(wide, y, everything(y)) > 0.25


def test_pooled_errors_cancel_where_errors_by_task_do_not():
    """One task always above its predictive, one always below: together half of the points lie below each level."""
    y = np.stack([np.full(10, 1e3), np.full(10, -1e3)])
    predictive = normal(np.zeros((2, 10)))
    assert metrics.calibration_error(predictive, y, everything(y)) == pytest.approx(0.5)
    assert metrics.pooled_calibration_error(predictive, y, everything(y)) == pytest.approx(
        np.abs(0.5 - CODE_LEVELS).mean()
    )


@pytest.mark.parametrize("name", EVERY)
def test_masked_points_count_for_nothing(name):
    random = np.random.default_rng(1)
    loc, y = random.normal(size=(3, 6)), random.normal(size=(3, 6))
    mask = np.arange(6) < np.array([[4], [4], [4]])
    metric = getattr(metrics, name)
    filled = np.where(mask, y, 1e6)
    assert metric(normal(loc), filled, mask) == pytest.approx(
        metric(normal(loc[:, :4]), y[:, :4], everything(y[:, :4])), rel=1e-12
    )


def test_a_summary_of_a_point_has_only_its_errors():
    y = np.ones((2, 3))
    summary = metrics.summary(Point(np.zeros((2, 3))), y, everything(y))
    assert summary.pop("rmse") == summary.pop("pooled_rmse") == 1
    assert set(summary.values()) == {None}


def test_a_summary_leaves_out_tasks_without_a_query_point():
    random = np.random.default_rng(2)
    loc, y = random.normal(size=(3, 4)), random.normal(size=(3, 4))
    mask = everything(y).copy()
    mask[1] = False
    whole = metrics.summary(normal(loc), np.where(mask, y, np.nan), mask)
    kept = metrics.summary(normal(loc[[0, 2]]), y[[0, 2]], mask[[0, 2]])
    assert whole == pytest.approx(kept)


def test_a_summary_of_nothing_is_refused():
    with pytest.raises(PacohError, match="No task has a point to predict"):
        metrics.summary(Point(np.zeros((2, 3))), np.zeros((2, 3)), np.zeros((2, 3), bool))


def test_an_unknown_form_is_refused_with_the_known_ones():
    with pytest.raises(PacohError, match="mean-absolute, root-mean-square; got 'rms'"):
        metrics.calibration_error(normal(np.zeros((1, 1))), np.zeros((1, 1)), np.ones((1, 1), bool), form="rms")


def test_mixtures_with_weights_lose_tasks_in_all_their_parts():
    loc = np.zeros((3, 2, 4))
    predictive = GaussianMixture(loc, loc + 1, np.zeros((3, 2)))
    mask = np.array([[True] * 4, [False] * 4, [True] * 4])
    assert metrics.summary(predictive, np.zeros((3, 4)), mask)["rmse"] == 0
