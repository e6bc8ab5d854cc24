"""Search over settings: folds keep test and training tasks apart, and the best validation score wins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pacoh import registry
from pacoh.environments import Sinusoid, SwissFELStandIn
from pacoh.environments.base import named
from pacoh.errors import PacohError
from pacoh.tuning import Range, environment_folds, leave_out_folds, search
from pacoh.tuning.search import draw_settings


def tasks(n=6, m=4):
    random = np.random.default_rng(0)
    return named([(np.full((m, 1), float(i)) + random.normal(size=(m, 1)), random.normal(size=m)) for i in range(n)])


def test_settings_lie_in_their_ranges_one_in_each_stratum():
    settings = draw_settings({"rate": Range(1e-4, 1e-1), "share": Range(0.0, 1.0, log=False)}, 10, seed=0)
    logs = sorted(np.log10(s["rate"]) for s in settings)
    assert all(-4 + 0.3 * i <= value <= -4 + 0.3 * (i + 1) for i, value in enumerate(logs))
    assert sorted(int(10 * s["share"]) for s in settings) == list(range(10))


def test_every_task_is_left_out_once_and_never_trained_on_then():
    all_tasks = tasks()
    fold = leave_out_folds(all_tasks, count=3, context=0.5, seed=0)
    assert fold.train.x.shape[:2] == (3, 4)
    assert fold.valid.context.x.shape[:2] == (3, 2)
    for i in range(
        3
    ):  # in the fold's own units: the pooled training targets are standardised, so nothing else is in them
        y, mask = np.asarray(fold.train.y[i]), np.asarray(fold.train.mask[i])
        assert abs(y[mask].mean()) < 1e-5
        assert y[mask].std() == pytest.approx(1, abs=1e-4)
    points = np.asarray(fold.valid.context.mask.sum() + fold.valid.query.mask.sum())
    assert points == sum(all_tasks.sizes)


def test_leaving_out_needs_three_tasks():
    with pytest.raises(PacohError, match="3 tasks or more, got 2"):
        leave_out_folds(tasks(2), count=2, context=0.5, seed=0)


def test_environment_folds_use_validation_tasks_only():
    environment = Sinusoid(n=3, tests=2, valids=2, query=5)
    fold = environment_folds(environment, [7])
    valid, scale = environment.draw(7).valid, float(fold.y_scale[0])
    wanted = np.diff(valid.query.y[1]) / scale
    np.testing.assert_allclose(np.diff(np.asarray(fold.valid.query.y[0, 1, :5])), wanted, atol=1e-4)


def test_without_validation_tasks_each_training_task_is_left_out_once_and_no_test_task_is_seen():
    environment = SwissFELStandIn()
    fold = environment_folds(environment, [3])
    assert fold.train.mask.sum((1, 2)).tolist() == [800] * 5
    assert fold.valid.context.mask.sum((1, 2)).tolist() == [100] * 5
    train = environment.draw(3).train
    scales = np.asarray(fold.y_scale)[:, None]
    seen = np.concatenate([np.asarray(part.y[:, 0]) * scales for part in (fold.valid.context, fold.valid.query)], 1)
    spans = sorted(float(np.ptp(y)) for y in train.y)
    parts = [part.mask[:, 0] for part in (fold.valid.context, fold.valid.query)]
    masks = np.concatenate([np.asarray(mask) for mask in parts], 1)
    found = sorted(float(np.ptp(y[mask])) for y, mask in zip(seen, masks, strict=True))
    np.testing.assert_allclose(found, spans, rtol=1e-4)


def test_a_setting_that_cannot_learn_loses_and_the_record_says_what_was_tried():
    fold = environment_folds(Sinusoid(n=4, tests=1, valids=3, query=20), [0, 1])

    def make(rate):
        return registry.learner("pacoh-gp-map", registry.Shape(4, 5, 1), rate=rate, steps=150, layers=1, width=8)

    report = search(make, [{"rate": 1e-8}, {"rate": 0.02}], fold)
    assert report.best == {"rate": 0.02}
    assert report.score[1] > report.score[0] + 0.05
    record = report.record()
    assert (record["settings_tried"], record["folds"]) == (2, 2)
    assert record["score"] == pytest.approx(report.score[1])


def test_lanes_score_as_one_model_does_alone():
    from pacoh.api import Model
    from pacoh.data import Standardizer
    from pacoh.learners.base import lanes
    from pacoh.tuning.search import score_lanes

    environment = Sinusoid(n=4, tests=1, valids=3, query=20)
    draw = environment.draw(0)
    fold = environment_folds(environment, [0])
    learner = registry.learner("pacoh-gp-map", registry.Shape(4, 5, 1), steps=10, layers=1, width=8)
    meta = learner.fit(jax.tree.map(lambda leaf: leaf[0], fold.train), jax.random.key(0))
    density, error = np.asarray(score_lanes(lanes([meta]), fold, jnp.stack([jax.random.key(0)])))[:, 0]
    alone = Model(meta, Standardizer.fit(draw.train.pairs()), {}).evaluate(draw.valid)
    assert error == pytest.approx(alone["rmse"], rel=1e-4)
    assert density == pytest.approx(alone["log_likelihood"], abs=1e-3)
