"""Laws of acquisition, spaces and the optimiser."""

import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

import pacoh
from pacoh.api import Model
from pacoh.data import Dataset, Standardizer, pad
from pacoh.errors import PacohError
from pacoh.learners.guard import Guarded, weak_gp, weak_phis
from pacoh.learners.pacoh import PACOHModel
from pacoh.optimize import UCB, Choice, Effort, Integer, LogEI, Optimizer, Pool, Real, Space, Thompson
from pacoh.optimize.acquisition import Flipped, Told, log_expected_improvement, log_h, mean_deviation
from pacoh.optimize.optimizer import gives_way, rows_for
from pacoh.optimize.search import Known, Rule, from_box, once
from pacoh.optimize.warp import Warp
from pacoh.predictive import GaussianMixture
from pacoh.priors.gp import GPPrior
from pacoh.priors.kernels import SE
from pacoh.priors.means import LinearMean
from pacoh.theory import BAYES

SMALL = Effort(wide=64, near=32, ascents=4, steps=40)


def made(width: int, slope: float = 0.0, noise: float = 0.05, sds=(1.0, 0.5)) -> Model:
    """Two GP priors that nobody had to train: length-scale 0.3, a line in the first column as mean."""
    prior = GPPrior(LinearMean(), SE())
    phi = jax.tree.map(lambda spec: jnp.full((2, *spec.shape), spec.loc), prior.specs(width))
    phi["mean"] = {"constant": jnp.zeros(2), "slope": jnp.zeros((2, width)).at[:, 0].set(slope)}
    phi["kernel"] = {"log_sd": jnp.log(jnp.array(sds)), "log_length": jnp.full((2, width), np.log(0.3))}
    phi["log_noise"] = jnp.full(2, np.log(noise))
    units = Standardizer(np.full(width, 0.5), np.ones(width), np.zeros(()), np.ones(()))
    return Model(PACOHModel(prior, phi, BAYES), units, {})


def reference_log_h(z: float) -> float:
    """ln int_0^oo u N(u; z, 1) du, by quadrature of positive numbers."""
    if z > 0:
        return float(np.log(quad(lambda u: u * norm.pdf(u - z), 0, z + 12, points=[z])[0]))
    return norm.logpdf(z) + float(np.log(quad(lambda u: u * np.exp(z * u - 0.5 * u**2), 0, np.inf, epsabs=0)[0]))


@pytest.mark.parametrize("z", [-300.0, -50.0, -12.0, -5.0, -2.0, -1.001, -1.0, -0.9, 0.0, 1.0, 6.0])
def test_log_h_is_the_log_of_its_integral(z):
    assert float(log_h(jnp.asarray(z))) == pytest.approx(reference_log_h(z), rel=2e-6, abs=2e-6)


def test_log_h_has_the_slope_of_its_formula_where_h_itself_underflows():
    z = jnp.array([-1e4, -40.0, -1.0, 3.0])
    slope = np.asarray(jax.vmap(jax.grad(log_h))(z))
    wanted = np.exp(norm.logcdf([-40.0, -1.0, 3.0]) - [reference_log_h(one) for one in (-40.0, -1.0, 3.0)])
    np.testing.assert_allclose(slope[1:], wanted, rtol=1e-3)
    assert slope[0] == pytest.approx(1e4, rel=1e-3)


def test_expected_improvement_of_a_mixture_is_its_integral():
    said = GaussianMixture(
        jnp.array([[0.0, -3.0], [1.0, 0.5]]), jnp.array([[0.3, 1.0], [2.0, 0.1]]), jnp.array([0.0, 1.0])
    )
    share = np.exp([0.0, 1.0]) / np.exp([0.0, 1.0]).sum()
    for q in range(2):

        def density(y, q=q):
            parts = norm.pdf(y, np.asarray(said.loc)[:, q], np.asarray(said.scale)[:, q])
            return float(share @ parts) * (y - 0.7)

        wanted = quad(density, 0.7, 20, points=[0.8, 1.0, 3.0], limit=200)[0]
        assert float(log_expected_improvement(said, jnp.asarray(0.7))[q]) == pytest.approx(np.log(wanted), rel=1e-4)


