"""Bayesian-neural-network priors: evidence by draws and log-sum-exp, posteriors by an engine."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pacoh.data import Dataset
from pacoh.inference.base import AbstractInference, AbstractLogDensity, Adam, Layout, scan
from pacoh.inference.svgd import SVGD
from pacoh.predictive import AbstractPredictive
from pacoh.priors.base import AbstractPredictor, AbstractPrior, leading, likelihood_power, log_mean_exp, stratified
from pacoh.priors.likelihoods import AbstractLikelihood, GaussianNoise
from pacoh.priors.nets import MLP, AbstractNet
from pacoh.priors.weights import AbstractWeights, DiagonalGaussian
from pacoh.types import Key, Params, Scalar


def adaptation() -> SVGD:
    """The engine of a task's posterior, unless told otherwise."""
    return SVGD(particles=5, optimizer=Adam(0.03, 200))


class BNNPredictor(AbstractPredictor):
    """J networks, equally weighted."""

    net: AbstractNet
    likelihood: AbstractLikelihood
    hypotheses: Params

    def __call__(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """Of y."""
        return self.likelihood.predictive(self.hypotheses["own"], self._outputs(x))

    def latent(self, x: Float[Array, "q d"]) -> AbstractPredictive:
        """Of f: the spread of the networks."""
        return self.likelihood.latent(self.hypotheses["own"], self._outputs(x))

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Array]:
        """One of the networks; of classes, their probabilities."""
        chosen = jax.random.randint(key, (), 0, leading(self.hypotheses))
        net = jax.tree.map(lambda leaf: leaf[chosen], self.hypotheses["net"])
        return lambda x: self.likelihood.function(self.net(net, x))

    def _outputs(self, x: Array) -> Array:
        return jax.vmap(self.net, (0, None))(self.hypotheses["net"], x)


class AbstractDrawnPrior(AbstractPrior):
    """{P_phi} over hypotheses that are drawn: evidence by log-sum-exp over draws, posteriors by an engine.

    `draws` is L, the hypotheses an evidence is estimated from; `average` takes the mean of their log-likelihoods
    instead of the log of the mean likelihood (an ablation: it forgets that tasks differ). `points` of a task are drawn
    a step (None: all). `adaptation` finds the posterior of a task. `coupled` adapts all K priors in one run on the
    posterior of their mixture.
    """

    weights: eqx.AbstractVar[AbstractWeights]
    adaptation: eqx.AbstractVar[AbstractInference]
    draws: eqx.AbstractVar[int]
    points: eqx.AbstractVar[int | None]
    average: eqx.AbstractVar[bool]
    coupled: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def drawn(self, phi: Params) -> Params:
        """The parameters of P_phi over what is drawn; all of them, unless a part is integrated out."""

    @abc.abstractmethod
    def log_weights(self, phi: Params, h: Params, tasks: Dataset, betas: Float[Array, " n"]) -> Float[Array, " n"]:
        """-beta Lh(h, S) for each task of a stack."""

    @abc.abstractmethod
    def predictor(self, phis: Params, hypotheses: Params, data: Dataset, beta: Scalar) -> AbstractPredictor:
        """The predictor of hypotheses (a leading axis J) of the posterior."""

    def log_evidence(self, phi: Params, data: Dataset, beta: Scalar, key: Key) -> Scalar:
        """ln (1/L) sum_l exp(-beta Lh(h_l, S)), h_l ~ P_phi: below ln Z on average, nearer with more draws."""
        one = jax.tree.map(lambda leaf: leaf[None], data)
        return self.log_evidences(phi, one, beta[None], key)[0]

    def log_evidences(self, phi: Params, tasks: Dataset, betas: Float[Array, " n"], key: Key) -> Float[Array, " n"]:
        """The same for a stack of tasks, which share the draws: each estimate keeps its mean, their sum costs less."""
        key_draws, key_points = jax.random.split(key)
        if self.points is not None:
            tasks = _some_points(tasks, self.points, key_points)
        hypotheses = self.weights.samples(self.drawn(phi), self.draws, key_draws)
        logs = jax.vmap(lambda h: self.log_weights(phi, h, tasks, betas))(hypotheses)
        return logs.mean(0) if self.average else log_mean_exp(logs)

    def condition(self, phi: Params, data: Dataset, beta: Scalar, key: Key) -> AbstractPredictor:
        """Hypotheses of the generalised posterior under one prior, by the engine, started at draws of the prior."""
        return self._condition(jax.tree.map(lambda leaf: leaf[None], phi), data, beta, key)

    def condition_all(self, phis: Params, data: Dataset, beta: Scalar, key: Key) -> AbstractPredictor:
        """Of K priors: independently, or coupled in one run."""
        if self.coupled:
            return self._condition(phis, data, beta, key)
        return super().condition_all(phis, data, beta, key)

    def _condition(self, phis: Params, data: Dataset, beta: Scalar, key: Key) -> AbstractPredictor:
        key_init, key_steps, key_draws = jax.random.split(key, 3)
        density = TaskPosterior.of(self, phis, data, beta)
        state = self.adaptation.init(density, density.draw, key_init)
        state, _ = scan(self.adaptation, density, state, jax.random.split(key_steps, self.adaptation.steps))
        moved = self.adaptation.draws(state, key_draws)
        return self.predictor(phis, jax.vmap(density.hypothesis)(moved), data, beta)


