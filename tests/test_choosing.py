"""A fit without a method: size names candidates, left-out tasks judge them until time is up, and the card says so."""

import json
import re
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import pacoh
from pacoh.cli.tuning import duration
from pacoh.environments.base import named
from pacoh.errors import PacohError
from pacoh.recipes.base import Shape
from pacoh.registry import METHODS
from pacoh.testing import sets
from pacoh.tuning import SPACES, Report, methods, pace, rule
from pacoh.tuning.pace import Pace, TooSlow
from pacoh.tuning.rule import WAVES, quick

SMALL = {"steps": 200, "layers": 1, "width": 8, "rate": 0.02}
ALONE = {"steps": 20}


def waves(n=6, m=6, scales=(1.0,), seed=0):
    """Sines that differ in their offset alone, each in a scale of its own."""
    random = np.random.default_rng(seed)
    pairs = []
    for i in range(n):
        x = random.uniform(0, 6, size=(m, 1))
        y = np.sin(x[:, 0]) + 0.3 * random.normal() + 0.05 * random.normal(size=m)
        pairs.append((x, scales[i % len(scales)] * y))
    return named(pairs)


def two(**more):
    return pacoh.Tune(settings=2, methods={"pacoh-gp-map": SMALL, "vanilla-gp": ALONE}, **more)


@pytest.fixture(scope="module")
def model() -> pacoh.Model:
    return pacoh.fit(waves(), tune=two())


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        (Shape(20, 5, 1), ["pacoh-gp-map", "vanilla-gp"]),
        (Shape(20, 20, 1), ["pacoh-gp-map", "vanilla-gp", "pacoh-nn-map"]),
        (Shape(9, 200, 3), ["pacoh-gp-map", "vanilla-gp"]),
        (Shape(20, 20, 50), ["pacoh-gp-map", "vanilla-gp"]),
        (Shape(20, 201, 1), ["pacoh-nn-map", "vanilla-gp"]),
        (Shape(20, 1001, 1), ["pacoh-nn-map", "vanilla-bnn"]),
        (Shape(20, 5, 2, 3), ["pacoh-nn-map", "vanilla-bnn"]),
    ],
)
def test_size_names_the_candidates_and_one_of_them_learns_each_task_alone(shape, wanted):
    assert list(rule(shape)) == wanted
    kind = "numbers" if shape.classes is None else "classes"
    assert all(getattr(METHODS[name], kind) and name in SPACES for name in wanted)


def test_the_method_of_best_score_is_trained_and_the_card_says_why(model):
    record = model.card["tuned"]
    assert model.card["method"] == record["method"] == "pacoh-gp-map"
    assert model.card["settings"] == {"guard": True, **SMALL}
    assert record["scores"]["pacoh-gp-map"] == record["score"] > record["scores"]["vanilla-gp"]
    assert (record["settings_tried"], record["folds"], record["on"]) == (2, 6, "left-out tasks")
    why = " ".join(record["why"])
    assert "6 tasks of 6 points on 1 input" in why
    assert "6 tasks left out in 6 folds" in why
    assert "vanilla-gp -" in why


def test_choosing_alone_gives_what_the_fit_trains(model):
    choice = pacoh.choose(waves(), tune=two())
    assert (choice.method, choice.settings) == (model.card["method"], model.card["settings"])
    assert choice.record == model.card["tuned"]
    assert choice.reasons == model.card["tuned"]["why"]
    again = pacoh.fit(waves(), choice.method, **choice.settings)
    for a, b in zip(jax.tree.leaves(again.meta), jax.tree.leaves(model.meta), strict=True):
        np.testing.assert_array_equal(a, b)


def test_transfer_that_does_harm_is_not_chosen():
    harmful = waves(scales=(1.0, 1e-3, 1e4))
    record = pacoh.choose(harmful, tune=two(), guard=False).record
    assert record["method"] == "vanilla-gp"
    assert record["scores"]["vanilla-gp"] > record["scores"]["pacoh-gp-map"]