def predictor(model: Model, x, y):
    context = pad(model.units.inputs(np.asarray(x)), np.asarray(y, float), 4)
    return eqx.filter_jit(model.meta.adapt)(context, jax.random.key(0))


TOLD = ([[0.1, 0.2], [0.7, 0.6]], [0.5, -0.3])


def test_the_upper_bound_takes_the_spread_of_f_or_of_y():
    adapted, x = predictor(made(2), *TOLD), jnp.array([[0.0, 0.0], [0.3, -0.2]])
    bound = UCB(3.0, literal=True).score(adapted, jnp.zeros(()), jax.random.key(0))(x)
    latent, whole = adapted.latent(x), adapted(x)
    np.testing.assert_allclose(bound, latent.mean + 3 * latent.std, rtol=1e-6)
    noisy = UCB(3.0, noisy=True, literal=True).score(adapted, jnp.zeros(()), jax.random.key(0))(x)
    np.testing.assert_allclose(noisy, whole.mean + 3 * whole.std, rtol=1e-6)


def test_the_spread_is_the_mean_deviation_by_quadrature_and_the_sd_of_a_gaussian():
    one = GaussianMixture(jnp.array([[1.0, -2.0]]), jnp.array([[0.5, 3.0]]))
    np.testing.assert_allclose(mean_deviation(one), one.std, rtol=1e-5)
    loc, scale, share = np.array([0.0, 1.0]), np.array([0.4, 30.0]), np.array([0.95, 0.05])
    two = GaussianMixture(*(jnp.asarray(part)[:, None] for part in (loc, scale)), jnp.log(jnp.asarray(share)))
    mean = share @ loc
    wanted = quad(
        lambda y: abs(y - mean) * (share @ norm.pdf(y, loc, scale)), -300, 300, points=[-1, mean, 1], limit=300
    )
    assert float(mean_deviation(two)[0]) == pytest.approx(np.sqrt(np.pi / 2) * wanted[0], rel=1e-4)
    assert float(mean_deviation(two)[0]) < 0.3 * float(two.std[0])


def test_thompson_chooses_a_point_as_often_as_it_is_the_best():
    adapted, x = predictor(made(2, sds=(1.0, 1.0)), *TOLD), jnp.array([[-0.3, -0.3], [9.0, 9.0]])
    draws = jax.vmap(lambda key: Thompson().score(adapted, jnp.zeros(()), key)(x))(
        jax.random.split(jax.random.key(1), 4000)
    )
    said = adapted.latent(x)
    gap = (said.mean[0] - said.mean[1]) / np.hypot(*np.asarray(said.std))  # far apart: independent
    assert float((draws[:, 0] > draws[:, 1]).mean()) == pytest.approx(norm.cdf(float(gap)), abs=0.03)


def test_a_drawn_function_may_be_kept_near_the_mean():
    adapted, x = predictor(made(2), *TOLD), jnp.array([[0.0, 0.1], [0.4, 0.4], [-0.2, 0.3]])
    key, mean = jax.random.key(2), adapted.latent(x).mean
    whole, half = (Thompson(spread).score(adapted, jnp.zeros(()), key)(x) for spread in (1.0, 0.5))
    np.testing.assert_allclose(half - mean, 0.5 * (whole - mean), atol=1e-5)
    assert np.abs(whole - mean).max() > 0.01


