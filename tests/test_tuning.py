"""Search over settings: folds keep test and training tasks apart, and the best validation score wins."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pacoh
from pacoh import registry
from pacoh.environments import Berkeley, Sinusoid, SwissFELStandIn
from pacoh.environments.base import named
from pacoh.errors import PacohError, PacohWarning
from pacoh.inference import Budget
from pacoh.reading import Tasks
from pacoh.recipes.base import task_batch
from pacoh.tuning import SPACES, Effort, Range, environment_folds, leave_out_folds, search
from pacoh.tuning.choice import forget
from pacoh.tuning.folds import rehearsed
from pacoh.tuning.search import draw_settings
from pacoh.tuning.space import candidates, merged, space


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


def test_one_fold_leaves_half_of_the_tasks_to_train_on():
    fold = leave_out_folds(tasks(5), count=1, context=0.5, seed=0)
    assert fold.train.x.shape[:2] == (1, 3)
    assert fold.valid.context.x.shape[:2] == (1, 2)


def test_leaving_out_needs_three_tasks():
    with pytest.raises(PacohError, match="3 tasks or more, got 2"):
        leave_out_folds(tasks(2), count=2, context=0.5, seed=0)


def test_environment_folds_use_validation_tasks_only():
    environment = Sinusoid(n=3, tests=2, valids=2, query=5)
    fold = environment_folds(environment, [7])
    valid, scale = environment.draw(7).valid, float(fold.y_scale[0])
    wanted = np.diff(valid.query.y[1]) / scale
    np.testing.assert_allclose(np.diff(np.asarray(fold.valid.query.y[0, 1, :5])), wanted, atol=1e-4)


@pytest.mark.parametrize(("split", "context"), [("tables", range(72, 144)), ("paper", range(144, 216))])
def test_sensors_are_left_out_with_a_query_later_than_all_that_was_learned_from(split, context):
    rows = np.arange(288.0)
    names = tuple(f"sensor {i}" for i in range(5))
    tasks = Tasks(names, tuple(rows[:, None] + 1000 * i for i in range(5)), (rows,) * 5, ("x",))
    found = rehearsed(*Berkeley(split).rehearsal(tasks), 5, 0)
    assert sorted(name for _, judge in found for name in judge.context.names) == list(names)
    for learn, judge in found:
        assert not set(learn.names) & set(judge.query.names)
        assert judge.query.names == judge.context.names
        assert all(list(y) == list(range(144)) for y in learn.y)
        assert all(list(y) == list(context) for y in judge.context.y)
        assert all(list(y) == list(range(context[-1] + 1, 288)) for y in judge.query.y)


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


def test_points_are_judged_by_their_error_and_have_no_log_likelihood():
    fold = environment_folds(Sinusoid(n=4, tests=1, valids=3, query=20), [0])

    def make(rate):
        return registry.learner("reptile", registry.Shape(4, 5, 1), rate=rate, steps=100, layers=1, width=8)

    report = search(make, [{"rate": 1e-8}, {"rate": 0.02}], fold)
    assert report.log_likelihood is None
    assert report.best == {"rate": 0.02}
    record = report.record()
    assert record["by"] == "minus the mean validation RMSE"
    assert record["score"] == pytest.approx(-record["rmse"])


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
    (density,), (error,) = score_lanes(lanes([meta]), fold, jnp.stack([jax.random.key(0)]))
    alone = Model(meta, Standardizer.fit(draw.train.pairs()), {}).evaluate(draw.valid)
    assert error.mean() == pytest.approx(alone["rmse"], rel=1e-4)
    assert density.mean() == pytest.approx(alone["log_likelihood"], abs=1e-3)


# --- before a fit


SMALL = {"steps": 40, "layers": 1, "width": 8}


@pytest.fixture(scope="module")
def tuned() -> pacoh.Model:
    return pacoh.fit(tasks(), "pacoh-gp-map", tune=pacoh.Tune(settings=4, folds=2), guard=True, **SMALL)


@pytest.mark.parametrize("method", SPACES)
def test_the_default_is_the_first_candidate_and_lies_inside_the_space(method):
    free = space(method, {})
    drawn = candidates(free, 5, seed=0)
    assert (drawn[0], len(drawn)) == ({}, 5)
    assert all(free[name].low <= value <= free[name].high for setting in drawn[1:] for name, value in setting.items())
    middle = {name: (axis.low * axis.high) ** 0.5 for name, axis in free.items()}
    default, other = (registry.learner(method, registry.Shape(4, 5, 1), **merged({}, s)) for s in ({}, middle))
    assert jax.tree.structure(default) == jax.tree.structure(other)  # they train in one vmap
    for name, axis in free.items():
        least, most = (
            registry.learner(method, registry.Shape(4, 5, 1), **merged({}, {name: end}))
            for end in (axis.low, axis.high)
        )
        around = [jax.tree.leaves(eqx.filter(made, eqx.is_array)) for made in (least, default, most)]
        assert all((low <= at).all() and (at <= high).all() for low, at, high in zip(*around, strict=True)), name


def test_what_is_given_is_not_tuned():
    free = space("pacoh-gp-map", {"rate": 0.01, "sds": {"noise": 1.0}})
    assert "rate" not in free
    assert "sds.noise" not in free
    assert merged({"sds": {"noise": 1.0}}, {"sds.bias": 2.0})["sds"] == {"noise": 1.0, "bias": 2.0}
    assert set(space("pacoh-gp-map", {"paper": 0.5})) == {"rate"}
    with pytest.raises(PacohError, match="Every setting of mll-gp"):
        space("mll-gp", {"rate": 0.01})


def test_the_recorded_choice_is_what_was_trained(tuned):
    record, settings = tuned.card["tuned"], tuned.card["settings"]
    assert settings == merged({"guard": True, **SMALL}, record["chosen"])
    plain = pacoh.fit(tasks(), "pacoh-gp-map", **settings)
    assert "tuned" not in plain.card
    for a, b in zip(jax.tree.leaves(plain.meta), jax.tree.leaves(tuned.meta), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_choice_is_the_default_or_better_and_says_how_it_was_made(tuned):
    record = tuned.card["tuned"]
    assert record["score"] >= record["default_score"]
    assert (record["settings_tried"], record["folds"], record["on"]) == (4, 2, "left-out tasks")
    assert set(record["searched"]) == set(SPACES["pacoh-gp-map"])


def test_the_same_search_gives_the_same_file_and_another_seed_another_search(tuned, tmp_path):
    again = pacoh.fit(tasks(), "pacoh-gp-map", tune=pacoh.Tune(settings=4, folds=2), guard=True, **SMALL)
    for name, model in {"a": tuned, "b": again}.items():
        model.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert candidates(space("mll-gp", {}), 4, seed=0) != candidates(space("mll-gp", {}), 4, seed=1)


def test_an_update_keeps_the_choice(tuned):
    assert tuned.update(tasks(), steps=1).card["tuned"] == tuned.card["tuned"]


def test_a_tuned_model_is_certified_as_tuned(tuned):
    from pacoh.bounds.losses import Outside
    from pacoh.certify import certify_model

    report = certify_model(tuned, tasks(), Outside())
    assert any("settings were chosen on the same tasks (the best of 4)" in r for r in report.certificate.reasons)
    assert not any("chosen without these tasks" in note for note in report.notes)


def test_validation_tasks_judge_where_they_are_given():
    draw = Sinusoid(n=4, tests=1, valids=3, query=20).draw(0)
    seen = []
    search_of_two = pacoh.Tune(2, valid=draw.valid, progress=lambda *told: seen.append(told))
    model = pacoh.fit(draw.train, "mll-gp", tune=search_of_two, **SMALL)
    record = model.card["tuned"]
    assert (record["on"], record["folds"]) == ("validation tasks", 1)
    assert seen[-1][:2] == (2, 2)
    assert seen[-1][2] == pytest.approx(record["score"])


def test_a_budget_in_seconds_ends_the_search_and_the_record_says_where():
    with pytest.warns(PacohWarning, match="nothing was compared"):
        model = pacoh.fit(tasks(), "mll-gp", tune=pacoh.Tune(10**4, seconds=0.01, folds=2), **SMALL)
    record = model.card["tuned"]
    assert (record["settings_tried"], record["seconds_at_most"], record["chosen"]) == (1, 0.01, {})


def test_a_search_that_does_not_fill_its_last_batch_scores_every_setting_once():
    fold = environment_folds(Sinusoid(n=4, tests=1, valids=3, query=20), [0])

    def make(rate):
        return registry.learner("pacoh-gp-map", registry.Shape(4, 5, 1), rate=rate, **SMALL)

    settings = [{"rate": rate} for rate in (0.001, 0.01, 0.03)]
    whole, parts = (search(make, settings, fold, effort=Effort(at_once)) for at_once in (3, 2))
    assert parts.settings == settings
    np.testing.assert_allclose(parts.log_likelihood, whole.log_likelihood, rtol=1e-3)


class Interrupt(Exception):
    pass


def test_an_interrupted_fit_goes_on_with_its_choice_bit_for_bit(tmp_path, monkeypatch):
    budget = {"chunk": 10, "checkpoint": tmp_path / "run"}
    asked = {"tune": pacoh.Tune(3, folds=2), **SMALL}
    whole = pacoh.fit(tasks(), "mll-gp", budget=Budget(chunk=10), **asked)

    def stop(done, total, value):
        if done >= 20:
            raise Interrupt

    with pytest.raises(Interrupt):
        pacoh.fit(tasks(), "mll-gp", budget=Budget(**budget, progress=stop), **asked)
    with pytest.raises(PacohError, match="belongs to another run"):
        pacoh.fit(tasks(), "mll-gp", budget=Budget(**budget), seed=1, **asked)
    monkeypatch.setattr("pacoh.tuning.choice.search", None)  # it must not search again
    resumed = pacoh.fit(tasks(), "mll-gp", budget=Budget(**budget), **asked)
    assert resumed.card == whole.card
    for a, b in zip(jax.tree.leaves(whole.meta), jax.tree.leaves(resumed.meta), strict=True):
        np.testing.assert_array_equal(a, b)
    (tmp_path / "run.tuned").write_text("{}")
    with pytest.raises(PacohError, match="no choice of settings that pacoh wrote"):
        pacoh.fit(tasks(), "mll-gp", budget=Budget(**budget), **asked)
    forget(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    ("method", "asked", "says"),
    [
        ("pooled-ridge", {}, "pooled-ridge has no settings that tuning could choose; these methods do: vanilla-gp"),
        (registry.learner("mll-gp", registry.Shape(6, 4, 1)), {}, "Tuning is for registered methods"),
        ("mll-gp", {"settings": 1}, "2 settings or more, got 1"),
        ("mll-gp", {"seconds": 0.0}, "positive number of seconds"),
        ("mll-gp", {"folds": 0}, "1 fold or more"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_a_sentence(method, asked, says):
    with pytest.raises(PacohError, match=says):
        pacoh.fit(tasks(), method, tune=pacoh.Tune(**asked))


def test_a_learner_of_each_task_alone_is_tuned_on_tasks_left_out():
    record = pacoh.fit(tasks(), "vanilla-gp", tune=pacoh.Tune(settings=3, folds=2), steps=20).card["tuned"]
    assert record["settings_tried"] == 3
    assert record["score"] >= record["default_score"]


def test_the_command_tunes_and_tells(call, tmp_path):
    few = ["--set", "steps=20", "--set", "layers=1", "--set", "width=8", "--out", tmp_path / "m"]
    told = json.loads(call("fit", "sinusoid", "--method", "mll-gp", *few, "--tune-settings", 2, "--json").out)
    assert (told["tuned"]["settings_tried"], told["tuned"]["on"]) == (2, "validation tasks")
    assert json.loads(call("info", tmp_path / "m", "--json").out)["tuned"] == told["tuned"]
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    shown = " ".join(call("fit", "sinusoid", "--method", "mll-gp", *few, "--tune-settings", 2).out.split())
    assert "on validation tasks, the default's" in shown
    assert "2 settings tried" in shown
    refused = call("fit", "sinusoid", "--method", "oracle", "--out", tmp_path / "o", "--tune", 5)
    assert (refused.code, "no settings that tuning could choose" in refused.err.replace("\n", " ")) == (2, True)


@pytest.mark.parametrize(
    ("n", "m", "batch"),
    [(20, 20, None), (64, 32, None), (65, 5, 32), (20_000, 5, 32), (100, 44, 23), (36, 288, 4), (8, 5000, 4)],
)
def test_a_step_takes_all_of_a_few_small_tasks_else_about_a_thousand_points(n, m, batch):
    assert task_batch(registry.Shape(n, m, 1)) == batch