def test_a_chosen_method_is_certified_as_chosen_on_the_tasks(model):
    from pacoh.bounds.losses import Outside
    from pacoh.certify import certify_model

    report = certify_model(model, waves(), Outside())
    said = " ".join(report.certificate.reasons)
    assert "method and settings were chosen on the same tasks (the best of 2)" in said


def test_other_settings_are_taken_where_they_are_clearly_better():
    slow = {"steps": 40, "layers": 1, "width": 8, "kernel": "se+linear", "activation": "gelu"}
    record = pacoh.choose(waves(), tune=pacoh.Tune(settings=6, methods={"mll-gp": slow})).record
    gain = record["score"] - record["default_score"]
    assert record["settings_tried"] == 6
    assert gain > 0
    assert record["chosen"]["rate"] > 0.004
    assert f"scores {gain:.3g} above its default" in " ".join(record["why"])


@pytest.mark.parametrize(
    ("gains", "taken"),
    [([0.1, 0.12, 0.1, 0.12], True), ([1.0, -0.8, 1.0, -0.8], False), ([np.nan] * 4, False), ([-0.1] * 4, False)],
)
def test_a_gain_within_two_standard_errors_counts_for_nothing(gains, taken):
    start = methods.Trial("mll-gp", {}, {}, 0.0, 1.0, np.zeros(4), Pace(np.inf))
    log = methods.Log(time.monotonic() + 100, [start], 1)
    report = Report([{"rate": 0.01}], np.array([gains]), np.ones((1, 4)), 0.0, np.array([gains]))
    methods._other_settings(lambda *_: report, log, pacoh.Tune(), 0)
    assert (log.best.chosen == {"rate": 0.01}) == taken
    assert ("above its default, with" in log.why[-1]) == taken
    log = methods.Log(time.monotonic() + 100, [start], 1)
    methods._waves(lambda *_: report, log)
    assert (log.best.settings.items() >= WAVES.items()) == taken


def test_networks_for_classes_are_quick_first_and_as_by_default_where_that_is_clearly_better_and_there_is_time():
    shape = Shape(20, 50, 2, 5)
    settings = quick(shape, "pacoh-nn-map")
    METHODS["pacoh-nn-map"].make(shape, **settings)
    METHODS["vanilla-bnn"].make(shape, **quick(shape, "vanilla-bnn"))
    assert settings["steps"] < 2000
    assert quick(shape._replace(classes=30), "pacoh-nn-map")["points"] == 120
    assert quick(Shape(20, 50, 2), "pacoh-nn-map") == {}
    start = methods.Trial("pacoh-nn-map", settings, {}, 0.0, 1.0, np.zeros(4), Pace(np.inf))
    better = Report([{}], np.full((1, 4), 0.1), np.ones((1, 4)), 0.0, np.array([[0.1, 0.12, 0.1, 0.12]]))
    log = methods.Log(time.monotonic() + 100, [start], 1)
    methods._slow(lambda *_: better, log)
    assert log.best.settings == {}
    assert "above quick ones, with" in log.why[-1]
    late = methods.Log(time.monotonic() - 1, [start], 1)
    methods._slow(lambda *_: better, late)
    assert late.best.settings == settings
    assert list(late.not_tried.values()) == ["no time"]


@pytest.mark.slow
def test_a_common_period_is_found_and_waves_are_chosen():
    tasks = sets.periodic(np.random.default_rng(4))
    choice = pacoh.choose(tasks, tune=pacoh.Tune(settings=2, seconds=240))
    assert choice.settings["kernel"] == "se+linear+waves"
    assert any("with waves in its kernel scores" in reason for reason in choice.reasons)


def test_without_time_the_first_by_size_is_taken_and_that_is_said():
    began = time.monotonic() - 100
    record = pacoh.choose(waves(), tune=two(seconds=1.0, began=began)).record
    assert (record["method"], record["settings_tried"]) == ("pacoh-gp-map", 1)
    assert record["not_tried"] == {"vanilla-gp": "no time"}
    assert "no time to compare it with others" in " ".join(record["why"])


def test_two_tasks_cannot_be_left_out_and_that_is_said():
    record = pacoh.choose(waves(2), tune=two()).record
    assert record["method"] == "pacoh-gp-map"
    assert "needs 3 tasks or more, got 2" in " ".join(record["why"])