@pytest.mark.parametrize("spread", [1.0, 0.4])
def test_drawn_values_scatter_as_what_is_measured_would(spread):
    adapted, x = predictor(made(2, noise=0.5), *TOLD), jnp.array([[0.0, 0.1], [0.9, -0.8]])
    draws = jax.vmap(lambda key: Thompson(spread, noisy=True).score(adapted, jnp.zeros(()), key)(x))(
        jax.random.split(jax.random.key(3), 4000)
    )
    said = adapted(x)
    np.testing.assert_allclose(draws.std(0), spread * np.asarray(said.std), rtol=0.05)
    np.testing.assert_allclose(draws.mean(0), said.mean, atol=0.05)
    assert (said.std > 1.2 * adapted.latent(x).std).any()


def test_what_was_told_exactly_has_no_spread_and_elsewhere_all_is_as_the_model_has_it():
    model = made(2, noise=0.5)
    adapted = predictor(model, *TOLD)
    data = pad(model.units.inputs(np.asarray(TOLD[0])), np.asarray(TOLD[1], float), 4)
    known, x = Told(adapted, data), jnp.concatenate([data.x[:2], jnp.array([[0.0, 0.0], [0.3, -0.2]])])
    for mine, others in ((known(x), adapted(x)), (known.latent(x), adapted.latent(x))):
        np.testing.assert_allclose(mine.mean[:2], TOLD[1], rtol=1e-6)
        assert float(mine.std[:2].max()) < 1e-15
        np.testing.assert_array_equal(mine.mean[2:], others.mean[2:])
        np.testing.assert_array_equal(mine.std[2:], others.std[2:])
    for acquisition in (UCB(), UCB(noisy=True), Thompson(), Thompson(0.5), Thompson(0.5, noisy=True)):
        score = acquisition.score(known, jnp.zeros(()), jax.random.key(0))(x)
        np.testing.assert_allclose(score[:2], TOLD[1], rtol=1e-6)
        assert abs(acquisition.score(adapted, jnp.zeros(()), jax.random.key(0))(x)[:2] - score[:2]).min() > 0.01
    improvement = LogEI().score(known, jnp.asarray(0.5), jax.random.key(0))(x)
    assert float(improvement[:2].max()) < -40 < float(improvement[2:].min())


def test_a_point_told_twice_counts_once():
    x = jnp.array([[1.0, 2.0], [1.0, 2.0], [2.0, 2.0], [1.0, 2.0], [2.0, 2.0]])
    mask = jnp.array([True, True, True, True, False])
    kept = once(Dataset(x, jnp.arange(5.0), mask))
    assert kept.mask.tolist() == [True, False, True, False, False]
    assert once(Dataset(x, jnp.arange(5.0), ~mask)).mask.tolist() == [False] * 4 + [True]


def test_the_least_of_f_is_the_most_of_its_negative():
    adapted, x = predictor(made(2), *TOLD), jnp.array([[0.0, 0.1], [0.4, 0.4]])
    np.testing.assert_allclose(Flipped(adapted).latent(x).mean, -adapted.latent(x).mean)
    np.testing.assert_allclose(Flipped(adapted)(x).std, adapted(x).std)


def test_models_that_cannot_serve_are_refused():
    points = pacoh.fit([(np.zeros((3, 2)), np.arange(3.0))] * 2, "context-mean")
    with pytest.raises(PacohError, match="points without a spread"):
        Optimizer(points, Pool(np.zeros((4, 2)))).ask()
    with pytest.raises(PacohError, match="takes 2 inputs"):
        Optimizer(points, Pool(np.zeros((4, 3))))


MIXED = Space(
    {
        "rate": Real(1e-4, 1.0, log=True),
        "depth": Integer(1, 9),
        "units": Integer(8, 512, log=True),
        "kind": Choice(("a", "b", None)),
        "share": Real(-1.0, 2.0),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "rate": st.floats(1e-4, 1.0),
            "depth": st.integers(1, 9),
            "units": st.integers(8, 512),
            "kind": st.sampled_from(["a", "b", None]),
            "share": st.floats(-1.0, 2.0),
        }
    )
)
def test_a_point_comes_back_from_its_row(point):
    rows = MIXED.encode([point])
    assert rows.shape == (1, 7)
    assert ((rows >= 0) & (rows <= 1)).all()
    back = MIXED.decode(rows)[0]
    assert {name: back[name] for name in ("depth", "units", "kind")} == {
        n: point[n] for n in ("depth", "units", "kind")
    }
    assert back["rate"] == pytest.approx(point["rate"], rel=1e-9)
    assert back["share"] == pytest.approx(point["share"], abs=1e-9)


