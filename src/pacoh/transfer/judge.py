"""From paired scores to a verdict: does the learned prior beat learning each task alone?

The tasks are the sample. A task's gain is a difference between two learners on the same points of the same task,
averaged over a context of few points and one of half the task (of classes with few points); the signed-rank test asks
whether its centre passes a margin. To help is to beat every reference; to harm is to lose to every one that learns
alone. Both are intersections of hypotheses, so each is tested at the full level; where the references disagree, there
is no benefit to be sure of.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import wilcoxon

LEVEL = 0.05
MARGIN = 0.05
"""The least gain that counts: 5 % of the error, or as much log-likelihood a point (0.05) as that is worth to a Gaussian
prediction; of classes 2 points of accuracy."""
CLASS_MARGIN = 0.02
LARGE = 1 / 3
"""The share of the error whose gain over all but a plain GP is enough: smoothness alone seldom tells so much."""
HELPS, NO_BENEFIT, HARMS = "helps", "no benefit", "do not transfer"


@dataclass(frozen=True)
class Paired:
    """Gains of the learned prior over one reference, a number a task (higher is better for the prior).

    `error` is -ln of the ratio of errors, or of classes the difference in accuracy; `log_likelihood` may be None.
    """

    reference: str
    alone: bool  # it learns from the task alone, so that it could be used instead
    error: np.ndarray
    log_likelihood: np.ndarray | None
    plain: bool = False  # it learns smoothness from the other tasks


@dataclass(frozen=True)
class Judgement:
    """The verdict and the p-values behind it, by reference: of gains above the margin, and of a loss below it."""

    verdict: str
    gain: dict[str, float]  # in log-likelihood; empty for methods that predict points
    gain_in_error: dict[str, float]
    loss: dict[str, float]
    large: dict[str, float]  # of a large gain in error, over all but a plain GP; empty where there is none


def judge(pairs: list[Paired], classes: bool) -> Judgement:
    """Helps, no benefit, or do not transfer.

    There are two ways to help, in log-likelihood and in error, so each is tested at half the level; by neither may the
    usual task lose to learning alone. Where a plain GP keeps up, what the tasks share is little more than smoothness:
    that helps if the gain in error over all other references is large.
    """
    margin = CLASS_MARGIN if classes else MARGIN
    alone = [one for one in pairs if one.alone]
    densities = {one.reference: one.log_likelihood for one in pairs if one.log_likelihood is not None}
    gain = {name: probability(values - MARGIN) for name, values in densities.items()}
    gain_in_error = {one.reference: probability(one.error - margin) for one in pairs}
    loss = {one.reference: probability(-one.error - margin) for one in alone}
    usual = [one.error for one in alone] + [densities[one.reference] for one in alone if one.reference in densities]
    level = LEVEL / 2 if gain else LEVEL
    gains = min(max(each.values()) for each in (gain, gain_in_error) if each)
    plain = any(one.plain for one in pairs)
    large = {one.reference: probability(one.error + np.log1p(-LARGE)) for one in pairs if plain and not one.plain}
    if max(loss.values()) < LEVEL:
        return Judgement(HARMS, gain, gain_in_error, loss, large)
    enough = gains < level or (plain and max(large.values()) < level)
    helps = enough and all(np.nanmedian(values) >= 0 for values in usual)
    return Judgement(HELPS if helps else NO_BENEFIT, gain, gain_in_error, loss, large)


def probability(differences: np.ndarray) -> float:
    """P(so large a signed-rank sum) where the differences are symmetric about zero: small where they are above it."""
    known = np.nan_to_num(differences[~np.isnan(differences)], posinf=1e9, neginf=-1e9)
    if not len(known) or not np.any(known):
        return 1.0
    _, p = wilcoxon(known, alternative="greater")
    return float(p)  # pyright: ignore[reportArgumentType]
