"""NoisyNet off-policy: how large its noise is, where it is drawn anew, what learns from it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import td3
from discover_rl.core import networks
from discover_rl.strategies import noisynet, none
from discover_rl.strategies.interface import Learning, Strategy, View
from tests.helpers import cells

build = functools.partial(cells.paired, td3, noisynet)


def outputs(strategy, params, keys, x):
    """What the head gives for the same features under many draws; (draws, action)."""
    view = View(params, None, None)

    def one(key):
        net = strategy.learning.expect((), view, None, key, "actor").net
        return networks.apply({"head": net["head"]}, x)[0]

    return np.asarray(jax.jit(jax.vmap(one))(keys))


@pytest.mark.parametrize("noise", ["independent", "factorised"])
def test_the_outputs_scatter_as_they_should(noise):
    strategy, _, state = build(sigma=0.5, noise=noise)
    x = np.random.default_rng(0).normal(size=(1, 16)).astype(np.float32)
    got = outputs(strategy, state.actor, random.split(random.key(1), 20_000), x)
    sigma = jax.tree.map(np.asarray, state.actor["joint"]["net"]["head"])
    weights, biases = ((sigma["weight"] * x.T) ** 2).sum(0), sigma["bias"] ** 2
    if noise == "independent":
        expected = weights + biases
    else:  # E|e|² of a factor is (2/π)… for a product, and √(2/π) for a bias
        expected = 2 / np.pi * weights + np.sqrt(2 / np.pi) * biases
    np.testing.assert_allclose(got.var(0), expected, rtol=0.05)
    plain = networks.apply({"head": state.actor["net"]["head"]}, x)[0]
    np.testing.assert_allclose(got.mean(0), plain, atol=4 * np.sqrt(expected.max() / 20_000))
    assert abs(np.corrcoef(got.T)[0, 1]) < 0.03


def test_without_noise_it_is_the_plain_layer_and_sigma_doubles_the_head_alone():
    _, algorithm, state = build(sigma=0.0)
    action = jax.jit(lambda key: algorithm.act(state, (), jnp.ones(3), algorithm.draw(key), 99)[2])
    plain = networks.mean_action(algorithm.head, state.actor["net"], jnp.ones((1, 3)))[0]
    np.testing.assert_array_equal(action(random.key(1)).executed, plain)
    _, _, noisy = build(sigma=0.1)
    assert jax.tree.map(jnp.shape, noisy.actor["joint"]) == {
        "net": {"head": jax.tree.map(jnp.shape, noisy.actor["net"]["head"])}
    }


def test_targets_keep_the_algorithms_own_smoothing():
    """With σ = 0 the critics learn as with no strategy, whose targets are smoothed."""
    hp = td3.Hyper(**cells.SMALL)
    unsmoothed = td3.make(cells.SPEC, hp, Strategy(learning=Learning(replaces_smoothing=True)))
    quiet, plain = build(sigma=0.0), cells.paired(td3, none)
    outcomes = []
    for algorithm, state in (quiet[1:], plain[1:], (unsmoothed, plain[2])):
        learn, losses = cells.learner(algorithm), []
        for number in range(2):
            given = cells.batch(seed=number), random.key(number), False
            state, loss = learn(state, *given)
            losses.append(float(loss.critic))
        outcomes.append((state.critics, losses))
    cells.assert_close(outcomes[0], outcomes[1], 1e-6)
    assert abs(outcomes[2][1][0] - outcomes[1][1][0]) > 1e-5


def test_noise_is_drawn_anew_at_each_step_or_kept_for_an_episode():
    for lasts in ("step", "episode"):
        _, algorithm, state = build(sigma=0.3, lasts=lasts)
        memory = algorithm.begin(state, random.key(7))
        act = jax.jit(
            lambda memory, key, a=algorithm, s=state: (
                a.act(s, memory, jnp.ones(3), a.draw(key), 99)[2].bare
            )
        )
        first, second = (np.asarray(act(memory, random.key(i))) for i in (1, 2))
        assert np.array_equal(first, second) == (lasts == "episode")
        if lasts == "episode":
            other = act(algorithm.begin(state, random.key(8)), random.key(1))
            assert np.abs(other - first).max() > 1e-3


def test_the_slope_of_sigma_is_that_of_the_weight_times_the_noise():
    strategy, _, state = build(sigma=0.2)
    key, x = random.key(3), jnp.ones((4, 16))

    def loss(params):
        net = strategy.learning.expect((), View(params, None, None), None, key, "actor").net
        return jnp.sin(networks.apply({"head": net["head"]}, x)).sum()

    slopes = jax.grad(loss)(state.actor)
    noise = strategy.acting.draw(key)["net"]["head"]
    for part in ("weight", "bias"):
        expected = slopes["net"]["head"][part] * noise[part]
        np.testing.assert_allclose(
            slopes["joint"]["net"]["head"][part], expected, rtol=1e-4, atol=1e-6
        )


def test_learning_moves_sigma_and_the_target_follows_without_noise():
    _, algorithm, state = build(sigma=0.2)
    after, _ = cells.learner(algorithm)(state, cells.batch(), random.key(0), True)
    moved = (
        after.actor["joint"]["net"]["head"]["weight"]
        - state.actor["joint"]["net"]["head"]["weight"]
    )
    assert np.abs(moved).max() > 0
    for old, new, target in zip(
        *(jax.tree.leaves(t) for t in (state.actor, after.actor, after.target_actor)), strict=True
    ):
        np.testing.assert_allclose(target, 0.995 * old + 0.005 * new, rtol=1e-5, atol=1e-7)
    cells.assert_same(algorithm.greedy(after).net, after.actor["net"])