def test_uniform_rows_are_uniform_points_and_snapping_changes_no_point():
    rows = np.random.default_rng(0).uniform(size=(9000, 7)).astype(np.float32)
    points, snapped = MIXED.decode(rows), np.asarray(MIXED.snap(jnp.asarray(rows)))
    counts = np.bincount([point["depth"] for point in points])[1:]
    assert counts.shape == (9,)
    assert abs(counts - 1000).max() < 150
    assert sum(point["kind"] is None for point in points) == pytest.approx(3000, abs=200)
    assert np.mean([np.log10(point["rate"]) for point in points]) == pytest.approx(-2, abs=0.05)
    assert [p["units"] for p in MIXED.decode(snapped)] == [p["units"] for p in points]
    np.testing.assert_allclose(MIXED.snap(jnp.asarray(snapped)), snapped, atol=1e-6)
    np.testing.assert_array_equal(snapped[:, 3:6].sum(1), 1)


def test_a_parameter_left_out_is_the_middle_of_its_range():
    space = Space({"a": Real(0.0, 1.0), "b": Choice((1, 2))})
    np.testing.assert_array_equal(space.encode([{"a": None}]), [[0.5, 0.5, 0.5]])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Real(1.0, 1.0), "lower first"),
        (lambda: Real(0.0, 1.0, log=True), "positive bounds"),
        (lambda: Integer(0, 4, log=True), "positive bounds"),
        (lambda: Choice(("a", "a")), "different options"),
        (lambda: Space({}), "at least one parameter"),
        (lambda: MIXED.encode([{"rat": 1}]), "no parameter rat"),
        (lambda: MIXED.encode([{"depth": 10}]), "'depth'.*outside the bounds"),
        (lambda: MIXED.encode([{"kind": "c"}]), "none of the options"),
        (lambda: Pool(np.array([[np.nan]])), "finite numbers"),
        (lambda: Pool(np.zeros((3, 1))).encode([3]), "from 0 to 2"),
        (lambda: Optimizer(made(1), Pool(np.zeros((3, 1))), goal="up"), "'minimize' or 'maximize'"),
        (lambda: Optimizer(made(1), Pool(np.zeros((3, 1)))).tell([0], [np.nan]), "forget"),
        (lambda: Optimizer(made(1), Pool(np.zeros((3, 1)))).ask(4), "were not tried yet"),
        (lambda: Optimizer(made(1), Pool(np.zeros((3, 1))), places=np.zeros((1, 1))), "beside a Pool"),
        (lambda: Optimizer(made(1), Space({"a": Real(0, 1)}), places=np.zeros((1, 2))), "of 1 columns"),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(make, told):
    with pytest.raises(PacohError, match=told):
        make()


def test_places_are_kept_to_until_nothing_better_was_found_for_as_long_as_patience_says(tmp_path):
    space, places = Space({"a": Real(0, 1), "b": Real(0, 1)}), np.array([[0.5, 0.5]])
    with_places, without = (
        Optimizer(made(2, slope=3.0), space, effort=SMALL, places=rows, patience=3) for rows in (places, None)
    )  # by the model the best point is at a = 0
    gaps = []
    for value in (0.0, 1.0, 1.0, 1.0, 1.0):
        found = with_places.ask()[0]
        gaps.append(np.abs(space.encode([found]) - places).max())
        with_places.tell([found], [value])
    assert max(gaps[:4]) < 0.25
    assert gaps[4] > 0.25
    with_places.save(tmp_path / "search.pacoh")
    again = Optimizer.load(tmp_path / "search.pacoh")
    assert again.ask() == with_places.ask()
    assert without.ask()[0]["a"] < 0.05


