"""The report on transfer: verdicts keep their level, odd tasks are named, left-out tasks stay out, a reader sees it."""

import html
import json
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

import pacoh
from browser import fetches_nothing, look, needs_browser
from pacoh import api
from pacoh.cli import app
from pacoh.errors import PacohError
from pacoh.reading import read
from pacoh.testing import sets
from pacoh.transfer import HARMS, HELPS, NO_BENEFIT, contexts, folds, unlike
from pacoh.transfer.choice import choose
from pacoh.transfer.contexts import FEW_POINTS, HALF
from pacoh.transfer.judge import Paired, judge, probability
from pacoh.transfer.scores import score

NAMES = {"vanilla-gp": True, "averaged-gp": True, "level-and-scale": False}
TINY = {"steps": 300, "mean": "linear", "kernel": "se"}


def pairs(gain, error=0.05, seed=0, n=15, **others):
    random = np.random.default_rng(seed)
    gains = dict.fromkeys(NAMES, gain) | others
    return [
        Paired(name, alone, random.normal(error, 0.1, n), random.normal(gains[name], 0.3, n))
        for name, alone in NAMES.items()
    ]


def lines(seed=0, n=9, low=4, high=12, odd=0):
    """Tasks y = a + b x with slopes that are alike; the last `odd` of them are coarse noise."""
    random = np.random.default_rng(seed)
    tasks = {}
    for i in range(n):
        x = random.uniform(0, 10, random.integers(low, high + 1))
        y = random.normal(2, 0.3) + random.normal(1, 0.05) * x + 0.1 * random.normal(size=len(x))
        tasks[f"m{i}"] = (x, 10 * random.normal(size=len(x)) if i >= n - odd else y)
    return tasks


def test_a_gain_over_every_reference_helps_and_one_reference_that_keeps_up_forbids_it():
    assert judge(pairs(1.0), False).verdict == HELPS
    assert judge(pairs(1.0, **{"level-and-scale": 0.0}), False).verdict == NO_BENEFIT
    assert judge(pairs(1.0, error=-0.05), False).verdict == NO_BENEFIT
    assert judge(pairs(1.0, error=-0.3), False).verdict == HARMS


@pytest.mark.parametrize(("error", "verdict"), [(0.2, NO_BENEFIT), (0.8, HELPS)])
def test_what_a_plain_gp_can_know_helps_only_where_it_saves_much(error, verdict):
    random = np.random.default_rng(0)
    plain = Paired("plain-gp", False, random.normal(0, 0.1, 15), random.normal(0, 0.1, 15), plain=True)
    assert judge([*pairs(1.0, error=error), plain], False).verdict == verdict


def test_where_nothing_is_gained_the_verdict_is_seldom_wrong():
    said = [judge(pairs(0.05, error=0.0, seed=seed), False).verdict for seed in range(200)]
    assert said.count(HELPS) <= 10
    assert said.count(HARMS) <= 10


def test_classes_help_by_points_of_accuracy_over_every_reference():
    def gains(accuracy, density, name="averaged-clouds", alone=True):
        random = np.random.default_rng(0)
        return Paired(name, alone, random.normal(accuracy, 0.03, 20), random.normal(density, 0.1, 20))

    assert judge([gains(0.1, 0.3), gains(0.1, 0.3, "plain-clouds", False)], True).verdict == HELPS
    assert judge([gains(0.1, 0.3), gains(0.0, 0.0, "plain-clouds", False)], True).verdict == NO_BENEFIT
    assert judge([gains(-0.1, 0.3), gains(0.1, 0.3, "plain-clouds", False)], True).verdict == HARMS


def test_one_task_that_a_reference_fails_wholly_counts_as_one_task():
    gains = np.full(15, -0.1)
    gains[3] = np.inf
    assert probability(gains) > 0.9
    assert probability(-gains) < 0.01


