"""A multi-task GP by intrinsic coregionalisation (Bonilla et al. 2008): one Gaussian process over points and tasks.

cov(f_t(x), f_s(z)) = B_ts k(x, z), B = W W' + diag(own^2). A new task is one more row of B, fitted to its context; what
was learned from the meta-train tasks stays. It predicts from their points: its model HOLDS THE META-TRAIN TASKS (their
inputs, and weights from which the targets can be computed back). Do not pass its file on where tasks are private.
"""

import abc
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, Int

from pacoh.data import Dataset
from pacoh.errors import PacohError
from pacoh.inference.base import AbstractLogDensity, Adam, Particles, Problem, scan
from pacoh.inference.map import MAP
from pacoh.learners.base import AbstractMetaModel, AbstractTrainedLearner
from pacoh.predictive import GaussianMixture
from pacoh.priors.base import AbstractHyperPrior, AbstractPredictor, Param, draw_start
from pacoh.priors.gaussian import cholesky, log_normal, noisy
from pacoh.priors.kernels import SE, AbstractKernel
from pacoh.types import Key, Params, Scalar

MOST = 3000  # points of all tasks together: their covariance is one matrix
_NARROW = 0.05  # the least sd that rows of B are taken to have over tasks


class AbstractJoint(eqx.Module):
    """A covariance over points of n tasks at once, with a level and a noise."""

    @abc.abstractmethod
    def specs(self, d: int, n: int) -> dict[str, Any]:
        """The tree of Param of theta, a scalar "level" and "log_noise" among them."""

    @abc.abstractmethod
    def gram(self, theta: Params, rows: "Rows") -> Float[Array, "N N"]:
        """The covariance over all points of all tasks."""

    def mean(self, theta: Params, rows: "Rows") -> Float[Array, " N"]:
        """What is expected of the points of all tasks."""
        return jnp.broadcast_to(theta["level"], rows.mask.shape)

    def noise_variance(self, theta: Params) -> Scalar:
        """sigma^2."""
        return jnp.exp(2 * theta["log_noise"])


class Coregionalised(AbstractJoint):
    """The covariance over points of n tasks, a constant mean, and one noise: theta = {kernel, w, log_own, ...}."""

    kernel: AbstractKernel = SE()
    rank: int = eqx.field(static=True, default=2)
    noise: float = eqx.field(static=True, default=0.2)

    def specs(self, d: int, n: int) -> dict[str, Any]:
        """Tasks start alike: rows of W about one point, and a small share of their own."""
        return {
            "kernel": self.kernel.specs(d),
            "w": Param((n, self.rank), "task", loc=self.rank**-0.5, start=0.1),
            "log_own": Param((n,), "task", loc=math.log(0.3)),
            "level": Param((), "mean"),
            "log_noise": Param((), "noise", loc=math.log(self.noise)),
        }

    def between(self, theta: Params) -> Float[Array, "n n"]:
        """B = W W' + diag(own^2)."""
        return theta["w"] @ theta["w"].T + jnp.diag(jnp.exp(2 * theta["log_own"]))

    def gram(self, theta: Params, rows: "Rows") -> Float[Array, "N N"]:
        """B_ts k(x, z) over all points of all tasks."""
        return self.between(theta)[rows.task][:, rows.task] * self.kernel.gram(theta["kernel"], rows.x, rows.x)


class Rows(eqx.Module):
    """The points of all tasks in one list, each with the number of its task."""

    x: Float[Array, "N d"]
    task: Int[Array, " N"]
    mask: Bool[Array, " N"]

    @staticmethod
    def of(tasks: Dataset) -> "Rows":
        """The stack, flattened; padding stays, masked."""
        n, m = tasks.mask.shape
        return Rows(tasks.x.reshape(n * m, -1), jnp.repeat(jnp.arange(n), m), tasks.mask.reshape(-1))


class Evidence(AbstractLogDensity):
    """ln N(y; mean, K + sigma^2) + ln of the hyper-prior, K over the points of all tasks."""

    prior: AbstractJoint
    hyper_prior: AbstractHyperPrior
    rows: Rows
    y: Float[Array, " N"]

    def __call__(self, phi: Params, key: Key) -> Scalar:
        """Up to a constant."""
        covariance = noisy(self.prior.gram(phi, self.rows), self.rows.mask, self.prior.noise_variance(phi))
        residual = jnp.where(self.rows.mask, self.y - self.prior.mean(phi, self.rows), 0.0)
        return log_normal(residual, covariance) + self.hyper_prior.log_prob(phi, key)


