"""Laws of the bandit over peptides: what is known of an allele, what is played, and what its page says."""

import csv
import json

import numpy as np
import pytest
from scipy.stats import ttest_rel

from pacoh import fit
from pacoh.bench import spec
from pacoh.bench.bandit import Beside, acquisition, measured, thinned
from pacoh.bench.report import write
from pacoh.bench.run import Silence, run
from pacoh.bench.store import Plan, Store
from pacoh.bench.tune import Search
from pacoh.environments import MHC
from pacoh.environments import mhc as alleles
from pacoh.environments.base import named
from pacoh.errors import PacohError
from pacoh.optimize import UCB, Optimizer, Pool, Thompson
from pacoh.optimize.bandit import play, regrets
from pacoh.optimize.search import Rule

WIDTH = 4
LEARNER = {"mean": "linear", "kernel": "linear+se", "noise": 0.4, "rate": 0.03, "steps": 100}
SMALL = """
summary = "A small bandit."

[bandit]
rounds = 12
starts = 4
at = [5, 12]

[bandit.beside]
method = "pacoh-gp-map"
own = 0.5
mean = "linear"
kernel = "linear+se"
noise = 0.4
rate = 0.03
steps = 100

[[environments]]
name = "mhc"
key = "A_6901"
label = "HLA-A69:01"

[[methods]]
name = "pacoh-gp-map"
key = "ours"
label = "Ours"
play = { rule = "ucb", beta = 1.5, exact = true, points = 40, columns = ["predicted", "unexplained"] }
settings = { mean = "linear", kernel = "linear+se", noise = 0.4, rate = 0.03, steps = 100 }

[[methods]]
name = "mll-gp"
key = "theirs"
label = "Theirs"
play = { rule = "thompson", spread = 0.5 }
settings = { mean = "constant", kernel = "linear", steps = 30 }

[[methods]]
name = "random"
"""


