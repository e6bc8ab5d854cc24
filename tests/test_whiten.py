"""Laws of inputs that are turned until they are uncorrelated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pacoh
from pacoh.bounds.losses import loss
from pacoh.certify import certify_model
from pacoh.data import Dataset, stack
from pacoh.errors import PacohError
from pacoh.learners.whiten import Whitening
from pacoh.registry import Shape, learner
from pacoh.testing import CHECKS, check, prepare

KEY = jax.random.key(0)


def lags(seed, tasks, points, d=6):
    """Series that wander slowly: their lags are nearly one number, and what comes next lies in their differences."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(tasks):
        speed = np.cumsum(random.normal(0, 0.02, points + d + 1)) * 0.3
        series = 20 + random.normal(0, 3) + np.cumsum(speed)
        windows = np.lib.stride_tricks.sliding_window_view(series, d + 1)[:points]
        made.append((windows[:, :d].copy(), windows[:, d].copy()))
    return made


def cloud(seed, shape=(3, 40, 4)):
    random = np.random.default_rng(seed)
    x = random.normal(size=shape) @ random.normal(size=(shape[-1], shape[-1])) + 5
    mask = random.uniform(size=shape[:-1]) < 0.8
    return Dataset(jnp.asarray(np.where(mask[..., None], x, 1e3)), jnp.zeros(shape[:-1]), jnp.asarray(mask))


