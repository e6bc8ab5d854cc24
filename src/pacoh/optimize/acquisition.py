"""Acquisition: how much the next evaluation is worth at given inputs, by any predictor of the library.

All are for maximisation, in learner units; `Flipped` turns a predictor over where small values are wanted.
"""

import abc
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from pacoh.data import Dataset
from pacoh.errors import PacohError
from pacoh.predictive import AbstractPredictive, GaussianMixture, Point, mean_absolute
from pacoh.priors.base import AbstractPredictor
from pacoh.types import Key, Scalar
from pacoh.warped import WarpedMixture

Score = Callable[[Float[Array, "q d"]], Float[Array, " q"]]
_LOG_ROOT_TWO_PI = 0.5 * float(np.log(2 * np.pi))
_TERMS = 32  # of a continued fraction: log_h is then exact to the precision of float64 at z = -1 and better below


class AbstractAcquisition(eqx.Module):
    """A rule that scores inputs.

    `joint` says that scores belong together only where they are asked for in one call, `compares` that `best` matters.

    >>> from pacoh.optimize import AbstractAcquisition, LogEI, Thompson
    >>> isinstance(LogEI(), AbstractAcquisition), LogEI.compares, Thompson.joint
    (True, True, True)
    """

    joint: ClassVar[bool]
    compares: ClassVar[bool]

    @abc.abstractmethod
    def score(self, predictor: AbstractPredictor, best: Scalar, key: Key) -> Score:
        """The scores under a predictor; `best` is the largest value thought to be reached so far."""


class UCB(AbstractAcquisition):
    """mean + beta spread: the epistemic spread of f, or with `noisy` the whole predictive one of y.

    The spread is sqrt(pi/2) E|f - mean|, which is the sd where f is Gaussian. In a mixture a wide component counts
    there by its share, and in the sd by the share times its variance: a weak prior of 5 % beside a learned one would
    decide alone where to look. With `literal` it is the sd whatever the distribution, as in the paper.

    >>> from pacoh.optimize import UCB, Optimizer, Pool
    >>> optimizer = Optimizer(None, Pool([0.0, 0.2, 0.4, 0.6, 1.0]), goal="maximize", acquisition=UCB(beta=1.0))
    >>> optimizer.tell([0, 2, 4], [0.0, 1.0, 0.9])
    >>> optimizer.ask()
    [3]
    """

    beta: Float[Array, ""] = eqx.field(converter=lambda beta: jnp.asarray(beta, float), default=2.0)
    noisy: bool = eqx.field(static=True, default=False)
    literal: bool = eqx.field(static=True, default=False)
    joint = compares = False

    def score(self, predictor: AbstractPredictor, best: Scalar, key: Key) -> Score:
        """Optimism in the face of uncertainty."""
        del best, key

        def bound(x):
            said = gaussian(predictor(x) if self.noisy else predictor.latent(x))
            return said.mean + self.beta * (said.std if self.literal else mean_deviation(said))

        return bound


def mean_deviation(said: GaussianMixture) -> Float[Array, "*n q"]:
    """sqrt(pi/2) E|Y - E Y|: the sd of a Gaussian."""
    gaps = mean_absolute(said.loc - said.mean[..., None, :], said.scale)
    return float(np.sqrt(np.pi / 2)) * (said.weights * gaps).sum(-2)


class Thompson(AbstractAcquisition):
    """One drawn function: a point is chosen as often as it is believed to be the best.

    `spread` multiplies how far it lies from the mean (the v of Agrawal and Goyal 2013). The largest of many candidates
    under a drawn function is often one that the draw is wrong about: over a large pool, less than 1 explores less.
    With `noisy` values are drawn, of y instead of f: where these do not scatter when asked again (`exact` of a rule),
    what a point has of its own may be good, too.

    >>> from pacoh.optimize import Optimizer, Pool, Thompson
    >>> optimizer = Optimizer(None, Pool([0.0, 0.2, 0.4, 0.6, 1.0]), goal="maximize", acquisition=Thompson())
    >>> optimizer.tell([0, 2, 4], [0.0, 1.0, 0.9])
    >>> optimizer.ask()[0] in (1, 3)
    True
    """

    spread: float = eqx.field(static=True, default=1.0)
    noisy: bool = eqx.field(static=True, default=False)
    joint, compares = True, False

    def score(self, predictor: AbstractPredictor, best: Scalar, key: Key) -> Score:
        """The function; with `noisy` a value at each point."""
        del best
        if self.noisy:
            return self._values(predictor, key)
        drawn = predictor.function(key)
        if self.spread == 1:
            return drawn

        def nearer(x):
            mean = gaussian(predictor.latent(x)).mean
            return mean + self.spread * (drawn(x) - mean)

        return nearer

    def _values(self, predictor: AbstractPredictor, key: Key) -> Score:
        key_function, key_own = jax.random.split(key)
        drawn = predictor.function(key_function)

        def values(x):
            latent, whole = gaussian(predictor.latent(x)), gaussian(predictor(x))
            own = jnp.sqrt(jnp.maximum(whole.std**2 - latent.std**2, 0.0)) * jax.random.normal(key_own, (len(x),))
            return latent.mean + self.spread * (drawn(x) - latent.mean + own)

        return values


