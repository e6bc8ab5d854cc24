"""Synthetic environments and their Bayes-optimal predictors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from pacoh.api import fit, fit_oracle
from pacoh.data import pad
from pacoh.environments import Cauchy, Sinusoid
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
