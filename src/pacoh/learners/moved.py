"""Tasks that are one landscape, moved: f_i(x) = b_i g(x + s_i) + c_i + r_i(x), with Gaussian processes g and r_i.

A task's shift s_i, scale b_i and level c_i say where it lies on what all tasks share; r_i is what it has for itself.
Given the shifts and scales, y is Gaussian over the points of all tasks: the hyper-posterior of g is exact there, and
shifts, scales, kernels and noise have maximal density. A mean function that is the same for all tasks, however well it
is learned, averages over the shifts, and no stationary covariance about it knows that one shift explains every point.

With `basins` the mean of g is a sum of a few basins or hills. In many dimensions a kernel learns little from few
points, and a sum of basins much, where the landscape is one: on Hartmann-6 all of it from ten tasks of 20 points. They
are fitted first, with the moves, then held; what is open about them is in the covariance, as if the mean were linear in
their parameters (a Laplace approximation), so a new task's points correct the basins, too.

A new task is a draw of shifts and scales, weighed by what its points say. Where past points are few, the landscape is
surer of itself than it should be: shifts and kernels have one value each, and a basin that no task has seen is none. So
a new task may leave it, by a function of the landscape's kernel whose size is weighed like the moves, and may have less
noise. It predicts from the points of the meta-train tasks: its model HOLDS THEM. Do not pass its file on where tasks
are private.
"""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, Int
from scipy.special import ndtri

from pacoh.data import Dataset
from pacoh.errors import PacohError
from pacoh.inference.base import AbstractLogDensity, Adam, Particles, Problem, scan
from pacoh.inference.map import MAP
from pacoh.learners.base import AbstractMetaModel, AbstractTrainedLearner
from pacoh.learners.multitask import MOST, AbstractJoint, Evidence, Rows, TaskStart
from pacoh.predictive import GaussianMixture
from pacoh.priors.base import AbstractHyperPrior, AbstractPredictor, Param, log_mean_exp
from pacoh.priors.gaussian import cholesky, log_normal, noisy
from pacoh.priors.kernels import SE, AbstractKernel, Matern
from pacoh.priors.means import Basins
from pacoh.types import Key, Params, Scalar

_OWN = 0.2  # the sd of r at which training starts, in learner units
_SHIFT, _STRETCH = 0.3, 0.4  # sds of shifts (in those of the inputs) and of log scales, before any task is seen
_OPEN = 0.3  # sds about fitted basins and moves before the tasks are seen again, in units of their priors
_CURVED = 0.01  # the least noise beside basins
_WORTH = 4.0  # how many tasks that belief is worth
_LOOSE = (0.01, 0.1, 0.4, 1.2)  # sds of what a new task has for itself beside r, in those of the landscape
_QUIET = (1.0, 0.25)  # its noise, in that of the past tasks, which takes in where their landscape is wrong
_HOT = 4.0  # draws are kept by a flattened evidence: those that fit badly may climb to another mode


