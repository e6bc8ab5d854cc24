"""What the theory proves about a fitted model's error on the next task: a certificate, or why there is none.

The bound is section 1.2 of docs/theory.md with explicit KLs, in float64. The loss is that of a function drawn from the
task's posterior (Gibbs), not that of the mean prediction. Training may have minimised another loss.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from scipy.special import rel_entr, softmax

from pacoh.api import Model
from pacoh.bounds import Setting, certify
from pacoh.bounds.losses import AbstractLoss
from pacoh.certify import standing
from pacoh.certify.gibbs import gibbs_losses, posteriors, predicted_losses
from pacoh.certify.report import Report
from pacoh.data import Standardizer
from pacoh.errors import PacohError
from pacoh.priors.gp import GPPrior
from pacoh.reading import Tasks, read
from pacoh.theory import CONSISTENT, Rates
from pacoh.types import Params

__all__ = ["FiniteHyperPrior", "Report", "certify_finite", "certify_model"]


def certify_model(model: Model, tasks: Any, loss: AbstractLoss, delta: float = 0.1) -> Report:
    """The bound on the expected loss on a new task, from the tasks that the model was trained on.

    What `pacoh.fit` gives has no certificate, and the report says why; its terms are information. `loss` and `delta`
    must have been chosen before the tasks were seen.

    >>> import pacoh
    >>> from pacoh.bounds.losses import loss
    >>> from pacoh.certify import certify_model
    >>> from pacoh.testing import ragged_tasks
    >>> tasks = ragged_tasks()
    >>> report = certify_model(pacoh.fit(tasks, "pacoh-gp-map", steps=20), tasks, loss("clipped-absolute", clip=1.0))
    >>> report.certified
    False
    >>> report.certificate.reasons[0]
    'inputs and targets were standardised by means and scales of the same tasks, so the prior depends on them'
    """
    if model.codec.classes is not None:
        raise PacohError("Certificates are for regression so far, and this model predicts classes.")
    known = read(tasks, codec=model.codec)
    setting = _setting(known, standing.rates(model), delta)
    found = standing.learned(model)
    if found is None:
        kls, losses = np.full(len(known), np.nan), predicted_losses(model, known, loss)
    else:
        terms = posteriors(found.prior, found.phis, known, model.units, found.rates)  # pyright: ignore[reportArgumentType]
        kls, losses = terms.kl.mean(0), gibbs_losses(terms, known, loss).mean(0)
    kl_hyper = math.inf if standing.has_point_masses(model) else math.nan
    against, notes = standing.reasons(model, known), standing.notes(model, known)
    return _report((losses, kl_hyper, kls), setting, against, loss, notes)


@dataclass(frozen=True)
class FiniteHyperPrior:
    """Finitely many candidates P_phi_k (the leading axis of `phis`) with probabilities, in fixed units.

    For a certificate all of it must have been chosen without the tasks. None: equal probabilities; original units.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from pacoh.certify import FiniteHyperPrior
    >>> from pacoh.priors import SE, Constant, GPPrior
    >>> from pacoh.priors.base import draw_start
    >>> prior = GPPrior(Constant(), SE())
    >>> phi = draw_start(prior.specs(1), jax.random.key(0))  # parameters of one prior, here for one input
    >>> phis = jax.tree.map(lambda leaf: jnp.stack([leaf - 1, leaf, leaf + 1]), phi)  # three candidates
    >>> FiniteHyperPrior(prior, phis).weights.round(3)
    array([0.333, 0.333, 0.333])
    """

    prior: GPPrior
    phis: Params
    probabilities: np.ndarray | None = None
    units: Standardizer | None = None

    @property
    def weights(self) -> np.ndarray:
        """The probabilities, checked."""
        count = len(jax.tree.leaves(self.phis)[0])
        return _probabilities("hyper-prior", self.probabilities, count)


def certify_finite(
    hyper: FiniteHyperPrior,
    tasks: Any,
    loss: AbstractLoss,
    delta: float = 0.1,
    rates: Rates = CONSISTENT,
    weights: np.ndarray | None = None,
) -> Report:
    """A certificate for a hyper-posterior over finitely many GP priors: every term is exact and finite.

    `weights` is the hyper-posterior; None takes the PAC-optimal one, p_k exp(om sum_i ln Z_i(phi_k)) (section 1.4),
    which the report holds. Choosing one of K equally likely candidates costs ln K nats.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from pacoh.bounds.losses import loss
    >>> from pacoh.certify import FiniteHyperPrior, certify_finite
    >>> from pacoh.priors import SE, Constant, GPPrior
    >>> from pacoh.priors.base import draw_start
    >>> from pacoh.testing import ragged_tasks
    >>> prior = GPPrior(Constant(), SE())
    >>> phi = draw_start(prior.specs(1), jax.random.key(0))
    >>> candidates = FiniteHyperPrior(prior, jax.tree.map(lambda leaf: jnp.stack([leaf - 1, leaf, leaf + 1]), phi))
    >>> report = certify_finite(candidates, ragged_tasks(sizes=(5,) * 8), loss("clipped-absolute", clip=2.0))
    >>> report.certified, report.vacuous, report.weights.shape
    (True, True, (3,))
    """
    known = read(tasks)
    setting = _setting(known, rates, delta)
    units = Standardizer.identity(known.x[0].shape[1]) if hyper.units is None else hyper.units
    prior = hyper.weights
    given = None if weights is None else _probabilities("hyper-posterior", weights, len(prior))
    found = posteriors(hyper.prior, hyper.phis, known, units, rates)
    with np.errstate(divide="ignore"):
        optimal = softmax(np.log(prior) + setting.omega * found.log_z.sum(1))
    chosen = optimal if given is None else given
    risk = chosen @ gibbs_losses(found, known, loss), float(rel_entr(chosen, prior).sum()), chosen @ found.kl
    notes = (*standing.FIXED, "candidates, their probabilities, units and rates were fixed without these tasks")
    return _report(risk, setting, standing.unequal(known, rates), loss, notes, chosen)


def _setting(tasks: Tasks, rates: Rates, delta: float) -> Setting:
    """One beta: the tasks' own, or the harmonic mean where they differ (section 1.8)."""
    betas = np.asarray(tasks.sizes, float) ** rates.beta_power
    beta = float(betas[0] if (betas == betas[0]).all() else 1 / np.mean(1 / betas))
    return Setting(len(tasks), tasks.sizes, rates.lam(len(tasks)), beta, delta)


def _report(
    risk: tuple[np.ndarray, float, np.ndarray],
    setting: Setting,
    against: list[str],
    loss: AbstractLoss,
    notes: tuple[str, ...],
    weights: np.ndarray | None = None,
) -> Report:
    losses, kl_hyper, kls = risk
    words = f"{loss.words} of a function f drawn from the posterior"
    certificate = certify((losses.tolist(), kl_hyper, kls.tolist()), setting, against, words)
    return Report(certificate, losses, kl_hyper, kls, notes, weights)


def _probabilities(what: str, given: np.ndarray | None, count: int) -> np.ndarray:
    weights = np.full(count, 1 / count) if given is None else np.asarray(given, float)
    if weights.shape != (count,) or not (weights >= 0).all() or not math.isclose(weights.sum(), 1, abs_tol=1e-9):
        raise PacohError(
            f"A {what} over {count} candidates needs one probability of at least 0 for each, with sum 1; got shape "
            f"{weights.shape} and sum {weights.sum():g}."
        )
    return weights