def test_a_context_of_labels_of_a_tasks_own_names_all_classes():
    pairs = [(np.arange(12.0)[:, None], [f"{i}{c}" for c in "abc" for _ in range(4)]) for i in range(4)]
    tasks = pacoh.read(pairs, classes="task")
    fold = methods._fold(tasks, pacoh.Tune(), 0)
    y, mask = np.asarray(fold.valid.context.y), np.asarray(fold.valid.context.mask)
    assert all(sorted(y[i, 0][mask[i, 0]]) == [0, 0, 1, 1, 2, 2] for i in range(4))


@pytest.mark.slow
def test_methods_for_classes_are_compared_whosever_the_labels_are():
    random = np.random.default_rng(0)
    ids = np.arange(8) % 2
    labels = np.array(["cat", "dog"])[ids]
    tasks = [(3 * np.eye(2)[ids] + random.normal(size=(8, 2)), labels) for _ in range(4)]
    small = {"hypotheses": 2, "adapt_steps": 10, "layers": 1, "width": 4}
    options = {"pacoh-nn-map": small | {"steps": 20, "draws": 5, "sharpen": False}, "vanilla-bnn": small}
    for classes in (True, "task"):
        record = pacoh.choose(tasks, classes=classes, tune=pacoh.Tune(2, methods=options)).record
        assert set(record["scores"]) == set(options)
        assert record["score"] == max(record["scores"].values()) < 0
        assert "2 classes" in record["why"][0]


def test_large_tasks_are_judged_by_some_of_their_points():
    fold = methods._fold(waves(130, 450), pacoh.Tune(), 0)
    assert fold.valid.context.mask.sum(-1).max() == 100
    assert fold.valid.query.mask.sum(-1).max() == 200
    assert fold.valid.query.mask.shape[:2] == (5, 20)
    assert fold.train.mask.shape[:2] == (5, 110)


# --- the clock


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    return now


def told(made: Pace, clock: list[float], seconds: float, done: int, total: int = 1000) -> None:
    clock[0] += seconds
    made(done, total, 0.0)


def test_a_training_that_ends_in_time_is_let_go_on(clock):
    made = Pace(deadline=35.0)
    told(made, clock, 5.5, 50)
    told(made, clock, 0.5, 100)
    assert made.step == pytest.approx(0.01)
    assert made.training == pytest.approx(10)
    assert made.last_fit == pytest.approx(2 + 1.3 * 5 + 5)


def test_one_that_would_leave_no_time_for_the_last_fit_is_given_up(clock):
    made = Pace(deadline=30.0)
    told(made, clock, 5.5, 50)
    with pytest.raises(TooSlow):
        told(made, clock, 0.5, 100)
    reserved = Pace(deadline=8.0, reserve=3.0)
    with pytest.raises(TooSlow):
        told(reserved, clock, 5.5, 50)


def test_steps_that_fit_into_a_time_are_whole_chunks_after_compiling(clock):
    made = Pace(deadline=np.inf)
    told(made, clock, 5.5, 50)
    told(made, clock, 0.5, 100)
    assert made.steps_in(9.88) == 480
    assert made.steps_in(1.0) == 0


def test_a_first_method_that_is_slow_is_trained_for_fewer_steps(monkeypatch):
    class Slow(Pace):
        def __call__(self, done, total, value):
            super().__call__(done, total, value)
            if done == 100 and total == 3000:
                self.step, self.began = 0.05, self.first[0] - 50 * 0.05  # as on a machine without compiling
                raise TooSlow

    monkeypatch.setattr(methods, "Pace", Slow)
    tune = pacoh.Tune(settings=2, seconds=60, methods={"pacoh-gp-map": {"layers": 1, "width": 8}, "vanilla-gp": ALONE})
    choice = pacoh.choose(waves(), tune=tune)
    steps = choice.settings["steps"]
    assert 300 <= steps <= 500  # 0.4 of 60 s, less what went by, at 20 steps a second
    assert f"trained for {steps} of 3000 steps" in " ".join(choice.reasons)
    assert "vanilla-gp" in choice.record["scores"]


