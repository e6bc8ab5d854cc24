"""Laws of the guard and of updates."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pacoh
from pacoh.data import Dataset, pad
from pacoh.errors import PacohError
from pacoh.inference import MAP, SVGD, Adam
from pacoh.learners.guard import Guard, Guarded, GuardedPredictor, WeakModel, log_evidences, weak_gp, weak_phis
from pacoh.learners.pacoh import PACOH, PACOHModel
from pacoh.priors.gp import GPPrior
from pacoh.priors.hyper import GroupGaussian
from pacoh.priors.kernels import SE
from pacoh.priors.means import LinearMean
from pacoh.registry import Shape, learner
from pacoh.theory import BAYES

LINES = np.random.default_rng(0)


def line(m: int, slope: float = 2.0, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """A task of the family: a line of slope near 2 through a random intercept."""
    x = LINES.uniform(-2, 2, (m, 1))
    return x, slope * x[:, 0] + 0.1 * LINES.normal() + noise * LINES.normal(size=m)


def model() -> Guarded:
    """A prior that is sure of slope 2, guarded."""
    prior = GPPrior(LinearMean(), SE(), noise=0.1)
    phi = jax.tree.map(lambda spec: jnp.full((1, *spec.shape), spec.loc), prior.specs(1))
    phi["mean"] = jax.tree.map(lambda leaf: 2.0 * jnp.ones_like(leaf) * (leaf.ndim > 1), phi["mean"])
    phi["kernel"] = {"log_sd": jnp.log(jnp.array([0.1])), "log_length": jnp.zeros((1, 1))}
    weak = weak_gp()
    return Guarded(PACOHModel(prior, phi, BAYES), weak, weak_phis(weak, 1, 64, 1.5), 0.95)


@eqx.filter_jit
def adapt(guarded: Guarded, context: Dataset, key) -> GuardedPredictor:
    return guarded.adapt(context, key)


@eqx.filter_jit
def predict(guarded: Guarded, context: Dataset, key) -> jax.Array:
    return guarded.adapt(context, key)(QUERY).mean


def share(guarded: Guarded, context: Dataset) -> float:
    return float(jnp.exp(adapt(guarded, context, jax.random.key(0)).log_shares[0]))


EMPTY = pad(np.zeros((0, 1)), np.zeros(0))
QUERY = jnp.linspace(-3, 3, 7)[:, None]


def test_without_points_the_shares_are_the_odds():
    assert share(model(), EMPTY) == pytest.approx(0.95, rel=1e-5)


def test_the_odds_of_the_shares_are_moved_by_the_evidence():
    guarded, context = model(), pad(*line(5))
    key = jax.random.key(0)
    learned = log_evidences(guarded.learned.prior, guarded.learned.phis, context, key)
    weak = log_evidences(guarded.weak_prior, guarded.weak_phis, context, key)
    factor = float(learned[0]) - float(jax.nn.logsumexp(weak) - jnp.log(64))
    found = share(guarded, context)
    assert np.log(found / (1 - found)) == pytest.approx(np.log(0.95 / 0.05) + factor, rel=1e-3)


def test_the_learned_prior_is_believed_until_its_evidence_is_half_the_weak_ones():
    guarded, key, found = model(), jax.random.key(0), set()
    for slope in np.linspace(-2, 2, 9):
        context = pad(*line(4, slope))
        learned, weak = adapt(guarded, context, key).log_shares
        factor = float(jnp.exp(learned - weak)) * 0.05 / 0.95
        assert bool(guarded.believes(context, key)) == (factor >= 0.5)
        found.add(factor >= 0.5)
    assert found == {True, False}
    assert bool(guarded.believes(EMPTY, key))


@pytest.mark.parametrize(("slope", "side"), [(2.0, "learned"), (-2.0, "weak")])
def test_settled_on_one_explanation_it_predicts_as_that_one_alone(slope, side):
    guarded = adapt(model(), pad(*line(8, slope=slope)), jax.random.key(0))
    settled, alone = guarded.settled()(QUERY), getattr(guarded, side)(QUERY)
    np.testing.assert_allclose(settled.mean, alone.mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(settled.std, alone.std, rtol=1e-4)


def test_a_task_of_the_family_keeps_the_learned_prior_and_another_one_does_not():
    guarded = model()
    assert share(guarded, pad(*line(8))) > 0.99
    assert share(guarded, pad(*line(8, slope=-2.0))) < 0.01


def test_the_prediction_is_the_weighted_mixture_of_both():
    predictor = adapt(model(), pad(*line(2, slope=1.5)), jax.random.key(0))
    y = jnp.linspace(-2, 2, 7)
    parts = [predictor.learned(QUERY), predictor.weak(QUERY)]
    wanted = jax.nn.logsumexp(jnp.stack([part.log_prob(y) for part in parts]) + predictor.log_shares[:, None], 0)
    np.testing.assert_allclose(predictor(QUERY).log_prob(y), wanted, rtol=1e-4)
    assert (predictor.latent(QUERY).std < predictor(QUERY).std).all()


def test_functions_are_drawn_from_both_by_their_shares():
    predictor = adapt(model(), EMPTY, jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 4000)
    draws = jax.jit(jax.vmap(lambda key: predictor.function(key)(QUERY)))(keys)
    near = jnp.abs(draws - 2 * QUERY[:, 0]).max(1) < 0.6  # 6 sds of the learned prior
    assert float(near.mean()) == pytest.approx(0.955, abs=0.015)


def test_many_tasks_are_one_vmap():
    guarded = model()
    contexts = [pad(*line(4)), pad(*line(4, slope=-1.0))]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *contexts)
    keys = jax.random.split(jax.random.key(0), 2)
    together = jax.vmap(predict, (None, 0, 0))(guarded, stacked, keys)
    for i, context in enumerate(contexts):
        np.testing.assert_allclose(together[i], predict(guarded, context, keys[i]), rtol=1e-3, atol=1e-3)


def test_weak_settings_spread_evenly_and_move_an_inputs_scales_together():
    phis = weak_phis(weak_gp(), 3, 64, 1.5)
    noise, slopes = phis["log_noise"], phis["kernel"][1]["log_slope"]
    assert noise.shape == (64,)
    assert float(noise.mean()) == pytest.approx(np.log(0.2), abs=0.05)
    assert float(noise.std()) == pytest.approx(1.5, rel=0.1)
    np.testing.assert_array_equal(slopes[:, 0], slopes[:, 2])


def test_the_guard_is_a_setting_and_only_for_learned_priors():
    made = learner("pacoh-gp-map", Shape(3, 4, 1), guard=True)
    assert isinstance(made, Guard)
    assert isinstance(learner("pacoh-gp-map", Shape(3, 4, 1)), PACOH)
    with pytest.raises(PacohError, match="none to guard"):
        learner("vanilla-gp", Shape(3, 4, 1), guard=True)


SMALL = {"mean": "linear", "kernel": "se", "steps": 300, "rate": 0.02, "temperature": 0.1}


@pytest.fixture(scope="module")
def fitted() -> pacoh.Model:
    return pacoh.fit([line(6) for _ in range(6)], "pacoh-gp-map", guard=True, **SMALL)


def test_a_guarded_model_is_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "model.pacoh")
    loaded = pacoh.load(tmp_path / "model.pacoh")
    x, y = line(3)
    np.testing.assert_array_equal(loaded.adapt(x, y)(x).mean, fitted.adapt(x, y)(x).mean)
    assert loaded.card["settings"]["guard"] is True


def test_the_same_fit_gives_the_same_file(fitted, tmp_path):
    paths = [tmp_path / name for name in ("a.pacoh", "b.pacoh")]
    slower = dataclasses.replace(fitted, seconds=1e6)
    for path, made in zip(paths, (fitted, slower), strict=True):
        made.save(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_an_update_starts_where_the_model_is_in_its_units(fitted):
    tasks = [line(6) for _ in range(6)]
    stayed = fitted.update(tasks, rate=1e-30)
    for a, b in zip(jax.tree.leaves(stayed.meta), jax.tree.leaves(fitted.meta), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(stayed.units.y_scale, fitted.units.y_scale)
    assert stayed.card["updates"] == 1


def test_an_update_learns_from_the_tasks_that_came(fitted):
    steep = [line(6, slope=4.0) for _ in range(6)]
    updated = fitted.update(steep)
    x = np.linspace(-2, 2, 5)[:, None]
    before, after = (np.polyfit(x[:, 0], made.adapt()(x).mean, 1)[0] for made in (fitted, updated))
    assert before == pytest.approx(2.0, abs=0.3)
    assert after == pytest.approx(4.0, abs=0.5)


def test_every_particle_goes_on():
    prior = GPPrior(LinearMean(), SE())
    hyper = GroupGaussian({"scale": 1.0, "noise": 1.0, "mean": 1.0})
    tasks = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[pad(*line(4)) for _ in range(3)])
    first = PACOH(prior, hyper, SVGD(particles=3, optimizer=Adam(0.05, 50))).fit(tasks, jax.random.key(0))
    still = PACOH(prior, hyper, SVGD(particles=3, optimizer=Adam(0.0, 50)))
    second = still.fit(tasks, jax.random.key(1), start=first)
    for a, b in zip(jax.tree.leaves(first.phis), jax.tree.leaves(second.phis), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_learns_nothing_from_tasks_cannot_be_updated():
    vanilla = pacoh.fit([line(4), line(4)], "vanilla-gp")
    with pytest.raises(PacohError, match="fit it anew"):
        vanilla.update([line(4), line(4)])


def test_a_guarded_map_is_the_guard_of_its_learner():
    prior, hyper = GPPrior(LinearMean(), SE()), GroupGaussian({"scale": 1.0, "noise": 1.0, "mean": 1.0})
    plain = PACOH(prior, hyper, MAP(Adam(0.05, 20)))
    tasks = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[pad(*line(4)) for _ in range(3)])
    alone, guarded = plain.fit(tasks, jax.random.key(0)), Guard(plain).fit(tasks, jax.random.key(0))
    for a, b in zip(jax.tree.leaves(alone.phis), jax.tree.leaves(guarded.learned.phis), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_weak_gp_alone_follows_the_targets_units():
    weak = weak_gp()
    alone = WeakModel(weak, weak_phis(weak, 1, 16, 1.5))
    x, y = line(6)
    ours = eqx.filter_jit(lambda context: alone.adapt(context, jax.random.key(0))(QUERY))
    plain, moved = ours(pad(x, y)), ours(pad(x, 300 * y - 50))
    np.testing.assert_allclose(moved.mean, 300 * plain.mean - 50, rtol=2e-3, atol=1.0)
    np.testing.assert_allclose(moved.std, 300 * plain.std, rtol=2e-2)
    assert float(jnp.abs(plain.mean - 2 * QUERY[:, 0])[2:5].max()) < 0.5