def known_of(model: Model, rows: np.ndarray, y: np.ndarray) -> Known:
    data = pad(model.units.inputs(rows), y, 4)
    return Known(data, jnp.zeros(4, bool))


@pytest.mark.parametrize("acquisition", [UCB(), pytest.param(LogEI(), marks=pytest.mark.slow)])
def test_a_box_is_searched_as_well_as_a_fine_grid(acquisition):
    space = Space({"a": Real(0, 1), "b": Integer(1, 4), "c": Choice(("x", "y"))})
    model, rule = made(space.width, slope=0.3), Rule(acquisition, True, False)
    points = [{"a": 0.2, "b": 1, "c": "x"}, {"a": 0.8, "b": 4, "c": "y"}, {"a": 0.5, "b": 2, "c": "y"}]
    known = known_of(model, space.encode(points), np.array([0.3, 0.9, -0.5]))
    box = (space, jnp.asarray(model.units.x_loc, float), jnp.asarray(model.units.x_scale, float))
    found = eqx.filter_jit(from_box)(model.meta, known, rule, box, jax.random.key(3), SMALL)
    predictor = eqx.filter_jit(model.meta.adapt)(known.data, jax.random.key(0))
    best = predictor.latent(known.data.x[:3]).mean.max()
    score = jax.jit(acquisition.score(predictor, best, jax.random.key(0)))
    every = [{"a": a, "b": b, "c": c} for a in np.linspace(0, 1, 101) for b in range(1, 5) for c in "xy"]
    grid = score(jnp.asarray(model.units.inputs(space.encode(every))))
    ours = float(score((found[None] - box[1]) / box[2])[0])
    assert ours >= float(grid.max()) - 1e-4
    np.testing.assert_allclose(space.snap(found[None])[0], found, atol=1e-6)


POOL = np.random.default_rng(1).uniform(size=(30, 2))


def reward(rows: np.ndarray) -> np.ndarray:
    return np.sin(5 * rows[:, 0]) - (rows[:, 1] - 0.3) ** 2


def test_a_pools_choice_is_the_largest_bound_of_the_models_own_predictions():
    model = made(2)
    optimizer = Optimizer(model, Pool(POOL), goal="maximize", acquisition=UCB(2.0, noisy=True, literal=True))
    optimizer.tell([3, 4], reward(POOL[[3, 4]]))
    said = model.adapt(POOL[[3, 4]], reward(POOL[[3, 4]]))(POOL)
    bound = said.mean + 2 * said.std
    bound[[3, 4]] = -np.inf
    assert optimizer.ask() == [int(np.argmax(bound))]


def test_the_first_suggestion_follows_the_prior():
    space = Space({"a": Real(-5.0, 10.0), "b": Real(0.0, 1.0)})
    first = Optimizer(made(2, slope=2.0), space, effort=SMALL).ask()[0]
    assert first["a"] == pytest.approx(-5.0, abs=0.1)


@pytest.mark.parametrize("acquisition", [UCB(), Thompson()])
@pytest.mark.parametrize(
    "where", [Pool(POOL), Space({"a": Real(0, 1), "b": Real(0.1, 1, log=True)})], ids=["pool", "box"]
)
def test_a_run_that_was_interrupted_goes_on_bit_for_bit(acquisition, where, tmp_path):
    def rounds(optimizer, count):
        asked = []
        for _ in range(count):
            points = optimizer.ask(2)
            asked += points
            optimizer.tell(points[:1], reward(where.encode(points[:1])))  # the other one stays pending
        return asked

    whole = Optimizer(made(2), where, acquisition=acquisition, effort=SMALL, seed=4)
    wanted = rounds(whole, 4)
    first = Optimizer(made(2), where, acquisition=acquisition, effort=SMALL, seed=4)
    begun = rounds(first, 2)
    first.save(tmp_path / "run")
    assert begun + rounds(Optimizer.load(tmp_path / "run"), 2) == wanted
    assert Optimizer.load(tmp_path / "run").best == first.best


