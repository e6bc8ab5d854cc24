"""Cauchy: two Cauchy bumps shared by all tasks, plus a smooth random function that differs by task."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.data import Dataset, Task
from pacoh.environments.base import AbstractSynthetic, Pair
from pacoh.inference.base import Budget
from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel
from pacoh.priors.gp import GPPredictor, GPPrior
from pacoh.priors.kernels import SE
from pacoh.priors.means import AbstractMean
from pacoh.types import Key, Params

GP_SD, LENGTH, NOISE = 0.2, 0.5**0.5, 0.05
"""k = 0.04 exp(-|x - x'|^2 / (2 * 0.5)); the paper's text says otherwise, its tables were made with this."""


def bumps(x, xp: Any = np):
    """1 + 6/(pi (1 + |x - mu1|^2)) + 3/(pi (1 + |x - mu2|^2)), mu1 = (-1, -1), mu2 = (2, 2)."""
    first = ((x - xp.asarray([-1.0, -1.0])) ** 2).sum(-1)
    second = ((x - xp.asarray([2.0, 2.0])) ** 2).sum(-1)
    return 1 + 6 / (xp.pi * (1 + first)) + 3 / (xp.pi * (1 + second))


class Cauchy(AbstractSynthetic):
    """f = bumps + g, g a GP of sd 0.2; x normal of sd 2.5 truncated to [-7.5, 5] in each coordinate; noise sd 0.05."""

    n: int = eqx.field(static=True, default=20)
    m: int = eqx.field(static=True, default=20)
    tests: int = eqx.field(static=True, default=20)
    valids: int = eqx.field(static=True, default=20)
    query: int = eqx.field(static=True, default=200)

    def task(self, random: np.random.RandomState, points: int) -> Pair:
        """Inputs, then the function at them, then the noise."""
        from scipy.stats import truncnorm  # a second to import: only where it is used

        x = np.asarray(truncnorm.rvs(-3, 2, loc=0, scale=2.5, size=(points, 2), random_state=random))
        squared = ((x[:, None] - x[None]) ** 2).sum(-1)
        factor = np.linalg.cholesky(np.exp(-squared / (2 * LENGTH**2)) + 1e-8 * np.eye(points))
        smooth = GP_SD * factor @ random.normal(size=points)
        return x, bumps(x) + smooth + NOISE * random.normal(size=points)

    def oracle(self) -> "CauchyOracle":
        """The exact GP with the true mean and kernel."""
        return CauchyOracle()


class BumpMean(AbstractMean):
    """The true mean function."""

    def specs(self, d: int) -> Any:
        """Nothing to learn."""
        del d
        return {}

    def __call__(self, params: Params, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The bumps."""
        del params
        return bumps(x, jnp)


class CauchyOracleModel(AbstractMetaModel):
    """The true prior."""

    prior: GPPrior

    def adapt(self, context: Dataset, key: Key) -> GPPredictor:
        """The exact posterior."""
        phi = {
            "mean": {},
            "kernel": {"log_sd": jnp.log(GP_SD), "log_length": jnp.log(LENGTH)[None]},
            "log_noise": jnp.log(NOISE),
        }
        return self.prior.condition(phi, context, jnp.maximum(context.sizes, 1).astype(float), key)


class CauchyOracle(AbstractMetaLearner):
    """Knows the environment; `fit` learns nothing."""

    def fit(
        self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None
    ) -> CauchyOracleModel:
        """The true prior."""
        del tasks, key, valid, budget
        return CauchyOracleModel(GPPrior(BumpMean(), SE(ard=False)))
