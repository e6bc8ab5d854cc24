"""MAML and FO-MAML (Finn et al. 2017) and Reptile (Nichol et al. 2018): an initialisation that learns fast."""

import abc
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.errors import PacohError
from pacoh.learners.episodic import AbstractRule, check_count, check_share, mean_over, split
from pacoh.learners.points import AbstractLoss, PointPredictor, Squared
from pacoh.priors.nets import MLP, AbstractNet
from pacoh.types import Key, Params, Scalar


class Inner(eqx.Module):
    """The inner loop's settings: gradient steps of a rate, `steps` in training and `test_steps` on a new task.

    A gradient longer than `longest` is shortened to it. The papers have no such limit (`math.inf`); without it a rate
    that was the best on most seeds left the numbers on one of five (MR-MAML on 3,000 steps). On tasks in units of their
    own it is met where steps would run away, and seldom else; targets of a larger scale need a larger one. Scores of
    BMAML's Stein steps grow with the precision of the noise: they need a limit of their own.
    """

    steps: int = eqx.field(static=True, default=5)
    rate: Float[Array, ""] = eqx.field(converter=lambda rate: jnp.asarray(rate, float), default=0.05)
    test_steps: int = eqx.field(static=True, default=10)
    longest: float = eqx.field(static=True, default=10.0)

    def __check_init__(self):
        check_count("inner_steps", self.steps)
        check_count("test_steps", self.test_steps)
        if isinstance(self.longest, bool) or not isinstance(self.longest, int | float) or not self.longest > 0:
            raise PacohError(f"The setting longest is a length above 0, inf for no limit; got {self.longest!r}.")


def descend(
    risk: Callable[[Params], Scalar], theta: Params, rate: Scalar, steps: int, longest: float = math.inf
) -> Params:
    """theta_{t+1} = theta_t - alpha grad L(theta_t), `steps` times; differentiable in theta_0.

    A gradient longer than `longest` is shortened to it.
    """

    def step(now, _):
        slopes = jax.grad(risk)(now)
        scale = rate * shortening(slopes, longest)
        return jax.tree.map(lambda leaf, slope: leaf - scale * slope, now, slopes), None

    return jax.lax.scan(step, theta, None, steps)[0]


def shortening(slopes: Params, longest: float) -> Scalar | float:
    """What a gradient longer than `longest` is multiplied by to be as long; 1 for any other."""
    if longest == math.inf:  # no number to divide by a length
        return 1.0
    length = jnp.sqrt(sum(((leaf**2).sum() for leaf in jax.tree.leaves(slopes)), jnp.asarray(1e-30)))
    return jnp.minimum(1.0, longest / length)


class AbstractMAML(AbstractRule):
    """A network, its loss and an inner loop; a subclass says what the outer step follows."""

    net: eqx.AbstractVar[AbstractNet]
    loss: eqx.AbstractVar[AbstractLoss]
    inner: eqx.AbstractVar[Inner]

    @abc.abstractmethod
    def value(self, theta: Params, task: Dataset, key: Key) -> Scalar:
        """Minus the outer loss of a task, or what has its gradient."""

    def specs(self, d: int) -> Any:
        """The network's weights."""
        return self.net.specs(d, self.loss.outputs)

    def risk(self, theta: Params, data: Dataset) -> Scalar:
        """L(theta; S): the mean loss over the points."""
        return mean_over(data.mask, self.loss.each(self.net(theta, data.x), data.y))

    def learned(self, theta: Params, context: Dataset, steps: int) -> Params:
        """theta' = U^steps(theta; context): gradient steps on the context's risk."""
        return descend(lambda now: self.risk(now, context), theta, self.inner.rate, steps, self.inner.longest)

    def adapt(self, theta: Params, context: Dataset, key: Key) -> PointPredictor:
        """Gradient steps on the whole context; without points there is no slope, and the initialisation stays."""
        del key
        return PointPredictor(self.net, self.loss, self.learned(theta, context, self.inner.test_steps))


class MAML(AbstractMAML):
    """min_theta sum_i L(theta - alpha grad L(theta; context_i); query_i) [Finn et al., algorithm 2].

    The gradient goes through the inner steps, second derivatives and all; without `second_order` d theta'/d theta is
    taken as the identity (FO-MAML): grad L(theta'; query) at theta' itself. A meta-train task is split anew each step:
    a `share` of its points is the context, the others are the query.
    """

    net: AbstractNet = MLP()
    loss: AbstractLoss = Squared()
    inner: Inner = eqx.field(default_factory=Inner)
    share: float = eqx.field(static=True, default=0.5)
    second_order: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        check_share(self.share)

    def value(self, theta: Params, task: Dataset, key: Key) -> Scalar:
        """-L(theta'; query), theta' learned from the context; of first order -L(theta + [theta' - theta]; query)."""
        context, query = split(task, self.share, key)
        learned = self.learned(theta, context, self.inner.steps)
        if not self.second_order:  # nothing flows through the brackets
            learned = jax.tree.map(lambda old, new: old + jax.lax.stop_gradient(new - old), theta, learned)
        return -self.risk(learned, query)


class Reptile(AbstractMAML):
    """theta <- theta + epsilon (theta' - theta), with (theta - theta')/alpha as the gradient that Adam is given.

    [Nichol et al., algorithm 2 and section 3]. No query is held back. Each inner step sees a mini-batch of its own, a
    `share` of the task's points drawn anew: that steps on some points should help on others is learned from the
    differences between mini-batches [section 5.1]. A task of one point has none and teaches nothing.
    """

    net: AbstractNet = MLP()
    loss: AbstractLoss = Squared()
    inner: Inner = eqx.field(default_factory=Inner)
    share: float = eqx.field(static=True, default=0.5)

    def __check_init__(self):
        check_share(self.share)
        check_count("inner_steps of Reptile", self.inner.steps, 1)

    def walked(self, theta: Params, task: Dataset, key: Key) -> Params:
        """theta' = U_k(...U_1(theta)), U_j a gradient step on the risk of the j-th mini-batch."""

        def step(now, key):
            part, _ = split(task, self.share, key)
            return self.learned(now, part, 1), None

        return jax.lax.scan(step, theta, jax.random.split(key, self.inner.steps))[0]

    def value(self, theta: Params, task: Dataset, key: Key) -> Scalar:
        """-[L(theta'; S)], with <theta, [(theta' - theta)/alpha]> as its slope: nothing flows through the brackets."""
        learned = jax.lax.stop_gradient(self.walked(theta, task, key))
        pull = jax.tree.map(
            lambda old, new: (old * jax.lax.stop_gradient((new - old) / self.inner.rate)).sum(), theta, learned
        )
        slope = sum(jax.tree.leaves(pull), jnp.zeros(()))
        return -self.risk(learned, task) + slope - jax.lax.stop_gradient(slope)
