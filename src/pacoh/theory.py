"""The hyper-posterior: each formula that training rests on, once.

Symbols as in docs/notation.md; LaTeX labels of the paper in brackets; "theory.md" is docs/theory.md.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.inference.base import AbstractLogDensity, Layout
from pacoh.priors.base import AbstractHyperPrior, AbstractPrior
from pacoh.priors.base import stratified as stratified
from pacoh.types import Key, Params, Scalar


class Rates(eqx.Module):
    """lambda = n^a and beta_i = c m_i^b. (1, 1) is the Bayesian choice, (1/2, 1/2) the one with consistent bounds."""

    lam_power: float = eqx.field(static=True, default=1.0)
    beta_power: float = eqx.field(static=True, default=1.0)
    beta_scale: float = eqx.field(static=True, default=1.0)

    def lam(self, n: int) -> float:
        """lambda for n tasks."""
        return float(n) ** self.lam_power

    def betas(self, sizes: Array) -> Float[Array, "*n"]:
        """beta_i for tasks of these sizes; c for an empty task, whose evidence is 1 whatever beta is."""
        return self.beta_scale * jnp.maximum(sizes, 1).astype(float) ** self.beta_power


BAYES = Rates(1.0, 1.0)
CONSISTENT = Rates(0.5, 0.5)


def tempering(lam: float, betas: Float[Array, " n"]) -> Float[Array, " n"]:
    """omega_i = lambda bt / (beta_i (n bt + lambda)), bt the harmonic mean: the weight of ln Z_i in ln Q*.

    Form (b) for unequal tasks [proposition:pacoh_optimal_hyper_posterior]: with equal tasks lambda/(n beta + lambda).
    """
    n = len(betas)
    harmonic = n / (1 / betas).sum()
    return lam * harmonic / (betas * (n * harmonic + lam))


class HyperPosterior(AbstractLogDensity):
    """ln Q*(phi) = ln P(phi) + sum_i (omega_i / eta) ln Z_{beta_i}(S_i, P_phi) + const.

    [proposition:pacoh_optimal_hyper_posterior], eta the temperature. A mini-batch of tasks gives it unbiased.
    """

    prior: AbstractPrior
    hyper_prior: AbstractHyperPrior
    tasks: Dataset
    betas: Float[Array, " n"]
    weights: Float[Array, " n"]
    batch: int | None = eqx.field(static=True)

    def minibatch(self, key: Key) -> "HyperPosterior":
        """The density on `batch` tasks, drawn in O(batch), their weights scaled by n / batch."""
        n = len(self.weights)
        if self.batch is None or self.batch >= n:
            return self
        index = stratified(n, self.batch, key)
        tasks, betas = jax.tree.map(lambda leaf: leaf[index], (self.tasks, self.betas))
        weights = self.weights[index] * (n / self.batch)
        return HyperPosterior(self.prior, self.hyper_prior, tasks, betas, weights, None)

    def __call__(self, phi: Params, key: Key) -> Scalar:
        """ln Q*(phi) up to a constant."""
        key_evidence, key_hyper = jax.random.split(key)
        layout = Layout.of(phi)
        flat = layout.flatten(phi)  # the derivatives of the two terms meet in one array, not leaf by leaf
        evidence = self.prior.log_evidences(layout.unflatten(flat), self.tasks, self.betas, key_evidence)
        return self.weights @ evidence + self.hyper_prior.log_prob(layout.unflatten(flat), key_hyper)


def hyper_posterior(
    prior: AbstractPrior,
    hyper_prior: AbstractHyperPrior,
    tasks: Dataset,
    rates: Rates = BAYES,
    batch: int | None = None,
    temperature: float | Array = 1.0,
) -> HyperPosterior:
    """The one hyper-posterior that every engine approximates: evidence weights omega_i / eta, eta the temperature."""
    betas = rates.betas(tasks.sizes)
    weights = tempering(rates.lam(len(betas)), betas) / temperature
    return HyperPosterior(prior, hyper_prior, tasks, betas, weights, batch)