class MovedCovariance(AbstractJoint):
    """The covariance over points of n tasks: b_i b_j k_g(x + s_i, z + s_j) + [i = j] (level^2 + k_r(x, z))."""

    common: AbstractKernel = SE()
    own: AbstractKernel = Matern()
    noise: float = eqx.field(static=True, default=0.05)
    basins: Basins | None = None

    def specs(self, d: int, n: int) -> dict[str, Any]:
        """Tasks start where they are."""
        shape = {} if self.basins is None else {"basins": self.basins.specs(d)}
        return shape | {
            "common": self.common.specs(d),
            "own": self.own.specs(d),
            "shift": Param((n, d), "move", unit=_SHIFT),
            "log_stretch": Param((n,), "move", unit=_STRETCH),
            "level": Param((), "mean"),
            "log_level": Param((), "scale", loc=math.log(0.5)),
            "log_noise": Param((), "noise", loc=math.log(self.noise)),
        }

    def gram(self, theta: Params, rows: Rows) -> Float[Array, "N N"]:
        """The covariance over all points of all tasks."""
        x, stretch = self.placed(theta, rows)
        shared = stretch[:, None] * stretch * self.shared(theta, x, x)
        apart = self.apart(theta, rows.x, rows.x)
        if self.basins is not None:
            moving = stretch[:, None] * self.move_slopes(theta, x)
            apart += moving @ moving.T
        return shared + (rows.task[:, None] == rows.task) * apart

    def mean(self, theta: Params, rows: Rows) -> Float[Array, " N"]:
        """level + b_i m(x + s_i)."""
        x, stretch = self.placed(theta, rows)
        return theta["level"] + stretch * self.shape(theta, x)

    def shape(self, theta: Params, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """m, the mean of the landscape: its basins, or zero."""
        return jnp.zeros(len(x)) if self.basins is None else self.basins(theta["basins"], x)

    def shared(self, theta: Params, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        """The covariance of the landscape at its places: k_g, and what is left open about fitted basins."""
        gram = self.common.gram(theta["common"], x, z)
        return gram if self.basins is None else gram + self.slopes(theta, x) @ self.slopes(theta, z).T

    def shared_diag(self, theta: Params, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        """The same of a place with itself."""
        diag = self.common.diag(theta["common"], x)
        return diag if self.basins is None else diag + (self.slopes(theta, x) ** 2).sum(-1)

    def slopes(self, theta: Params, x: Float[Array, "m d"]) -> Float[Array, "m p"]:
        """How the mean at a place changes with the basins' parameters, each by the sd that is left open."""
        basins = self.basins
        assert basins is not None
        slopes = jax.vmap(jax.grad(lambda params, row: basins(params, row[None])[0]), (None, 0))(theta["basins"], x)
        scaled = jax.tree.map(lambda spec, part: _OPEN * spec.unit * part, basins.specs(x.shape[-1]), slopes)
        return jnp.concatenate([part.reshape(len(x), -1) for part in jax.tree.leaves(scaled)], 1)

    def move_slopes(self, theta: Params, x: Float[Array, "m d"]) -> Float[Array, "m e"]:
        """The same for a task's shift and log scale, at the scale 1."""
        along = jax.vmap(jax.grad(lambda row: self.shape(theta, row[None])[0]))(x)
        return _OPEN * jnp.concatenate([_SHIFT * along, _STRETCH * self.shape(theta, x)[:, None]], 1)

    def placed(self, theta: Params, rows: Rows) -> tuple[Float[Array, "N d"], Float[Array, " N"]]:
        """Where the points lie on the landscape, and the scales of their tasks."""
        return rows.x + theta["shift"][rows.task], jnp.exp(theta["log_stretch"][rows.task])

    def noise_variance(self, theta: Params) -> Scalar:
        """sigma^2. Basins are curved where their covariance takes them for straight, so they never fit exactly."""
        return super().noise_variance(theta) + (0.0 if self.basins is None else _CURVED**2)

    def apart(self, theta: Params, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        """What points of one task share beside the landscape: level^2 + k_r(x, z)."""
        return jnp.exp(2 * theta["log_level"]) + _OWN**2 * self.own.gram(theta["own"], x, z)

    def apart_diag(self, theta: Params, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        """The same of a point with itself."""
        return jnp.exp(2 * theta["log_level"]) + _OWN**2 * self.own.diag(theta["own"], x)


class Search(eqx.Module):
    """How a new task's move is looked for: the best of `draws` of the belief climb `steps` times, `kept` of them.

    Predictions are a mixture of `members` of these, drawn by their weights.
    """

    draws: int = eqx.field(static=True, default=256)
    kept: int = eqx.field(static=True, default=32)
    steps: int = eqx.field(static=True, default=10)
    members: int = eqx.field(static=True, default=12)


class MovedModel(AbstractMetaModel):
    """The landscape as the meta-train points give it, and how far tasks are moved: this model holds data.

    A move is z = (shift, log scale) in units of its distribution over the tasks, N(loc, sd^2).
    """

    prior: MovedCovariance
    theta: Params
    placed: tuple[Float[Array, "N d"], Float[Array, " N"]]
    inverse: Float[Array, "N N"]  # of the factor of the tasks' covariance
    solved: Float[Array, " N"]
    loc: Float[Array, " e"]
    sd: Float[Array, " e"]
    standard: Float[Array, "S e"]  # the draws of z
    kinds: Float[Array, "R 2"]  # sizes of what a new task has for itself, and of its noise
    log_shares: Float[Array, " R"]  # how often tasks are of these kinds
    search: Search
    log_density: Scalar  # of the meta-train tasks, and of the parameters found for them

    def adapt(self, context: Dataset, key: Key) -> "MovedPredictor":
        """The mixture over moves."""
        return self.weigh(context, key)[0]

    def weigh(self, context: Dataset, key: Key) -> tuple["MovedPredictor", Scalar]:
        """The predictor of a context, and the log of its evidence.

        Draws of z, each with a kind of task (sizes of its own part and noise), are kept as their evidence says and
        climb to modes of the posterior by Gauss-Newton steps. Last, draws about these, one from the Gaussian that each
        step assumes, have weights p(z) Z(z) / q(z) with q the mean of the Gaussians: they are draws of the posterior
        however well q fits it, and the weights' mean is the evidence.
        """
        key_keep, key_last, key_members = jax.random.split(key, 3)
        evidence = lambda z, kind: self.log_evidence(z, kind, context)  # noqa: E731
        first = jax.vmap(jax.vmap(evidence, (None, 0)), (0, None))(self.standard, self.kinds)
        hot = (first / _HOT + self.log_shares).reshape(-1)
        chosen = jax.random.categorical(key_keep, hot, shape=(self.search.kept,))
        at, level = jnp.divmod(chosen, len(self.kinds))
        kinds = self.kinds[level]
        modes, factors = jax.vmap(lambda z, kind: self.climb(z, kind, context))(self.standard[at], kinds)
        drawn = modes + jnp.einsum("jef,jf->je", factors, jax.random.normal(key_last, modes.shape))
        log_q = log_mixture(drawn, modes, factors, level[:, None] == level)
        weights = jax.vmap(evidence)(drawn, kinds) + log_standard(drawn) + self.log_shares[level] - log_q
        members = resampled(weights, self.search.members, key_members)
        return MovedPredictor.of(self, (drawn[members], kinds[members]), context), log_mean_exp(weights)

    def climb(
        self, z: Float[Array, " e"], kind: Float[Array, " 2"], context: Dataset
    ) -> tuple[Float[Array, " e"], Float[Array, "e e"]]:
        """A mode of N(z; 0, I) Z(z) near z, and the factor of the covariance there, by damped Gauss-Newton steps.

        The residuals, whitened, are linear in z and their covariance constant for the length of a step.
        """
        eye = jnp.eye(len(z))

        def look(z):
            mean, covariance = self.said(z, kind, context)
            factor = cholesky(covariance)
            slope = jax.jacfwd(lambda z: self.mean(z, context.x))(z)
            rows = solve_triangular(factor, jnp.where(context.mask[:, None], slope, 0.0), lower=True)
            residual = solve_triangular(factor, jnp.where(context.mask, context.y - mean, 0.0), lower=True)
            density = -0.5 * residual @ residual - jnp.log(jnp.diagonal(factor)).sum() + log_standard(z)
            return density, rows.T @ rows + eye, rows.T @ residual - z

        def step(carry, _):
            z, damping, (density, curvature, slope) = carry
            new = z + jax.scipy.linalg.solve(
                curvature + damping * jnp.diag(jnp.diagonal(curvature)), slope, assume_a="pos"
            )
            seen = look(new)
            up = seen[0] > density
            kept = jax.tree.map(lambda a, b: jnp.where(up, a, b), (new, seen), (z, (density, curvature, slope)))
            return (kept[0], jnp.where(up, 0.3 * damping, 4.0 * damping), kept[1]), None

        (z, _, (_, curvature, _)), _ = jax.lax.scan(step, (z, jnp.asarray(0.1), look(z)), None, self.search.steps)
        half = solve_triangular(cholesky(curvature), eye, lower=True)
        return z, half.T

    def move(self, z: Float[Array, " e"]) -> tuple[Float[Array, " d"], Scalar]:
        """The shift and the scale."""
        both = self.loc + self.sd * z
        return both[:-1], jnp.exp(both[-1])

    def landscape(self, x: Float[Array, "m d"]) -> tuple[Float[Array, " m"], Float[Array, "m N"]]:
        """E g at places of the landscape, and rows h with cov(g(x), g(z)) = k_g(x, z) - h(x)'h(z)."""
        places, stretch = self.placed
        cross = self.prior.shared(self.theta, x, places) * stretch
        return self.prior.shape(self.theta, x) + cross @ self.solved, cross @ self.inverse.T

    def at(
        self, z: Float[Array, " e"], x: Float[Array, "m d"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m N"], Array]:
        """Under a move: the mean of f, rows b h, and the places on the landscape."""
        shift, stretch = self.move(z)
        mean, half = self.landscape(x + shift)
        return self.theta["level"] + stretch * mean, stretch * half, x + shift

    def covariance(
        self, z: Array, kind: Float[Array, " 2"], one: tuple[Array, ...], other: tuple[Array, ...]
    ) -> Float[Array, "a b"]:
        """cov of f under a move, given the tasks; each side is (x, rows, places)."""
        (x, half, place), (w, other_half, other_place) = one, other
        common = self.move(z)[1] ** 2 * self.prior.shared(self.theta, place, other_place)
        loose = kind[0] ** 2 * self.prior.common.gram(self.theta["common"], place, other_place)
        return common + loose - half @ other_half.T + self.prior.apart(self.theta, x, w)

    def noise_variance(self, kind: Float[Array, " 2"]) -> Scalar:
        """sigma^2 of a new task."""
        return kind[1] ** 2 * self.prior.noise_variance(self.theta)

    def mean(self, z: Float[Array, " e"], x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """E f under a move."""
        shift, stretch = self.move(z)
        places, stretches = self.placed
        cross = self.prior.shared(self.theta, x + shift, places) * stretches
        return self.theta["level"] + stretch * (self.prior.shape(self.theta, x + shift) + cross @ self.solved)

    def said(
        self, z: Float[Array, " e"], kind: Float[Array, " 2"], context: Dataset
    ) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
        """Mean and covariance of a context's targets under a move, given the tasks."""
        mean, half, place = self.at(z, context.x)
        side = (context.x, half, place)
        return mean, noisy(self.covariance(z, kind, side, side), context.mask, self.noise_variance(kind))

    def log_evidence(self, z: Float[Array, " e"], kind: Float[Array, " 2"], context: Dataset) -> Scalar:
        """ln p(context | z, kind, the tasks)."""
        mean, covariance = self.said(z, kind, context)
        constant = 0.5 * math.log(2 * math.pi) * context.mask.sum()
        return log_normal(jnp.where(context.mask, context.y - mean, 0.0), covariance) - constant


def resampled(log_weights: Float[Array, " J"], count: int, key: Key) -> Int[Array, " {count}"]:
    """Numbers drawn by their weights, evenly: one comes as often as its share says, rounded up or down."""
    at = (jnp.arange(count) + jax.random.uniform(key)) / count
    return jnp.minimum(jnp.searchsorted(jnp.cumsum(jax.nn.softmax(log_weights)), at), len(log_weights) - 1)


def log_standard(z: Float[Array, "*n e"]) -> Float[Array, "*n"]:
    """ln N(z; 0, I)."""
    return -0.5 * (z**2).sum(-1) - 0.5 * z.shape[-1] * math.log(2 * math.pi)


def log_mixture(
    z: Float[Array, "a e"], locs: Float[Array, "J e"], factors: Float[Array, "J e e"], counts: Bool[Array, "J a"]
) -> Float[Array, " a"]:
    """ln (1/J) sum_j N(z; loc_j, F_j F_j'), over those j that count."""

    def under(loc, factor):
        white = jnp.linalg.solve(factor, (z - loc).T).T
        return log_standard(white) - jnp.log(jnp.abs(jnp.diagonal(factor))).sum()

    logs = jnp.where(counts, jax.vmap(under)(locs, factors), -jnp.inf)
    return jax.nn.logsumexp(logs, 0) - math.log(len(locs))


class MovedPredictor(AbstractPredictor):
    """A new task given the meta-train tasks and its context: a mixture over its moves."""

    model: MovedModel
    moves: tuple[Float[Array, "J e"], Float[Array, "J 2"]]
    context: Dataset
    given: tuple[Array, Array, Array, Array]  # of each move: rows and places of the context, factor, solved

    @staticmethod
    def of(model: MovedModel, moves: tuple[Array, Array], context: Dataset) -> "MovedPredictor":
        """Conditions on the context, under each move and size."""

        def condition(z, kind):
            mean, covariance = model.said(z, kind, context)
            _, half, place = model.at(z, context.x)
            factor = cholesky(covariance)
            residual = jnp.where(context.mask, context.y - mean, 0.0)
            white = solve_triangular(factor, residual, lower=True)
            return half, place, factor, solve_triangular(factor.T, white, lower=False)

        return MovedPredictor(model, moves, context, jax.vmap(condition)(*moves))

    def __call__(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of y."""
        latent = self.latent(x)
        scale = jnp.sqrt(latent.scale**2 + jax.vmap(self.model.noise_variance)(self.moves[1])[:, None])
        return GaussianMixture(latent.loc, scale)

    def latent(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of f."""
        loc, variance = jax.vmap(lambda move, given: self._marginal(move, given, x))(self.moves, self.given)
        scale = jnp.sqrt(jnp.maximum(variance, jnp.finfo(variance.dtype).tiny))
        return GaussianMixture(loc, scale)

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, " q"]]:
        """One draw of f under one of the moves, jointly at the points it is asked at (ask once)."""
        key_which, key_function = jax.random.split(key)
        chosen = jax.random.randint(key_which, (), 0, len(self.moves[1]))
        (z, kind), given = jax.tree.map(lambda leaf: leaf[chosen], (self.moves, self.given))

        def draw(x):
            mean, side, white = self._given((z, kind), given, x)
            covariance = self.model.covariance(z, kind, side, side) - white.T @ white
            return mean + cholesky(covariance) @ jax.random.normal(key_function, (len(x),))

        return draw

    def _given(
        self, move: tuple[Array, Array], given: tuple[Array, ...], x: Array
    ) -> tuple[Array, tuple[Array, ...], Array]:
        half, place, factor, solved = given
        mean, rows, places = self.model.at(move[0], x)
        side = (x, rows, places)
        cross = self.model.covariance(*move, side, (self.context.x, half, place)) * self.context.mask
        return mean + cross @ solved, side, solve_triangular(factor, cross.T, lower=True)

    def _marginal(self, move: tuple[Array, Array], given: tuple[Array, ...], x: Array) -> tuple[Array, Array]:
        model, (z, kind) = self.model, move
        mean, (_, rows, places), white = self._given(move, given, x)
        common = model.move(z)[1] ** 2 * model.prior.shared_diag(model.theta, places)
        common += kind[0] ** 2 * model.prior.common.diag(model.theta["common"], places)
        return mean, common + model.prior.apart_diag(model.theta, x) - (rows**2).sum(-1) - (white**2).sum(0)


class Rough(AbstractLogDensity):
    """ln p of the tasks where basins, moves and a level of each task explain them but for noise; no kernels."""

    evidence: Evidence

    def __call__(self, phi: Params, key: Key) -> Scalar:
        """Up to a constant."""
        theta, levels = phi
        prior, rows = self.evidence.prior, self.evidence.rows
        residual = jnp.where(rows.mask, self.evidence.y - prior.mean(theta, rows) - levels[rows.task], 0.0)
        fit = -0.5 * (residual**2).sum() / prior.noise_variance(theta) - rows.mask.sum() * theta["log_noise"]
        own = 0.5 * (levels**2).sum() * jnp.exp(-2 * theta["log_level"]) + len(levels) * theta["log_level"]
        return fit - own + self.evidence.hyper_prior.log_prob(theta, key)


class Settled(AbstractLogDensity):
    """The evidence with basins and moves as they are: what is open about them is in the covariance."""

    evidence: Evidence

    def __call__(self, phi: Params, key: Key) -> Scalar:
        """Up to a constant."""
        fixed = {name: jax.lax.stop_gradient(phi[name]) for name in ("basins", "shift", "log_stretch")}
        return self.evidence(phi | fixed, key)


class BasinStart(eqx.Module):
    """Starts training where basins and moves alone explain the tasks best: the likeliest of several ascents.

    Each begins with its basins at points drawn by how far their values lie from the mean. One ascent alone may end with
    two basins in one place, and a place without one.
    """

    start: TaskStart
    evidence: Evidence
    ascents: int = eqx.field(static=True)
    steps: int = eqx.field(static=True, default=2000)

    def __call__(self, key: Key) -> Params:
        """One start."""
        key_init, key_steps = jax.random.split(key)
        density, engine = Rough(self.evidence), MAP(Adam(0.03, self.steps), restarts=self.ascents)
        state = engine.init(density, self.guess, key_init)
        state, _ = scan(engine, density, state, jax.random.split(key_steps, self.steps))
        found = engine.draws(state, key)
        values = jax.vmap(lambda phi: density(phi, key))(found)
        best = jnp.argmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))
        return jax.tree.map(lambda leaf: leaf[best], found[0])

    def guess(self, key: Key) -> tuple[Params, Float[Array, " n"]]:
        """Where an ascent begins: theta, and a level for each task."""
        key_theta, key_points, key_widths, key_heights = jax.random.split(key, 4)
        theta, rows, y = self.start(key_theta), self.evidence.rows, self.evidence.y
        basins = theta["basins"]
        odds = jnp.where(rows.mask, jnp.exp(2 * jnp.abs(y)), 0.0)
        chosen = jax.random.choice(key_points, len(y), basins["height"].shape, replace=False, p=odds / odds.sum())
        widths = 0.3 + 0.3 * jax.random.normal(key_widths, basins["log_length"].shape)
        heights = 0.5 + jnp.abs(jax.random.normal(key_heights, chosen.shape))
        basins = {"centre": rows.x[chosen], "log_length": widths, "height": jnp.sign(y[chosen]) * heights}
        theta |= {"basins": basins, "log_noise": jnp.log(jnp.asarray(0.4))}
        return theta, jnp.zeros(self.start.n)


class Moved(AbstractTrainedLearner):
    """MAP on the evidence of all tasks together, their moves among the parameters; regression only."""

    hyper_prior: Callable[[Any], AbstractHyperPrior]
    prior: MovedCovariance = MovedCovariance()
    inference: MAP = eqx.field(default_factory=MAP)
    search: Search = Search()

    def problem(self, tasks: Dataset) -> Problem:
        """The engine on the evidence."""
        n, d = len(tasks.mask), tasks.x.shape[-1]
        hyper_prior = self.hyper_prior(self.prior.specs(d, n))
        density = Evidence(self.prior, hyper_prior, Rows.of(tasks), tasks.y.reshape(-1))
        start = TaskStart(self.prior, d, n)
        if self.prior.basins is None:
            return Problem(self.inference, density, start)
        ascents = max(4, min(32, 8000 // (n * tasks.mask.shape[-1])))  # as many as cost seconds
        return Problem(self.inference, Settled(density), BasinStart(start, density, ascents))

    def model(self, state: Any, tasks: Dataset, key: Key) -> MovedModel:
        """The landscape given the tasks' points, which it keeps."""
        theta = jax.tree.map(lambda leaf: leaf[0], self.inference.draws(state, key))
        rows = Rows.of(tasks)
        factor = cholesky(noisy(self.prior.gram(theta, rows), rows.mask, self.prior.noise_variance(theta)))
        inverse = solve_triangular(factor, jnp.eye(len(factor), dtype=factor.dtype), lower=True)
        residual = jnp.where(rows.mask, tasks.y.reshape(-1) - self.prior.mean(theta, rows), 0.0)
        solved = inverse.T @ (inverse @ residual)
        places, stretch = self.prior.placed(theta, rows)
        kinds = jnp.array(list(product(_LOOSE, _QUIET)))
        moves = jnp.concatenate([theta["shift"], theta["log_stretch"][:, None]], 1)
        loc = moves.mean(0)
        believed = jnp.array([_SHIFT] * tasks.x.shape[-1] + [_STRETCH]) ** 2
        variance = (_WORTH * believed + ((moves - loc) ** 2).sum(0)) / (_WORTH + len(moves) - 1)
        return MovedModel(
            self.prior,
            theta,
            (places, jnp.where(rows.mask, stretch, 0.0)),
            inverse,
            solved,
            loc,
            jnp.sqrt(variance),
            jnp.asarray(even_normals(self.search.draws, len(loc)), float),
            kinds,
            log_shares_of(left_out(self.prior, theta, tasks, (inverse, solved), kinds)),
            self.search,
            self.problem(tasks).log_density(theta, key),
        )

    def restart(self, model: MovedModel) -> Particles:
        """The fitted parameters; the tasks must be as many as before."""
        return Particles(jax.tree.map(lambda leaf: leaf[None], model.theta))

    def check(self, tasks: Dataset) -> None:
        """Refuses classes, and more points than one covariance matrix can hold."""
        if not jnp.issubdtype(tasks.y.dtype, jnp.floating):
            raise PacohError("Moved landscapes are of numbers; for classes choose another method.")
        points = math.prod(tasks.mask.shape[-2:])
        if points > MOST:
            raise PacohError(
                f"All points are in one covariance matrix: at most {MOST}, padding included; got {points}. Thin the "
                "tasks, or learn a prior without moves (pacoh-gp-map)."
            )


def left_out(
    prior: MovedCovariance,
    theta: Params,
    tasks: Dataset,
    solution: tuple[Float[Array, "N N"], Float[Array, " N"]],
    kinds: Float[Array, "R 2"],
) -> Float[Array, "n R"]:
    """ln p(a task | the other tasks, theta, kind), up to a constant.

    With P the inverse of the covariance of all points and a = P y, a task given the others has the covariance C, the
    inverse of its block of P, and y lies C a from its mean, a its part.
    """
    inverse, solved = solution
    n, m = tasks.mask.shape
    half = inverse.reshape(-1, n, m).transpose(1, 0, 2)

    def of_task(half, solved, x, mask):
        covariance = jnp.linalg.inv(half.T @ half)
        shared = mask[:, None] * mask * prior.common.gram(theta["common"], x, x)

        def of_kind(kind):
            quiet = (1 - kind[1] ** 2) * prior.noise_variance(theta) * mask
            return log_normal(covariance @ solved, covariance + kind[0] ** 2 * shared - jnp.diag(quiet))

        return jax.vmap(of_kind)(kinds)

    return jax.vmap(of_task)(half, solved.reshape(n, m), tasks.x, tasks.mask)


def log_shares_of(logs: Float[Array, "n R"]) -> Float[Array, " R"]:
    """ln of the shares of kinds that make tasks likeliest, one more task being of any kind; by EM."""
    n, kinds = logs.shape

    def step(log_shares, _):
        of_tasks = jax.nn.softmax(logs + log_shares).sum(0)
        return jnp.log((of_tasks + 1 / kinds) / (n + 1)), None

    return jax.lax.scan(step, jnp.full(kinds, -math.log(kinds)), None, 50)[0]


def even_normals(count: int, width: int) -> np.ndarray:
    """Standard normals that lie evenly: a Sobol sequence, a power of two of them."""
    from scipy.stats import qmc  # a second to import: only where it is used

    return ndtri(qmc.Sobol(width, scramble=False).random(count) + 0.5 / count)
