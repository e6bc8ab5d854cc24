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
from pacoh.inference.starts import Layout
from pacoh.mixing import mixture
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
    return jax.tree.map(lambda z: z[0], standard_normals(like, 1, key))


def standard_normals(like: Any, count: int, key: Key) -> Params:
    """`count` of them, along a leading axis."""
    leaves, treedef = jax.tree.flatten(like)
    sizes = [math.prod(leaf.shape) for leaf in leaves]
    parts = jnp.split(normal_rows(count, sum(sizes), key), np.cumsum(sizes)[:-1], 1)
    return jax.tree.unflatten(treedef, [z.reshape(count, *leaf.shape) for z, leaf in zip(parts, leaves, strict=True)])


def normal_rows(count: int, size: int, key: Key) -> Float[Array, "count size"]:
    """Independent standard normals.

    Two share the 32 bits of one random number: the generator costs more than a small network. Of 16 bits are 65,536
    values up to 4.3 sds, with a variance 2e-5 and a fourth moment 9e-4 below the exact ones.
    """
    total = count * size
    bits = jax.random.bits(key, (-(-total // 2),), jnp.uint32)
    return jnp.concatenate([_normal(bits >> 16), _normal(bits & 0xFFFF)])[:total].reshape(count, size)


def _normal(level: Array) -> Array:
    """The normal quantile in the middle of a level, of 65,536 equally likely ones."""
    return math.sqrt(2) * jax.scipy.special.erfinv((level.astype(float) + 0.5) / 2**15 - 1)


def draw_start(specs: Any, key: Key) -> Params:
    """A starting point of training for a tree of Param."""
    leaves = jax.tree.leaves(specs)
    sizes = [math.prod(p.shape) for p in leaves]
    loc = jnp.asarray(np.repeat([p.loc for p in leaves], sizes), float)
    sd = jnp.asarray(np.repeat([p.start * p.unit for p in leaves], sizes), float)
    return Layout.of(specs).unflatten(loc + sd * normal_rows(1, sum(sizes), key)[0])  # one array: compiles sooner


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

    def settled(self) -> "AbstractPredictor":
        """The likeliest explanation alone, where it weighs several that do not go together; else itself."""
        return self


class Ensemble(AbstractPredictor):
    """Predictors with a leading axis K as one mixture: equally weighted unless `log_weights` says otherwise."""

    members: AbstractPredictor
    log_weights: Float[Array, " K"] | None = None

    def __call__(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """The mixture of the members' predictions."""
        return mixture(eqx.filter_vmap(lambda member: member(x))(self.members), self.log_weights)

    def latent(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """The mixture of the members' latent predictions."""
        return mixture(eqx.filter_vmap(lambda member: member.latent(x))(self.members), self.log_weights)

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, " q"]]:
        """A function drawn from a member drawn by its weight."""
        key_member, key_function = jax.random.split(key)
        weights = jnp.zeros(leading(self.members)) if self.log_weights is None else self.log_weights
        chosen = jax.random.categorical(key_member, weights)
        member = jax.tree.map(lambda leaf: leaf[chosen] if eqx.is_array(leaf) else leaf, self.members)
        return member.function(key_function)


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

    def log_evidences(self, phi: Params, tasks: Dataset, betas: Float[Array, " n"], key: Key) -> Float[Array, " n"]:
        """ln Z of each task of a stack. One key: a family that draws may share its draws among the tasks."""
        return jax.vmap(self.log_evidence, (None, 0, 0, None))(phi, tasks, betas, key)

    def condition_all(self, phis: Params, data: Dataset, beta: Scalar, key: Key) -> AbstractPredictor:
        """The predictors of K priors (a leading axis of phis) as one mixture; the priors do not interact."""
        keys = jax.random.split(key, leading(phis))
        return Ensemble(eqx.filter_vmap(lambda phi, k: self.condition(phi, data, beta, k))(phis, keys))

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


def log_mean_exp(logs: Float[Array, "L *n"]) -> Float[Array, "*n"]:
    """ln (1/L) sum_l exp(-beta Lh(h_l, S)), h_l ~ P_phi: the estimate of ln Z_beta from the logs of L draws.

    Its mean is at most ln Z and grows with L, so it keeps a bound a bound in expectation
    [proposition:mll_estimate_still_upper_bound]. L = 1 gives -beta Lh: all tasks are pooled.
    """
    return jax.nn.logsumexp(logs, 0) - jnp.log(len(logs))


def leading(tree: Params) -> int:
    """The length of the leading axis that all arrays of a tree share."""
    return len(jax.tree.leaves(eqx.filter(tree, eqx.is_array))[0])


def stratified(n: int | Array, batch: int, key: Key) -> Array:
    """`batch` of n indices, each with expected count batch/n exactly, in O(batch): one draw from each of equal strata.

    A random rotation lets any two tasks meet. No index comes twice where batch divides n, and hardly ever otherwise.
    """
    key_within, key_shift = jax.random.split(key)
    position = (jnp.arange(batch) + jax.random.uniform(key_within, (batch,))) * (n / batch)
    index = jnp.minimum(position.astype(jnp.int32), n - 1)
    return (index + jax.random.randint(key_shift, (), 0, n)) % n


def likelihood_power(mask: Array, beta: Scalar) -> Scalar:
    """beta / m: the exponent on each point's likelihood in exp(-beta Lh); 1 at beta = m, the Bayesian posterior."""
    return beta / jnp.maximum(mask.sum(-1), 1)
