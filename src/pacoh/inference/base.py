"""The contract of an engine, and the two loops of the package: `scan` (pure) and `run` (host)."""

import abc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from threadpoolctl import threadpool_limits

from pacoh.compiling import outermost
from pacoh.inference import checkpoint
from pacoh.inference.checkpoint import Progress
from pacoh.inference.starts import Layout as Layout
from pacoh.inference.starts import Particles as Particles
from pacoh.inference.starts import starts as starts
from pacoh.types import Key, Params, Scalar


class AbstractLogDensity(eqx.Module):
    """An unnormalised log-density over parameters.

    A Module, not a closure: new data of the same shape compiles nothing.
    """

    @abc.abstractmethod
    def __call__(self, phi: Params, key: Key) -> Scalar:
        """ln q(phi) up to a constant; the key serves densities that are estimated by draws."""

    def minibatch(self, key: Key) -> "AbstractLogDensity":
        """An unbiased, cheaper stand-in for one step, shared by all particles; by default the density itself."""
        del key
        return self


class Info(NamedTuple):
    """What one step reports."""

    value: Scalar  # the log-density, averaged over particles
    ok: Bool[Array, ""]  # False: the step gave a number that is not finite and was undone


class AbstractState(eqx.Module):
    """An engine's state; `position` holds every number that must stay finite."""

    position: eqx.AbstractVar[Float[Array, "K D"]]


class AbstractInference(eqx.Module):
    """An engine: the same three calls serve the hyper-posterior and a task's posterior."""

    @property
    @abc.abstractmethod
    def steps(self) -> int:
        """How many steps a whole run has."""

    @abc.abstractmethod
    def init(self, log_density: AbstractLogDensity, draw: Callable[[Key], Params], key: Key) -> AbstractState:
        """The state before the first step, from `draw` (one start a particle)."""

    @abc.abstractmethod
    def step(self, log_density: AbstractLogDensity, state: Any, key: Key) -> tuple[Any, Scalar]:
        """One step: the new state and the log-density where it started."""

    def guarded_step(self, log_density: AbstractLogDensity, state: Any, key: Key) -> tuple[Any, Info]:
        """One step, undone where it gives a number that is not finite."""
        new, value = self.step(log_density, state, key)
        ok = jnp.isfinite(value) & jnp.isfinite(new.position.sum())
        return jax.tree.map(lambda a, b: jnp.where(ok, a, b), new, state), Info(value, ok)

    @abc.abstractmethod
    def draws(self, state: Any, key: Key) -> Params:
        """Draws from the approximation, with a leading axis K."""

    def complaint(self, state: Any) -> str | None:
        """What the user should know of a lane's final state, in a sentence; None where all is well."""
        del state
        return None


class Moments(NamedTuple):
    """Running means of an ascent direction and of its square, before their bias is corrected."""

    first: Array
    second: Array


_FIRST, _SECOND, _LEAST = 0.9, 0.999, 1e-8  # how the moments fade, and what keeps a quotient finite


class Adam(eqx.Module):
    """Adam on a flat array, with a linear warm-up and cosine decay to `final` times the rate over `steps`.

    The rate is an array, so that many rates train in one `vmap`.
    """

    rate: Float[Array, ""] = eqx.field(converter=lambda rate: jnp.asarray(rate, float), default=3e-3)
    steps: int = eqx.field(static=True, default=3000)
    warmup: int = eqx.field(static=True, default=0)
    final: float = eqx.field(static=True, default=0.0)

    def init(self, position: Array) -> Moments:
        """Moments at zero."""
        return Moments(jnp.zeros_like(position), jnp.zeros_like(position))

    def update(self, direction: Array, moments: Moments, t: Array) -> tuple[Array, Moments]:
        """The step along an ascent direction at step t."""
        moments = self.averaged(direction, moments)
        return self.move(moments, t), moments

    def averaged(self, direction: Array, moments: Moments) -> Moments:
        """The moments with one direction more."""
        first = _FIRST * moments.first + (1 - _FIRST) * direction
        return Moments(first, _SECOND * moments.second + (1 - _SECOND) * direction**2)

    def move(self, moments: Moments, t: Array) -> Array:
        """The step at these moments; what all entries share is divided once."""
        pace, scale = self.pace(t) / (1 - _FIRST ** (t + 1.0)), 1 / (1 - _SECOND ** (t + 1.0))
        return pace * moments.first / (jnp.sqrt(scale * moments.second) + _LEAST)

    def pace(self, t: Array) -> Scalar:
        """The rate at step t."""
        progress = jnp.clip(t / self.steps, 0.0, 1.0)
        decay = self.final + (1 - self.final) * 0.5 * (1 + jnp.cos(jnp.pi * progress))
        return self.rate * decay * jnp.clip((t + 1) / (self.warmup + 1), 0.0, 1.0)


