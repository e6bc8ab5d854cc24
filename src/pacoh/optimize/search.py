"""The next point to try: the largest score over a pool, or over a box by many starts and gradient ascent.

Pure functions of arrays: a suggestion is one compiled call, and many optimisations at once are one `vmap`.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from pacoh.data import Dataset
from pacoh.inference.base import Adam
from pacoh.learners.base import AbstractMetaModel
from pacoh.optimize.acquisition import AbstractAcquisition, Flipped, Score, Told, gaussian
from pacoh.optimize.space import Space
from pacoh.priors.base import AbstractPredictor
from pacoh.types import Key

_SAME = 1e-3  # rows of [0, 1] closer than this are the same point
_BESIDE = 0.05  # the sd of candidates about places


class Rule(eqx.Module):
    """How points are chosen: the acquisition, which way is good, and whether a point may come twice.

    With `exact` a point told again has the value it had: it is known, and counts once.
    """

    acquisition: AbstractAcquisition
    maximize: bool = eqx.field(static=True)
    repeats: bool = eqx.field(static=True)
    exact: bool = eqx.field(static=True, default=False)


class Effort(eqx.Module):
    """How hard a box is searched: random candidates, candidates near the best, ascents and their steps.

    >>> from pacoh.optimize import Effort
    >>> Effort(wide=2048).wide  # four times as many random candidates
    2048
    """

    wide: int = eqx.field(static=True, default=512)
    near: int = eqx.field(static=True, default=256)
    ascents: int = eqx.field(static=True, default=8)
    steps: int = eqx.field(static=True, default=60)
    rate: float = eqx.field(static=True, default=0.05)


class Known(eqx.Module):
    """What is known of the task, in learner units. Rows that are pending have no value yet."""

    data: Dataset
    pending: Bool[Array, " m"]

    @property
    def taken(self) -> Bool[Array, " m"]:
        """Rows that were tried or are being tried."""
        return self.data.mask | self.pending


def adapted(meta: AbstractMetaModel, known: Known, rule: Rule, key: Key, believe: bool) -> AbstractPredictor:
    """The predictor of what is to be maximised; with `believe`, pending points count with the mean predicted there.

    Believing keeps the points of one batch apart without a model of what others will find.
    """
    told = once(known.data) if rule.exact else known.data
    predictor = meta.adapt(told, key).settled()
    if believe:
        guess = gaussian(predictor.latent(told.x)).mean
        data = Dataset(told.x, jnp.where(known.pending, guess, told.y), told.mask | known.pending)
        predictor = meta.adapt(data, key).settled()
    predictor = Told(predictor, told) if rule.exact else predictor
    return predictor if rule.maximize else Flipped(predictor)


def once(data: Dataset) -> Dataset:
    """Each point once, as it was told first."""
    same = (data.x[:, None] == data.x).all(-1) & data.mask
    return Dataset(data.x, data.y, data.mask & ~jnp.tril(same, -1).any(-1))


def _score(predictor: AbstractPredictor, known: Known, rule: Rule, candidates: Float[Array, "q d"], key: Key) -> Score:
    """The acquisition, its `best` the largest mean of f at points tried, or at candidates where there are none."""
    if not rule.acquisition.compares:
        return rule.acquisition.score(predictor, jnp.zeros(()), key)
    means = gaussian(predictor.latent(jnp.concatenate([known.data.x, candidates]))).mean
    counts = jnp.concatenate([known.taken, jnp.broadcast_to(~known.taken.any(), len(candidates))])
    return rule.acquisition.score(predictor, jnp.where(counts, means, -jnp.inf).max(), key)


def from_pool(
    meta: AbstractMetaModel,
    known: Known,
    rule: Rule,
    pool: tuple[Float[Array, "q d"], Bool[Array, " q"]],
    key: Key,
    believe: bool = False,
) -> Array:
    """The number of the best candidate among those that are open."""
    rows, open_ = pool
    key_adapt, key_score = jax.random.split(key)
    predictor = adapted(meta, known, rule, key_adapt, believe)
    score = _score(predictor, known, rule, rows, key_score)
    return jnp.argmax(jnp.where(open_, _finite(score(rows)), -jnp.inf))


def from_box(
    meta: AbstractMetaModel,
    known: Known,
    rule: Rule,
    box: tuple[Space, Array, Array],
    key: Key,
    effort: Effort = Effort(),  # noqa: B008 (a constant)
    believe: bool = False,
    places: Float[Array, "p d"] | None = None,
) -> Float[Array, " d"]:
    """The best row of a space; `box` gives it with the means and scales of learner units.

    Scores that belong together only within one call (`joint`) are compared over the candidates alone. So are those
    about `places`, which then are all the candidates there are: an ascent would leave them.
    """
    space, loc, scale = box
    key_adapt, key_score, key_wide, key_near = jax.random.split(key, 4)
    predictor = adapted(meta, known, rule, key_adapt, believe)
    tried, sign = known.data.x * scale + loc, 1 if rule.maximize else -1
    centre = tried[jnp.argmax(jnp.where(known.data.mask, sign * known.data.y, -jnp.inf))]
    if places is None:
        wide = jax.random.uniform(key_wide, (effort.wide, space.width))
        near = _around(centre, known.data.mask.any(), effort.near, key_near)
        candidates = space.snap(jnp.concatenate([wide, near]))
    else:
        candidates = space.snap(_beside(places, key_wide))
    score = _score(predictor, known, rule, (candidates - loc) / scale, key_score)

    def fresh(rows, values):
        gaps = jnp.abs(rows[:, None] - tried[None]).max(-1)
        again = ((gaps < _SAME) & known.taken).any(-1)
        return _finite(values) if rule.repeats else jnp.where(again, -jnp.inf, _finite(values))

    values = fresh(candidates, score((candidates - loc) / scale))
    if not rule.acquisition.joint and places is None:
        _, first = jax.lax.top_k(values, effort.ascents)
        start = (candidates[first], values[first])
        rows, reached = ascend(lambda rows: score((rows - loc) / scale), fresh, start, space, effort)
        candidates, values = jnp.concatenate([rows, candidates]), jnp.concatenate([reached, values])
    return candidates[jnp.argmax(values)]


def _beside(places: Float[Array, "p d"], key: Key) -> Float[Array, "c d"]:
    """The places, and two rows near each."""
    moved = places + _BESIDE * jax.random.normal(key, (2, *places.shape))
    return jnp.clip(jnp.concatenate([places, *moved]), 0.0, 1.0)


def _around(centre: Array, known: Array, count: int, key: Key) -> Array:
    """Rows about a centre at all distances from 0.3 to 0.003; one column in five is drawn afresh."""
    key_size, key_step, key_fresh, key_which = jax.random.split(key, 4)
    size = 0.3 * jnp.exp(jnp.log(0.01) * jax.random.uniform(key_size, (count, 1)))
    rows = jnp.clip(centre + size * jax.random.normal(key_step, (count, len(centre))), 0.0, 1.0)
    fresh = jax.random.uniform(key_fresh, rows.shape)
    return jnp.where(jax.random.bernoulli(key_which, 0.2, rows.shape) | ~known, fresh, rows)


def ascend(
    score: Score,
    value: Callable[[Array, Array], Array],
    start: tuple[Float[Array, "s d"], Float[Array, " s"]],
    space: Space,
    effort: Effort,
) -> tuple[Float[Array, "s d"], Float[Array, " s"]]:
    """Adam from each start at once, on [0, 1]: the best row on each path, and what it is worth.

    Scores and slopes are those of the nearest rows that stand for points; columns of choices stay as they are.
    """
    adam = Adam(effort.rate, effort.steps)
    slope = jax.value_and_grad(lambda rows: ((scores := score(rows)).sum(), scores), has_aux=True)

    def step(carry, t):
        rows, moments, best, reached = carry
        here = space.snap(rows)
        (_, scores), direction = slope(here)
        values = value(here, scores)
        best = jnp.where((values > reached)[:, None], here, best)
        usable = jnp.isfinite(direction) & jnp.asarray(space.moves)
        update, moments = adam.update(jnp.where(usable, direction, 0.0), moments, t)
        return (jnp.clip(rows + update, 0.0, 1.0), moments, best, jnp.maximum(values, reached)), None

    rows, values = start
    state = (rows, adam.init(rows), rows, values)
    _, _, best, reached = jax.lax.scan(step, state, jnp.arange(effort.steps))[0]
    return best, reached


def _finite(values: Array) -> Array:
    """Scores that are no number count as the worst."""
    return jnp.where(jnp.isfinite(values), values, -jnp.finfo(values.dtype).max)
