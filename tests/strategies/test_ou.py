"""Ornstein–Uhlenbeck noise: how far it strays, how long it remembers, where it starts again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.core.prng import Stream, streams
from discover_rl.strategies import ou
from discover_rl.strategies.interface import View
from tests.helpers import cells


def process(hyper: ou.Hyper, steps: int, paths: int, warm: int = 0):
    """Shifts of many independent episodes; (paths, steps, action)."""
    strategy = ou.make(cells.SPEC, hyper, None)
    view = View({"net": {}}, None, None)

    def path(key):
        state = strategy.init(key, hyper, view)

        def step(memory, inputs):
            i, key = inputs
            noise, obs = strategy.acting.draw(key), jnp.zeros((1, 3))
            memory, nudge = strategy.acting.behave(state, memory, view, obs, noise, i < warm)
            return memory, nudge.shift[0]

        memory = strategy.acting.begin(state, view, key)
        return jax.lax.scan(step, memory, (jnp.arange(steps), random.split(key, steps)))[1]

    return np.asarray(jax.jit(jax.vmap(path))(random.split(random.key(0), paths)))


@pytest.mark.parametrize(
    ("theta", "dt", "sigma", "stationary"),
    # σ / √(2θ − θ² dt)
    [
        (0.15, 1.0, 0.2, 0.2 / np.sqrt(0.2775)),
        pytest.param(0.15, 0.01, 0.1, 0.18264, marks=pytest.mark.slow),
        (0.5, 0.5, 0.3, 0.32071),
    ],
)
def test_stationary_variance_and_autocorrelation(theta, dt, sigma, stationary):
    settled = int(8 / (theta * dt))  # e⁻⁸ of the start is left
    shifts = process(ou.Hyper(theta=theta, dt=dt, sigma=sigma), settled + 40, 2000)[:, settled:]
    np.testing.assert_allclose(shifts[:, -1].std(0), stationary, rtol=0.06)
    np.testing.assert_allclose(shifts[:, -1].mean(0), 0.0, atol=4 * stationary / np.sqrt(2000))
    for lag in (1, 5, 20):
        correlation = np.corrcoef(shifts[:, 0, 0], shifts[:, lag, 0])[0, 1]
        assert correlation == pytest.approx((1 - theta * dt) ** lag, abs=0.08)
    across = np.corrcoef(shifts[:, 0, 0], shifts[:, 0, 1])[0, 1]
    assert abs(across) < 0.08


def test_an_episode_starts_at_zero_and_warm_up_adds_nothing():
    hyper = ou.Hyper(theta=0.15, dt=1.0, sigma=0.2)
    shifts = process(hyper, 8, 4000, warm=5)
    assert np.abs(shifts[:, :5]).max() == 0.0
    # From 0, the first push is σ √dt ε alone.
    np.testing.assert_allclose(shifts[:, 5].std(0), 0.2, rtol=0.04)
    strategy = ou.make(cells.SPEC, hyper, None)
    np.testing.assert_array_equal(strategy.acting.begin(hyper, None, None), np.zeros((1, 2)))


def test_it_is_added_to_the_action_and_starts_anew_with_an_episode_of_its_own_lane():
    agent = cells.build(strategy="ou", warmup=2)
    seeds = [5, 6]
    state = cells.begin(agent, seeds, *cells.hypers("td3", "ou", warmup=2))
    for step in range(1, 15):
        transition = cells.transition_at(seeds, step)
        before = np.asarray(state.memory)
        state, reply = cells.tick(agent, state, transition, step)
        noise = np.asarray(state.memory)
        bare = np.asarray(state.action.bare)
        np.testing.assert_allclose(reply.executed, np.clip(bare + noise[:, 0], -1, 1), rtol=1e-5)
        for lane, seed in enumerate(seeds):
            epsilon = agent.algorithm.draw(streams(seed, step)[Stream.ACT]).strategy
            drawn_back = 0.0 if transition.ended[lane] else 0.85 * before[lane]
            expected = drawn_back + 0.2 * epsilon if step >= 2 else 0.0 * epsilon
            np.testing.assert_allclose(noise[lane], expected, rtol=1e-4, atol=1e-6)
