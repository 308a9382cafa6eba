"""Networks: the same numbers in NumPy and JAX, for one network and for an ensemble."""

import jax
import numpy as np
import pytest

from discover_rl.core import networks
from discover_rl.core.types import PolicyHead


def host(tree):
    return jax.tree.map(np.asarray, tree)


EXPECTED = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "elu": jax.nn.elu,
}


@pytest.mark.parametrize("activation", networks.ACTIVATIONS)
@pytest.mark.parametrize("layer_norm", [False, True])
def test_numpy_and_jax_agree_with_a_loop(activation, layer_norm):
    net = networks.init(jax.random.key(0), 3, (8, 5), 2, layer_norm)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    h = x.astype(np.float64)
    for name in ("layer0", "layer1"):
        h = h @ np.asarray(net[name]["weight"], np.float64) + np.asarray(net[name]["bias"])
        if layer_norm:
            h = (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + 1e-5)
        h = np.asarray(EXPECTED[activation](h))
    expected = h @ np.asarray(net["head"]["weight"]) + np.asarray(net["head"]["bias"])
    on_device = networks.apply(net, jax.numpy.asarray(x), activation)
    np.testing.assert_allclose(on_device, expected, rtol=1e-4)
    outputs = networks.apply(host(net), x, activation)
    assert isinstance(outputs, np.ndarray)
    np.testing.assert_allclose(outputs, expected, rtol=1e-4)
    # A network that has a nonlinearity of its own is applied with that.
    own = networks.init(jax.random.key(0), 3, (8, 5), 2, layer_norm, activation=activation)
    np.testing.assert_array_equal(networks.apply(host(own), x), outputs)


@pytest.mark.parametrize("activation", networks.ACTIVATIONS)
def test_nonlinearities_take_large_numbers(activation):
    """NumPy would warn of an overflow, which is an error here; NaN comes out as NaN."""
    function = networks.ACTIVATIONS[activation]
    far = function(np.asarray([-1e4, 1e4, np.nan], np.float32))
    assert np.isfinite(far[:2]).all()
    assert np.isnan(far[2])
    slope = jax.vmap(jax.grad(function))(jax.numpy.asarray([-1e4, 0.0, 1e4]))
    assert np.isfinite(slope).all()


def test_an_ensemble_is_its_members_side_by_side():
    nets = jax.vmap(lambda key: networks.init(key, 3, (8,), 2))(jax.random.split(jax.random.key(1)))
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    together = networks.apply(nets, jax.numpy.asarray(x))
    assert together.shape == (2, 5, 2)
    for i in range(2):
        alone = networks.apply(jax.tree.map(lambda leaf, i=i: leaf[i], nets), jax.numpy.asarray(x))
        np.testing.assert_allclose(together[i], alone, rtol=1e-5)


def test_initial_weights_fill_their_range():
    net = networks.init(jax.random.key(0), 100, (400,), 9)
    for name, fan_in in (("layer0", 100), ("head", 400)):
        for leaf in net[name].values():
            assert np.abs(leaf).max() <= fan_in**-0.5
        weight = np.asarray(net[name]["weight"])
        assert weight.std() == pytest.approx((3 * fan_in) ** -0.5, rel=0.03)
        assert abs(weight.mean()) < 0.05 * fan_in**-0.5
    assert net["layer0"]["weight"].shape == (100, 400)
    assert net["head"]["bias"].shape == (9,)


def test_relu_passes_no_gradient_at_zero():
    assert jax.grad(lambda x: networks.relu(x))(0.0) == 0.0
    assert jax.grad(lambda x: networks.relu(x))(1.0) == 1.0


def test_mean_action_is_squashed_only_if_its_head_says_so():
    net = networks.init(jax.random.key(0), 3, (8,), 2)
    x = 10 * jax.numpy.ones((1, 3))
    raw = networks.mean_action(PolicyHead("relu", squash=False), net, x)
    np.testing.assert_allclose(
        networks.mean_action(PolicyHead("relu"), net, x), np.tanh(raw), rtol=1e-5
    )


def test_context_is_appended():
    obs, context = np.ones((2, 3), np.float32), np.zeros((2, 1), np.float32)
    assert networks.with_context(obs, None) is obs
    np.testing.assert_array_equal(networks.with_context(obs, context), [[1, 1, 1, 0]] * 2)


@pytest.mark.parametrize("inputs", [3, 40])
def test_orthogonal_networks_keep_lengths(inputs):
    """Rows or columns, whichever are fewer, are orthogonal; √2 long, and 1 in the head."""
    net = networks.orthogonal(jax.random.key(0), inputs, (16, 16), 2)
    for name, length in (("layer0", 2.0), ("layer1", 2.0), ("head", 1.0)):
        weight = np.asarray(net[name]["weight"])
        small = weight if weight.shape[0] <= weight.shape[1] else weight.T
        np.testing.assert_allclose(small @ small.T, length * np.eye(len(small)), atol=1e-5)
        np.testing.assert_array_equal(net[name]["bias"], 0.0)
    other = networks.orthogonal(jax.random.key(1), inputs, (16, 16), 2)
    assert np.abs(net["layer0"]["weight"] - other["layer0"]["weight"]).max() > 0.1


@pytest.mark.parametrize("convert", [np.asarray, jax.numpy.asarray])
def test_what_is_not_finite_comes_out_as_such(convert):
    """Else a network that is broken goes on giving numbers."""
    x = convert(np.asarray([np.nan, np.inf, -np.inf, -1.0, -0.0, 2.0], np.float32))
    for name, activation in networks.ACTIVATIONS.items():
        assert np.isnan(activation(x)[0]), name
    np.testing.assert_array_equal(networks.relu(x)[1:], [np.inf, 0, 0, 0, 2])
    assert networks.relu(x).dtype == np.float32