@pytest.mark.parametrize("seed", range(3))
def test_inputs_that_count_become_uncorrelated_and_of_unit_size_and_padding_is_none_of_them(seed):
    tasks = cloud(seed)
    there = Whitening.of(tasks).tasks(tasks)
    kept = np.asarray(there.x)[np.asarray(tasks.mask)]
    np.testing.assert_allclose(kept.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(np.cov(kept.T, bias=True), np.eye(4), atol=1e-3)
    assert (np.asarray(there.x)[~np.asarray(tasks.mask)] == 0).all()


def test_it_is_the_turn_nearest_to_none():
    tasks = cloud(0)
    turn = np.asarray(Whitening.of(tasks).turn)
    kept = np.asarray(tasks.x)[np.asarray(tasks.mask)]
    values, vectors = np.linalg.eigh(np.cov(kept.T, bias=True))
    np.testing.assert_allclose(turn, (vectors / np.sqrt(values)) @ vectors.T, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(turn, turn.T, atol=1e-5)


def test_uncorrelated_inputs_of_unit_size_stay_as_they_are():
    corners = np.array([[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)])
    found = Whitening.of(Dataset(jnp.asarray(corners), jnp.zeros(4), jnp.ones(4, bool)))
    np.testing.assert_allclose(found.turn, np.eye(2), atol=1e-5)
    np.testing.assert_allclose(found.inputs(jnp.asarray(corners)), corners, atol=1e-5)


@pytest.mark.parametrize("x", [np.full((5, 2), 3.0), np.zeros((0, 2))], ids=["equal points", "no points"])
def test_where_inputs_tell_nothing_they_stay_as_they_are(x):
    found = Whitening.of(Dataset(jnp.asarray(x, float), jnp.zeros(len(x)), jnp.ones(len(x), bool)))
    np.testing.assert_array_equal(found.turn, np.eye(2))


def test_columns_that_say_the_same_do_not_blow_up_rounding():
    one = np.random.default_rng(0).normal(size=(50, 1))
    x = np.repeat(one, 3, 1) + 1e-7 * np.random.default_rng(1).normal(size=(50, 3))
    there = np.asarray(Whitening.of(Dataset(jnp.asarray(x), jnp.zeros(50), jnp.ones(50, bool))).inputs(jnp.asarray(x)))
    along = there.mean(1, keepdims=True)
    assert np.abs(there - along).max() < 1e-2 * np.abs(along).max()


@pytest.mark.parametrize("method", ["vanilla-gp", "mll-gp"])  # without a training of its own, and with one
def test_a_learner_of_whitened_inputs_is_the_learner_of_whitened_tasks(method):
    tasks, contexts = (stack(lags(*sizes)) for sizes in ((0, 4, 8), (1, 1, 8)))
    context = jax.tree.map(lambda leaf: leaf[0], contexts)
    shape, settings = Shape(len(tasks.mask), 8.0, tasks.x.shape[-1]), {"steps": 20}
    change = Whitening.of(tasks)
    there = learner(method, shape, **settings).fit(change.tasks(tasks), KEY).adapt(change.tasks(context), KEY)
    made = learner(method, shape, whiten=True, **settings).fit(tasks, KEY).adapt(context, KEY)
    for name in ("__call__", "latent"):
        wanted, said = getattr(there, name)(change.inputs(context.x)), getattr(made, name)(context.x)
        np.testing.assert_allclose(said.mean, wanted.mean, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(said.std, wanted.std, rtol=1e-2, atol=1e-4)
    np.testing.assert_allclose(
        made.function(KEY)(context.x), there.function(KEY)(change.inputs(context.x)), rtol=1e-2, atol=1e-2
    )


def test_lags_of_slow_series_are_learned_from_sooner_where_they_are_turned():
    tasks, new = lags(0, 8, 40), lags(1, 6, 40)
    errors = {}
    for whiten in (False, True):
        model = pacoh.fit(tasks, "mll-gp", steps=300, kernel="linear", mean="linear", whiten=whiten)
        gaps = [model.adapt(x[:20], y[:20])(x[20:]).mean - y[20:] for x, y in new]
        errors[whiten] = np.mean([np.sqrt((gap**2).mean()) for gap in gaps])
    assert errors[True] < 0.8 * errors[False]


def test_a_saved_model_predicts_as_before(tmp_path):
    tasks = lags(0, 4, 10)
    model = pacoh.fit(tasks, "pacoh-gp-map", steps=20, whiten=True)
    model.save(tmp_path / "model")
    x, y = lags(1, 1, 10)[0]
    again = pacoh.load(tmp_path / "model").adapt(x[:5], y[:5])(x[5:])
    np.testing.assert_array_equal(again.mean, model.adapt(x[:5], y[:5])(x[5:]).mean)


def test_a_scale_for_targets_goes_with_it():
    tasks = stack([(x, np.exp(y / 10)) for x, y in lags(0, 4, 8)])
    context, shape, change = jax.tree.map(lambda leaf: leaf[0], tasks), Shape(4, 8.0, 6), Whitening.of(tasks)
    there = learner("vanilla-gp", shape, warp=True, steps=20).fit(change.tasks(tasks), KEY)
    made = learner("vanilla-gp", shape, warp=True, whiten=True, steps=20).fit(tasks, KEY)
    wanted = there.adapt(change.tasks(context), KEY)(change.inputs(context.x))
    said = made.adapt(context, KEY)(context.x)
    for level in (0.05, 0.9):
        np.testing.assert_allclose(said.quantile(level), wanted.quantile(level), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("method", ["maml", "pacoh-nn-map"])
def test_a_learner_of_whitened_inputs_passes_the_suite(name, method):
    reason = check(name, prepare(method, settings={"steps": 20, "whiten": True}))
    if reason is not None:
        pytest.skip(reason)


def test_a_certificate_says_that_the_turn_depends_on_the_tasks():
    tasks = lags(0, 4, 8)
    report = certify_model(
        pacoh.fit(tasks, "pacoh-gp-map", steps=5, whiten=True), tasks, loss("clipped-absolute", clip=1.0)
    )
    assert not report.certified
    assert "`whiten`" in report.certificate.reasons[0]


def test_a_value_that_is_read_as_it_is_cannot_be_turned():
    with pytest.raises(PacohError, match="leave out `whiten`"):
        learner("last-value", Shape(4, 5, 1), whiten=True)
