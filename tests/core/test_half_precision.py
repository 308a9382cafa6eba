"""Half precision: products in bf16, everything else as without it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discover_rl.core import half_precision, networks

SHAPES = [
    ((7, 5), (5, 3)),
    ((7, 5), (2, 5, 3)),
    ((4, 7, 5), (4, 5, 3)),
    ((4, 1, 7, 5), (4, 2, 5, 3)),
]


def drawn(shape, seed):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def rounded(x):
    return x.astype(jnp.bfloat16).astype(jnp.float32)


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_a_product_is_that_of_rounded_factors(left, right, head):
    x, weight = drawn(left, 0), drawn(right, 1)
    found = half_precision.product(x, weight, head)
    exact = rounded(x) @ rounded(weight)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(
        found, exact if head else rounded(exact), rtol=1e-2 * (not head) + 1e-5
    )
    if not head:
        np.testing.assert_array_equal(found, rounded(found))


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_the_gradient_of_a_product_is_that_of_rounded_factors(left, right, head):
    x, weight = drawn(left, 0), drawn(right, 1)

    def loss(product):
        return lambda x, weight: (product(x, weight) ** 2).sum()

    half = lambda x, weight: half_precision.product(x, weight, head)  # noqa: E731
    found = jax.grad(loss(half), argnums=(0, 1))(x, weight)
    exact = jax.grad(loss(jnp.matmul), argnums=(0, 1))(rounded(x), rounded(weight))
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == jnp.float32
        assert np.linalg.norm(one - other) < 1e-2 * np.linalg.norm(other)


@pytest.mark.parametrize("x", [-2.0, -0.0, 0.0, 3.0, np.inf, -np.inf, np.nan])
def test_relu_is_the_usual_one(x):
    usual, half = (jax.value_and_grad(it)(x) for it in (networks.relu, half_precision.relu))
    np.testing.assert_array_equal(half, usual)


@pytest.mark.parametrize("activation", networks.ACTIVATIONS)
@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_network_and_its_gradients_agree_with_float32(activation, layer_norm):
    net = networks.init(jax.random.key(0), 17, (64, 64), 6, layer_norm)
    x, wanted = drawn((128, 17), 0), drawn((128, 6), 1)

    def loss(net, x):
        return ((networks.apply(net, x, activation) - wanted) ** 2).mean()

    usual = jax.value_and_grad(loss, argnums=(0, 1))(net, x)
    with half_precision.half_precision():
        half = jax.value_and_grad(loss, argnums=(0, 1))(net, x)
    # Units near the kink of relu change sides.
    most = 0.1 if activation == "relu" else 0.01
    for one, other in zip(jax.tree.leaves(half), jax.tree.leaves(usual), strict=True):
        assert one.dtype == jnp.float32
        assert 0 < np.linalg.norm(one - other) < most * np.linalg.norm(other)


def test_only_what_is_traced_within_it_has_half_precision():
    net = networks.init(jax.random.key(0), 3, (8,), 2)
    program = jax.jit(networks.apply)
    x = drawn((5, 3), 0)
    before = program(net, x)
    with half_precision.half_precision():
        within = program(net, x)  # traced anew
    assert "bf16" not in program.lower(net, x).as_text()
    assert not np.array_equal(within, before)
    np.testing.assert_array_equal(program(net, x), before)
