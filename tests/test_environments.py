"""Synthetic environments and their Bayes-optimal predictors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from pacoh.api import fit, fit_oracle
from pacoh.data import pad
from pacoh.environments import Branin, Cauchy, Hartmann3, Hartmann6, Sinusoid
from pacoh.environments.optima import branin
from pacoh.environments.sinusoid import SinusoidOracleModel


def test_the_published_draw_has_the_published_oracle_errors():
    draw = Cauchy().draw(29)
    oracle = fit_oracle(Cauchy(), 29)
    assert oracle.evaluate(draw.test)["rmse"] == pytest.approx(0.1781, abs=5e-5)
    assert oracle.evaluate(draw.valid)["rmse"] == pytest.approx(0.1702, abs=5e-5)


@pytest.mark.parametrize("make", [Sinusoid, Cauchy])
def test_a_draw_is_its_number_and_sizes_are_asked_for(make):
    first, again, other = make(n=3, m=4).draw(1), make(n=3, m=4).draw(1), make(n=3, m=4).draw(2)
    np.testing.assert_array_equal(first.train.y[2], again.train.y[2])
    assert not np.array_equal(first.train.y[0], other.train.y[0])
    assert first.train.sizes == (4, 4, 4)
    assert first.test.query.sizes == (200,) * 20


def test_more_test_tasks_leave_the_meta_train_tasks_alone():
    few, many = Cauchy(tests=5).draw(3), Cauchy(tests=30).draw(3)
    np.testing.assert_array_equal(few.train.y[-1], many.train.y[-1])
    np.testing.assert_array_equal(few.test.query.y[4], many.test.query.y[4])


def test_sinusoid_tasks_have_the_moments_of_their_definition():
    draw = Sinusoid(n=4000, m=6, tests=1, valids=1).draw(0)
    x, y = np.stack(draw.train.x)[:, :, 0], np.stack(draw.train.y)
    near = np.abs(x) < 0.05
    assert abs(y[near].mean() - 5) < 0.02
    assert abs(y[near].std() - (0.1**2 + 0.1**2 + (1.5 * 0.1) ** 2 + 0.06**2) ** 0.5) < 0.03


def test_the_sinusoid_oracle_is_bayes_rule_by_simulation():
    random = np.random.default_rng(0)
    a, b = random.uniform(0.7, 1.3, 400_000), random.normal(0, 0.1, 400_000)
    c, slope = random.normal(5, 0.1, 400_000), random.normal(0.5, 0.2, 400_000)
    x, y = np.array([[-2.0], [1.0]]), np.array([3.6, 6.4])

    def f(point):
        return slope * point + a * np.sin(1.5 * (point - b)) + c

    weights = np.exp(sum(norm.logpdf(y[i], f(x[i, 0]), 0.1) for i in range(2)))
    predictor = SinusoidOracleModel().adapt(pad(x, y, 4), jax.random.key(0))
    for point in (-4.0, 0.0, 3.0):
        values = f(point)
        mean = np.average(values, weights=weights)
        sd = np.average((values - mean) ** 2, weights=weights) ** 0.5
        latent = predictor.latent(jnp.asarray([[point]]))
        effective = weights.sum() ** 2 / (weights**2).sum()
        assert float(latent.mean[0]) == pytest.approx(mean, abs=5 * sd / effective**0.5 + 1e-3)
        assert float(latent.std[0]) == pytest.approx(sd, rel=0.05)


def test_the_oracle_without_context_is_the_prior():
    oracle = fit_oracle(Sinusoid(), 0)
    predictive = oracle.adapt()([[0.0]])
    assert predictive.mean[0] == pytest.approx(5.0, abs=1e-3)
    assert predictive.std[0] == pytest.approx((0.1**2 + 0.1**2 + (1.5 * 0.1 * 1.015) ** 2) ** 0.5, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("make", [Sinusoid, Cauchy])
def test_the_oracle_beats_every_learner_on_average(make):
    methods = {"pacoh-gp-map": {}, "mll-gp": {"steps": 300}, "vanilla-gp": {}, "dkl-gp": {"steps": 100}}
    scores = {name: [] for name in ("oracle", *methods)}
    for number in range(3):
        environment = make(tests=60)
        draw = environment.draw(number)
        models = {name: fit(draw.train, name, **settings) for name, settings in methods.items()}
        models["oracle"] = fit_oracle(environment, number)
        for name, model in models.items():
            scores[name].append([model.evaluate(draw.test)[key] for key in ("rmse", "log_likelihood")])
    mean = {name: np.mean(values, 0) for name, values in scores.items()}
    for name in methods:
        assert mean["oracle"][0] < mean[name][0]
        assert mean["oracle"][1] > mean[name][1]


@pytest.mark.parametrize("make", [Branin, Hartmann3, Hartmann6])
def test_the_known_optimum_is_the_best_of_many_searches(make):
    environment, random = make(), np.random.RandomState(0)
    box = np.array(environment.bounds)
    for _ in range(6):
        objective = environment.objective(random)
        starts = np.random.RandomState(1).uniform(*box.T, (4000, len(box)))
        starts = starts[np.argsort(objective(starts))[:8]]
        found = min(float(minimize(objective, start, bounds=box).fun) for start in starts)
        assert objective.regret(found) > -1e-6
        assert float(objective(objective.where)) == pytest.approx(objective.least, abs=1e-6 * objective.span)
        assert ((box[:, 0] <= objective.where) & (objective.where <= box[:, 1])).all()


@pytest.mark.parametrize(
    ("make", "least", "span"),
    [(Branin, 0.397887, 307.731), (Hartmann3, -3.86278, 3.86274), (Hartmann6, -3.32237, 3.32237)],
)
def test_the_functions_have_their_published_minima_and_their_ranges(make, least, span):
    environment = make()
    assert float(environment.f(np.array(environment.minima[0]))) == pytest.approx(least, abs=1e-5)
    box = np.array(environment.bounds)
    corners = np.array(np.meshgrid(*box)).reshape(len(box), -1).T
    values = environment.f(np.concatenate([corners, np.random.RandomState(0).uniform(*box.T, (20_000, len(box)))]))
    assert environment.span == pytest.approx(span, rel=1e-5)
    assert float(values.max() - least) == pytest.approx(span, rel=1e-3)


def test_tasks_of_a_family_are_moved_and_scaled_as_defined():
    draw = Branin(n=3, m=5, tests=1, valids=1, query=2).draw(0)
    random = np.random.RandomState(0)
    objective = Branin().objective(random)
    x = random.uniform((-5, 0), (10, 15), (5, 2))
    np.testing.assert_array_equal(draw.train.x[0], x)
    np.testing.assert_allclose(draw.train.y[0], objective.scale * branin(x + objective.shift) + objective.offset)
    many = [Hartmann3().objective(random) for _ in range(300)]
    assert 0.14 < np.abs([one.shift for one in many]).max() <= 0.15
    assert 0.5 <= min(one.scale for one in many) < 0.52 < 1.97 < max(one.scale for one in many) <= 2