def test_a_warp_keeps_the_order_and_its_likelihood_is_scipys():
    values = -np.random.default_rng(0).exponential(size=200)  # a long tail below
    warp = Warp.of([values[:150], values[150:]])
    assert warp.strength < 0
    assert Warp.of([-values]).strength == -warp.strength
    assert (np.diff(warp(np.sort(values))) > 0).all()
    slopes = (warp(values + 1e-6) - warp(values - 1e-6)) / 2e-6
    after = warp(values)
    wanted = norm.logpdf(after, after.mean(), after.std()).sum() + np.log(slopes).sum()
    plain = Warp(warp.loc, warp.scale)
    without = norm.logpdf(plain(values), plain(values).mean(), plain(values).std()).sum() - 200 * np.log(warp.scale)
    assert warp.log_likelihood(values) - plain.log_likelihood(values) == pytest.approx(wanted - without, abs=1e-3)


def test_a_warped_run_goes_on_bit_for_bit_and_its_values_are_the_users(tmp_path):
    optimizer = Optimizer(made(2), Pool(POOL), warp=Warp(0.5, 2.0, -1.0))
    optimizer.tell([1, 2], [-30.0, 1.0])
    optimizer.save(tmp_path / "run")
    again = Optimizer.load(tmp_path / "run")
    assert again.best == optimizer.best == (1, -30.0)
    plain = Optimizer(made(2), Pool(POOL))
    plain.tell([1, 2], Warp(0.5, 2.0, -1.0)([-30.0, 1.0]))
    assert again.ask(2) == optimizer.ask(2) == plain.ask(2)


def test_a_models_file_is_no_optimisers(tmp_path):
    made(1).save(tmp_path / "model")
    with pytest.raises(PacohError, match="not of an optimiser"):
        Optimizer.load(tmp_path / "model")


def test_a_pool_is_tried_once_each_unless_repeats_are_allowed():
    few = Pool(POOL[:6])
    optimizer = Optimizer(made(2), few, goal="maximize")
    asked = [optimizer.ask()[0] for _ in range(6)]
    assert sorted(asked) == list(range(6))
    again = Optimizer(made(2, noise=0.3), few, goal="maximize", repeats=True, acquisition=UCB(0.1))
    for _ in range(8):
        points = again.ask()
        again.tell(points, 1.0 + reward(few.encode(points)))
    assert len(set(again.points)) < 8


@pytest.mark.parametrize(("goal", "sign"), [("maximize", 1), ("minimize", -1)])
def test_a_point_told_exactly_is_tried_again_only_where_it_beats_every_bound(goal, sign, tmp_path):
    model, bound = made(2, noise=0.5), UCB(0.5)
    optimizer = Optimizer(model, Pool(POOL), goal=goal, acquisition=bound, repeats=True, exact=True)
    optimizer.tell([4], [sign * 0.1])
    again = 0
    for round_ in range(12):
        told = dict(zip(optimizer.points, optimizer.values, strict=True))
        rows = list(told)
        adapted = eqx.filter_jit(model.meta.adapt)(
            pad(model.units.inputs(POOL[rows]), np.array([told[row] for row in rows]), 16), jax.random.key(0)
        )
        adapted = adapted if sign > 0 else Flipped(adapted)
        scores = np.asarray(bound.score(adapted, jnp.zeros(()), jax.random.key(0))(model.units.inputs(POOL)))
        most = max(sign * value for value in told.values())
        new = np.delete(scores, rows)
        (number,) = optimizer.ask()
        assert (number in told) == bool(most > new.max())
        assert sign * told[number] == most if number in told else scores[number] == pytest.approx(new.max(), abs=1e-4)
        again += number in told
        optimizer.tell([number], [told[number] if number in told else sign * float(reward(POOL[number][None])[0])])
        if round_ == 5:
            optimizer.save(tmp_path / "exact.pacoh")
            optimizer = Optimizer.load(tmp_path / "exact.pacoh")
    assert 0 < again < 12


