"""Gaussian processes whose tasks have a scale of their own, integrated out: how far values stray and scatter."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.errors import PacohError
from pacoh.predictive import GaussianMixture
from pacoh.priors.base import AbstractPredictor, AbstractPrior, likelihood_power
from pacoh.priors.gaussian import cholesky, noisy, tempered
from pacoh.priors.gp import GPPredictor, GPPrior
from pacoh.priors.process import Points, process_log_normal
from pacoh.types import Key, Params, Scalar

_NODES = 12
_MOST = 0.5  # a = 1


class ScaledPredictor(AbstractPredictor):
    """A Gaussian process given a context, and what the context says of c^2: InvGamma(shape, rate)."""

    inner: GPPredictor
    shape: Float[Array, ""]
    rate: Float[Array, ""]

    def __call__(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of y: Student's t, as a mixture over scales."""
        return self._mixed(self.inner(x))

    def latent(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of f."""
        return self._mixed(self.inner.latent(x))

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, " q"]]:
        """One draw of f with one draw of c; jointly at the points it is asked at."""
        key_scale, key_function = jax.random.split(key)
        scale = jnp.sqrt(self.rate / jax.random.gamma(key_scale, self.shape))
        draw = self.inner.function(key_function)

        def scaled(x):
            mean = self.inner.latent(x).loc[0]
            return mean + scale * (draw(x) - mean)

        return scaled

    def _mixed(self, said: GaussianMixture) -> GaussianMixture:
        """With c at nodes of ln c^2 about its mode, where its density is nearly Gaussian, with variance 1/shape."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        steps = nodes / jnp.sqrt(self.shape)
        log_density = -self.shape * (steps + jnp.exp(-steps)) + 0.5 * nodes**2
        scales = jnp.sqrt(self.rate / self.shape * jnp.exp(steps))
        loc = jnp.broadcast_to(said.loc, (_NODES, said.loc.shape[-1]))
        return GaussianMixture(loc, said.scale * scales[:, None], jax.nn.log_softmax(np.log(weights) + log_density))


class ScaledGPPrior(AbstractPrior):
    """{y = m_phi + c (g + noise)}, g a centred Gaussian process and c a task's own scale: Student-t processes.

    c^2 ~ InvGamma(a, a) with a = 1/(4 sd^2): ln c has about this sd and E[1/c^2] = 1, so phi means what it means
    without. Sensors or machines that differ in how noisy they are then need not share one noise. Few tasks cannot tell
    how much they differ, so the sd is set, not learned.
    """

    gp: GPPrior
    sd: float = eqx.field(static=True)

    def __check_init__(self):
        if not 0 < self.sd <= _MOST:
            raise PacohError(f"own_scale is at most {_MOST}, beyond which values have no variance; got {self.sd:g}.")

    def specs(self, d: int) -> Any:
        """Those of the Gaussian process."""
        return self.gp.specs(d)

    def log_evidence(self, phi: Params, data: Dataset, beta: Scalar, key: Key) -> Scalar:
        """ln of the integral of Z_beta(c) over c, in closed form.

        With t = beta/m, C = K + sigma^2/t, q = r' C^{-1} r: Z_beta(c) = Z_beta(1) c^{-mt} exp((1 - 1/c^2) q/2), whose
        integral brings Gamma(A)/Gamma(a) a^a (a + q/2)^{-A}, A = a + mt/2. As -A ln(a + q/2) is the largest, over w, of
        -w (a + q/2) + A (ln w - ln A + 1), the gradient is that of a Gaussian whose residual is sqrt(w) r, w held.
        """
        del key
        kernel, params = self.gp.covariance(phi)
        params, seen = kernel.embed(params, data.x)
        residual = data.y - self.gp.mean(phi["mean"], data.x)
        power = likelihood_power(data.mask, beta)
        variance, constant = tempered(data.mask, phi["log_noise"], power)
        held = jax.lax.stop_gradient((kernel.between(params, seen, seen), residual, variance))
        start, shape = self._start, self._shape(data, power)
        weight = shape / (start + 0.5 * _quadratic(*held, data.mask))
        points = Points(seen, jnp.sqrt(weight) * residual, data.mask)
        of_scale = jax.lax.lgamma(shape) - math.lgamma(start) + start * math.log(start)
        of_scale += shape * (jnp.log(weight) - jnp.log(shape) + 1) - weight * start
        return process_log_normal(kernel, params, points, variance) + constant + of_scale

    def condition(self, phi: Params, data: Dataset, beta: Scalar, key: Key) -> ScaledPredictor:
        """The exact posterior under the tempered likelihood; without points the prior."""
        inner = self.gp.condition(phi, data, beta, key)
        residual = jnp.where(data.mask, data.y - self.gp.mean(phi["mean"], data.x), 0.0)
        shape = self._shape(data, likelihood_power(data.mask, beta))
        return ScaledPredictor(inner, shape, self._start + 0.5 * residual @ inner.solved)

    def check(self, data: Dataset, draws: int) -> None:
        """As the Gaussian process."""
        self.gp.check(data, draws)

    @property
    def _start(self) -> float:
        return 1 / (4 * self.sd**2)

    def _shape(self, data: Dataset, power: Scalar) -> Scalar:
        return self._start + 0.5 * data.mask.sum() * power


def _quadratic(gram: Array, residual: Array, variance: Scalar, mask: Array) -> Scalar:
    """r' (K + variance I)^{-1} r over the points of the mask."""
    white = solve_triangular(cholesky(noisy(gram, mask, variance)), jnp.where(mask, residual, 0.0), lower=True)
    return white @ white
