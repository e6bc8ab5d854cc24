"""MAML, FO-MAML and Reptile: gradients of the outer step, and what adapting does not depend on."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import pacoh
from pacoh.categorical import PointClass
from pacoh.data import Dataset, pad, stack
from pacoh.errors import PacohError
from pacoh.inference.base import Adam
from pacoh.inference.map import MAP
from pacoh.learners.episodic import AbstractRule, Episodes, Episodic, EpisodicModel, Shuffled, split
from pacoh.learners.maml import MAML, Inner, Reptile, descend
from pacoh.learners.points import CrossEntropy, Squared
from pacoh.priors.base import draw_start
from pacoh.priors.nets import MLP
from pacoh.registry import Shape, learner
from pacoh.testing import ragged_tasks

FOMAML = partial(MAML, second_order=False)

NET = MLP((6,), "tanh")
TASKS = stack(ragged_tasks(d=2))
TASK = jax.tree.map(lambda leaf: leaf[1], TASKS)
KEY = jax.random.key(3)


def rule(kind, steps=2, rate=0.1, loss=None, **rest):
    return kind(NET, loss or Squared(), Inner(steps, rate, 3), **rest)


def start(made, d=2):
    return draw_start(made.specs(d), jax.random.key(0))


def flat_gradient(made, theta, task=TASK):
    return ravel_pytree(jax.jit(jax.grad(made.value))(theta, task, KEY))[0]


def difference_quotients(value, theta, step=1e-5):
    flat, back = ravel_pytree(theta)
    steps = step * jnp.eye(len(flat))
    return jax.jit(jax.vmap(lambda e: (value(back(flat + e)) - value(back(flat - e))) / (2 * step)))(steps)


@pytest.mark.parametrize("loss", [Squared(), CrossEntropy(3)], ids=["regression", "classification"])
def test_the_gradient_of_maml_is_that_of_its_value_through_the_inner_steps(loss):
    with jax.enable_x64(True):
        random = np.random.default_rng(0)
        y = random.normal(size=6) if loss.outputs == 1 else random.integers(0, 3, 6)
        task = pad(random.normal(size=(6, 2)), y)
        made = rule(MAML, loss=loss)
        theta = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), start(made))
        slopes = difference_quotients(lambda theta: made.value(theta, task, KEY), theta)
        np.testing.assert_allclose(flat_gradient(made, theta, task), slopes, atol=1e-8)


def test_steps_that_would_run_away_are_shortened_and_others_are_not():
    def descended(start, *longest, steps=1):
        return descend(lambda now: (now**2).sum(), start, jnp.asarray(0.1), steps, *longest)

    def end(start, *longest):
        return float(descended(jnp.asarray([start]), *longest)[0])

    assert end(3.0, 10.0) == pytest.approx(3.0 - 0.1 * 6.0)
    assert end(300.0, 10.0) == pytest.approx(300.0 - 0.1 * 10.0)
    assert end(300.0) == pytest.approx(300.0 - 0.1 * 600.0)
    for longest in (10.0, math.inf):
        slope = jax.grad(lambda start, longest=longest: descended(start, longest, steps=3).sum())
        assert np.all(np.isfinite(slope(jnp.zeros(2))))
        assert np.all(np.isfinite(slope(jnp.full(2, 1e4))))


@pytest.mark.slow
def test_one_step_learns_the_sinusoids_of_the_paper_and_ten_learn_them_better():
    """Amplitudes of .1 to 5, phases of 0 to pi, ten points, 2 x 40 ReLU units [Finn et al. 2017, section 5.1]."""

    def sinusoids(count, points, seed):
        draw = np.random.default_rng(seed)
        height, phase = draw.uniform(0.1, 5, (count, 1)), draw.uniform(0, np.pi, (count, 1))
        x = draw.uniform(-5, 5, (count, points))
        return [(one[:, None], values) for one, values in zip(x, height * np.sin(x - phase), strict=True)]

    made = Episodic(
        MAML(MLP((40, 40), "relu"), Squared(), Inner(1, 0.01, longest=math.inf)), MAP(Adam(1e-3, 10_000)), 25
    )
    model = made.fit(stack(sinusoids(5000, 20, 0)), KEY)
    new = stack(sinusoids(300, 110, 1))
    context, query = (jax.tree.map(lambda leaf, part=part: leaf[:, part], new) for part in (slice(10), slice(10, 110)))

    def error(steps):
        learned = jax.vmap(lambda one: made.rule.learned(model.theta, one, steps))(context)
        return float(jax.vmap(made.rule.risk)(learned, query).mean())

    before, one, ten = (error(steps) for steps in (0, 1, 10))
    assert before > 2.0
    assert one < 1.0
    assert ten < 0.5 * one


def test_without_an_inner_rate_first_and_second_order_agree_and_with_one_they_differ():
    theta = start(rule(MAML))
    first, second = (flat_gradient(rule(kind, rate=0.0), theta) for kind in (FOMAML, MAML))
    np.testing.assert_array_equal(first, second)
    first, second = (flat_gradient(rule(kind), theta) for kind in (FOMAML, MAML))
    assert np.abs(first - second).max() > 0.01 * np.abs(second).max()
    np.testing.assert_allclose(rule(FOMAML).value(theta, TASK, KEY), rule(MAML).value(theta, TASK, KEY), rtol=1e-6)


def test_first_order_is_the_query_gradient_at_the_adapted_weights():
    made = rule(FOMAML)
    theta = start(made)
    context, query = split(TASK, made.share, KEY)
    expected = -ravel_pytree(jax.grad(made.risk)(made.learned(theta, context, 2), query))[0]
    np.testing.assert_allclose(flat_gradient(made, theta), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", [MAML, FOMAML])
def test_zero_inner_steps_are_joint_training_on_the_queries(kind):
    made = rule(kind, steps=0)
    theta = start(made)
    _, query = split(TASK, made.share, KEY)
    np.testing.assert_allclose(made.value(theta, TASK, KEY), -made.risk(theta, query), rtol=1e-6)
    expected = -ravel_pytree(jax.grad(made.risk)(theta, query))[0]
    np.testing.assert_allclose(flat_gradient(made, theta), expected, rtol=1e-5, atol=1e-7)


def test_reptile_with_one_inner_step_follows_the_joint_gradient():
    made = rule(Reptile, steps=1)
    theta = start(made)
    slopes = jax.jit(jax.vmap(jax.grad(made.value), (None, None, 0)))(theta, TASK, jax.random.split(KEY, 8000))
    found = ravel_pytree(jax.tree.map(lambda leaf: leaf.mean(0), slopes))[0]
    expected = -ravel_pytree(jax.grad(made.risk)(theta, TASK))[0]
    np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())


def test_reptile_pulls_towards_weights_that_learned_from_one_mini_batch_after_the_other():
    made = rule(Reptile, steps=2)
    theta = start(made)
    first, second = (split(TASK, 0.5, key)[0] for key in jax.random.split(KEY, 2))
    assert (first.mask != second.mask).any()
    slope = jax.grad(made.risk)(theta, first)
    after = jax.tree.map(lambda leaf, g: leaf - 0.1 * g, theta, slope)
    expected = -ravel_pytree(slope)[0] - ravel_pytree(jax.grad(made.risk)(after, second))[0]
    np.testing.assert_allclose(flat_gradient(made, theta), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, None])
def test_a_split_parts_every_task_and_leaves_a_query(share):
    counts = set()
    for seed in range(30):
        context, query = jax.vmap(lambda task, key: split(task, share, key))(
            TASKS, jax.random.split(jax.random.key(seed), 4)
        )
        np.testing.assert_array_equal(context.mask ^ query.mask, TASKS.mask)
        assert (query.sizes >= 1).all()
        assert share is None or (context.sizes >= 1).all()
        counts.add(int(context.sizes[1]))
    expected = {0.1: {1}, 0.5: {3}, 0.9: {5}, None: set(range(6))}[share]
    assert counts == expected


def test_every_point_is_as_often_in_the_context():
    masks = jax.vmap(lambda key: split(TASK, 0.5, key)[0].mask)(jax.random.split(KEY, 4000))
    np.testing.assert_allclose(masks.mean(0), 0.5, atol=0.04)


def test_a_minibatch_of_episodes_is_unbiased():
    made = rule(Reptile, steps=1)
    theta = start(made)
    some = Episodes(made, TASKS, jnp.array(0.1), 2)

    def sides(key):
        key_batch, key_draws = jax.random.split(key)
        return some.minibatch(key_batch)(theta, key_draws), some(theta, key_draws)

    part, whole = jax.jit(jax.vmap(sides))(jax.random.split(KEY, 4000))
    np.testing.assert_allclose(part.mean(), whole.mean(), rtol=0.02)


def test_decay_is_paid_in_the_units_of_the_weights():
    made = rule(MAML)
    theta = start(made)
    free, priced = (Episodes(made, TASKS, jnp.array(decay), None)(theta, KEY) for decay in (0.0, 0.3))
    squares = [(layer["w"] ** 2).sum() * len(layer["w"]) + (layer["b"] ** 2).sum() for layer in theta]
    np.testing.assert_allclose(free - priced, 0.15 * sum(squares), rtol=1e-4)


@pytest.mark.parametrize("kind", [MAML, FOMAML, Reptile])
def test_adapting_ignores_padding_and_the_order_of_the_context(kind):
    made = rule(kind)
    model = EpisodicModel(made, start(made))
    x, y = ragged_tasks(d=2)[1]
    query = np.random.default_rng(1).normal(size=(5, 2))
    expected = model.adapt(pad(x, y, 6), KEY)(query).mean
    order = np.random.default_rng(2).permutation(len(x))
    np.testing.assert_allclose(model.adapt(pad(x[order], y[order], 6), KEY)(query).mean, expected, atol=1e-6)
    np.testing.assert_allclose(model.adapt(pad(x, y, 11), KEY)(query).mean, expected, atol=1e-6)


def test_an_empty_context_gives_the_initialisation():
    made = rule(MAML)
    theta, x = start(made), TASK.x
    empty = Dataset(TASK.x, TASK.y, jnp.zeros_like(TASK.mask))
    np.testing.assert_array_equal(EpisodicModel(made, theta).adapt(empty, KEY)(x).mean, NET(theta, x)[:, 0])


@pytest.mark.parametrize("method", ["maml", "fo-maml", "reptile"])
def test_training_makes_the_adapted_network_better(method):
    tasks = stack(ragged_tasks(seed=5, sizes=(10,) * 12))
    made = learner(method, Shape(12, 10, 1), steps=600, layers=2, width=16, rate=0.01)
    assert isinstance(made, Episodic)
    model = made.fit(tasks, KEY)
    others = stack(ragged_tasks(seed=6, sizes=(10,) * 30))
    halves = jax.vmap(lambda task, key: split(task, 0.5, key))(others, jax.random.split(KEY, 30))

    def error(theta):
        loss = jax.vmap(lambda c, q: made.rule.risk(made.rule.learned(theta, c, 10), q))(*halves)
        return float(loss.mean())

    starts = [error(draw_start(made.rule.specs(1), key)) for key in jax.random.split(KEY, 8)]
    assert error(model.theta) < 0.5 * np.mean(starts)


def test_classes_are_predicted_without_probabilities():
    random = np.random.default_rng(0)
    x = random.normal(size=(8, 30, 2))
    tasks = stack([(rows, (rows[:, 0] > 0).astype(int)) for rows in x])
    model = learner("maml", Shape(8, 30, 2, 2), steps=200, layers=1, width=8, rate=0.02).fit(tasks, KEY)
    predictive = model.adapt(jax.tree.map(lambda leaf: leaf[0], tasks), KEY)(jnp.asarray(x[1], jnp.float32))
    assert isinstance(predictive, PointClass)
    assert (np.asarray(predictive.mode) == (x[1][:, 0] > 0)).mean() > 0.85


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("maml", {"share": 1.0}, "share of points in a context is between 0 and 1"),
        ("maml", {"decay": -1e-3}, "decay is zero or a positive number; got -0.001"),
        ("maml", {"inner_steps": -1}, "inner_steps is a whole number of 0 or more; got -1"),
        ("reptile", {"inner_steps": 0}, "inner_steps of Reptile is a whole number of 1 or more"),
        ("reptile", {"share": 0.0}, "share of points in a context is between 0 and 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(method, settings, message):
    with pytest.raises(PacohError, match=message):
        pacoh.fit(ragged_tasks(), method, **settings)


class FirstName(AbstractRule):
    """Its value is the name of a task's first class."""

    def specs(self, d):
        del d
        return {}

    def value(self, theta, task, key):
        del theta, key
        return task.y[0]

    def adapt(self, theta, context, key):
        raise NotImplementedError