# --- the front and the command


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"steps": 3}, "Settings belong to a method: name it with steps"),
        ({"tune": pacoh.Tune(methods={"magic": {}})}, "no method 'magic'"),
        ({"tune": pacoh.Tune(methods={"reptile": ALONE})}, "compared by log-likelihood, and reptile predicts points"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused(arguments, says):
    with pytest.raises(PacohError, match=says):
        pacoh.fit(waves(), **arguments)


def test_no_methods_are_refused():
    with pytest.raises(PacohError, match="no methods to compare"):
        pacoh.Tune(methods={})


@pytest.mark.parametrize(("said", "seconds"), [("90", 90), ("60s", 60), (" 2 m", 120), ("1.5min", 90), ("1h", 3600)])
def test_a_budget_is_a_time(said, seconds):
    assert duration(said) == seconds


@pytest.mark.parametrize("said", ["0s", "soon", "-3", "3 days", ""])
def test_another_word_for_a_budget_is_refused(said):
    with pytest.raises(PacohError, match=f"got {re.escape(repr(said))}"):
        duration(said)


def write(folder: Path, tasks) -> Path:
    folder.mkdir()
    for name, x, y in zip(tasks.names, tasks.x, tasks.y, strict=True):
        np.savetxt(folder / f"{name}.csv", np.column_stack([x, y]), delimiter=",", header="x,y", comments="")
    return folder


def test_the_command_chooses_and_tells(call, tmp_path, monkeypatch):
    monkeypatch.setattr(methods, "rule", lambda _: {"vanilla-gp": "it is small"})
    monkeypatch.setattr("pacoh.cli.tuning.MOST", 2)
    source, out = write(tmp_path / "tasks", waves()), tmp_path / "m"
    told = json.loads(call("fit", source, "--out", out, "--budget", "40s", "--json").out)
    assert told["method"] == told["tuned"]["method"]
    assert told["tuned"]["seconds_at_most"] == 40
    assert json.loads(call("info", out, "--json").out)["tuned"] == told["tuned"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "tasks"]
    shown = " ".join(call("fit", source, "--out", out).out.split())
    assert "6 tasks of 6 points on 1 input: it is small" in shown
    assert "6 tasks left out in 6 folds, half the points of each as context: vanilla-gp" in shown


def test_options_of_one_method_need_its_name(call, tmp_path):
    for options, says in {
        ("--tune", "5"): "--tune searches the settings of one method",
        ("--tune-settings", "5"): "--tune searches the settings of one method",
        ("--set", "steps=3"): "--set gives a setting of one method",
        ("--budget", "soon"): "A budget is a time above zero",
        ("--budget", "5s", "--method", "mll-gp"): "--budget is for choosing a method",
    }.items():
        reply = call("fit", "sinusoid", "--out", tmp_path / "m", *options)
        assert reply.code == 2
        assert says in " ".join(reply.err.split())


def test_the_pages_example_runs(capsys):
    page = (Path(__file__).parent.parent / "docs" / "choosing.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    small = code.replace("Tune(seconds=60)", 'Tune(2, methods={"vanilla-gp": {"steps": 20}})')
    assert small != code
    exec(compile(small, "choosing.md", "exec"), {})
    told = capsys.readouterr().out.split("\n")
    assert told[0].startswith("vanilla-gp {")
    assert "10 tasks left out in 5 folds, half the points of each as context" in " ".join(told)


@pytest.mark.slow
def test_a_fit_without_a_method_is_about_as_good_as_the_best_one_set_by_hand():
    from pacoh.environments import Sinusoid

    draw = Sinusoid(n=20, m=5, tests=100, query=100).draw(1)
    began = time.monotonic()
    chosen = pacoh.fit(draw.train)
    took = time.monotonic() - began
    hand = [pacoh.fit(draw.train, f"pacoh-gp-{name}", guard=True) for name in ("map", "svgd", "vi")]
    best = min(model.evaluate(draw.test)["rmse"] for model in hand)
    assert chosen.evaluate(draw.test)["rmse"] < 1.1 * best
    assert took < 60