class AscentState(AbstractState):
    """Particles (or variational parameters) and the optimiser's moments."""

    position: Float[Array, "K D"]
    moments: Any
    t: Array
    layout: Layout = eqx.field(static=True)


class AbstractAscent(AbstractInference):
    """An engine that follows a direction with Adam; a subclass says only which direction."""

    optimizer: eqx.AbstractVar[Adam]

    @property
    def steps(self) -> int:
        """The optimiser's horizon."""
        return self.optimizer.steps

    @abc.abstractmethod
    def ascent(self, log_density: AbstractLogDensity, state: AscentState, key: Key) -> tuple[Array, Scalar]:
        """The direction for `state.position`, and the mean log-density."""

    def start(self, starts: Float[Array, "K D"], layout: Layout) -> AscentState:
        """The state at given starting points."""
        return AscentState(starts, self.optimizer.init(starts), jnp.zeros((), jnp.int32), layout)

    def step(self, log_density: AbstractLogDensity, state: AscentState, key: Key) -> tuple[AscentState, Scalar]:
        """One Adam step along the direction."""
        state, info = self.guarded_step(log_density, state, key)
        return state, info.value

    def guarded_step(self, log_density: AbstractLogDensity, state: AscentState, key: Key) -> tuple[AscentState, Info]:
        """The same; a direction that is not finite is not followed. Known before the step, that takes no extra pass."""
        direction, value = self.ascent(log_density, state, key)
        ok = jnp.isfinite(value) & jnp.isfinite(direction.sum()) & jnp.isfinite(self.optimizer.pace(state.t))
        averaged = self.optimizer.averaged(direction, state.moments)
        moments = jax.tree.map(lambda a, b: jnp.where(ok, a, b), averaged, state.moments)
        position = jnp.where(ok, state.position + self.optimizer.move(moments, state.t), state.position)
        return AscentState(position, moments, state.t + ok, state.layout), Info(value, ok)


def scores(log_density: AbstractLogDensity, state: AscentState, key: Key) -> tuple[Array, Array]:
    """ln q and its gradient at each row: one mini-batch for all rows, draws of its own for each row."""
    key_batch, key_draws = jax.random.split(key)
    density = log_density.minibatch(key_batch)

    def of_row(row, key):
        return density(state.layout.unflatten(row), key)

    return jax.vmap(jax.value_and_grad(of_row))(state.position, jax.random.split(key_draws, len(state.position)))


def scan(engine: AbstractInference, log_density: AbstractLogDensity, state: Any, keys: Key) -> tuple[Any, Info]:
    """One step a key, compiled; pure, so it may stand inside `vmap` and `grad`. A step that is not finite is undone."""

    return jax.lax.scan(lambda now, key: engine.guarded_step(log_density, now, key), state, keys)


class Problem(eqx.Module):
    """What `run` trains: an engine on a density, from `draw`. Array leaves carry a leading axis of lanes."""

    engine: AbstractInference
    log_density: AbstractLogDensity
    draw: Callable[[Key], Params]


