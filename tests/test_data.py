"""Padding is exact and rare, and units keep their digits."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacoh import api
from pacoh.data import Standardizer, bucket, pad, stack
from pacoh.errors import PacohError
from pacoh.inference.map import MAP
from pacoh.learners.vanilla import Vanilla
from pacoh.priors.gp import GPPrior
from pacoh.priors.hyper import GroupGaussian
from pacoh.priors.kernels import SE
from pacoh.priors.means import Constant

QUICK = settings(max_examples=200, deadline=None)


def task(size: int, d: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(size, d)), random.normal(size=size)


@QUICK
@given(st.integers(1, 10**6))
def test_a_bucket_holds_its_size_and_wastes_at_most_a_quarter(size):
    assert size <= bucket(size) <= max(size, 1.25 * size)


@QUICK
@given(st.integers(1, 10**6))
def test_a_bucket_is_its_own_bucket(size):
    assert bucket(bucket(size)) == bucket(size)


def test_buckets_grow_with_the_size_and_are_few():
    buckets = [bucket(size) for size in range(1, 1001)]
    assert buckets == sorted(buckets)
    assert len(set(buckets)) == 36  # 8, and 4 for each doubling up to 1024


def test_no_points_get_one_row():
    assert bucket(0) == 1
    assert not pad(np.empty((0, 2)), np.empty(0)).mask.any()


def test_padding_keeps_the_points_first_and_masks_the_rest():
    x, y = task(9)
    padded = pad(x, y)
    assert padded.mask.tolist() == [True] * 9 + [False]
    np.testing.assert_array_equal(padded.x[:9], x.astype(np.float32))
    np.testing.assert_array_equal(padded.y[:9], y.astype(np.float32))
    assert not padded.x[9:].any()
    assert int(padded.sizes) == 9


def test_class_ids_stay_whole_numbers():
    assert jnp.issubdtype(pad(np.zeros((3, 1)), np.array([2, 0, 1])).y.dtype, jnp.integer)


def test_a_task_that_does_not_fit_is_refused_with_the_size_that_does():
    with pytest.raises(PacohError, match=r"9 points .* into 8 rows: give size=10"):
        pad(*task(9), size=8)


def test_a_stack_holds_each_task_as_it_is_padded_alone():
    tasks = [task(size, seed=size) for size in (3, 1, 6)]
    whole = stack(tasks)
    assert whole.x.shape == (3, 6, 2)
    assert whole.sizes.tolist() == [3, 1, 6]
    for index, (x, y) in enumerate(tasks):
        alone = pad(x, y, 6)
        np.testing.assert_array_equal(whole.x[index], alone.x)
        np.testing.assert_array_equal(whole.y[index], alone.y)


def test_standardised_training_points_have_mean_zero_and_scale_one():
    tasks = [(100 + 5 * x, 3 + 0.1 * y) for x, y in (task(size, seed=size) for size in (4, 7, 2))]
    units = Standardizer.fit(tasks)
    x, y = (np.concatenate(part) for part in zip(*(units(*pair) for pair in tasks), strict=True))
    np.testing.assert_allclose([x.mean(0), x.std(0)], [[0, 0], [1, 1]], atol=1e-12)
    np.testing.assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-12)


def test_each_point_counts_the_same_whatever_its_task():
    units = Standardizer.fit([(np.zeros((1, 1)), np.zeros(1)), (np.ones((3, 1)), np.ones(3))])
    assert units.x_loc == units.y_loc == 0.75


@pytest.mark.parametrize("constant", [0.0, 7.0, 1e9, 0.1])
def test_a_constant_column_gets_scale_one(constant):
    units = Standardizer.fit([(np.full((5, 1), constant), np.full(5, constant))] * 3)
    assert units.x_scale == units.y_scale == 1
    x, y = units(np.full((1, 1), constant), np.full(1, constant))
    np.testing.assert_allclose([x[0, 0], y[0]], 0, atol=1e-6)


def test_inputs_that_are_alike_share_one_mean_and_one_scale():
    x = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    units = Standardizer.fit([(x, np.array([0, 1, 0, 1]))], alike=True)
    np.testing.assert_allclose([units.x_loc, units.x_scale], [[x.mean()] * 3, [x.std()] * 3])
    assert units.inputs(x).std() == pytest.approx(1)


def test_class_ids_keep_their_values():
    units = Standardizer.fit([(task(4)[0], np.array([3, 5, 3, 4]))])
    np.testing.assert_array_equal(units.targets(np.array([3, 5])), [3, 5])
    assert (units.y_loc, units.y_scale) == (0, 1)


def test_a_small_spread_on_a_large_offset_keeps_its_digits():
    x = 1e9 + np.linspace(-10, 10, 21)[:, None]
    scaled = Standardizer.fit([(x, x[:, 0])]).inputs(x)[:, 0]
    np.testing.assert_allclose(scaled, np.linspace(-10, 10, 21) / np.linspace(-10, 10, 21).std(), rtol=1e-12)


def test_predictions_do_not_care_where_zero_is_nor_how_large_a_unit():
    """Inputs and targets of 1e9 +- 10 and their plain form give the same predictions, shifted and scaled."""
    random = np.random.default_rng(0)
    tasks = [(x, np.sin(x) + 0.1 * random.normal(size=5)) for x in (random.uniform(-2, 2, 5) for _ in range(3))]
    sds = GroupGaussian(dict.fromkeys(("weight", "bias", "scale", "noise", "mean"), 1.0))
    learner = Vanilla(GPPrior(Constant(), SE()), sds, MAP())
    query = np.linspace(-2, 2, 5)
    plain = api.fit(tasks, learner).adapt(*tasks[0])(query)
    moved = [(1e9 + 10 * x, 1e9 + 10 * y) for x, y in tasks]
    shifted = api.fit(moved, learner).adapt(*moved[0])(1e9 + 10 * query)
    np.testing.assert_allclose((shifted.mean - 1e9) / 10, plain.mean, atol=2e-3)
    np.testing.assert_allclose(shifted.std / 10, plain.std, rtol=5e-3)
    np.testing.assert_allclose((shifted.quantile(0.9) - 1e9) / 10, plain.quantile(0.9), atol=3e-3)
    assert np.ptp(shifted.mean) > 5
