"""Coherent exploration off-policy: how its weights wander, and the density without them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import sac, td3
from discover_rl.algorithms.off_policy_parts import features
from discover_rl.core.types import Nudge
from discover_rl.strategies import coherent
from discover_rl.strategies.interface import View
from tests.helpers import cells


def build(module, **settings):
    return cells.paired(module, coherent, **settings)


def wander(beta: float, steps: int, paths: int, wrong: bool = False) -> np.ndarray:
    """One number of z along many episodes; (paths, steps)."""
    strategy, _, state = build(td3, beta=beta)
    view = View(state.actor, None, None)

    def path(key):
        start, rest = random.split(key)

        def step(z, key):
            noise = strategy.acting.draw(key)
            moved, _ = strategy.acting.behave(state.strategy, z, view, None, noise, False)
            z = (1 - beta) * z + beta * noise if wrong else moved
            return z, z[0, 0]

        z = strategy.acting.begin(state.strategy, view, start)
        return jax.lax.scan(step, z, random.split(rest, steps))[1]

    return np.asarray(jax.jit(jax.vmap(path))(random.split(random.key(0), paths)))


@pytest.mark.parametrize("beta", [0.0, 0.01, 0.5, 1.0])
def test_z_keeps_its_law_and_forgets_at_its_rate(beta):
    z = wander(beta, 60, 4000)
    np.testing.assert_allclose(z.var(0), 1.0, atol=0.12)
    np.testing.assert_allclose(z.mean(0), 0.0, atol=0.07)
    for lag in (1, 20, 50):
        correlation = np.corrcoef(z[:, 5], z[:, 5 + lag])[0, 1]
        assert correlation == pytest.approx((1 - beta) ** lag, abs=0.06)
    if beta == 0.0:
        np.testing.assert_array_equal(z[:, 0], z[:, -1])


def test_the_law_would_show_the_usual_mistake():
    """w ← (1 − β) w + β noise ends up fourteen times too small at β = 0.01."""
    z = wander(0.01, 600, 400, wrong=True)
    assert z[:, -1].std() == pytest.approx(np.sqrt(0.01 / 1.99), rel=0.15)


@pytest.mark.parametrize("module", [td3, sac])
def test_acting_moves_the_heads_means_alone(module):
    strategy, _, state = build(module, sigma=0.3)
    view = View(state.actor, None, None)
    z = strategy.acting.begin(state.strategy, view, random.key(1))
    z, nudge = strategy.acting.behave(
        state.strategy, z, view, None, strategy.acting.draw(random.key(2)), False
    )
    own, size = state.actor["net"], cells.SPEC.action_size
    moved = nudge.net["head"]["weight"] - own["head"]["weight"]
    np.testing.assert_allclose(moved[:, :size], 0.3 * z[:-1], rtol=1e-4, atol=1e-6)
    moved = nudge.net["head"]["bias"] - own["head"]["bias"]
    np.testing.assert_allclose(moved[:size], 0.3 * z[-1], rtol=1e-4, atol=1e-6)
    if module is sac:
        for part in ("weight", "bias"):
            np.testing.assert_array_equal(
                nudge.net["head"][part][..., size:], own["head"][part][..., size:]
            )
    cells.assert_same(
        {n: nudge.net[n] for n in ("layer0", "layer1")}, {n: own[n] for n in ("layer0", "layer1")}
    )


def test_the_density_has_the_variance_of_many_draws_of_the_weights():
    strategy, _, state = build(sac, sigma=0.3)
    view = View(state.actor, sac.policy, features)
    obs = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    mean, std = sac.distribution(
        strategy.learning.expect(state.strategy, view, obs, None, "actor"), obs
    )
    plain_mean, plain_std = sac.distribution(Nudge(state.actor["net"]), obs)
    np.testing.assert_allclose(mean, plain_mean, rtol=1e-6)

    def drawn(key):
        z = strategy.acting.begin(state.strategy, view, key)
        still = strategy.acting.draw(key) * 0.0
        _, nudge = strategy.acting.behave(state.strategy, z, view, obs, still, False)
        return sac.distribution(nudge, obs)[0]

    # Standing still for one step, z has shrunk by 1 − β.
    means = np.asarray(jax.jit(jax.vmap(drawn))(random.split(random.key(1), 20_000)))
    spread = (means - np.asarray(plain_mean)).std(0) / (1 - 0.01)
    np.testing.assert_allclose(std, np.sqrt(plain_std**2 + spread**2), rtol=0.02)


def test_s_is_learned_through_a_density_and_stays_without_one():
    for module, learned in ((sac, True), (td3, False)):
        _, algorithm, state = build(module, sigma=0.1)
        after, _ = cells.learner(algorithm)(state, cells.batch(), random.key(0), True)
        moved = np.abs(after.actor["joint"]["log_s"] - state.actor["joint"]["log_s"]).max()
        assert (moved > 0) == learned


def test_without_s_it_is_the_algorithm_by_itself():
    for module in (td3, sac):
        _, algorithm, state = build(module, sigma=0.0)
        memory, noise = algorithm.begin(state, random.key(1)), algorithm.draw(random.key(2))
        _, _, action = jax.jit(algorithm.act)(state, memory, jnp.ones(3), noise, 99)
        still = jax.tree.map(jnp.zeros_like, memory)
        _, _, plain = jax.jit(algorithm.act)(state, still, jnp.ones(3), noise, 99)
        np.testing.assert_array_equal(action.executed, plain.executed)
