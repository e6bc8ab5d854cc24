"""Certificates of fitted models: reasons that appear exactly when due, in words, as JSON and from the command."""

import dataclasses
import json
import math

import numpy as np
import pytest

import pacoh
from certify_cases import LOSS, LOSSES, draws, lines, ragged
from pacoh.api import Model, _card, fit_oracle
from pacoh.bounds import Setting, meta_bound
from pacoh.bounds.losses import Outside
from pacoh.certify import certify_model
from pacoh.certify.gibbs import gibbs_losses, posteriors
from pacoh.data import Standardizer
from pacoh.learners.guard import Guarded, weak_gp, weak_phis
from pacoh.learners.pacoh import PACOHModel
from pacoh.priors.gp import GPPrior
from pacoh.priors.kernels import SE
from pacoh.priors.means import LinearMean
from pacoh.reading import read
from pacoh.registry import environment
from pacoh.theory import BAYES


def plain_model(tasks=None, method: str = "pacoh-gp-map", own: float = 0.0, **settings) -> Model:
    """A model as a fit in original units would leave it."""
    prior = GPPrior(LinearMean(), SE(), own=own)
    known = read(lines() if tasks is None else tasks)
    return Model(
        PACOHModel(prior, draws(prior, 2), BAYES), Standardizer.identity(1), _card(known, method, 0, dict(settings))
    )


def guarded(model: Model) -> Model:
    weak = weak_gp()
    return dataclasses.replace(model, meta=Guarded(model.meta, weak, weak_phis(weak, 1, 4, 1.5), 0.95))


def standardised(model: Model) -> Model:
    return dataclasses.replace(model, units=Standardizer.fit(lines()))


def tuned(model: Model) -> Model:
    return dataclasses.replace(model, card=model.card | {"tuned": {"chosen": {}}})