def test_a_shuffled_episode_gives_a_class_each_name_alike_and_keeps_classes_apart():
    task = Dataset(jnp.zeros((4, 1)), jnp.array([1, 0, 2, 1]), jnp.ones(4, bool))
    names = jax.vmap(lambda key: Shuffled(FirstName(), 3).value({}, task, key))(jax.random.split(KEY, 3000))
    np.testing.assert_allclose(np.bincount(np.asarray(names, int), minlength=3) / 3000, 1 / 3, atol=0.04)

    class Names(FirstName):
        def value(self, theta, task, key):
            del theta, key
            return task.y

    renamed = np.asarray(Shuffled(Names(), 3).value({}, task, KEY))
    assert renamed[0] == renamed[3]
    assert set(renamed) == {0, 1, 2}


@pytest.mark.parametrize("method", ["maml", "fo-maml", "mr-maml-w", "bmaml"])
def test_classes_may_be_renamed_and_numbers_not(method):
    tasks = [(np.random.default_rng(i).normal(size=(6, 2)), ["a", "b"] * 3) for i in range(3)]
    model = pacoh.fit(tasks, method, classes=True, steps=3, shuffle=True)
    plain = pacoh.fit(tasks, method, classes=True, steps=3)
    assert isinstance(model.meta.rule, Shuffled)
    assert not np.array_equal(ravel_pytree(model.meta.theta)[0], ravel_pytree(plain.meta.theta)[0])
    with pytest.raises(PacohError, match="leave out `shuffle`"):
        pacoh.fit(ragged_tasks(), method, steps=3, shuffle=True)
