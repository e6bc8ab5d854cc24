"""Every registered method, and every oracle, passes the suite that third parties get; and the suite can fail."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from pacoh import persistence, registry
from pacoh.errors import PacohError
from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel
from pacoh.predictive import GaussianMixture, Point
from pacoh.priors.base import AbstractPredictor
from pacoh.testing import CHECKS, Subject, check, check_learner, compilations, prepare

NETWORK = {"steps": 20, "layers": 1, "width": 8}
ALONE = {"adapt_steps": 20, "layers": 2, "width": 8, "waves": 8}
BAYESIAN = ALONE | {"steps": 30}
SMALL = {
    "vanilla-gp": {"steps": 20},
    "pacoh-gp-svgd": NETWORK | {"particles": 3},
    "pacoh-gp-nuts": {"draws": 3, "warmup": 10, "thin": 1},
    "pacoh-gp-vi": NETWORK | {"samples": 2, "predict": 3},
    "pacoh-nn-map": BAYESIAN,
    "pacoh-nn-svgd": BAYESIAN | {"particles": 2},
    "pacoh-nn-vi": BAYESIAN | {"samples": 2, "predict": 2},
    "vanilla-bnn": ALONE | {"spread": 1.0},  # wide weights turn a rounding error into another network
    "majority-class": {},
    "nearest-prototype": {},
    "mlap-m": NETWORK | {"adapt_steps": 20},
    "mlap-s": NETWORK | {"adapt_steps": 20},
    "mtgp": {"steps": 20, "adapt_steps": 20},
    "moved-gp": {"steps": 20, "draws": 32, "kept": 8, "adapt_steps": 5},
    "last-value": {},
    "context-mean": {},
    "pooled-ridge": {},
}
QUICK = {"vanilla-gp", "pacoh-gp-map", "pacoh-gp-svgd", "mll-gp", "pacoh-nn-svgd", "maml", "last-value", "context-mean"}
QUICK |= {"pooled-ridge", "vanilla-bnn on classes", "majority-class on classes", "nearest-prototype on classes"}
"""The others are slow tests: they compile for half a minute each."""
ORACLES = {"sinusoid": (1, None), "cauchy": (2, None), "ellipses": (2, 5)}  # inputs and classes


@cache
def subject(name: str) -> Subject:
    if name.startswith("oracle of "):
        environment = name.removeprefix("oracle of ")
        d, classes = ORACLES[environment]
        return prepare(registry.environment(environment).oracle(), d=d, classes=classes)
    method, _, kind = name.partition(" on ")
    return prepare(method, settings=SMALL.get(method, NETWORK), classes=3 if kind else None)


SUBJECTS = [
    pytest.param(name, marks=[] if name in QUICK or name.startswith("oracle") else pytest.mark.slow)
    for name in (
        *(name for name, method in registry.METHODS.items() if method.numbers),
        *(f"{name} on classes" for name, method in registry.METHODS.items() if method.classes),
        *(f"oracle of {environment}" for environment in ORACLES),
    )
]


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("method", SUBJECTS)
def test_every_method_passes(method, name):
    reason = check(name, subject(method))
    if reason is not None:
        pytest.skip(reason)


class Line(AbstractPredictor):
    """The mean of the context's targets, with a unit spread; the flags break one law each."""

    value: jax.Array
    point: bool = eqx.field(static=True)

    def __call__(self, x):
        loc = jnp.broadcast_to(self.value, len(x))
        return Point(loc) if self.point else GaussianMixture(loc[None], jnp.ones((1, len(x))))

    def latent(self, x):
        return self(x)

    def function(self, key):
        del key
        return lambda x: jnp.broadcast_to(self.value, len(x))


class MeanModel(AbstractMetaModel):
    shift: jax.Array
    memory: jax.Array
    breaks: str = eqx.field(static=True)

    def adapt(self, context, key):
        del key
        count = context.mask.size if self.breaks == "padding" else jnp.maximum(context.mask.sum(), 1)
        if self.breaks == "empty":
            count = context.mask.sum()
        kept = context.y if self.breaks == "mask" else jnp.where(context.mask, context.y, 0.0)
        return Line(kept.sum() / count + self.shift, self.breaks == "point")


class Mean(AbstractMetaLearner):
    breaks: str = eqx.field(static=True, default="nothing")

    def fit(self, tasks, key, valid=None, budget=None):
        del valid, budget
        if self.breaks == "key":
            key = jax.random.key(next(CLOCK))
        if self.breaks == "compilation":
            tasks = jax.jit(lambda t: t)(tasks)  # a new function a call
        memory = tasks.y if self.breaks == "files" else jnp.zeros(3)
        return MeanModel(0.01 * jax.random.normal(key, ()), memory, self.breaks)


CLOCK = iter(range(10**6))
CAUGHT = {
    "padding": ["padding changes nothing"],
    "mask": ["padding changes nothing", "an empty context gives the prior"],
    "empty": ["an empty context gives the prior"],
    "point": ["points or distributions as claimed"],
    "files": ["save and load change nothing"],
    "key": ["same key same model"],
    "compilation": ["one compilation for many tasks"],
}


@pytest.fixture
def trusted(monkeypatch):
    for kind in (MeanModel, Line):
        monkeypatch.setitem(persistence._TRUSTED, persistence._name(kind), kind)


def test_a_learner_from_outside_passes(trusted):
    assert check_learner(Mean()) == dict.fromkeys(CHECKS)


@pytest.mark.parametrize("breaks", CAUGHT)
def test_a_broken_learner_fails_the_check_of_the_law_it_breaks(trusted, breaks):
    with pytest.raises(AssertionError) as failure:
        check_learner(Mean(breaks))
    assert [line.split(":")[0] for line in str(failure.value).split("\n")[1:]] == CAUGHT[breaks]


def test_a_check_that_does_not_apply_says_why():
    point = prepare(Mean("point"), distributional=False, has_prior=False, skip={"jit is no jit": "it is slow"})
    assert check("points or distributions as claimed", point) is None
    assert "has_prior=False" in check("an empty context gives the prior", point)
    assert check("jit is no jit", point) == "it is slow"


def test_skipping_an_unknown_check_is_refused():
    with pytest.raises(PacohError, match="no check 'speed'"):
        prepare(Mean(), skip={"speed": "slow"})


def test_compilations_are_counted_once_a_shape():
    double = jax.jit(lambda x: 2 * x)
    small, large = jnp.ones(3), jnp.ones(4)
    with compilations() as names:
        for x in (small, small, large, large, small):
            double(x)
    assert len(names) == 2