def test_without_likelihoods_the_error_decides():
    bare = [Paired(one.reference, one.alone, one.error, None) for one in pairs(0.0, error=0.4)]
    assert judge(bare, False).verdict == HELPS


def test_contexts_and_queries_part_every_task_at_random():
    tasks = read(lines())
    drawn = contexts.draw(tasks, 3, 0)
    assert (drawn.amounts[FEW_POINTS] <= drawn.amounts[HALF]).all()
    for amount, counts in drawn.amounts.items():
        for task, count in enumerate(counts):
            if not count:
                continue
            for (x, _), (asked, _) in drawn.split(task, amount):
                assert len(x) == count
                np.testing.assert_array_equal(np.sort(np.concatenate([x, asked]), 0), np.sort(tasks.x[task], 0))
    one, other, _ = (given[0].tolist() for given, _ in drawn.split(0, HALF))
    assert one != other


def test_a_context_names_all_labels_of_its_own():
    random = np.random.default_rng(0)
    tasks = read([(random.normal(size=(9, 2)), list("abcabcaaa")) for _ in range(4)], classes="task")
    drawn = contexts.draw(tasks, 2, 0)
    for task in range(4):
        for (_, given), _ in drawn.split(task, FEW_POINTS):
            assert set(given) == {0, 1, 2}


def test_of_equal_contexts_one_is_asked():
    drawn = contexts.draw(read([(np.arange(20.0), np.arange(20.0))] * 4), 1, 0)
    first = drawn.first_of_equals()
    assert first["5"] == FEW_POINTS
    assert first[HALF] == HALF
    assert first["8"] == "8"


def test_groups_hold_every_task_and_one_size():
    assert [group.tolist() for group in folds.groups(np.arange(4), 0)] == [[0], [1], [2], [3]]
    many = folds.groups(np.arange(43), 0)
    assert {len(group) for group in many} == {5}
    assert [len(group) for group in folds.groups(np.arange(20), 0, folds.CLASSES)] == [4] * 5
    assert set(np.concatenate(many)) == set(range(43))


def test_an_odd_task_among_those_learned_from_hides_no_other():
    random = np.random.default_rng(0)
    n, odd = 15, (4, 11)
    parts = folds.divided(np.arange(n), 3, 5, 0)
    gains = 0.5 + 0.15 * random.normal(size=(15, n))
    for row, part in zip(gains, parts, strict=True):
        spoiled = np.isin(odd, part).any()
        row[:] -= 0.8 if spoiled else 0  # a spoiled prior explains nothing, and so nothing looks odd under it
        row[list(odd)] = -0.4 if spoiled else -5.0
        row[part] = np.nan
    assert set(unlike.stand_out(unlike.judged(unlike.Told.of(gains)), np.full(n, 15))) == set(odd)


def test_alike_tasks_are_seldom_named_and_never_more_than_a_quarter():
    random = np.random.default_rng(0)
    sizes = np.full(15, 20)
    told = [unlike.Told(random.normal(0.2, 0.4, 15), random.normal(0.5, 1.3, 15)) for _ in range(300)]
    assert np.mean([len(unlike.stand_out(one, sizes)) > 0 for one in told]) <= 0.1
    gains = np.r_[np.full(10, 1.0) + 0.01 * random.normal(size=10), np.full(5, -9.0)]
    assert len(unlike.stand_out(unlike.Told.of(gains), sizes)) == 0


def test_a_task_far_from_the_prior_is_named_though_a_weak_one_explains_it_no_better():
    random = np.random.default_rng(0)
    told = unlike.Told(random.normal(1.2, 0.2, 15), random.normal(0, 1, 15))
    told.surprise[6] = 12.0
    assert unlike.stand_out(told, np.full(15, 20)) == [6]