def test_a_file_from_before_values_could_be_exact_is_read(tmp_path):
    optimizer = Optimizer(made(2), Pool(POOL), goal="maximize", repeats=True)
    object.__delattr__(optimizer.rule, "exact")
    optimizer.save(tmp_path / "old.pacoh")
    loaded = Optimizer.load(tmp_path / "old.pacoh")
    assert loaded.rule.repeats
    assert not loaded.rule.exact
    assert loaded.ask() == Optimizer(made(2), Pool(POOL), goal="maximize", repeats=True).ask()


def test_points_of_one_batch_differ_and_forgotten_ones_are_open_again():
    optimizer = Optimizer(made(2), Space({"a": Real(0, 1), "b": Real(0, 1)}), effort=SMALL)
    rows = optimizer.where.encode(optimizer.ask(3))
    assert min(np.abs(rows[i] - rows[j]).max() for i in range(3) for j in range(i)) > 0.05
    optimizer.forget(optimizer.pending[:2])
    assert len(optimizer.pending) == 1


def test_a_discrete_space_is_searched_without_repeats():
    space = Space({"n": Integer(0, 3), "c": Choice(("x", "y"))})
    optimizer = Optimizer(made(3), space, effort=SMALL)
    asked = []
    for _ in range(8):
        asked += optimizer.ask()
        optimizer.tell(asked[-1:], [float(asked[-1]["n"])])
    assert len({tuple(point.values()) for point in asked}) == 8
    assert optimizer.best.value == 0


@pytest.mark.slow
def test_the_optimum_is_found_without_any_past_task():
    space = Space({"x": Real(0.0, 1.0)})
    optimizer = Optimizer(None, space, effort=SMALL)
    for _ in range(12):
        point = optimizer.ask()[0]
        optimizer.tell([point], [(point["x"] - 0.37) ** 2 + 5])
    assert optimizer.best.value == pytest.approx(5, abs=2e-3)


def test_fifty_rounds_meet_few_shapes_and_a_warm_round_on_800_candidates_is_fast():
    assert {rows_for(count) for count in range(51)} == {16, 32, 64}
    optimizer = Optimizer(made(2), Pool(np.random.default_rng(2).uniform(size=(800, 2))), goal="maximize")
    took = []
    for _ in range(5):
        began = time.perf_counter()
        points = optimizer.ask()
        took.append(time.perf_counter() - began)
        optimizer.tell(points, reward(optimizer.where.encode(points)))
    assert min(took[1:]) < 0.5


