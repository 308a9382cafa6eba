"""What a view shows a strategy: critics and distribution while acting, TD errors while learning."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import ddpg, ppo, sac, td3
from discover_rl.core.types import Nudge, Update
from discover_rl.strategies.interface import Acting, Learning, Strategy
from tests.algorithms.test_on_policy import rollout
from tests.helpers import cells
from tests.helpers.reference import forward, layers, q
from tests.strategies.test_hooks import NO_STATISTICS, SIZES, build, slopes

# Directions from the critics.


def value_of(module, state, obs, action) -> np.ndarray:
    """Q of every critic, in double precision: (critics, n)."""
    count = state.critics["head"]["bias"].shape[0]
    nets = [layers(jax.tree.map(lambda leaf, i=i: leaf[i], state.critics)) for i in range(count)]
    if module is ddpg:
        return np.asarray([forward(net, obs, action)[0][:, 0] for net in nets])
    return np.asarray([q(net, obs, action) for net in nets])


def with_other_targets(state):
    """Target critics that differ from the critics, so that a mistake for them shows."""
    return state._replace(target_critics=jax.tree.map(lambda leaf: -leaf, state.critics))


@pytest.mark.parametrize("module", [ddpg, td3, sac])
def test_a_direction_from_the_gradient_of_the_critics(module):
    """While acting, the action moves up the gradient of the mean of Q."""

    def behave(state, memory, view, obs, noise, warmup):
        action = view.policy(Nudge(view.net), obs)
        uphill = jax.grad(lambda it: view.q(obs, it).mean(axis=0).sum())(action)
        return memory, Nudge(view.net, shift=0.2 * uphill)

    strategy = Strategy(acting=Acting(behave=behave))
    algorithm, state = build(module, strategy, **NO_STATISTICS.get(module, {}))
    state = with_other_targets(state)
    obs = random.normal(random.key(5), SIZES[:1])
    _, _, action = jax.jit(algorithm.act)(state, (), obs, algorithm.draw(random.key(1)), 100)
    row = np.asarray(obs, np.float64)[None]
    mean = np.tanh(forward(layers(state.actor["net"]), row)[0][:, : SIZES[1]])
    uphill = slopes(lambda it: value_of(module, state, row, it).mean(), mean)
    assert np.abs(uphill).max() > 1e-3
    moved = np.asarray(action.executed - action.bare)
    np.testing.assert_allclose(moved, 0.2 * uphill[0], rtol=1e-3, atol=1e-6)


def test_an_optimistic_mean_within_the_policys_own_spread():
    """Optimistic actor-critic: the mean before squashing moves by √(2δ) Σ g / |Σ^½ g|, g the
    gradient of the critics' upper bound mean + β · (half their difference)."""
    beta, delta = 4.66, 0.3

    def behave(state, memory, view, obs, noise, warmup):
        mean, std = view.distribution(Nudge(view.net), obs)

        def upper(raw):
            values = view.q(obs, jnp.tanh(raw))
            return (values.mean(axis=0) + beta * jnp.abs(values[0] - values[1]) / 2).sum()

        g = jax.grad(upper)(mean)
        by = (2 * delta) ** 0.5 * std**2 * g / jnp.sqrt(((std * g) ** 2).sum())
        return memory, Nudge(view.net, mean_shift=by)

    algorithm, state = build(sac, Strategy(acting=Acting(behave=behave)))
    state = with_other_targets(state)
    obs, noise = random.normal(random.key(5), SIZES[:1]), algorithm.draw(random.key(1))
    _, _, action = jax.jit(algorithm.act)(state, (), obs, noise, 100)
    row = np.asarray(obs, np.float64)[None]
    outputs = forward(layers(state.actor["net"]), row)[0]
    mean, std = outputs[:, : SIZES[1]], np.exp(outputs[:, SIZES[1] :])

    def upper(raw) -> float:
        values = value_of(sac, state, row, np.tanh(raw))
        return (values.mean(0) + beta * np.abs(values[0] - values[1]) / 2).sum()

    g = slopes(upper, mean)
    shift = np.sqrt(2 * delta) * std**2 * g / np.linalg.norm(std * g)
    expected = np.tanh(mean + shift + std * np.asarray(noise.policy))
    np.testing.assert_allclose(action.executed, expected[0], rtol=1e-3, atol=1e-5)
    assert np.abs(shift).max() > 0.05


# While learning.


@pytest.mark.parametrize("module", [td3, ppo])
def test_td_errors_at_the_executed_action(module):
    """A strategy that reports the mean |TD error| as its loss; parameters stand still."""
    step = lambda state, view, batch, key: (state, view.td_error(batch).mean())  # noqa: E731
    strategy, key = Strategy(learning=Learning(step=step)), random.key(0)
    if module is ppo:
        settings = {"horizon": 12, "minibatches": 1, "epochs": 1, "actor_lr": 0.0}
        algorithm, state = build(module, strategy, **settings)
        learned = jax.jit(algorithm.learn)(state, (), rollout(), key, 0.0)
        losses, expected = learned[2], float(learned[3]["td_error"])
    else:
        algorithm, state = build(module, strategy, actor_lr=0.0, critic_lr=0.0)
        batch = jax.tree.map(jnp.asarray, cells.batch())
        _, losses = jax.jit(algorithm.learn, static_argnums=3)(state, batch, key, Update(), 0.0)
        expected = float(algorithm.errors(state, batch, random.split(key, 3)[0]).mean())
    assert float(losses.strategy) == pytest.approx(expected, rel=1e-5)