def test_distances_from_a_prior_are_normal_where_tasks_come_from_it():
    random = np.random.default_rng(0)
    for freedom in (4, 30):
        scores = unlike.normal_score(random.chisquare(freedom, 20000), np.array(freedom))
        np.testing.assert_allclose([scores.mean(), scores.std()], [0, 1], atol=0.03)
        assert np.mean(scores > 2.33) == pytest.approx(0.01, abs=0.004)


def test_many_folds_predict_as_each_model_does_alone():
    tasks = read(lines())
    models = api.fit_many(
        [tasks.without([name]) for name in tasks.names[:2]], "pacoh-gp-map", [0, 0], guard=True, **TINY
    )
    drawn = contexts.draw(tasks, 2, 0)
    together = score(models, [np.array([0]), np.array([1])], drawn, HALF)
    for i, model in enumerate(models):
        errors = []
        for (x, y), (asked, targets) in drawn.split(i, HALF):
            errors.append(np.sqrt(np.mean((model.adapt(x, y)(asked).mean - targets) ** 2)))
        assert together.error[i, 0] == pytest.approx(np.mean(errors), rel=1e-3)


def test_what_a_fold_learns_does_not_depend_on_the_task_it_leaves_out():
    tasks = lines()
    changed = tasks | {"m0": (tasks["m0"][0], tasks["m0"][1] + 100)}
    learned = []
    for some in map(read, (tasks, changed)):
        trainer = folds.Trainer(some, choose(some, "pacoh-gp-map", TINY), 0, None)
        models = trainer.fit([np.setdiff1d(np.arange(9), group) for group in folds.groups(np.arange(9)[:2], 0)], "")
        learned.append([model.adapt([1.0], [1.0])([2.0]).mean for model in models])
    np.testing.assert_array_equal(learned[0][0], learned[1][0])
    assert abs(learned[0][1] - learned[1][1]) > 1e-3


class Made(NamedTuple):
    """What one command left behind."""

    page: Path
    record: dict


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    (root / "lines").mkdir()
    for name, (x, y) in lines(seed=1, n=9, high=6, odd=1).items():
        rows = "".join(f"{a},{b}\n" for a, b in zip(x, y, strict=True))
        (root / "lines" / f"{name}.csv").write_text("x,y\n" + rows)
    options = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]
    command = ["report", str(root / "lines"), "--out", str(root / "report.html"), "--method", "pacoh-gp-map", "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pacoh.cli.output.prepare_jax", lambda: None)  # the tests have a cache of their own
        reply = CliRunner().invoke(app, [*command, *options], catch_exceptions=False)
    return Made(root / "report.html", json.loads(reply.stdout))


def test_from_a_folder_to_a_verdict_with_one_command(made):
    assert made.record["verdict"] == HELPS
    assert [one["task"] for one in made.record["unlike_the_rest"]] == ["m8"]
    assert made.record["effects"]["few"]["change"] < -0.3
    assert made.record["headline"].startswith("Transfer helps: error -")


def test_the_snippet_of_the_page_learns_saves_and_predicts(made, tmp_path, monkeypatch, capsys):
    snippet = html.unescape(made.page.read_text().split("<pre>")[1].split("</pre>")[0])
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, "snippet", "exec"), {})
    assert capsys.readouterr().out.count("[") == 3  # the mean, and the ends of the intervals
    assert api.load(tmp_path / "model.safetensors").card["tasks"] == 8  # without the odd one


@needs_browser
def test_a_reader_sees_the_report(made, tmp_path):
    text, widths = look(made.page, tmp_path)
    assert len(widths) == 5
    assert min(widths) > 100
    said = [line for line in text.splitlines() if line.strip()]
    assert said[:2] == ["Should I transfer?", made.record["headline"]]
    for heading in ("Can its certainty be trusted?", "Tasks unlike the rest", "To do it", "How this was found"):
        assert heading in text
    assert "m8: its points are e^" in text
    assert fetches_nothing(made.page)