POINTS, UNITS = "made of point masses", "standardised by means and scales of the same tasks"
CASES = {
    "MAP": (plain_model, lines, {POINTS}),
    "SVGD": (lambda: plain_model(method="pacoh-gp-svgd"), lines, {POINTS}),
    "temperature": (lambda: plain_model(temperature=0.5), lines, {POINTS, "temperature is 0.5, not 1"}),
    "VI": (lambda: plain_model(method="pacoh-gp-vi"), lines, {"keeps 2 draws", "temperature is 0.01, not 1"}),
    "NUTS": (lambda: plain_model(method="pacoh-gp-nuts"), lines, {"keeps 2 draws"}),
    "MLL": (lambda: plain_model(method="mll-gp"), lines, {"has no hyper-prior"}),
    "own learner": (lambda: plain_model(method="Mine"), lines, {"no registered method"}),
    "units": (lambda: standardised(plain_model()), lines, {POINTS, UNITS}),
    "tuned": (lambda: tuned(plain_model()), lines, {POINTS, "settings were chosen on the same tasks"}),
    "guard": (lambda: guarded(plain_model(guard=True)), lines, {POINTS, "a guard mixes"}),
    "unequal": (lambda: plain_model(ragged()), ragged, {POINTS, "differ in size (3 to 5 points)"}),
    "fewer tasks": (plain_model, lambda: lines(5), {POINTS, "5 tasks of 25 points in all against 6 of 30"}),
    "other tasks": (plain_model, lambda: lines(seed=3), {POINTS, "ranges of the inputs differ"}),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_reason_appears_exactly_when_it_applies(case):
    make, tasks, expected = CASES[case]
    report = certify_model(make(), tasks(), LOSS)
    reasons = report.certificate.reasons
    assert not report.certified
    assert len(reasons) == len(expected)
    assert all(any(part in reason for reason in reasons) for part in expected), reasons
    assert ("no data" in str(report.notes)) == (case not in ("fewer tasks", "other tasks"))
    assert math.isinf(report.kl_hyper) == (POINTS in expected)
    assert math.isfinite(report.known)
    assert np.isfinite(report.kl_tasks).all()


def test_a_guard_changes_no_term():
    whole, bare = (
        certify_model(guarded(plain_model(guard=True)), lines(), LOSS),
        certify_model(plain_model(), lines(), LOSS),
    )
    assert whole.certificate.bound.terms == bare.certificate.bound.terms


def test_terms_of_a_model_are_means_over_its_priors():
    model, tasks = plain_model(), read(lines())
    found = posteriors(model.meta.prior, model.meta.phis, tasks, model.units, BAYES)
    report = certify_model(model, tasks, LOSS, 0.2)
    setting = Setting(6, 5, 6.0, 5.0, 0.2)
    bound = meta_bound((gibbs_losses(found, tasks, LOSS).mean(), math.inf, found.kl.mean(0)), setting)
    assert report.certificate.bound.terms == pytest.approx(bound.terms)


def test_methods_without_a_learned_prior_get_their_loss_and_no_kl():
    vanilla = pacoh.fit(lines(), "vanilla-gp", steps=2)
    report = certify_model(vanilla, lines(), LOSS)
    assert {part for part in ("learns no hyper-posterior", UNITS) for r in report.certificate.reasons if part in r} == {
        "learns no hyper-posterior", UNITS,
    }  # fmt: skip
    assert np.isnan(report.kl_tasks).all()
    record = json.loads(json.dumps(report.record(), allow_nan=False))
    assert record["terms"]["kl_task"] is None
    assert record["bound"] is None
    assert record["vacuous"] is None
    assert "not known" in record["words"]
    world = environment("sinusoid")
    oracle = certify_model(fit_oracle(world, 29), world.draw(29).train, Outside())
    assert len(oracle.certificate.reasons) == 1
    assert 0 < oracle.certificate.bound.emp < 0.3


@pytest.mark.parametrize("own", [0.0, 0.7])
def test_a_generic_predictor_has_the_loss_of_the_closed_form(own):
    from pacoh.certify.gibbs import predicted_losses

    model, tasks = standardised(plain_model(own=own)), read(lines())
    found = posteriors(model.meta.prior, model.meta.phis, tasks, model.units, BAYES)
    for bounded in LOSSES:
        exact = gibbs_losses(found, tasks, bounded).mean(0)
        assert np.allclose(predicted_losses(model, tasks, bounded), exact, atol=2e-4)


@pytest.mark.parametrize("own", [0.0, 0.7])
def test_a_posterior_gains_in_fit_its_evidence_and_its_divergence(own):
    model, tasks = plain_model(own=own), read(lines())
    found = posteriors(model.meta.prior, model.meta.phis, tasks, model.units, BAYES)
    variance = (found.noise**2)[:, None, None]
    fit = -0.5 * (np.log(2 * np.pi * variance) + (found.gap**2 + found.sd**2) / variance)
    np.testing.assert_allclose(fit.sum(-1), found.log_z + found.kl, rtol=1e-9)


# --- the command


@pytest.fixture
def saved(tmp_path):
    (tmp_path / "tasks").mkdir()
    for i, (x, y) in enumerate(lines()):
        np.savetxt(tmp_path / "tasks" / f"t{i}.csv", np.column_stack([x, y]), delimiter=",", header="u,y", comments="")
    model = plain_model(tmp_path / "tasks")
    model.save(tmp_path / "model")
    return tmp_path


def test_the_command_says_why_there_is_no_certificate_in_words_and_as_json(saved, call):
    code, out, _ = call("certify", saved / "model", saved / "tasks", "--clip", 1, "--json")
    record = json.loads(out)
    assert code == 0
    assert record["certified"] is False
    assert record["vacuous"] is True
    assert record["bound"] == record["kl_hyper"] == record["terms"]["kl_hyper"] == "inf"
    assert record["reasons"] == ["the hyper-posterior has infinite KL to the hyper-prior (it is made of point masses)"]
    assert record["delta"] == 0.1
    assert record["finite_terms"] == pytest.approx(sum(v for v in record["terms"].values() if v != "inf"))
    assert len(record["kl_tasks"]) == record["n"] == 6
    code, words, _ = call("certify", saved / "model", saved / "tasks", "--loss", "outside-90", "--delta", 0.05)
    assert code == 0
    assert words.startswith("No certificate for the 0-1 error of the 90 % interval")
    assert "delta = 0.05" in words
    assert "You vouch" in words


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["model", "tasks", "--clip", 1, "--delta", 1.5], "delta"),
        (["model", "tasks", "--clip", 1, "--delta", 0], "delta"),
        (["model", "tasks"], "clip"),
        (["model", "tasks", "--clip", -1], "clip"),
        (["model", "tasks", "--loss", "squared"], "clipped-absolute"),
        (["missing", "tasks", "--clip", 1], "no model file"),
        (["model", "nowhere", "--clip", 1], "neither a file"),
    ],
)
def test_bad_input_ends_with_code_2_and_one_sentence(saved, call, arguments, word):
    model, source, *options = arguments
    code, out, err = call("certify", saved / model, saved / source, *options)
    assert (code, out) == (2, "")
    assert word in err
    assert err.startswith("pacoh: ")
    assert err.count("\n") == 1
