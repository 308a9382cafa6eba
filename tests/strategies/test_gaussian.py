"""Gaussian noise: its size, its colour, and where it stays away."""

import jax
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import td3
from discover_rl.strategies import gaussian
from tests.helpers import cells


def test_noise_is_white_with_the_given_std_and_absent_in_warm_up():
    hyper = gaussian.Hyper(sigma=0.1)
    strategy = gaussian.make(cells.SPEC, hyper, None)
    hp = td3.Hyper(**cells.SMALL)
    algorithm = td3.make(cells.SPEC, hp, strategy)
    state = jax.jit(algorithm.init)(random.key(0), hp, hyper)
    obs = jax.numpy.zeros(3)

    @jax.jit
    def act(step, keys):
        return jax.vmap(lambda key: algorithm.act(state, (), obs, algorithm.draw(key), step))(keys)[
            2
        ]

    def added(step):
        action = act(step, random.split(random.key(1), 20_000))
        return np.asarray(action.executed - action.bare)

    assert np.abs(added(hp.warmup - 1)).max() == 0.0
    noise = added(hp.warmup)
    np.testing.assert_allclose(noise.std(axis=0), 0.1, rtol=0.02)
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=0.003)
    lag = np.corrcoef(noise[:-1, 0], noise[1:, 0])[0, 1]
    across = np.corrcoef(noise[:, 0], noise[:, 1])[0, 1]
    assert max(abs(lag), abs(across)) < 0.03


def test_actions_stay_in_the_box():
    agent = cells.build(strategy="gaussian", strategy_sigma=5.0)
    hyper, theirs = cells.hypers("td3", "gaussian", strategy_sigma=5.0)
    state = cells.begin(agent, [0], hyper, theirs)
    state, actions = cells.run(agent, state, [0], 20)
    late = np.abs(actions[5:])
    assert late.max() == pytest.approx(1.0)
    assert (late == 1.0).mean() > 0.5
