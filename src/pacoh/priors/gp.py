"""Gaussian-process priors: exact evidence, exact tempering, exact predictions."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from pacoh.data import Dataset
from pacoh.errors import PacohError
from pacoh.predictive import GaussianMixture
from pacoh.priors.base import AbstractPredictor, AbstractPrior, Param, likelihood_power
from pacoh.priors.gaussian import cholesky, noisy, tempered
from pacoh.priors.kernels import SE, AbstractKernel, Sum, Warped
from pacoh.priors.means import AbstractMean, Network
from pacoh.priors.process import Points, process_log_normal
from pacoh.types import Key, Params, Scalar

_MEMORY = 8e9  # bytes that the matrices of one step may take
_COPIES = 8  # matrices of size m x m that one evidence and its gradient hold at once


class Multiple(AbstractKernel):
    """s^2 m(x) m(z): what a task's own factor N(1, s^2) on a mean function adds; its parameters are the mean's."""

    mean: AbstractMean
    sd: float = eqx.field(static=True)

    def specs(self, d: int) -> Any:
        """The mean's parameters."""
        return self.mean.specs(d)

    def gram(self, params: Params, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        """s^2 m(x) m(z)."""
        scaled = self.embed(params, x)[1]
        return self.between((), scaled, scaled if x is z else self.embed(params, z)[1])

    def diag(self, params: Params, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        """s^2 m(x)^2."""
        return self.embed(params, x)[1][:, 0] ** 2

    def embed(self, params: Params, x: Float[Array, "a d"]) -> tuple[Params, Float[Array, "a 1"]]:
        """s m(x); nothing is left to do after it."""
        return (), self.sd * self.mean(params, x)[:, None]

    def between(self, params: Params, a: Any, b: Any) -> Float[Array, "a b"]:
        """The products."""
        del params
        return a @ b.T


class GPPredictor(AbstractPredictor):
    """A Gaussian process given a context."""

    prior: "GPPrior"
    phi: Params
    x: Float[Array, "m d"]
    mask: Bool[Array, " m"]
    factor: Float[Array, "m m"]
    solved: Float[Array, " m"]

    def __call__(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of y: the latent variance plus the noise."""
        latent = self.latent(x)
        return GaussianMixture(latent.loc, jnp.sqrt(latent.scale**2 + self.prior.noise_variance(self.phi)))

    def latent(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of f."""
        cross, half = self._cross(x)
        kernel, params = self.prior.covariance(self.phi)
        variance = kernel.diag(params, x) - (half**2).sum(0)
        tiny = jnp.finfo(variance.dtype).tiny
        return GaussianMixture(self._mean(x, cross)[None], jnp.sqrt(jnp.maximum(variance, tiny))[None])

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, " q"]]:
        """One draw of f, jointly at the points it is asked at (ask once, for all of them).

        What is left of the prior's covariance carries its rounding, which the posterior's own diagonal says nothing
        of: it is covered from the start, by a tenth of a unit for each point, or one factorisation after another fails.
        """

        def draw(x):
            cross, half = self._cross(x)
            kernel, params = self.prior.covariance(self.phi)
            prior = kernel.gram(params, x, x)
            rounding = 0.1 * jnp.finfo(prior.dtype).eps * jnp.trace(prior)
            factor = cholesky(prior - half.T @ half + rounding * jnp.eye(len(x)))
            return self._mean(x, cross) + factor @ jax.random.normal(key, (len(x),))

        return draw

    def _mean(self, x: Array, cross: Array) -> Array:
        return self.prior.mean(self.phi["mean"], x) + cross @ self.solved

    def _cross(self, x: Array) -> tuple[Array, Array]:
        kernel, params = self.prior.covariance(self.phi)
        cross = kernel.gram(params, x, self.x) * self.mask
        return cross, solve_triangular(self.factor, cross.T, lower=True)


class GPPrior(AbstractPrior):
    """{GP(m_phi, k_phi) with Gaussian noise}: mean, kernel and noise sd are learned.

    phi = {"mean", "kernel", "log_noise"}. Padded rows get an identity block on the diagonal, which leaves the evidence
    exact. `noise` is the noise sd about which the hyper-prior and training start, in learner units.

    With `own` each task has its own factor N(1, own^2) on the mean, integrated out: where values speak against the
    mean, one number lets go of all of it, which a kernel does place by place. A few tasks, some of them near twins,
    cannot tell how far the next one is from their mean, so this sd is set, not learned.
    """

    mean: AbstractMean = Network()
    kernel: AbstractKernel = Warped()
    noise: float = eqx.field(static=True, default=0.2)
    own: float = eqx.field(static=True, default=0.0)

    def specs(self, d: int) -> Any:
        """The parameters of mean, kernel and noise."""
        return {
            "mean": self.mean.specs(d),
            "kernel": self.kernel.specs(d),
            "log_noise": Param((), "noise", loc=math.log(self.noise)),
        }

    def noise_variance(self, phi: Params) -> Scalar:
        """sigma^2."""
        return jnp.exp(2 * phi["log_noise"])

    def covariance(self, phi: Params) -> tuple[AbstractKernel, Params]:
        """The kernel of f with its parameters: the learned one, and that of the mean's factor where tasks have one."""
        if self.own == 0:
            return self.kernel, phi["kernel"]
        return Sum((self.kernel, Multiple(self.mean, self.own))), [phi["kernel"], phi["mean"]]

    def log_evidence(self, phi: Params, data: Dataset, beta: Scalar, key: Key) -> Scalar:
        """ln Z_beta: the prior's marginal under the tempered likelihood, t = beta/m, in closed form [theory.md 1.4]."""
        del key
        kernel, params = self.covariance(phi)
        params, seen = kernel.embed(params, data.x)
        points = Points(seen, data.y - self.mean(phi["mean"], data.x), data.mask)
        variance, constant = tempered(data.mask, phi["log_noise"], likelihood_power(data.mask, beta))
        return process_log_normal(kernel, params, points, variance) + constant

    def condition(self, phi: Params, data: Dataset, beta: Scalar, key: Key) -> GPPredictor:
        """The exact posterior under the tempered likelihood; without points the prior."""
        del key
        power = likelihood_power(data.mask, beta)
        kernel, params = self.covariance(phi)
        gram = kernel.gram(params, data.x, data.x)
        factor = cholesky(noisy(gram, data.mask, self.noise_variance(phi) / jnp.where(power > 0, power, 1.0)))
        residual = jnp.where(data.mask, data.y - self.mean(phi["mean"], data.x), 0.0)
        half = solve_triangular(factor, residual, lower=True)
        return GPPredictor(self, phi, data.x, data.mask, factor, solve_triangular(factor.T, half, lower=False))

    def check(self, data: Dataset, draws: int) -> None:
        """Refuses tasks whose covariance matrices would not fit into memory."""
        tasks, size = (math.prod(data.mask.shape[:-1]), data.mask.shape[-1])
        need = _COPIES * data.x.dtype.itemsize * draws * tasks * size**2
        if need > _MEMORY:
            fits = int(math.sqrt(_MEMORY / (_COPIES * data.x.dtype.itemsize * draws * tasks)))
            raise PacohError(
                f"An exact Gaussian process on {tasks} tasks of up to {size} points with {draws} draws needs about "
                f"{need / 1e9:.0f} GB at once. Up to {fits} points a task fit: thin the tasks or use smaller batches."
            )


def paper_gp(features: int = 2) -> GPPrior:
    """The paper's literal prior: k = 1/2 exp(-|phi(x) - phi(z)|^2), no output scale and no length-scale."""
    return GPPrior(Network(), Warped(SE(learned=False), features=features))