class LogEI(AbstractAcquisition):
    """ln E max(f - best, 0) of the mixture that f is: ln sum_k w_k sd_k h((loc_k - best) / sd_k).

    >>> from pacoh.optimize import LogEI, Optimizer, Pool
    >>> optimizer = Optimizer(None, Pool([0.0, 0.2, 0.4, 0.6, 1.0]), goal="maximize", acquisition=LogEI())
    >>> optimizer.tell([0, 2, 4], [0.0, 1.0, 0.9])
    >>> optimizer.ask()
    [3]
    """

    joint, compares = False, True

    def score(self, predictor: AbstractPredictor, best: Scalar, key: Key) -> Score:
        """The log of the expected improvement; finite and with a slope also where the improvement underflows."""
        del key

        def improvement(x):
            said = gaussian(predictor.latent(x))
            return log_expected_improvement(said, best)

        return improvement


def log_expected_improvement(said: GaussianMixture, best: Scalar) -> Float[Array, "*n q"]:
    """ln E max(Y - best, 0) at each query point."""
    scale = jnp.maximum(said.scale, jnp.finfo(said.scale.dtype).tiny ** 0.5)
    terms = jnp.log(said.weights) + jnp.log(scale) + log_h((said.loc - best) / scale)
    return jax.nn.logsumexp(terms, -2)


def log_h(z: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """ln h(z), h(z) = phi(z) + z Phi(z) = E max(z + N(0, 1), 0), without cancellation.

    Below -1, with t = -z and I_n = int_0^oo u^n/n! exp(-tu - u^2/2) du, h = phi(t) I_1. Integration by parts gives
    1 = t I_0 + I_1 and I_{n-1} = t I_n + (n + 1) I_{n+1}, so r_n = I_n / I_{n-1} = 1 / (t + (n + 1) r_{n+1}): a
    continued fraction of positive numbers.
    """
    high, t = jnp.where(z > -1.0, z, -1.0), jnp.where(z > -1.0, 1.0, -z)
    direct = jnp.log(jnp.exp(-0.5 * high**2 - _LOG_ROOT_TWO_PI) + high * jax.scipy.special.ndtr(high))
    ratio = 2.0 / (t + jnp.sqrt(t**2 + 4 * (_TERMS + 1)))  # where r_n = r_{n+1}
    for n in range(_TERMS - 1, 0, -1):
        ratio = 1.0 / (t + (n + 1) * ratio)
    below = -0.5 * t**2 - _LOG_ROOT_TWO_PI - jnp.log(t + ratio) + jnp.log(ratio)
    return jnp.where(z > -1.0, direct, below)


def gaussian(said: AbstractPredictive) -> GaussianMixture:
    """The predictive as the mixture that acquisition needs, or why it cannot be."""
    if isinstance(said, GaussianMixture):
        return said
    if isinstance(said, WarpedMixture):
        raise PacohError("Optimisation needs Gaussian mixtures, and this model was fitted with `warp`: leave it out.")
    kind = "points without a spread" if isinstance(said, Point) else "classes"
    raise PacohError(
        f"Optimisation needs a predictive distribution of numbers, and this model predicts {kind}: use a GP or "
        "Bayesian-network method (`pacoh list`)."
    )


class Told(AbstractPredictor):
    """A predictor that takes what was told as exact: there the value is the one told, and nothing is left to learn.

    What the model calls noise is then what a point has of its own. Elsewhere all is as the model has it.
    """

    inner: AbstractPredictor
    data: Dataset

    def __call__(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of y."""
        return self._known(gaussian(self.inner(x)), x)

    def latent(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of f."""
        return self._known(gaussian(self.inner.latent(x)), x)

    def function(self, key: Key) -> Score:
        """One draw of f."""
        draw = self.inner.function(key)

        def known(x):
            told, values = self._values(x)
            return jnp.where(told, values, draw(x))

        return known

    def _known(self, said: GaussianMixture, x: Float[Array, "q d"]) -> GaussianMixture:
        told, values = self._values(x)
        nothing = jnp.finfo(said.scale.dtype).tiny ** 0.5
        scale = jnp.where(told, nothing, said.scale)
        return GaussianMixture(jnp.where(told, values, said.loc), scale, said.log_weights)

    def _values(self, x: Float[Array, "q d"]) -> tuple[Bool[Array, " q"], Float[Array, " q"]]:
        """Which rows were told, and what."""
        same = (x[:, None] == self.data.x).all(-1) & self.data.mask
        return same.any(-1), self.data.y[same.argmax(-1)]


class Flipped(AbstractPredictor):
    """A predictor of -f."""

    inner: AbstractPredictor

    def __call__(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of -y."""
        return _negative(gaussian(self.inner(x)))

    def latent(self, x: Float[Array, "q d"]) -> GaussianMixture:
        """Of -f."""
        return _negative(gaussian(self.inner.latent(x)))

    def function(self, key: Key) -> Score:
        """One draw of -f."""
        draw = self.inner.function(key)
        return lambda x: -draw(x)


def _negative(said: GaussianMixture) -> GaussianMixture:
    return GaussianMixture(-said.loc, said.scale, said.log_weights)
