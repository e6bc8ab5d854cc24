"""Exact level-I and level-II moments of the squared loss."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chi2, ncx2

from pacoh.bounds import Gap, Setting, SquaredLoss, joint_log_moment, log_moment
from pacoh.bounds.cgf import point_log_moment, radius_rule, upper_log_moment
from pacoh.bounds.linear_cgf import LinearWorld

DEFAULT = SquaredLoss(1.0, 1.0, 1 / 9)
ROOT5 = math.sqrt(5)


def by_quadrature(gamma: float, power: float, gap: Gap, loss: SquaredLoss) -> float:
    """The same moment without tilting or Laplace transforms: panels of Gauss-Legendre over |w - w*|/sd."""
    nc = gap.dist2 / gap.var
    room = 1 - power * gamma * loss.x_var * gap.var / loss.noise_var
    stop = (math.sqrt(nc) + 15 + 3 * math.sqrt(gap.d)) / room
    nodes, weights = np.polynomial.legendre.leggauss(30)
    edges = np.concatenate([np.linspace(0, 1, 9), np.linspace(1, stop, 600)[1:]])
    half = np.diff(edges)[:, None] / 2
    u = (edges[:-1, None] + half * (nodes + 1)).ravel()
    density = chi2.logpdf(u * u, gap.d) if nc == 0 else ncx2.logpdf(u * u, gap.d, nc)
    value = power * point_log_moment(gamma, loss.x_var * gap.var * u * u + loss.eps_var, loss.noise_var)
    return float(logsumexp(value + density + np.log(2 * u), b=(half * weights).ravel()))


moments = st.tuples(
    st.floats(0.05, 0.9),
    st.sampled_from([0.5, 1, 1.7, 5, 40]),
    st.integers(1, 30),
    st.floats(0.01, 2),
    st.sampled_from([0.0, 0.01, 0.7, 6.0]),
    st.tuples(st.floats(0.2, 5), st.floats(0.2, 3), st.floats(0, 2)),
)


def problem(drawn):
    share, power, d, var, dist2, loss = drawn
    loss = SquaredLoss(*loss)
    return share * loss.noise_var / (power * loss.x_var * var), power, Gap(d, var, dist2), loss


@settings(max_examples=25, deadline=None)
@given(moments)
def test_moment_agrees_with_untilted_quadrature(drawn):
    arguments = problem(drawn)
    assert log_moment(*arguments) == pytest.approx(by_quadrature(*arguments), rel=1e-10, abs=1e-11)


@settings(max_examples=30, deadline=None)
@given(moments)
def test_moment_lies_between_its_jensen_value_and_its_closed_upper_bound(drawn):
    gamma, power, gap, loss = problem(drawn)
    mean = loss.x_var * (gap.d * gap.var + gap.dist2) + loss.eps_var
    assert log_moment(gamma, power, gap, loss) >= power * point_log_moment(gamma, mean, loss.noise_var) - 1e-12
    assert log_moment(gamma, 1, gap, loss) <= upper_log_moment(gamma, gap, loss) + 1e-12
    assert log_moment(gamma, power, gap, loss) >= power * log_moment(gamma, 1, gap, loss) - 1e-12 or power < 1


@settings(max_examples=30, deadline=None)
@given(moments)
def test_moment_grows_with_distance_and_spread_and_is_infinite_past_its_range(drawn):
    gamma, power, gap, loss = problem(drawn)
    here = log_moment(gamma, power, gap, loss)
    assert log_moment(gamma, power, Gap(gap.d, gap.var, gap.dist2 + 0.5), loss) > here
    assert log_moment(gamma, power, Gap(gap.d, gap.var * 1.05, gap.dist2), loss) > here
    edge = loss.noise_var / (power * loss.x_var * gap.var)
    assert log_moment(1.0001 * edge, power, gap, loss) == math.inf
    assert math.isfinite(log_moment(0.9999 * edge, power, gap, loss))


@pytest.mark.parametrize("d", [1, 7, 400])
def test_no_spread_is_the_point_value(d):
    for dist2 in (0.0, 0.3, 12.0):
        exact = 3.3 * float(point_log_moment(0.4, dist2 + 1 / 9, 1.0))
        assert log_moment(0.4, 3.3, Gap(d, 0.0, dist2), DEFAULT) == pytest.approx(exact, rel=1e-14)
        assert log_moment(0.4, 3.3, Gap(d, 1e-13, dist2), DEFAULT) == pytest.approx(exact, abs=1e-9)


def test_moment_agrees_with_simulation():
    rng = np.random.default_rng(0)
    gap, draws = Gap(3, 0.2, 0.5), 400_000
    w = rng.normal(size=(draws, 3)) * math.sqrt(0.2) + np.array([math.sqrt(0.5), 0, 0])
    values = np.exp(2 * point_log_moment(0.5, (w**2).sum(-1) + 1 / 9, 1.0))
    z = (values.mean() - math.exp(log_moment(0.5, 2, gap, DEFAULT))) / (values.std() / math.sqrt(draws))
    assert abs(z) < 4


def test_known_values_of_the_default_environment():
    gamma = 1 / ROOT5
    inside = 5 / ROOT5 * log_moment(gamma, 1, Gap(5, 0.30, 0.2), DEFAULT)
    power = 1 / ROOT5 * log_moment(gamma, 5, Gap(5, 0.30, 0.2), DEFAULT)
    assert inside == pytest.approx(0.29470, abs=5e-6)
    assert power == pytest.approx(0.42918, abs=5e-6)
    truth = 0.2 + 0.1 * np.random.default_rng(0).standard_normal((400, 5))
    each = [5 / ROOT5 * log_moment(gamma, 1, Gap(5, 0.29, float(w @ w)), DEFAULT) for w in truth]
    assert np.mean(each) == pytest.approx(0.29456, abs=4 * np.std(each) / 20)
    assert np.mean(each) - 4 * np.std(each) / 20 <= inside <= power


def test_the_printed_regression_constants_are_no_upper_bound():
    """The printed derivation drops a cross term: its sub-gamma value lies below the exact moment."""
    exact = log_moment(1.0, 1, Gap(1, 0.29, 1.0), DEFAULT)
    theta = 1.0 + 1 / 9
    c = 0.29 + 0.29 * theta - theta
    printed = (theta * (1 - c) + c) / (2 * (1 - c))
    assert exact == pytest.approx(0.40676, abs=1e-5)
    assert printed == pytest.approx(0.38914, abs=1e-5)
    assert printed < exact <= upper_log_moment(1.0, Gap(1, 0.29, 1.0), DEFAULT)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.floats(0, 30), st.floats(0.01, 3))
def test_radius_rule_has_the_moments_of_a_gaussian(d, dist2, var):
    r, weights = radius_rule(Gap(d, var, dist2))
    second = d * var + dist2
    fourth = second**2 + 2 * d * var**2 + 4 * var * dist2
    assert weights @ r**2 == pytest.approx(second, rel=1e-9)
    assert weights @ r**4 == pytest.approx(fourth, rel=1e-9)


def test_joint_moment_of_one_task_is_the_moment_and_two_tasks_are_infinite():
    gaps = (Gap(5, 0.25, 0.2), 0.05)
    assert joint_log_moment(ROOT5, 5, 1, gaps, DEFAULT) == pytest.approx(
        log_moment(1 / ROOT5, 5, Gap(5, 0.30, 0.2), DEFAULT), abs=1e-11
    )
    assert joint_log_moment(ROOT5, 5, 2, gaps, DEFAULT) == math.inf
    small = (Gap(5, 0.02, 0.2), 0.05)
    assert (
        joint_log_moment(ROOT5, 5, 4, small, DEFAULT) > 4 * log_moment(1 / ROOT5, 5, Gap(5, 0.07, 0.2), DEFAULT) - 1e-9
    )


def test_level_two_moment_agrees_with_simulation():
    world, setting = LinearWorld(draws=20_000), Setting(4, 5, 2.0, ROOT5, 0.1)
    rng, draws = np.random.default_rng(1), 40_000
    mu = 0.5 * rng.standard_normal((draws, 5))
    truth = 0.2 + 0.1 * rng.standard_normal((draws, 5))
    x = rng.standard_normal((draws, 5, 5))
    shrink = np.linalg.inv(np.eye(5) + 0.04 * ROOT5 / 5 * np.einsum("rmi,rmj->rij", x, x))
    noise = np.einsum("rmi,rm->ri", x, rng.standard_normal((draws, 5)) / 3) * 0.04 * ROOT5 / 5
    miss = np.einsum("rij,rj->ri", shrink, mu - truth + noise)
    loss = (1 / 9 + (miss**2).sum(-1) + 0.04 * np.trace(shrink, axis1=1, axis2=2)) / 2 + math.log(2 * math.pi) / 2
    centre = np.array([world.transfer_at(float(r2), ROOT5) for r2 in ((mu - 0.2) ** 2).sum(-1)[:500]])
    k0, slope = world.transfer_at(0.0, ROOT5), world.transfer_at(1.0, ROOT5) - world.transfer_at(0.0, ROOT5)
    lbar = k0 + slope * ((mu - 0.2) ** 2).sum(-1)
    np.testing.assert_allclose(lbar[:500], centre)
    values = np.exp(0.5 * (lbar - loss))
    z = (values.mean() - math.exp(world.level2(setting) * 2.0 / 4)) / (values.std() / math.sqrt(draws))
    assert abs(z) < 4


def test_level_two_shrinks_with_n_and_its_joint_form_ends_at_22_tasks():
    world = LinearWorld(draws=20_000)
    values = [world.level2(Setting(n, 5, math.sqrt(n), ROOT5, 0.1)) for n in (1, 4, 64)]
    assert values[0] == pytest.approx(0.0078, abs=2e-4)
    assert values == sorted(values, reverse=True)
    for n, finite in ((2, True), (21, True), (22, False)):
        setting = Setting(n, 5, math.sqrt(n), ROOT5, 0.1)
        joint = world.level2(setting, n)
        assert math.isfinite(joint) == finite
        assert joint >= world.level2(setting) - 1e-9