class Budget(eqx.Module):
    """How the host drives a run: steps a chunk, seconds at most, and who is told of progress (done, total, value).

    With `checkpoint` the run is written there after every chunk, and goes on from there where it was interrupted,
    bit for bit. The file stays at the end, so that the same call gives the same result at once; delete it when done.

    >>> import pacoh
    >>> from pacoh.inference.base import Budget
    >>> from pacoh.testing import ragged_tasks
    >>> told = []
    >>> budget = Budget(progress=lambda done, total, value: told.append((done, total)))
    >>> model = pacoh.fit(ragged_tasks(), "pacoh-gp-map", steps=20, budget=budget)
    >>> told
    [(20, 20)]
    """

    chunk: int = 500
    seconds: float | None = None
    progress: Callable[[int, int, float], None] | None = None
    checkpoint: Path | None = None
    finished: Callable[["Trained"], None] | None = None  # is given the learning curve and the final state


class Trained(eqx.Module):
    """The end of a run, lane by lane."""

    state: Any
    curve: np.ndarray  # (lanes, points): the mean log-density over windows of steps
    skipped: np.ndarray  # (lanes,): steps undone because a number was not finite
    steps: int

    def complaint(self) -> str | None:
        """What went wrong, in a sentence; None when every step was fine."""
        if not self.skipped.any():
            return None
        lanes = ", ".join(f"lane {lane}: {count}" for lane, count in enumerate(self.skipped) if count)
        return (
            f"Training met numbers that are not finite and undid those steps ({lanes} of {self.steps}); the last good "
            "state was kept. A smaller learning rate, or outliers in the targets, are the first things to look at."
        )


@outermost
def _start(problem: Problem, keys: Key) -> Any:
    def lane(p, key):
        return p.engine.init(p.log_density, p.draw, jax.random.fold_in(key, 0))

    return eqx.filter_vmap(lane)(problem, keys)


@outermost
def _chunk(problem: Problem, states: Any, keys: Key, index: Array, length: int) -> tuple[Any, Info]:
    def lane(p, state, key):
        return scan(p.engine, p.log_density, state, jax.random.split(jax.random.fold_in(key, index), length))

    return eqx.filter_vmap(lane)(problem, states, keys)


def run(problem: Problem, keys: Key, budget: Budget | None = None) -> Trained:
    """Trains every lane of `problem` (one a key) in chunks of `scan`: progress, checkpoints, a NaN guard a lane.

    BLAS is held to one thread meanwhile: many small factorisations otherwise fight over threads.
    """
    budget = budget or Budget()
    total = problem.engine.steps
    began = time.monotonic()
    made_by = checkpoint.fingerprint(problem, keys, budget.chunk) if budget.checkpoint else {}
    with threadpool_limits(1, "blas"):
        states, done, curve, skipped = _begin(problem, keys, budget, made_by)
        while done < total:
            length = min(budget.chunk, total - done)
            states, info = _chunk(problem, states, keys, jnp.asarray(1 + done), length)
            values, ok = np.asarray(info.value), np.asarray(info.ok)
            done += length
            skipped = skipped + (~ok).sum(1)
            curve = np.concatenate([curve, _thin(np.where(ok, values, np.nan))], 1)
            if budget.checkpoint is not None:
                checkpoint.write(budget.checkpoint, made_by, Progress(states, done, curve, skipped))
            if budget.progress is not None:
                budget.progress(done, total, float(np.nanmean(np.append(curve[:, -1], np.nan))))
            if budget.seconds is not None and time.monotonic() - began > budget.seconds:
                break
    trained = Trained(states, curve, skipped, done)
    if budget.finished is not None:
        budget.finished(trained)
    return trained


def _begin(problem: Problem, keys: Key, budget: Budget, made_by: dict[str, str]) -> Progress:
    """The checkpoint's progress where there is one of this run, else the start."""
    if budget.checkpoint is not None:
        like = eqx.filter_eval_shape(_start, problem, keys)
        found = checkpoint.read(budget.checkpoint, made_by, like)
        if found is not None:
            return found
    return Progress(_start(problem, keys), 0, np.zeros((len(keys), 0)), np.zeros(len(keys), int))


def _thin(values: np.ndarray, window: int = 25) -> np.ndarray:
    """Means over windows of steps, ignoring steps that were undone."""
    width = min(window, values.shape[1])
    kept = values[:, : values.shape[1] // width * width].reshape(len(values), -1, width)
    count = np.maximum(np.isfinite(kept).sum(-1), 1)
    return np.where(np.isfinite(kept).any(-1), np.nansum(kept, -1) / count, np.nan)
