"""MLAP (Amit & Meir 2018): a prior over networks and a posterior for every task, trained together on a PAC-Bayes bound.

The bound holds for losses in [0, 1]; here the loss is minus the log-likelihood a point: an objective with the bound's
balance between fit and divergence, not a certificate (`pacoh.certify` makes those).
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pacoh.data import Dataset
from pacoh.errors import PacohError
from pacoh.inference.base import AbstractLogDensity, Adam, Problem, scan
from pacoh.inference.map import MAP
from pacoh.learners.base import AbstractMetaModel, AbstractTrainedLearner
from pacoh.learners.episodic import check_count, mean_over
from pacoh.priors.base import draw_start, leading, standard_normal
from pacoh.priors.bnn import BNNPredictor
from pacoh.priors.likelihoods import AbstractLikelihood, GaussianNoise
from pacoh.priors.nets import MLP, AbstractNet
from pacoh.priors.weights import DiagonalGaussian, gaussian_kl
from pacoh.theory import stratified
from pacoh.types import Key, Params, Scalar


class AbstractComplexity(eqx.Module):
    """The price of a posterior that is `divergence` away from its prior, for m points of one of n tasks."""

    delta: eqx.AbstractVar[float]

    @abc.abstractmethod
    def __call__(self, divergence: Scalar, risk: Scalar, m: Array, n: int) -> Scalar:
        """What is added to the empirical risk."""


class McAllester(AbstractComplexity):
    """sqrt((D + ln(2 n m / delta)) / (2 (m - 1))) [Amit & Meir, theorem 2]: MLAP-M.

    McAllester's bound of a task, ln(m / delta_i), at delta_i = delta / (2 n): half of delta is the environment's.
    """

    delta: float = eqx.field(static=True, default=0.1)

    def __call__(self, divergence: Scalar, risk: Scalar, m: Array, n: int) -> Scalar:
        """The root; m counts as 2 at least."""
        del risk
        m = jnp.maximum(m, 2)
        return jnp.sqrt((divergence + jnp.log(2 * n * m / self.delta)) / (2 * (m - 1)))


class Seeger(AbstractComplexity):
    """2 e + sqrt(2 e risk), e = (D + ln(4 n sqrt m / delta)) / m: MLAP-S.

    kl^{-1}(risk | e) <= risk + 2 e + sqrt(2 e risk): Seeger's bound in Maurer's form, ln(2 sqrt m / delta_i), at the
    same delta_i = delta / (2 n), solved for the risk. A risk below 0 (a density may exceed 1) counts as 0 under the
    root.
    """

    delta: float = eqx.field(static=True, default=0.1)

    def __call__(self, divergence: Scalar, risk: Scalar, m: Array, n: int) -> Scalar:
        """The sum; m counts as 1 at least."""
        m = jnp.maximum(m, 1)
        epsilon = (divergence + jnp.log(4 * n * jnp.sqrt(m) / self.delta)) / m
        positive = risk > 0
        root = jnp.where(positive, jnp.sqrt(2 * epsilon * jnp.where(positive, risk, 1.0)), 0.0)
        return 2 * epsilon + root


def meta_complexity(hyper_divergence: Scalar, n: int, delta: float) -> Scalar:
    """sqrt((D_hyper + ln(2 n / delta)) / (2 (n - 1))) [Amit & Meir, theorem 2]; n counts as 2 at least."""
    n = max(n, 2)
    return jnp.sqrt((hyper_divergence + math.log(2 * n / delta)) / (2 * (n - 1)))


class Family(eqx.Module):
    """Networks with Gaussian weights and the objective of a task.

    The hyper-prior over the prior's parameters theta is N(0, wide^2), the hyper-posterior N(theta, narrow^2).
    """

    net: AbstractNet = MLP()
    likelihood: AbstractLikelihood = GaussianNoise()
    weights: DiagonalGaussian = eqx.field(default_factory=DiagonalGaussian)
    complexity: AbstractComplexity = McAllester()
    draws: int = eqx.field(static=True, default=3)
    wide: Float[Array, ""] = eqx.field(converter=lambda sd: jnp.asarray(sd, float), default=2000.0)
    narrow: Float[Array, ""] = eqx.field(converter=lambda sd: jnp.asarray(sd, float), default=0.001)

    def __check_init__(self):
        check_count("draws", self.draws, 1)
        if not 0 < self.complexity.delta < 1:
            raise PacohError(f"The setting delta is a probability between 0 and 1; got {self.complexity.delta!r}.")

    def specs(self, d: int) -> Any:
        """Of a prior, and alike of a posterior: means and log sds of weights and noise."""
        return self.weights.specs({"net": self.net.specs(d, self.likelihood.outputs), "own": self.likelihood.specs()})

    def risk(self, posterior: Params, task: Dataset, key: Key) -> Scalar:
        """E_{h ~ Q} Lh(h, S), Lh minus the mean log-likelihood, by `draws` of h."""

        def of_draw(key):
            h = self.weights.sample(posterior, key)
            return -mean_over(task.mask, self.likelihood.log_prob(h["own"], self.net(h["net"], task.x), task.y))

        return jax.vmap(of_draw)(jax.random.split(key, self.draws)).mean()

    def divergence(self, posterior: Params, prior: Params) -> Scalar:
        """KL(Q || P)."""
        return gaussian_kl(self.weights.place(posterior), self.weights.place(prior))

    def hyper_divergence(self, prior: Params) -> Scalar:
        """|theta|^2 / (2 wide^2): KL of hyper-posterior and hyper-prior, up to a constant."""
        return sum((leaf**2).sum() for leaf in jax.tree.leaves(prior)) / (2 * self.wide**2)

    def objective(self, posterior: Params, prior: Params, task: Dataset, extra: tuple[Scalar, int], key: Key) -> Scalar:
        """J_i = risk + complexity(KL(Q_i || P) + D_hyper), `extra` being D_hyper and n (0 and 1 for a new task)."""
        hyper, n = extra
        risk = self.risk(posterior, task, key)
        return risk + self.complexity(self.divergence(posterior, prior) + hyper, risk, task.sizes, n)


class Joint(AbstractLogDensity):
    """-(1/n) sum_i J_i(theta, Q_i) - Upsilon(theta), over phi = {"prior": theta, "posteriors": Q_1..Q_n}.

    The prior in J_i is drawn from the hyper-posterior, theta + narrow * noise. A mini-batch of tasks keeps the mean.
    """

    family: Family
    tasks: Dataset
    index: Int[Array, " b"]
    n: int = eqx.field(static=True)
    batch: int | None = eqx.field(static=True)

    def minibatch(self, key: Key) -> "Joint":
        """`batch` of the tasks with their posteriors."""
        if self.batch is None or self.batch >= self.n:
            return self
        chosen = stratified(self.n, self.batch, key)
        tasks = jax.tree.map(lambda leaf: leaf[chosen], self.tasks)
        return Joint(self.family, tasks, self.index[chosen], self.n, None)

    def __call__(self, phi: Params, key: Key) -> Scalar:
        """Minus the bound."""
        key_hyper, key_risk = jax.random.split(key)
        noise = standard_normal(phi["prior"], key_hyper)
        prior = jax.tree.map(lambda leaf, z: leaf + self.family.narrow * z, phi["prior"], noise)
        hyper = self.family.hyper_divergence(phi["prior"])
        posteriors = jax.tree.map(lambda leaf: leaf[self.index], phi["posteriors"])

        def of_task(posterior, task, key):
            return self.family.objective(posterior, prior, task, (hyper, self.n), key)

        each = jax.vmap(of_task)(posteriors, self.tasks, jax.random.split(key_risk, len(self.index)))
        return -each.mean() - meta_complexity(hyper, self.n, self.family.complexity.delta)


class NewTask(AbstractLogDensity):
    """-J(Q) of a new task under a prior that is fixed: the bound for one task."""

    family: Family
    prior: Params
    context: Dataset

    def __call__(self, phi: Params, key: Key) -> Scalar:
        """Minus the bound."""
        return -self.family.objective(phi, self.prior, self.context, (jnp.zeros(()), 1), key)


class Start(eqx.Module):
    """A prior, and n posteriors that start at it."""

    family: Family
    n: int = eqx.field(static=True)
    d: int = eqx.field(static=True)

    def __call__(self, key: Key) -> Params:
        """One start."""
        prior = draw_start(self.family.specs(self.d), key)
        return {"prior": prior, "posteriors": jax.tree.map(lambda leaf: jnp.stack([leaf] * self.n), prior)}


class MLAPModel(AbstractMetaModel):
    """The prior; a new task gets a posterior of its own by `adaptation`, and `predict` networks drawn from it."""

    family: Family
    prior: Params
    adaptation: MAP
    predict: int = eqx.field(static=True)

    def adapt(self, context: Dataset, key: Key) -> BNNPredictor:
        """Q by the bound of this task, from the prior on; without points the prior itself."""
        key_init, key_steps, key_draws = jax.random.split(key, 3)
        density = NewTask(self.family, self.prior, context)
        state = self.adaptation.init(density, lambda _: self.prior, key_init)
        state, _ = scan(self.adaptation, density, state, jax.random.split(key_steps, self.adaptation.steps))
        learned = jax.tree.map(lambda leaf: leaf[0], self.adaptation.draws(state, key_draws))
        seen = context.mask.any()
        posterior = jax.tree.map(lambda new, old: jnp.where(seen, new, old), learned, self.prior)
        draw = jax.vmap(lambda k: self.family.weights.sample(posterior, k))
        return BNNPredictor(self.family.net, self.family.likelihood, draw(jax.random.split(key_draws, self.predict)))


def _adaptation() -> MAP:
    return MAP(Adam(0.01, 300))


class MLAP(AbstractTrainedLearner):
    """MAP on the joint bound. Every task keeps a posterior while training: memory grows with the number of tasks."""

    family: Family = eqx.field(default_factory=Family)
    inference: MAP = eqx.field(default_factory=MAP)
    adaptation: MAP = eqx.field(default_factory=_adaptation)
    predict: int = eqx.field(static=True, default=20)
    batch: int | None = eqx.field(static=True, default=None)

    def problem(self, tasks: Dataset) -> Problem:
        """The engine on the joint bound."""
        n = leading(tasks)
        return Problem(
            self.inference,
            Joint(self.family, tasks, jnp.arange(n), n, self.batch),
            Start(self.family, n, tasks.x.shape[-1]),
        )

    def model(self, state: Any, tasks: Dataset, key: Key) -> MLAPModel:
        """The prior alone: the tasks' posteriors have served."""
        del tasks
        prior = jax.tree.map(lambda leaf: leaf[0], self.inference.draws(state, key)["prior"])
        return MLAPModel(self.family, prior, self.adaptation, self.predict)
