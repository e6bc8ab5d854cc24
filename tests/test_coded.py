"""Classes as codes with normal noise: the last layer integrated out, against SciPy and against draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import pacoh
from pacoh.data import pad, stack
from pacoh.errors import PacohError
from pacoh.priors import BNNPrior, Coded, DiagonalGaussian, LastLayerBNN
from pacoh.priors.base import draw_start, log_mean_exp
from pacoh.priors.nets import MLP

NET = MLP((5, 4), "tanh")
SIZES = {"layers": 1, "width": 16, "waves": 0, "steps": 400, "adapt_steps": 60, "sharpen": False}


def points(m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(m, 2)), np.arange(m) % 3


def both() -> tuple[LastLayerBNN, BNNPrior]:
    exact, drawn = (
        kind(net=NET, likelihood=Coded(3, noise=0.5), weights=DiagonalGaussian(0.4))
        for kind in (LastLayerBNN, BNNPrior)
    )
    return exact, drawn


@pytest.mark.usefixtures("float64")
def test_an_evidence_is_a_normal_density_of_the_codes_class_by_class():
    prior, _ = both()
    phi = draw_start(prior.specs(2), jax.random.key(1))
    h = prior.weights.sample(prior.drawn(phi), jax.random.key(2))
    x, y = points(6)
    features = np.asarray(NET.features(h["net"], jnp.asarray(x)))
    loc, sd = (np.asarray(NET.head(part["net"][-1])) for part in prior.weights.place(phi))
    noise = np.exp(2 * float(h["own"]["log_noise"]))
    expected = sum(
        multivariate_normal(features @ loc[:, c], features * sd[:, c] ** 2 @ features.T + noise * np.eye(6)).logpdf(
            y == c
        )
        for c in range(3)
    )
    value = prior.log_weights(phi, h, stack([(x, y)], size=8), jnp.asarray([6.0]))
    np.testing.assert_allclose(value[0], expected, rtol=1e-8)


@pytest.mark.usefixtures("float64")
def test_integrating_the_last_layer_is_the_mean_over_its_draws():
    exact, drawn = both()
    phi = draw_start(exact.specs(2), jax.random.key(3))
    hidden = exact.weights.sample(exact.drawn(phi), jax.random.key(4))
    tasks, betas = stack([points(3), points(4, seed=1)]), jnp.asarray([1.0, 2.0])

    def logs(key):
        h = drawn.weights.sample(phi, key)
        return drawn.log_weights(phi, {"net": [*hidden["net"], h["net"][-1]], "own": hidden["own"]}, tasks, betas)

    values = jax.vmap(logs)(jax.random.split(jax.random.key(0), 200_000))
    np.testing.assert_allclose(log_mean_exp(values), exact.log_weights(phi, hidden, tasks, betas), atol=0.02)


@pytest.mark.usefixtures("float64")
def test_exchangeable_outputs_are_outputs_with_equal_priors():
    several, _ = both()
    one = LastLayerBNN(net=NET, likelihood=several.likelihood, weights=several.weights, exchangeable=True)
    phi = draw_start(one.specs(2), jax.random.key(8))
    phi = jax.tree.map(lambda leaf: leaf + 0.1 * jnp.arange(leaf.size).reshape(leaf.shape), phi)
    tiled = jax.tree.map(lambda leaf, spec: jnp.broadcast_to(leaf, spec.shape), phi, several.specs(2))
    h = one.weights.sample(one.drawn(phi), jax.random.key(9))
    tasks, betas = stack([points(5), points(7, seed=1)]), jnp.asarray([5.0, 3.0])
    values = one.log_weights(phi, h, tasks, betas)
    np.testing.assert_allclose(values, several.log_weights(tiled, h, tasks, betas), rtol=1e-10)
    other = stack([(x, (y + 1) % 3) for x, y in (points(5), points(7, seed=1))])
    np.testing.assert_allclose(values, one.log_weights(phi, h, other, betas), rtol=1e-10)  # labels mean nothing

    def said(prior, phi):
        phis, hypotheses = (jax.tree.map(lambda leaf: leaf[None], tree) for tree in (phi, h))
        predictor = prior.predictor(phis, hypotheses, pad(*points(5)), jnp.asarray(5.0))
        x = jnp.asarray(points(4, seed=2)[0])
        return predictor(x).probs, predictor.function(jax.random.key(10))(x)

    for first, second in zip(said(one, phi), said(several, tiled), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-8)


def test_means_of_exchangeable_outputs_start_at_zero_and_their_sds_wider():
    prior = LastLayerBNN(net=NET, likelihood=Coded(3), weights=DiagonalGaussian(0.4), exchangeable=True)
    phi = draw_start(prior.specs(2), jax.random.key(0))
    last = phi["loc"]["net"][-1]
    assert last["w"].shape == (4, 1)
    assert not np.any(last["w"])
    np.testing.assert_allclose(prior.weights.place(phi)[1]["net"][-1]["w"], 5 * 0.4 * 4**-0.5, rtol=1e-6)


def test_outputs_are_exchangeable_only_where_the_last_layer_is_integrated_out():
    with pytest.raises(PacohError, match="Outputs are exchangeable where the last layer is integrated out: add exact"):
        pacoh.fit(hidden_places(3, 0), "pacoh-nn-map", classes="task", exchangeable=True)


@pytest.mark.usefixtures("float64")
def test_a_class_is_as_probable_as_its_code_is_dense():
    loc, variance, noise = np.array([[[0.7, 0.2, -0.1]]]), np.array([[[0.1, 0.2, 0.3]]]), np.array([0.05])
    said = Coded(3).marginal(*map(jnp.asarray, (loc, variance, noise)))
    scale = np.sqrt(variance[0, 0] + noise)
    density = np.array([norm(loc[0, 0], scale).pdf(code).prod() for code in np.eye(3)])
    np.testing.assert_allclose(said.probs[0], density / density.sum(), rtol=1e-10)


def hidden_places(n: int, seed: int, d: int = 8, shots: int = 8) -> list:
    """Three classes at places of the task's own in two inputs, the same in all tasks; the other inputs are noise."""
    random = np.random.default_rng(seed)
    tasks = []
    for _ in range(n):
        y = np.tile(np.arange(3), shots)
        x = 2.0 * random.normal(size=(len(y), d))
        places = random.normal(size=(3, 2))
        x[:, :2] = 2.0 * (places / np.linalg.norm(places, axis=1, keepdims=True))[y] + 0.3 * random.normal(
            size=(len(y), 2)
        )
        tasks.append((x, y))
    return tasks