@pytest.mark.slow
def test_many_optimisations_are_one_vmap():
    space = Space({"a": Real(0, 1), "b": Real(0, 1)})
    model, rule = made(2), Rule(UCB(), True, False)
    box = (space, jnp.asarray(model.units.x_loc, float), jnp.asarray(model.units.x_scale, float))
    each = [known_of(model, POOL[i : i + 2], reward(POOL[i : i + 2])) for i in (0, 2)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
    keys = jax.random.split(jax.random.key(0), 2)

    def found(known, key):
        return from_box(model.meta, known, rule, box, key, SMALL)

    together = jax.jit(jax.vmap(found))(stacked, keys)
    alone = jax.jit(found)(each[1], keys[1])
    np.testing.assert_allclose(together[1], alone, atol=1e-2)
    assert isinstance(stacked.data, Dataset)


@pytest.mark.slow
def test_the_example_of_the_page_runs_and_finds_the_optimum(tmp_path, monkeypatch):
    page = (Path(__file__).parents[1] / "docs" / "optimize.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(page.split("```python\n")[1].split("```")[0], names)
    assert names["optimizer"].best.value < 0.1
    assert Optimizer.load("search.pacoh").best == names["optimizer"].best


def guarded(slope: float) -> Model:
    """A prior that is sure of a line in the one column, guarded."""
    learned, weak = made(1, slope, sds=(0.05, 0.05)), weak_gp()
    return Model(Guarded(learned.meta, weak, weak_phis(weak, 1, 64, 1.0), 0.95), learned.units, {})


def test_where_the_past_is_not_believed_the_search_is_the_one_without_a_past():
    space = Space({"x": Real(0, 1)})
    points = [{"x": x} for x in (0.1, 0.5, 0.9)]
    for slope, same in ((-3.0, False), (3.0, True)):  # the prior's line has slope 3, and these values follow `slope`
        values = [slope * (point["x"] - 0.5) for point in points]
        taught = Optimizer(guarded(3.0), space, acquisition=LogEI(), alone=UCB(), effort=SMALL, seed=5)
        asked = {"prior": Optimizer(made(1, 3.0, sds=(0.05, 0.05)), space, acquisition=LogEI(), effort=SMALL, seed=5)}
        asked["none"] = Optimizer(None, space, effort=SMALL, seed=5)
        for optimizer in (taught, *asked.values()):
            optimizer.tell(points, values)
        expected = asked["prior" if same else "none"].ask()[0]["x"]
        assert taught.ask()[0]["x"] == pytest.approx(expected, abs=1e-3)


def test_a_past_that_finds_nothing_better_leaves_every_second_point_to_a_search_without_it():
    space, line = Space({"x": Real(0, 1)}), made(1, 3.0, sds=(0.05, 0.05))

    def asked(model, xs, **rest):
        points = [{"x": x} for x in xs]
        optimizer = Optimizer(model, space, effort=SMALL, seed=5, **rest)
        optimizer.tell(points, [3.0 * (point["x"] - 0.5) for point in points])  # what the prior believes
        return optimizer.ask()[0]["x"]

    for xs, first in (((0.9, 0.5), "prior"), ((0.5, 0.9), "none"), ((0.5, 0.9, 0.8), "prior")):  # the best, and since
        alone = {"prior": asked(line, xs, acquisition=LogEI()), "none": asked(None, xs, acquisition=LogEI())}
        after = asked(guarded(3.0), xs, acquisition=LogEI(), alone=LogEI())
        assert abs(alone["prior"] - alone["none"]) > 0.1
        assert after == pytest.approx(alone[first], abs=1e-3)
    assert [gives_way([1.0, 2.0], True, 2, waiting) for waiting in range(5)] == [False, False, True, False, True]
    assert not gives_way([], False, 0)


def test_a_past_that_is_not_believed_leaves_room_for_random_points():
    space = Space({"x": Real(0, 1), "y": Real(0, 1)})
    one = made(2, 3.0, sds=(0.05, 0.05))
    weak = weak_gp()
    model = Model(Guarded(one.meta, weak, weak_phis(weak, 2, 64, 1.0), 0.95), one.units, {})
    taught, none = (Optimizer(given, space, alone=UCB(), effort=SMALL, seed=3) for given in (model, None))
    within = Optimizer(model, space, effort=SMALL, seed=3)
    for optimizer in (taught, none, within):
        optimizer.tell([{"x": 0.0, "y": 0.5}], [5.0])  # the line says -1.5
    first = none.ask()
    assert taught.ask() == first
    assert within.ask() != first


def test_a_saved_search_keeps_both_ways_to_choose(tmp_path: Path):
    optimizer = Optimizer(guarded(1.0), Space({"x": Real(0, 1)}), acquisition=LogEI(), alone=Thompson(), effort=SMALL)
    optimizer.save(tmp_path / "search.pacoh")
    again = Optimizer.load(tmp_path / "search.pacoh")
    assert (type(again.rule.acquisition), type(again.alone.acquisition)) == (LogEI, Thompson)