class NewRow(AbstractLogDensity):
    """ln p(y | meta-train tasks, row) + ln N(row; those of the tasks), over a new task's row {w, log_own} of B.

    Given the tasks, f has mean sum_r w_r means_r and covariance (|w|^2 + own^2) K - sum_rs w_r w_s known_rs.
    """

    means: Float[Array, "r m"]
    known: Float[Array, "r r m m"]
    gram: Float[Array, "m m"]
    residual: Float[Array, " m"]
    mask: Bool[Array, " m"]
    variance: Scalar
    places: tuple[Params, Params]

    def __call__(self, phi: Params, key: Key) -> Scalar:
        """Up to a constant."""
        del key
        w = phi["w"]
        covariance = (w @ w + jnp.exp(2 * phi["log_own"])) * self.gram - jnp.einsum("r,s,rsmk->mk", w, w, self.known)
        residual = jnp.where(self.mask, self.residual - w @ self.means, 0.0)
        off = jax.tree.map(lambda v, loc, sd: (((v - loc) / sd) ** 2).sum(), phi, *self.places)
        return log_normal(residual, noisy(covariance, self.mask, self.variance)) - 0.5 * (off["w"] + off["log_own"])


class MTGPModel(AbstractMetaModel):
    """The learned covariance and the meta-train points: this model holds data."""

    prior: Coregionalised
    theta: Params
    rows: Rows
    factor: Float[Array, "N N"]
    solved: Float[Array, " N"]
    adaptation: MAP

    def parts(self, x: Float[Array, "m d"]) -> tuple[Float[Array, "r m"], Float[Array, "r N m"]]:
        """For each column r of W: the mean at x that the tasks give, and L^{-1} of the covariance with their points."""
        gram = self.prior.kernel.gram(self.theta["kernel"], x, self.rows.x) * self.rows.mask
        cross = gram[None] * self.theta["w"].T[:, None, self.rows.task]
        return cross @ self.solved, jax.vmap(lambda c: solve_triangular(self.factor, c.T, lower=True))(cross)

    def tasks_rows(self) -> tuple[Params, Params]:
        """Mean and sd over the meta-train tasks of their rows of B."""
        rows = {"w": self.theta["w"], "log_own": self.theta["log_own"]}
        return jax.tree.map(lambda v: v.mean(0), rows), jax.tree.map(lambda v: jnp.maximum(v.std(0), _NARROW), rows)

    def adapt(self, context: Dataset, key: Key) -> "MTGPPredictor":
        """A row of B by MAP on the context, then f given the tasks' points and its own; without points the mean row."""
        key_init, key_steps, key_draws = jax.random.split(key, 3)
        means, halves = self.parts(context.x)
        places = self.tasks_rows()
        gram = self.prior.kernel.gram(self.theta["kernel"], context.x, context.x)
        known = jnp.einsum("rNm,sNk->rsmk", halves, halves)
        variance = self.prior.noise_variance(self.theta)
        density = NewRow(means, known, gram, context.y - self.theta["level"], context.mask, variance, places)
        state = self.adaptation.init(density, lambda _: places[0], key_init)
        state, _ = scan(self.adaptation, density, state, jax.random.split(key_steps, self.adaptation.steps))
        row = jax.tree.map(lambda leaf: leaf[0], self.adaptation.draws(state, key_draws))
        seen = context.mask.any()
        row = jax.tree.map(lambda new, mean: jnp.where(seen, new, mean), row, places[0])
        return MTGPPredictor.of(self, row, context)


