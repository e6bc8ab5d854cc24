"""Ellipses: five Gaussian classes in the plane whose pattern is turned and shifted from task to task."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pacoh.categorical import CategoricalMixture
from pacoh.data import Dataset, Task
from pacoh.environments.base import AbstractEnvironment, Draw, Pair, named
from pacoh.errors import PacohError
from pacoh.inference.base import Budget
from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel
from pacoh.priors.base import AbstractPredictor
from pacoh.reading import Split
from pacoh.types import Key

WAYS = 5
CENTRES = np.array([[0.0, 0.0], [1.5, 0.6], [-1.2, 1.3], [-0.9, -1.4], [1.1, -1.3]])
FACTORS = np.array(
    [
        [[0.80, 0.00], [0.30, 0.15]],
        [[0.25, 0.00], [-0.40, 0.50]],
        [[0.70, 0.00], [-0.50, 0.20]],
        [[0.20, 0.00], [0.10, 0.80]],
        [[0.90, 0.00], [0.20, 0.25]],
    ]
)
"""Where the classes lie, and factors of their covariances, before the turn: the same in every task."""
_NODES = 256  # of the oracle's angles


class Ellipses(AbstractEnvironment):
    """Ellipses: 5-way classification in the plane, one pattern of Gaussian classes turned and shifted by task.

    x = shift + R(angle) (centre_c + L_c z), shift ~ N(0, I), angle ~ U(-turn, turn); `turn` is a quarter of pi by
    default, pi for any angle. `shots` points of each class are context in test tasks, and `query` more are asked.
    """

    shots: int = eqx.field(static=True, default=2)
    n: int = eqx.field(static=True, default=20)
    m: int = eqx.field(static=True, default=20)  # points of each class in a meta-train task
    tests: int = eqx.field(static=True, default=100)
    valids: int = eqx.field(static=True, default=20)
    query: int = eqx.field(static=True, default=20)
    turn: float = eqx.field(static=True, default=np.pi / 4)

    def __check_init__(self):
        if not 0 <= self.turn <= np.pi:
            raise PacohError(f"The turn of ellipses is an angle between 0 and pi, got {self.turn!r}.")

    def task(self, random: np.random.RandomState, points: int) -> Pair:
        """The next task of `random`: shift, angle, then `points` of each class, the classes by turns."""
        shift, angle = random.normal(size=2), random.uniform(-self.turn, self.turn)
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        y = np.tile(np.arange(WAYS), points)
        pattern = CENTRES[y] + np.einsum("mij,mj->mi", FACTORS[y], random.normal(size=(len(y), 2)))
        return shift + pattern @ rotation.T, y

    def draw(self, number: int) -> Draw:
        """Meta-train tasks, then test tasks, then validation tasks."""
        random = np.random.RandomState(number)
        train = named([self.task(random, self.m) for _ in range(self.n)], tuple(range(WAYS)))
        return Draw(train, self._split(random, self.tests), self._split(random, self.valids))

    def _split(self, random: np.random.RandomState, count: int) -> Split:
        pairs = [self.task(random, self.shots + self.query) for _ in range(count)]
        return named(pairs, tuple(range(WAYS))).shots(self.shots)

    def oracle(self) -> "EllipsesOracle":
        """The Bayes-optimal predictor: quadrature over the angle, the shift in closed form."""
        return EllipsesOracle(self.turn)


class EllipsesPosterior(AbstractPredictor):
    """Nodes of the angle with their weights, and the Gaussian posterior of the shift given each."""

    angles: Float[Array, " J"]
    log_weights: Float[Array, " J"]
    shift: Float[Array, "J 2"]
    covariance: Float[Array, "J 2 2"]

    def __call__(self, x: Float[Array, "q d"]) -> CategoricalMixture:
        """p(c | x, context) ~ sum_j w_j N(x; shift_j + R_j centre_c, R_j S_c R_j' + V_j), classes equally likely."""
        at = jax.vmap(lambda angle, shift, v: _log_densities(x, angle, shift, v))
        logs = at(self.angles, self.shift, self.covariance) + self.log_weights[:, None, None]
        return CategoricalMixture(jax.nn.logsumexp(logs, 0)[None])

    def latent(self, x: Float[Array, "q d"]) -> CategoricalMixture:
        """The same: the classes' probabilities."""
        return self(x)

    def function(self, key: Key) -> Callable[[Float[Array, "q d"]], Float[Array, "q C"]]:
        """The classes' probabilities under one angle and shift."""
        key_angle, key_shift = jax.random.split(key)
        node = jax.random.categorical(key_angle, self.log_weights)
        factor = jnp.linalg.cholesky(self.covariance[node])
        shift = self.shift[node] + factor @ jax.random.normal(key_shift, (2,))
        return lambda x: jax.nn.softmax(_log_densities(x, self.angles[node], shift, jnp.zeros((2, 2))))


class EllipsesOracleModel(AbstractMetaModel):
    """The true prior over the angle and the shift."""

    turn: float = eqx.field(static=True)

    def adapt(self, context: Dataset, key: Key) -> EllipsesPosterior:
        """Bayes' rule by quadrature over the angle."""
        del key
        unit, weights = np.polynomial.legendre.leggauss(_NODES)
        angles = jnp.asarray(self.turn * unit)
        evidence, shift, covariance = jax.vmap(lambda angle: _given_angle(angle, context))(angles)
        log_weights = jax.nn.log_softmax(jnp.asarray(np.log(weights)) + evidence)
        return EllipsesPosterior(angles, log_weights, shift, covariance)


class EllipsesOracle(AbstractMetaLearner):
    """Knows the environment; `fit` learns nothing."""

    turn: float = eqx.field(static=True, default=np.pi / 4)

    def fit(
        self, tasks: Dataset, key: Key, valid: Task | None = None, budget: Budget | None = None
    ) -> EllipsesOracleModel:
        """The true prior."""
        del tasks, key, valid, budget
        return EllipsesOracleModel(self.turn)


def _placed(angle: Array) -> tuple[Float[Array, "C 2"], Float[Array, "C 2 2"]]:
    """Centres and covariances of the classes, turned."""
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    rotation = jnp.stack([jnp.stack([cos, -sin]), jnp.stack([sin, cos])])
    factors = rotation @ jnp.asarray(FACTORS)
    return jnp.asarray(CENTRES) @ rotation.T, factors @ jnp.swapaxes(factors, -1, -2)


def _log_normal(gap: Float[Array, "*n 2"], covariance: Float[Array, "*n 2 2"]) -> Float[Array, "*n"]:
    """ln N(gap; 0, covariance) in the plane, up to a constant."""
    a, b, d = covariance[..., 0, 0], covariance[..., 0, 1], covariance[..., 1, 1]
    u, v, determinant = gap[..., 0], gap[..., 1], a * d - b**2
    return -0.5 * (d * u**2 - 2 * b * u * v + a * v**2) / determinant - 0.5 * jnp.log(determinant)


def _log_densities(x: Array, angle: Array, shift: Array, covariance: Array) -> Float[Array, "q C"]:
    """ln p(x | class) where the shift is N(shift, covariance)."""
    centres, spreads = _placed(angle)
    return _log_normal(x[:, None] - shift - centres, spreads + covariance)


def _given_angle(angle: Array, context: Dataset) -> tuple[Array, Array, Array]:
    """ln p(context | angle), and mean and covariance of the shift: a Gaussian prior and Gaussian points."""
    centres, spreads = _placed(angle)
    gap = jnp.where(context.mask[:, None], context.x - centres[context.y], 0.0)
    inverse = jnp.linalg.inv(spreads)[context.y] * context.mask[:, None, None]
    covariance = jnp.linalg.inv(jnp.eye(2) + inverse.sum(0))
    moment = jnp.einsum("mij,mj->i", inverse, gap)
    squares = jnp.einsum("mi,mij,mj->", gap, inverse, gap)
    evidence = -0.5 * squares + 0.5 * moment @ covariance @ moment + 0.5 * jnp.log(jnp.linalg.det(covariance))
    return evidence, covariance @ moment, covariance
