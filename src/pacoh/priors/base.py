"""What a prior family, a hyper-prior and a predictor are."""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.predictive import AbstractPredictive
from pacoh.types import Key, Params, Scalar


@dataclass(frozen=True)
class Param:
    """One array of prior parameters: its shape, its group, and its natural place and size.

    `loc` and `unit` say where it lives and how large a change is (a weight: 1/sqrt(fan-in); a log length-scale: 1).
    Hyper-priors give one sd a group, in these units; training starts at loc + start * unit * N(0, 1).
    """

    shape: tuple[int, ...]
    group: str
    loc: float = 0.0
    unit: float = 1.0
    start: float = 0.0


def standard_normal(like: Any, key: Key) -> Params:
    """Independent standard normals in the shapes of `like`, from one call of the generator: many cost more."""
    leaves, treedef = jax.tree.flatten(like)
    sizes = [math.prod(leaf.shape) for leaf in leaves]
    parts = jnp.split(jax.random.normal(key, (sum(sizes),)), np.cumsum(sizes)[:-1])
    return jax.tree.unflatten(treedef, [z.reshape(leaf.shape) for z, leaf in zip(parts, leaves, strict=True)])


def draw_start(specs: Any, key: Key) -> Params:
    """A starting point of training for a tree of Param."""
    return jax.tree.map(lambda p, z: p.loc + p.start * p.unit * z, specs, standard_normal(specs, key))


class AbstractPredictor(eqx.Module):
    """A model of one task: what it says about y and about f at any inputs."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """The predictive distribution of y."""

    @abc.abstractmethod
    def latent(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """The predictive distribution of f, without observation noise."""

    @abc.abstractmethod
    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, " q"]]:
        """One draw of f, as a function."""


class AbstractPrior(eqx.Module):
    """A family {P_phi} of priors over functions."""

    @abc.abstractmethod
    def specs(self, d: int) -> Any:
        """The tree of Param that phi follows, for d inputs."""

    @abc.abstractmethod
    def log_evidence(self, phi: Params, data: Dataset, beta: Scalar, key: Key) -> Scalar:
        """ln Z_beta(S, P_phi) = ln E_{h ~ P_phi} exp(-beta Lh(h, S)), with Lh the mean negative log-likelihood."""

    @abc.abstractmethod
    def condition(self, phi: Params, data: Dataset, beta: Scalar, key: Key) -> AbstractPredictor:
        """The predictor of the generalised posterior Q_beta(S, P_phi) ~ P_phi exp(-beta Lh(., S))."""

    def check(self, data: Dataset, draws: int) -> None:
        """Refuses data that this family cannot hold, before anything is compiled."""
        del data, draws


class AbstractHyperPrior(eqx.Module):
    """A distribution over prior parameters."""

    @abc.abstractmethod
    def sample(self, key: Key) -> Params:
        """One phi."""

    @abc.abstractmethod
    def log_prob(self, phi: Params, key: Key) -> Scalar:
        """ln of its density; the key serves hyper-priors that are estimated by draws."""


def likelihood_power(mask: Array, beta: Scalar) -> Scalar:
    """beta / m: the exponent on each point's likelihood in exp(-beta Lh); 1 at beta = m, the Bayesian posterior."""
    return beta / jnp.maximum(mask.sum(-1), 1)