def peptides(random: np.random.Generator, points: int, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x = random.normal(size=(points, WIDTH))
    return x, x @ (slopes + 0.2 * random.normal(size=WIDTH)) + 0.3 * np.sin(3 * x[:, 0])


@pytest.fixture
def small(monkeypatch) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Seven small alleles that are much alike."""
    random = np.random.default_rng(0)
    slopes = random.normal(size=WIDTH)
    sizes = dict(zip(alleles.ALLELES, (60, 50, 45, 40, 55, 70, 80), strict=True))
    pairs = {name: peptides(random, points, slopes) for name, points in sizes.items()}
    monkeypatch.setattr(alleles, "_alleles", lambda: pairs)
    return pairs


def experiment(folder, text: str = SMALL) -> Plan:
    path = folder / "small.toml"
    path.write_text(text)
    return Plan(spec.load(str(path)), "pacoh bench run small.toml --out results")


def test_regret_is_of_the_best_of_the_pool_and_the_start_is_not_counted():
    rewards = np.random.default_rng(0).normal(size=(3, 7))
    average, simple = regrets(rewards, 5.0)
    for s in range(3):
        for t in range(1, 8):
            assert average[s, t - 1] == pytest.approx(5.0 - sum(rewards[s, :t]) / t)
            assert simple[s, t - 1] == pytest.approx(5.0 - max(rewards[s, :t]))


def test_runs_that_play_together_choose_what_each_would_choose_alone():
    random = np.random.default_rng(1)
    slopes = random.normal(size=WIDTH)
    model = fit([peptides(random, 30, slopes) for _ in range(3)], "pacoh-gp-map", steps=60, kernel="se")
    rows, rewards = peptides(random, 50, slopes)
    first = np.array([3, 17, 40])
    together = play(model, Rule(UCB(), maximize=True, repeats=True), (rows, rewards), first, 6)
    for start, numbers in zip(first, together, strict=True):
        alone = Optimizer(model, Pool(rows), goal="maximize", acquisition=UCB(), repeats=True)
        alone.tell([int(start)], [rewards[start]])
        for number in numbers:
            assert alone.ask() == [number]
            alone.tell([int(number)], [rewards[number]])


def test_columns_say_what_past_tasks_know_and_a_tasks_own_is_zero():
    random = np.random.default_rng(0)
    slopes = random.normal(size=WIDTH)
    tasks = named([peptides(random, points, slopes) for points in (60, 50, 40)])
    beside = Beside.of(tasks, fit(tasks, "pacoh-gp-map", **LEARNER))
    seen = beside.tasks(tasks, ["predicted"])
    assert [x.shape[1] for x in seen.x] == [WIDTH + 3] * 3
    for i, (x, before) in enumerate(zip(seen.x, tasks.x, strict=True)):
        np.testing.assert_array_equal(x[:, :WIDTH], before)
        assert not x[:, WIDTH + i].any()
        assert all(x[:, WIDTH + j].std() > 0.1 for j in range(3) if j != i)
    said = beside.rows(tasks.x[1], ["predicted"])[:, WIDTH + 1]  # of the task that it was learned from, too
    assert np.corrcoef(said, tasks.y[1])[0, 1] > 0.95
    assert abs(said.mean()) < 0.1


def test_what_was_measured_is_what_is_predicted_and_what_that_leaves_unexplained():
    random = np.random.default_rng(0)
    slopes = random.normal(size=WIDTH)
    tasks = named([peptides(random, points, slopes) for points in (60, 50)])
    beside = Beside.of(tasks, fit(tasks, "pacoh-gp-map", **LEARNER))
    x = np.concatenate([tasks.x[0][:5], tasks.x[1][:7], random.normal(size=(3, WIDTH))])
    predicted, unexplained = np.split(beside.rows(x, ["predicted", "unexplained"])[:, WIDTH:], 2, axis=1)
    whole = predicted + unexplained + [y.mean() for y in tasks.y]
    np.testing.assert_allclose(whole[:5, 0], tasks.y[0][:5])
    np.testing.assert_allclose(whole[5:12, 1], tasks.y[1][:7])
    assert not unexplained[5:, 0].any()  # never measured there
    assert not unexplained[:5, 1].any()
    assert not unexplained[12:].any()
    left = beside.rows(x, ["predicted", "unexplained"], but=1)[:, WIDTH:]
    np.testing.assert_array_equal(left[:, ::2], np.column_stack([predicted[:, 0], unexplained[:, 0]]))
    assert not left[:, 1::2].any()
    for unknown in (["measured"], True):
        with pytest.raises(PacohError, match=r"some of \['predicted', 'unexplained'\]; got"):
            beside.rows(x, unknown)


def test_a_value_is_found_by_its_whole_row():
    seen, values = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, 0.7])
    np.testing.assert_array_equal(measured(seen[::-1], seen, values), [0.7, 0.5])
    assert np.isnan(measured(np.array([[1.0, 4.0], [2.0, 1.0]]), seen, values)).all()


def test_a_peptide_told_is_chosen_again_only_where_nothing_else_may_be_better():
    random = np.random.default_rng(1)
    slopes = random.normal(size=WIDTH)
    model = fit([peptides(random, 30, slopes) for _ in range(3)], "pacoh-gp-map", steps=60, kernel="se")
    rows, rewards = peptides(random, 50, slopes)
    rule = Rule(UCB(1.0), maximize=True, repeats=True, exact=True)
    again = 0
    for start, numbers in zip((3, 17), play(model, rule, (rows, rewards), np.array([3, 17]), 30), strict=True):
        told = [start, *numbers]
        for t in range(1, len(told)):
            before = told[:t]
            if told[t] in before:
                assert rewards[told[t]] == max(rewards[before])  # the best one known, and then for ever
                assert set(told[t:]) == {told[t]}
                again += 1
    assert again


def test_no_more_points_than_asked_for_are_learned_from_and_they_are_the_tasks_own(small):
    past = MHC().draw(29).train
    few = thinned(past, 42)
    assert few.sizes == tuple(min(size, 42) for size in past.sizes)
    for x, before in zip(few.x, past.x, strict=True):
        assert {row.tobytes() for row in x} <= {row.tobytes() for row in before}


def test_an_allele_that_is_tested_on_is_not_learned_from(small):
    assert MHC().draw(29).train.names == alleles.TRAIN
    assert MHC(test="A_0203").draw(29).train.names == ("A_0202", "A_0201", "A_2301", "A_2402")
    away = MHC(test="A_2403", past=("A_0201", "A_0202"))
    assert away.draw(29).train.names == ("A_0202", "A_0201")
    assert away.draw(29).test.query.names == ("A_2403",)
    np.testing.assert_array_equal(MHC().arms()[1], small["A_6901"][1][20:])  # the published pool lacks the context
    x, y = MHC(test="A_2301").arms()
    assert len(x) == len(y) == len(small["A_2301"][1])
    assert set(y) == set(small["A_2301"][1])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"test": "A_0101"}, r"A_6901; got 'A_0101'"),
        ({"past": ("A_2403",)}, r"A_2402; got 'A_2403'"),
        ({"test": "A_0201", "past": ("A_0201",)}, "No allele is left to train on"),
    ],
)
def test_alleles_that_there_are_not_are_refused(settings, said):
    with pytest.raises(PacohError, match=said):
        MHC(**settings)


def test_rules_are_those_of_the_row():
    assert acquisition({"rule": "ucb"}) == UCB(literal=True)
    assert acquisition({"rule": "ucb", "beta": 1.5, "noisy": True}) == UCB(1.5, noisy=True, literal=True)
    assert acquisition({"rule": "thompson"}) == Thompson()
    assert acquisition({"rule": "thompson", "spread": 0.5}) == Thompson(0.5)
    assert acquisition({"rule": "thompson", "spread": 0.35, "noisy": True}) == Thompson(0.35, noisy=True)
    with pytest.raises(PacohError, match="ucb or thompson; got 'greedy'"):
        acquisition({"rule": "greedy"})


def test_a_bandit_is_run_and_its_page_shows_what_its_records_hold(small, tmp_path):
    del small
    plan = experiment(tmp_path)
    assert run(plan, tmp_path / "results", Silence()).failed == {}
    store = Store(tmp_path / "results")
    records = {cell.row: store.records(cell) or [] for cell in plan.experiment.cells()}
    assert {row: len(lines) for row, lines in records.items()} == {"ours": 4, "theirs": 4, "random": 4}
    average = {}
    for row, lines in records.items():
        rewards = np.array([line["rewards"] for line in lines])
        average[row], _ = regrets(rewards, float(alleles._alleles()["A_6901"][1][20:].max()))
        assert [line["scores"]["test"]["average_regret_12"] for line in lines] == pytest.approx(average[row][:, -1])
    assert average["ours"][:, -1].mean() < 0.5 * average["random"][:, -1].mean()

    html, page = write(tmp_path / "results", tmp_path / "results")
    text = page.read_text()
    assert "### HLA-A69:01: average regret (simple regret)" in text
    assert f"{average['ours'][:, -1].mean():.3f} (" in text
    p = ttest_rel(average["ours"][:, 4:], average["random"][:, 4:], alternative="less").pvalue.max()
    assert f"| {p:.2g} | {'better' if p < 0.05 else 'not better'} in every round |" in text.replace("**", "")
    table = list(csv.DictReader((tmp_path / "results" / "figures" / "small-regret.csv").open()))
    assert len(table) == 3 * 12
    last = next(line for line in table if line["method"] == "ours" and line["round"] == "12")
    assert float(last["average_regret"]) == pytest.approx(average["ours"][:, -1].mean(), rel=1e-4)
    assert "The numbers (CSV)" in html.read_text()


def test_starts_of_several_alleles_are_shown_together(small, tmp_path):
    del small
    other = '\n[[environments]]\nname = "mhc"\nkey = "A_2403"\nlabel = "HLA-A24:03"\nsettings = { test = "A_2403" }\n'
    kept = SMALL.split("[[methods]]")
    plan = experiment(tmp_path, kept[0] + other + "\n[[methods]]" + kept[3])
    run(plan, tmp_path / "results", Silence())
    found = [
        line["scores"]["test"]["simple_regret_5"]
        for cell in plan.experiment.cells()
        for line in Store(tmp_path / "results").records(cell) or []
    ]
    assert len(found) == 8
    text = write(tmp_path / "results", tmp_path / "results")[1].read_text()
    assert "All 2 environments: average regret" in text
    assert f"({np.mean(found):.3f})" in text
    assert "means over 8 starts" in text


def test_what_an_experiment_does_not_give_is_as_in_the_one_it_is_like():
    whole, other = spec.load("mhc"), spec.load("mhc-groups")
    assert other.bandit == whole.bandit | {"starts": 10}
    assert [row.key for row in other.rows] == [row.key for row in whole.rows]
    for column in other.columns:
        assert column.settings["test"] not in column.settings["past"]
    cells = {cell.row for cell in other.cells()}
    assert cells == {row.key for row in whole.rows if row.only is None}
    mine = {cell.row: cell.what for cell in whole.cells()}
    assert "beside" in mine["pacoh-gp-ucb"]["play"]
    assert "beside" not in mine["gp-linear-ucb"]["play"]


def test_bandits_that_cannot_be_are_refused(tmp_path):
    (tmp_path / "a.toml").write_text(f'like = "{tmp_path}/b.toml"')
    (tmp_path / "b.toml").write_text(f'like = "{tmp_path}/a.toml"')
    with pytest.raises(PacohError, match="is `like` itself"):
        spec.load(str(tmp_path / "a.toml"))
    text = SMALL.replace("[bandit.beside]", "[unused]").split("[bandit]")
    lone = text[0] + text[1][text[1].index("[[environments]]") :]
    with pytest.raises(PacohError, match="there is no method 'random'"):
        experiment(tmp_path, lone)
    with pytest.raises(PacohError, match="is a bandit: predictions of held-out points"):
        list(Search().pairs(experiment(tmp_path).experiment))
    plan = experiment(tmp_path, SMALL.replace('name = "mhc"', 'name = "sinusoid"'))
    failed = run(plan, tmp_path / "results", Silence()).failed
    assert all("needs an environment with a pool" in reason for reason in failed.values())
    assert json.loads((tmp_path / "results" / "small.plan.json").read_text())["experiment"]["bandit"]["starts"] == 4
