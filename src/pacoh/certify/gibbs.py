"""The tasks' posteriors at their own points: KL to the prior and the loss of a function drawn from them, exact."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pacoh.api import Model
from pacoh.bounds.losses import AbstractLoss
from pacoh.data import Dataset, Standardizer, stack
from pacoh.errors import PacohError
from pacoh.learners.base import AbstractMetaModel
from pacoh.predictive import GaussianMixture
from pacoh.priors.base import likelihood_power
from pacoh.priors.gp import GPPrior
from pacoh.reading import Tasks
from pacoh.theory import Rates
from pacoh.types import Key, Params, Scalar
from pacoh.warped import WarpedMixture


class Posteriors(NamedTuple):
    """The posteriors Q_i of n tasks under K priors, at the tasks' own points: y - f is N(gap, sd^2)."""

    kl: Any  # (K, n), to the prior, in nats
    log_z: Any  # (K, n)
    gap: Any  # (K, n, m)
    sd: Any  # (K, n, m)
    noise: Any  # (K,)


def posterior(prior: GPPrior, phi: Params, data: Dataset, beta: Scalar) -> tuple[Scalar, Array, Array]:
    """KL(Q_beta, P_phi) = sum_j [ln(1 + e_j/v) - s_j + e_j c_j^2/(e_j + v)^2]/2, and mean and sd of y - f.

    K = U diag(e) U', v = sigma^2 m/beta, s = e/(e + v), c = U'(y - m). Every term is at least 0, K may be singular, and
    padding adds nothing. Q and P differ only through f at the points, so this is the KL of the whole processes.
    """
    noise = prior.noise_variance(phi) / likelihood_power(data.mask, beta)
    both = data.mask[:, None] & data.mask[None]
    kernel, params = prior.covariance(phi)
    gram = jnp.where(both, kernel.gram(params, data.x, data.x), 0.0)
    residual = jnp.where(data.mask, data.y - prior.mean(phi["mean"], data.x), 0.0)
    values, vectors = jnp.linalg.eigh(gram)
    values = jnp.maximum(values, 0.0)
    shrink = values / (values + noise)
    rotated = vectors.T @ residual
    kl = 0.5 * (jnp.log1p(values / noise) - shrink + values * (rotated / (values + noise)) ** 2).sum()
    return kl, vectors @ ((1 - shrink) * rotated), jnp.sqrt(vectors**2 @ (noise * shrink))


@eqx.filter_jit
def _posteriors(prior: GPPrior, phis: Params, data: Dataset, betas: Array) -> Posteriors:
    def of_prior(phi):
        kl, gap, sd = jax.vmap(lambda task, beta: posterior(prior, phi, task, beta))(data, betas)
        evidence = jax.vmap(lambda task, beta: prior.log_evidence(phi, task, beta, jax.random.key(0)))
        return Posteriors(kl, evidence(data, betas), gap, sd, jnp.sqrt(prior.noise_variance(phi)))

    return jax.lax.map(of_prior, phis)


def posteriors(prior: GPPrior, phis: Params, tasks: Tasks, units: Standardizer, rates: Rates) -> Posteriors:
    """The tasks' posteriors in original units, in float64 whatever precision training had."""
    with jax.enable_x64(True):
        phis = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), phis)
        data = stack([units(x, y) for x, y in tasks.pairs()])
        found = Posteriors(*map(np.asarray, _posteriors(prior, phis, data, rates.betas(data.sizes))))
    scale = float(units.y_scale)
    return found._replace(gap=scale * found.gap, sd=scale * found.sd, noise=scale * found.noise)


def _task_means(values: np.ndarray, tasks: Tasks) -> np.ndarray:
    """Means over the points of each task; the last axis is padded."""
    mask = np.arange(values.shape[-1]) < np.array(tasks.sizes)[:, None]
    return np.where(mask, values, 0.0).sum(-1) / mask.sum(-1)


def gibbs_losses(found: Posteriors, tasks: Tasks, loss: AbstractLoss) -> np.ndarray:
    """E_{f ~ Q_i} Lh(f, S_i) for each prior and task."""
    return _task_means(loss.mean(found.gap, found.sd, found.noise[:, None, None]), tasks)


@eqx.filter_jit
def _latent(meta: AbstractMetaModel, data: Dataset, keys: Key) -> tuple[Any, Any]:
    def task(points, key):
        predictor = meta.adapt(points, key)
        return predictor.latent(points.x), predictor(points.x)

    return jax.vmap(task)(data, keys)


def predicted_losses(model: Model, tasks: Tasks, loss: AbstractLoss) -> np.ndarray:
    """The loss of a function drawn from any model's posterior given all points of a task, for each task."""
    data = stack([model.units(x, y) for x, y in tasks.pairs()])
    latent, whole = _latent(model.meta, data, jax.random.split(jax.random.key(0), len(tasks)))
    latent, whole = (part.numpy().affine(model.units.y_loc, model.units.y_scale) for part in (latent, whole))
    if not isinstance(latent, GaussianMixture) or not isinstance(whole, GaussianMixture):
        none = f"{model.card['method']} has none"
        reason = "this model was fitted with `warp`" if isinstance(whole, WarpedMixture) else none
        raise PacohError(f"A certificate needs a Gaussian posterior over functions, and {reason}.")
    y = np.stack([np.pad(y, (0, data.mask.shape[-1] - len(y))) for y in tasks.y])
    sd, noise = np.asarray(latent.scale), np.sqrt(np.maximum(whole.scale**2 - latent.scale**2, 0.0))
    means = np.asarray(latent.weights) * loss.mean(y[:, None] - np.asarray(latent.loc), sd, noise)
    return _task_means(means.sum(-2), tasks)