class MTGPPredictor(AbstractPredictor):
    """A new task given the meta-train tasks and its context."""

    model: MTGPModel
    row: Params
    context: Dataset
    factor: Float[Array, "m m"]
    solved: Float[Array, " m"]

    @staticmethod
    def of(model: MTGPModel, row: Params, context: Dataset) -> "MTGPPredictor":
        """Conditions on the context what the tasks say."""
        blank = MTGPPredictor(model, row, context, jnp.zeros(()), jnp.zeros(()))
        mean, half = blank._given_tasks(context.x)
        covariance = blank._covariance(context.x, context.x) - half.T @ half
        factor = cholesky(noisy(covariance, context.mask, model.prior.noise_variance(model.theta)))
        residual = jnp.where(context.mask, context.y - mean, 0.0)
        white = solve_triangular(factor, residual, lower=True)
        return MTGPPredictor(model, row, context, factor, solve_triangular(factor.T, white, lower=False))

    def __call__(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of y."""
        latent = self.latent(x)
        return GaussianMixture(
            latent.loc, jnp.sqrt(latent.scale**2 + self.model.prior.noise_variance(self.model.theta))
        )

    def latent(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of f."""
        mean, half, own = self._given_all(x)
        variance = self._diagonal(x) - (half**2).sum(0) - (own**2).sum(0)
        return GaussianMixture(mean[None], jnp.sqrt(jnp.maximum(variance, jnp.finfo(variance.dtype).tiny))[None])

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, " q"]]:
        """One draw of f, jointly at the points it is asked at (ask once, for all of them)."""

        def draw(x):
            mean, half, own = self._given_all(x)
            covariance = self._covariance(x, x) - half.T @ half - own.T @ own
            return mean + cholesky(covariance) @ jax.random.normal(key, (len(x),))

        return draw

    def _scale(self) -> Scalar:
        return self.row["w"] @ self.row["w"] + jnp.exp(2 * self.row["log_own"])

    def _covariance(self, x: Array, z: Array) -> Array:
        return self._scale() * self.model.prior.kernel.gram(self.model.theta["kernel"], x, z)

    def _diagonal(self, x: Array) -> Array:
        return self._scale() * self.model.prior.kernel.diag(self.model.theta["kernel"], x)

    def _given_tasks(self, x: Array) -> tuple[Array, Array]:
        means, halves = self.model.parts(x)
        return self.model.theta["level"] + self.row["w"] @ means, jnp.einsum("r,rNm->Nm", self.row["w"], halves)

    def _given_all(self, x: Array) -> tuple[Array, Array, Array]:
        mean, half = self._given_tasks(x)
        _, other = self._given_tasks(self.context.x)
        cross = (self._covariance(x, self.context.x) - half.T @ other) * self.context.mask
        return mean + cross @ self.solved, half, solve_triangular(self.factor, cross.T, lower=True)


class TaskStart(eqx.Module):
    """Draws training starts for n tasks of d inputs."""

    prior: AbstractJoint
    d: int = eqx.field(static=True)
    n: int = eqx.field(static=True)

    def __call__(self, key: Key) -> Params:
        """One start."""
        return draw_start(self.prior.specs(self.d, self.n), key)


def _adaptation() -> MAP:
    return MAP(Adam(0.05, 100))


class MTGP(AbstractTrainedLearner):
    """MAP on the evidence of all tasks together; regression only, and no more points than one matrix can hold."""

    hyper_prior: Callable[[Any], AbstractHyperPrior]
    prior: Coregionalised = Coregionalised()
    inference: MAP = eqx.field(default_factory=MAP)
    adaptation: MAP = eqx.field(default_factory=_adaptation)

    def problem(self, tasks: Dataset) -> Problem:
        """The engine on the evidence."""
        n, d = len(tasks.mask), tasks.x.shape[-1]
        hyper_prior = self.hyper_prior(self.prior.specs(d, n))
        density = Evidence(self.prior, hyper_prior, Rows.of(tasks), tasks.y.reshape(-1))
        return Problem(self.inference, density, TaskStart(self.prior, d, n))

    def model(self, state: Any, tasks: Dataset, key: Key) -> MTGPModel:
        """The covariance, factored on the tasks' points, which it keeps."""
        theta = jax.tree.map(lambda leaf: leaf[0], self.inference.draws(state, key))
        rows = Rows.of(tasks)
        factor = cholesky(noisy(self.prior.gram(theta, rows), rows.mask, self.prior.noise_variance(theta)))
        residual = jnp.where(rows.mask, tasks.y.reshape(-1) - theta["level"], 0.0)
        solved = solve_triangular(factor.T, solve_triangular(factor, residual, lower=True), lower=False)
        return MTGPModel(self.prior, theta, rows, factor, solved, self.adaptation)

    def restart(self, model: MTGPModel) -> Particles:
        """The fitted parameters; the tasks must be as many as before."""
        return Particles(jax.tree.map(lambda leaf: leaf[None], model.theta))

    def check(self, tasks: Dataset) -> None:
        """Refuses classes, and more points than one covariance matrix can hold."""
        if not jnp.issubdtype(tasks.y.dtype, jnp.floating):
            raise PacohError("A multi-task GP predicts numbers; for classes choose another method.")
        points = math.prod(tasks.mask.shape[-2:])
        if points > MOST:
            raise PacohError(
                f"A multi-task GP holds all points in one covariance matrix: at most {MOST}, padding included; got "
                f"{points}. Thin the tasks, or learn a prior instead (pacoh-gp-map)."
            )