@pytest.fixture(scope="module")
def of_classes():
    random = np.random.default_rng(0)
    tasks = {}
    for i in range(6):
        y = np.arange(10) % 2 if i else np.zeros(10, int)  # the first has no point of the other class
        x = random.normal(size=(10, 2)) + 3 * y[:, None] + random.normal(size=2)
        tasks[f"site {i}"] = (x, np.array(["fine", "worn"])[y])
    tiny = {"width": 4, "layers": 1, "steps": 10, "adapt_steps": 5, "draws": 2, "sharpen": False}
    return pacoh.report(tasks, method="pacoh-nn-map", classes=True, **tiny)


def test_a_report_of_classes_speaks_of_classes(of_classes, tmp_path):
    of_classes.write(tmp_path / "report.html")
    text = html.unescape((tmp_path / "report.html").read_text())
    assert of_classes.comparison.scores.keys() == {"learned", "vanilla-bnn", "averaged-clouds", "plain-clouds"}
    assert re.search(r"the share of wrong classes is \d+ % instead of \d+ % with 5 points", of_classes.headline)
    assert "percentage points" in text
    assert "mean confidence" in text
    assert "RMSE" not in text
    assert "90 % hold" not in text
    assert "pacoh.fit(tasks" in of_classes.snippet
    assert "predictive.labels" in of_classes.snippet


def test_clouds_tell_classes_apart_where_they_lie_apart(of_classes):
    for name in ("averaged-clouds", "plain-clouds"):
        assert of_classes.comparison.error(name, HALF).mean() < 0.15
    effect = of_classes.effects[HALF]
    assert effect.coverage is None
    assert 0.5 <= effect.confidence <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "classes", "helps"),
    [
        (sets.patterns, True, True),
        (sets.prototypes, True, False),  # no benefit, or harm: either is right
        (sets.prototypes, "task", False),
    ],
)
def test_what_classes_share_helps_and_places_drawn_anew_do_not(make, classes, helps):
    tasks = make(np.random.default_rng(100))
    assert (pacoh.report(tasks, classes=classes).verdict == HELPS) == helps


@pytest.mark.slow
def test_methods_that_predict_points_and_many_tasks_are_judged_by_groups():
    found = pacoh.report(lines(n=22, low=6), method="pooled-ridge")
    assert found.judgement.gain == {}
    assert found.judgement.gain_in_error.keys() >= {"vanilla-gp", "averaged-gp"}
    assert found.effects["few"].coverage is None
    assert found.effects["few"].tasks == 22


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "verdict", "odd"),
    [
        (sets.machines(np.random.default_rng(100)), HELPS, set()),
        (sets.periodic(np.random.default_rng(101)), HELPS, set()),
        (sets.unrelated(np.random.default_rng(102), length=(1.0, 1.0)), NO_BENEFIT, None),
        (sets.machines(np.random.default_rng(103), odd=(sets.falling, sets.jumping)), HELPS, {"13", "14"}),
    ],
)
def test_four_kinds_of_tasks_get_their_verdicts(tasks, verdict, odd):
    found = pacoh.report(tasks)
    assert found.verdict == verdict
    if odd is not None:
        assert {one.task for one in found.unlike} == odd
    if verdict == HELPS:
        assert 0.8 < np.mean([one.coverage for one in found.effects.values()]) < 0.97


def test_too_few_tasks_are_refused():
    with pytest.raises(PacohError, match="3 tasks or more"):
        pacoh.report(lines(n=2))
    with pytest.raises(PacohError, match="no method"):
        pacoh.report(lines(n=4), method="nothing")


@pytest.mark.slow
def test_the_page_of_the_docs_runs(tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parent.parent / "docs" / "report.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    small = code.replace("size=15", "size=5").replace("(tasks)", "(tasks, method='context-mean')")
    exec(compile(small, "report.md", "exec"), {})
    assert (tmp_path / "report.html").is_file()
    assert "pacoh.fit(tasks" in capsys.readouterr().out