@pytest.mark.slow
def test_what_tasks_with_labels_of_their_own_share_is_learned():
    train = hidden_places(30, 0)
    test = pacoh.read(hidden_places(20, 1), classes="task").shots(2)
    trained, untrained = (
        pacoh.fit(train, "pacoh-nn-map", classes="task", exact=True, **SIZES | {"steps": steps}).evaluate(test)
        for steps in (400, 1)
    )
    assert trained["accuracy"] > untrained["accuracy"] + 0.1
    assert trained["log_likelihood"] > untrained["log_likelihood"] + 0.1


def test_a_model_of_codes_is_saved_and_a_drawn_function_gives_probabilities(tmp_path):
    model = pacoh.fit(hidden_places(5, 2), "pacoh-nn-svgd", classes="task", exact=True, **SIZES | {"steps": 20})
    x, y = hidden_places(1, 3)[0]
    model.save(tmp_path / "model")
    again = pacoh.load(tmp_path / "model")
    said = model.adapt(x[:6], y[:6])(x).probs
    np.testing.assert_array_equal(said, again.adapt(x[:6], y[:6])(x).probs)
    prior, _ = both()
    phi = draw_start(prior.specs(2), jax.random.key(5))
    context, places = points(6)
    predictor = prior.condition(phi, pad(context, places), jnp.asarray(6.0), jax.random.key(6))
    drawn = predictor.function(jax.random.key(7))(jnp.asarray(context))
    assert drawn.shape == (6, 3)
    np.testing.assert_allclose(drawn.sum(-1), 1, rtol=1e-5)
    assert np.abs(drawn - predictor(jnp.asarray(context)).probs).max() > 0.01  # a draw, not the mean
