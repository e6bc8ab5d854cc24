"""`pacoh bound eval`: the keys of every kind, values against literal formulas, and errors in one sentence."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from pacoh.bounds import Setting, certify, evaluate
from pacoh.cli.bound import app
from pacoh.errors import PacohError

ARITHMETIC = {
    "kind": "arithmetic", "emp": 0.1, "kl_hyper": 2.0, "kl_tasks": [1, 2, 3, 4],
    "n": 4, "m": 5, "delta": 0.1, "lam": 3.0, "beta": 2.5,
}  # fmt: skip
LINEAR = {
    "kind": "linear", "X": [[[1, 2], [0, 1]], [[1, 1]], [[0.5, 1], [1, 0], [2, 1]]], "y": [[1, 2], [0.5], [1, 2, 3]],
    "noise_var": 0.7, "prior_var": 0.04, "hyper_var": 0.25, "hyper_mean": 0.3, "lam": 1.7, "beta": 2,
}  # fmt: skip
LOGISTIC = {
    "kind": "logistic", "X": [[[1, 0.2], [0, 1]], [[1, 1], [-0.3, 0.8], [0.1, 0.1]]], "y": [[1, 1], [0, 1, 1]],
    "prior_var": 9, "hyper_var": 16, "lam": 1.4, "beta": 1.4, "delta": 0.1,
}  # fmt: skip
CGF = {
    "kind": "cgf", "d": 5, "gamma": 0.4, "var": 0.3, "dist2": 0.2, "power": 5,
    "noise_var": 1, "x_var": 1, "eps_var": 0.1,
}  # fmt: skip
BOUNDS = ["meta_holder", "meta_union", "meta_paper", "pentina_lampert", "amit_meir"]


def run(tmp_path, problem, *options):
    path = tmp_path / "problem.json"
    path.write_text(problem if isinstance(problem, str) else json.dumps(problem))
    return CliRunner().invoke(app, ["eval", str(path), *options])


def test_arithmetic_is_the_literal_formula():
    value = evaluate(ARITHMETIC)
    assert list(value) == BOUNDS
    pre = 1 / 3 + 1 / (4 * 2.5)
    core = 0.1 + pre * 2 + 2.5 / 2.5 + 2.5 / 40 + 3 / 32
    assert value["meta_holder"] == pytest.approx(core + pre * math.log(10), rel=1e-13)
    assert value["meta_union"] == pytest.approx(core + pre * math.log(20), rel=1e-13)
    assert value["meta_paper"] == pytest.approx(core + math.log(10) / 2, rel=1e-13)
    root = math.sqrt(5)
    earlier = 0.1 + (2 + 1 / 8 + math.log(20)) / 2 + (2 + 10) / (4 * root) + (1 / 8 + math.log(20) / 4) / root
    assert value["pentina_lampert"] == pytest.approx(earlier, rel=1e-13)
    inner = np.mean([math.sqrt((2 + k + math.log(2 * 4 * 5 / 0.1)) / 8) for k in (1, 2, 3, 4)])
    assert value["amit_meir"] == pytest.approx(0.1 + inner + math.sqrt((2 + math.log(80)) / 6), rel=1e-13)


def test_arithmetic_with_unequal_sizes_uses_the_harmonic_mean():
    sizes = [4, 8, 24, 3]
    problem = {key: value for key, value in ARITHMETIC.items() if key != "m"} | {"m_i": sizes}
    value = evaluate(problem)
    mean = np.mean(1 / np.array(sizes))
    equal = evaluate(ARITHMETIC)
    assert value["meta_holder"] - equal["meta_holder"] == pytest.approx(2.5 / 8 * (mean - 1 / 5), abs=1e-13)
    assert evaluate(problem | {"m_i": [5, 5, 5, 5]}) == pytest.approx(equal)


def test_linear_has_its_keys_and_its_identities():
    value = evaluate(LINEAR)
    assert list(value) == ["log_z", "mean", "cov", "log_z2", "pacoh", "per_task", "improvement", "kl_hyper"]
    pre = 1 / 1.7 + 1 / (3 * 2)
    assert value["pacoh"] == pytest.approx(-pre * value["log_z2"], rel=1e-13)
    assert value["improvement"] == pytest.approx(value["per_task"] - value["pacoh"], abs=1e-11)
    assert len(value["log_z"]) == 3


def test_linear_log_evidence_at_mu_against_direct_integration():
    value = evaluate(LINEAR | {"X": [[[2.0]]], "y": [[1.5]], "hyper_mean": 0.3, "mu": [0.9]})
    s2, sp2, beta = 0.7, 0.04, 2.0
    w = 0.9 + np.linspace(-2.5, 2.5, 200_001)
    loss = 0.5 * math.log(2 * math.pi * s2) + (1.5 - 2 * w) ** 2 / (2 * s2)
    f = np.exp(-beta * loss - (w - 0.9) ** 2 / (2 * sp2)) / math.sqrt(2 * math.pi * sp2)
    assert value["log_z"][0] == pytest.approx(math.log(f.sum() * (w[1] - w[0])), abs=1e-10)


def test_a_scalar_hyper_mean_is_the_same_in_every_coordinate():
    assert evaluate(LINEAR) == evaluate(LINEAR | {"hyper_mean": [0.3, 0.3]}) == evaluate(LINEAR | {"mu": 0.3})


def test_logistic_has_its_keys_and_its_bounds_are_the_arithmetic_ones():
    value = evaluate(LOGISTIC)
    assert list(value) == ["log_z", "log_z2", "kl_hyper", "kl_tasks", "emp01", *BOUNDS]
    again = evaluate(
        {"kind": "arithmetic", "emp": value["emp01"], "n": 2, "m_i": [2, 3], "delta": 0.1, "lam": 1.4, "beta": 1.4}
        | {key: value[key] for key in ("kl_hyper", "kl_tasks")}
    )
    assert {key: value[key] for key in BOUNDS} == pytest.approx(again, rel=1e-12)


def test_infinity_is_a_string_both_ways():
    assert evaluate(CGF | {"gamma": 4}) == {"log_moment": "inf"}
    assert evaluate(ARITHMETIC | {"kl_hyper": "inf"})["meta_holder"] == "inf"
    assert evaluate(ARITHMETIC | {"m": 1})["amit_meir"] == "inf"


def test_the_command_prints_json_and_terms_on_request(tmp_path):
    plain = run(tmp_path, CGF)
    assert plain.exit_code == 0
    assert json.loads(plain.stdout)["log_moment"] == evaluate(CGF)["log_moment"]
    terms = json.loads(run(tmp_path, ARITHMETIC, "--terms").stdout)["terms"]
    assert terms["meta_holder"]["certificate"]
    assert not terms["meta_paper"]["certificate"]
    assert sum(terms["meta_holder"]["terms"].values()) == pytest.approx(terms["meta_holder"]["total"])


NAN = float("nan")


@pytest.mark.parametrize(
    ("problem", "word"),
    [
        ("{", "JSON"),
        ("[1]", "object"),
        ({"kind": "quadratic"}, "kind"),
        ({"kind": "arithmetic"}, "lacks"),
        (ARITHMETIC | {"delta": 1.5}, "delta"),
        (ARITHMETIC | {"delta": 0}, "delta"),
        (ARITHMETIC | {"emp": NAN}, "emp"),
        (ARITHMETIC | {"kl_hyper": -1}, "kl_hyper"),
        (ARITHMETIC | {"kl_tasks": [1, 2]}, "kl_tasks"),
        (ARITHMETIC | {"m_i": [1, 2, 3, 4]}, "once"),
        (ARITHMETIC | {"n": 2.5}, "whole"),
        (ARITHMETIC | {"lam": "big"}, "lam"),
        (LINEAR | {"prior_var": -1}, "prior_var"),
        (LINEAR | {"y": [[1, 2], [0.5]]}, "equal length"),
        (LINEAR | {"y": [[1, 2, 3], [0.5], [1, 2, 3]]}, "Task 0"),
        (LINEAR | {"X": [[[1, 2], [0, 1]], [[1]], [[0.5, 1], [1, 0], [2, 1]]]}, "columns"),
        (LINEAR | {"X": [[[1, 2], [0]], [[1, 1]], [[0.5, 1], [1, 0], [2, 1]]]}, "rows of equal length"),
        (LINEAR | {"X": [[[1, NAN], [0, 1]], [[1, 1]], [[0.5, 1], [1, 0], [2, 1]]]}, "finite"),
        (LINEAR | {"mu": [1, 2, 3]}, "mu"),
        (LINEAR | {"hyper_means": 1}, "did you mean"),
        (LOGISTIC | {"y": [[1, 1], [-1, 1, 1]]}, "0 or 1"),
        (LOGISTIC | {"X": [[[1, 0.2, 1], [0, 1, 1]], [[1, 1, 1], [1, 1, 1], [1, 1, 1]]]}, "two"),
        (CGF | {"d": 0}, "d"),
        (CGF | {"var": -0.1}, "var"),
        (CGF | {"noise_var": 0}, "noise_var"),
        (CGF | {"power": 0}, "power"),
    ],
)
def test_bad_problems_get_one_plain_sentence_and_exit_code_2(tmp_path, problem, word):
    result = run(tmp_path, problem)
    assert result.exit_code == 2
    assert word in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_missing_file_is_said_so(tmp_path):
    result = CliRunner().invoke(app, ["eval", str(tmp_path / "none.json")])
    assert result.exit_code == 2
    assert "could not be read" in result.stderr


SETTING = Setting(64, 200, 8.0, math.sqrt(200), 0.1)


def test_a_certificate_says_what_the_theorem_says():
    good = certify(([0.05] * 64, 1.0, [0.5] * 64), SETTING)
    assert good.certified
    assert not good.vacuous
    assert "at least 0.9" in str(good)
    assert json.loads(good.to_json())["bound"] == pytest.approx(good.bound.total)


def test_point_masses_temperature_and_standardisation_get_no_certificate():
    risk = ([0.05] * 64, math.inf, [0.5] * 64)
    point = certify(risk, SETTING)
    assert not point.certified
    assert point.vacuous
    assert "infinite KL" in str(point)
    assert json.loads(point.to_json())["bound"] == "inf"
    warm = certify(([0.05] * 64, 1.0, [0.5] * 64), SETTING, ["the temperature is 0.1, not 1"])
    assert str(warm).startswith("No certificate, because the temperature is 0.1")
    assert not certify(([0.05] * 64, 1.0, [0.5] * 64), SETTING, conf="paper").certified


def test_a_vacuous_certificate_says_so_and_unbounded_losses_are_refused():
    vague = certify(([0.4] * 4, 5.0, [2.0] * 4), Setting(4, 5, 2, 2, 0.1))
    assert vague.certified
    assert vague.vacuous
    assert "vacuous" in str(vague)
    with pytest.raises(PacohError, match="empirical loss"):
        certify(([1.4] * 4, 5.0, [2.0] * 4), Setting(4, 5, 2, 2, 0.1))