class BNNPrior(AbstractDrawnPrior):
    """{P_phi} over the weights of a network and the noise of its likelihood, all of them drawn."""

    net: AbstractNet = MLP()
    likelihood: AbstractLikelihood = GaussianNoise()
    weights: AbstractWeights = eqx.field(default_factory=DiagonalGaussian)
    adaptation: AbstractInference = eqx.field(default_factory=adaptation)
    draws: int = eqx.field(static=True, default=10)
    points: int | None = eqx.field(static=True, default=None)
    average: bool = eqx.field(static=True, default=False)
    coupled: bool = eqx.field(static=True, default=False)

    def specs(self, d: int) -> Any:
        """The parameters of the distribution over networks and noise."""
        return self.weights.specs({"net": self.net.specs(d, self.likelihood.outputs), "own": self.likelihood.specs()})

    def drawn(self, phi: Params) -> Params:
        """All."""
        return phi

    def log_weights(self, phi: Params, h: Params, tasks: Dataset, betas: Float[Array, " n"]) -> Float[Array, " n"]:
        """beta times the mean log-likelihood."""
        del phi
        rows = tasks.x.reshape(-1, tasks.x.shape[-1])
        each = self.likelihood.log_prob(h["own"], self.net.alone(h["net"], rows), tasks.y.reshape(-1))
        kept = jnp.where(tasks.mask, each.reshape(tasks.mask.shape), 0.0)
        return likelihood_power(tasks.mask, betas) * kept.sum(-1)

    def predictor(self, phis: Params, hypotheses: Params, data: Dataset, beta: Scalar) -> BNNPredictor:
        """The networks themselves."""
        del phis, data, beta
        return BNNPredictor(self.net, self.likelihood, hypotheses)


class TaskPosterior(AbstractLogDensity):
    """ln mean_k P_k(h) exp(-beta Lh(h, S)) over hypotheses in the priors' units, h = loc + scale z.

    Units change no posterior, but what an engine with one step size can do on it.
    """

    prior: AbstractDrawnPrior
    phis: Params
    data: Dataset
    beta: Scalar
    loc: Float[Array, " D"]
    scale: Float[Array, " D"]

    @staticmethod
    def of(prior: AbstractDrawnPrior, phis: Params, data: Dataset, beta: Scalar) -> "TaskPosterior":
        """The posterior of a context; its units are the mean ones of the priors."""
        places = jax.vmap(lambda phi: prior.weights.place(prior.drawn(phi)))(phis)
        loc, scale = (Layout.of(tree).flatten(tree) for tree in jax.tree.map(lambda leaf: leaf.mean(0), places))
        return TaskPosterior(prior, phis, data, beta, loc, scale)

    def hypothesis(self, z: Params) -> Params:
        """h = loc + scale z."""
        layout = Layout.of(z)
        return layout.unflatten(self._moved(layout.flatten(z)))

    def _moved(self, z: Float[Array, " D"]) -> Float[Array, " D"]:
        return self.loc + self.scale * z

    def draw(self, key: Key) -> Params:
        """A hypothesis of one of the priors, in units."""
        key_which, key_draw = jax.random.split(key)
        chosen = jax.random.randint(key_which, (), 0, leading(self.phis))
        phi = jax.tree.map(lambda leaf: leaf[chosen], self.phis)
        h = self.prior.weights.sample(self.prior.drawn(phi), key_draw)
        layout = Layout.of(h)
        return layout.unflatten((layout.flatten(h) - self.loc) / self.scale)

    def __call__(self, phi: Params, key: Key) -> Scalar:
        """The log-density up to a constant."""
        del key
        layout = Layout.of(phi)
        z = layout.flatten(phi)  # once: its derivative is one array, too
        h = layout.unflatten(self._moved(z))
        one = jax.tree.map(lambda leaf: leaf[None], self.data)
        weights, alone = self.prior.weights, leading(self.phis) == 1

        def under(prior_phi):
            drawn = self.prior.drawn(prior_phi)
            log_prior = weights.log_prob_in_units(drawn, h, z) if alone else weights.log_prob(drawn, h)
            return log_prior + self.prior.log_weights(prior_phi, h, one, self.beta[None])[0]

        if alone:
            return under(jax.tree.map(lambda leaf: leaf[0], self.phis))
        return log_mean_exp(jax.vmap(under)(self.phis))


def _some_points(tasks: Dataset, count: int, key: Key) -> Dataset:
    """`count` points of each task, each with equal chance: the mean loss stays unbiased, ln Z does not."""

    def of_task(task: Dataset, key: Key) -> Dataset:
        index = stratified(jnp.maximum(task.sizes, 1), count, key)
        return Dataset(task.x[index], task.y[index], task.mask[index])

    return jax.vmap(of_task)(tasks, jax.random.split(key, len(tasks.mask)))
