"""A convolutional network is the sums that define it, knows images from flat rows, and serves as a prior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pacoh
from pacoh.errors import PacohError
from pacoh.priors.base import draw_start
from pacoh.priors.conv import ConvNet, convolution, largest

TINY = {"steps": 20, "adapt_steps": 20, "width": 2, "layers": 2}


def by_hand(images: np.ndarray, kernels: np.ndarray, stride: int = 2) -> np.ndarray:
    """sum_{u, v, c} images[ri + u - p, rj + v - p, c] kernels[u, v, c] in loops; p = 0 for stride 2, even side."""
    m, side, _, _ = images.shape
    low = 1 if stride == 1 else side % 2
    padded = np.pad(images, ((0, 0), (low, 2), (low, 2), (0, 0)))
    out = np.zeros((m, -(-side // stride), -(-side // stride), kernels.shape[-1]))
    for i, j in np.ndindex(*out.shape[1:3]):
        patch = padded[:, stride * i : stride * i + 3, stride * j : stride * j + 3]
        out[:, i, j] = np.einsum("muvc,uvco->mo", patch, kernels)
    return out


def largest_by_hand(images: np.ndarray) -> np.ndarray:
    """The largest value of each 2 x 2 block, in loops."""
    m, side, _, channels = images.shape
    out = np.zeros((m, -(-side // 2), -(-side // 2), channels))
    for i, j in np.ndindex(*out.shape[1:3]):
        out[:, i, j] = images[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max((1, 2))
    return out


def made(net: ConvNet, out: int = 3) -> list:
    specs = net.specs(net.side**2 * net.depth, out)
    return draw_start(specs, jax.random.key(0))


@pytest.mark.parametrize(("side", "depth"), [(4, 1), (5, 1), (6, 2), (7, 3)])
def test_a_network_is_the_sums_that_define_it(side, depth):
    net = ConvNet(side, (2, 3), "tanh", depth=depth)
    params = made(net)
    x = np.random.default_rng(0).normal(size=(3, side**2 * depth))
    images = x.reshape(3, side, side, depth)
    for layer in params[:-1]:
        images = np.tanh(by_hand(images, np.asarray(layer["w"])) + np.asarray(layer["b"]))
    expected = images.reshape(3, -1) @ np.asarray(params[-1]["w"]) + np.asarray(params[-1]["b"])
    np.testing.assert_allclose(net(params, jnp.asarray(x)), expected, atol=1e-5)


@pytest.mark.parametrize(("side", "depth"), [(4, 1), (5, 1), (7, 3)])
def test_a_pooled_layer_is_the_largest_of_each_block_of_a_convolution_at_every_pixel(side, depth):
    net = ConvNet(side, (2, 3), "tanh", depth=depth, pool=True)
    params = made(net)
    x = np.random.default_rng(0).normal(size=(3, side**2 * depth))
    images = x.reshape(3, side, side, depth)
    for layer in params[:-1]:
        seen = largest_by_hand(by_hand(images, np.asarray(layer["w"]), stride=1))
        images = np.tanh(seen + np.asarray(layer["b"]))
    expected = images.reshape(3, -1) @ np.asarray(params[-1]["w"]) + np.asarray(params[-1]["b"])
    np.testing.assert_allclose(net(params, jnp.asarray(x)), expected, atol=1e-5)


def test_the_largest_of_a_block_may_stand_anywhere_in_it():
    image = np.full((1, 5, 5, 1), -3.0)
    image[0, 2, 3, 0], image[0, 4, 4, 0] = 1.0, -1.0
    expected = [[-3, -3, -3], [-3, 1, -3], [-3, -3, -1]]
    np.testing.assert_array_equal(largest(jnp.asarray(image))[0, :, :, 0], expected)
    moved = np.roll(image, (1, -1), (1, 2))
    np.testing.assert_array_equal(largest(jnp.asarray(moved))[0, 1, 1, 0], 1.0)


def test_an_image_shifted_by_the_stride_shifts_what_a_layer_sees_by_one():
    random = np.random.default_rng(1)
    image = np.zeros((1, 12, 12, 1))
    image[0, 3:6, 3:6, 0] = random.normal(size=(3, 3))
    kernels = jnp.asarray(random.normal(size=(3, 3, 1, 4)))
    seen = convolution(jnp.asarray(image), kernels)
    shifted = convolution(jnp.asarray(np.roll(image, (2, 4), (1, 2))), kernels)
    np.testing.assert_allclose(shifted, np.roll(seen, (1, 2), (1, 2)), atol=1e-6)
    assert np.abs(seen).max() > 0.1


def test_weights_are_measured_by_fan_in_and_grouped_by_layer():
    first, second, last = ConvNet(28, (8, 16)).specs(784, 5)
    assert (first["w"].shape, first["w"].group, first["w"].unit) == ((3, 3, 1, 8), "input", pytest.approx(1 / 3))
    assert (second["w"].shape, second["w"].group, second["b"].group) == ((3, 3, 8, 16), "weight", "bias")
    assert second["w"].unit == pytest.approx(72**-0.5)
    assert last["w"].shape == (7 * 7 * 16, 5)
    assert last["w"].unit == pytest.approx(784**-0.5)


def test_outputs_of_a_random_network_neither_vanish_nor_explode():
    net = ConvNet(28, (16, 16, 16, 16))
    x = jax.random.normal(jax.random.key(2), (20, 784))
    assert 0.02 < float(net(made(net), x).std()) < 5


@pytest.mark.parametrize("pool", [False, True])
def test_gradients_are_finite_and_reach_every_layer(pool):
    net = ConvNet(9, (4, 4, 4), pool=pool)
    x = jax.random.normal(jax.random.key(3), (5, 81))
    gradient = jax.grad(lambda params: (net(params, x) ** 2).sum())(made(net))
    for leaf in jax.tree.leaves(gradient):
        assert np.isfinite(leaf).all()
        assert np.abs(leaf).max() > 0


@pytest.mark.parametrize("count", [33, 64, 70])
def test_many_images_are_told_in_parts_as_each_is_alone(count):
    net = ConvNet(5, (2, 2), pool=True)
    params, x = made(net), jax.random.normal(jax.random.key(4), (count, 25))
    alone = jnp.concatenate([net(params, image[None]) for image in x])
    np.testing.assert_allclose(net(params, x), alone, atol=1e-5)


def stripes(n: int = 3, seed: int = 0) -> list:
    """8 x 8 images of horizontal (0) and vertical (1) stripes with noise."""
    random = np.random.default_rng(seed)
    pattern = np.tile([[1.0], [0.0]], (4, 8))
    tasks = []
    for _ in range(n):
        y = np.tile([0, 1], 4)
        images = np.stack([pattern.T if one else pattern for one in y]) + 0.3 * random.normal(size=(8, 8, 8))
        tasks.append((images.reshape(8, 64), y))
    return tasks


@pytest.mark.parametrize(("method", "pool"), [("pacoh-nn-map", False), ("vanilla-bnn", False), ("vanilla-bnn", True)])
def test_images_are_told_apart_by_a_bayesian_convolutional_network(method, pool):
    settings = TINY | {"net": "conv", "adapt_steps": 100, "pool": pool}
    settings |= {"width": 32, "adapt_steps": 300} if pool else {}  # a block of 2 x 2 has both colours of a stripe
    settings = settings if method == "pacoh-nn-map" else {k: v for k, v in settings.items() if k != "steps"}
    model = pacoh.fit(stripes(), method, classes=True, **settings)
    (x, y), (query, expected) = stripes(2, seed=1)
    assert (model.adapt(x, y)(query).labels == expected).mean() >= 0.75


@pytest.mark.slow
@pytest.mark.parametrize("method", ["maml", "reptile", "mr-maml-w", "bmaml", "mlap-m"])
def test_images_are_told_apart_by_a_convolutional_network_of_each_baseline(method):
    sizes = {"layers": 2, "width": 8, "steps": 200, "net": "conv", "pool": True}
    model = pacoh.fit(stripes(), method, classes=True, **sizes)
    (x, y), (query, expected) = stripes(2, seed=1)
    assert (model.adapt(x, y)(query).labels == expected).mean() >= 0.75


def test_numbers_are_predicted_from_images():
    tasks = [(x, x.mean(1)) for x, _ in stripes()]
    predictive = pacoh.fit(tasks, "pacoh-nn-map", net="conv", **TINY).adapt(*tasks[0])(tasks[1][0])
    assert np.isfinite(predictive.log_prob(tasks[1][1])).all()


def test_inputs_that_are_no_square_image_are_refused():
    tasks = [(x[:, :45], y) for x, y in stripes()]
    with pytest.raises(PacohError, match=r'net="conv" is for square images .* 45 inputs are none. Use net="mlp"'):
        pacoh.fit(tasks, "pacoh-nn-map", classes=True, net="conv")
    with pytest.raises(PacohError, match="A net is one of mlp, conv; got 'transformer'"):
        pacoh.fit(tasks, "pacoh-nn-map", classes=True, net="transformer")
    with pytest.raises(PacohError, match="784 inputs; got 45"):
        ConvNet(28).specs(45, 2)
    with pytest.raises(PacohError, match='Only a convolutional network pools: leave out `pool`, or use net="conv"'):
        pacoh.fit(tasks, "pacoh-nn-map", classes=True, pool=True)
