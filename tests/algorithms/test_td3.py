"""TD3, held against a NumPy implementation, against numbers by hand and against its bare self."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import random

from discover_rl.algorithms import td3
from discover_rl.algorithms.off_policy_parts import State, squared_error
from discover_rl.core import networks
from discover_rl.core.equations import polyak
from discover_rl.core.types import Batch, Update
from discover_rl.strategies import none
from discover_rl.strategies.interface import Strategy
from tests.helpers import cells
from tests.helpers.reference import Reference, layers


def learner(strategy: Strategy | None = None, seed: int = 0, **settings):
    hp = td3.Hyper(**{**cells.SMALL, **settings})
    algorithm = td3.make(cells.SPEC, hp, strategy or Strategy())
    return algorithm, jax.jit(algorithm.init)(random.key(seed), hp, none.Hyper())


def constant(value: float, inputs: int):
    """A network that answers `value` whatever it sees."""
    zero = {"weight": jnp.zeros((inputs, 1)), "bias": jnp.zeros(1)}
    head = {"weight": jnp.zeros((1, 1)), "bias": jnp.full(1, value)}
    return {"layer0": zero, "head": head}


def twins(first: float, second: float):
    return jax.tree.map(lambda a, b: jnp.stack([a, b]), constant(first, 5), constant(second, 5))


def test_target_and_losses_by_hand():
    batch = Batch(
        obs=jnp.zeros((2, 3)),
        bare=jnp.zeros((2, 2)),
        executed=jnp.zeros((2, 2)),
        reward=jnp.asarray([1.0, 1.0]),
        terminated=jnp.asarray([False, True]),
        next_obs=jnp.zeros((2, 3)),
    )
    # min(5, 3) = 3; y = 1 + 0.5 · 3 = 2.5 where the episode goes on, 1 where it has terminated.
    y = td3.lowest_target(twins(5.0, 3.0), batch.executed, batch, 0.5)
    np.testing.assert_allclose(y, [2.5, 1.0])
    # Critics that say 0 and 2: (2.5² + 0.5²) = 6.5 and (1² + 1²) = 2; their mean is 4.25.
    values = networks.q_value(twins(0.0, 2.0), batch.obs, batch.executed)
    np.testing.assert_allclose(squared_error(values, y).mean(), 4.25)


def test_the_actor_climbs_the_first_critic_alone():
    algorithm, state = learner(critic_lr=0.0, hidden=(1,))
    state = state._replace(critics=twins(7.0, 9.0))
    _, losses = cells.learner(algorithm)(state, cells.batch(), random.key(0), True)
    np.testing.assert_allclose(losses.actor, -7.0)


def test_metrics_have_the_losses_of_an_update_and_the_noise_of_recent_actions():
    algorithm, state = learner(critic_lr=0.0, hidden=(1,), lr_decay=0.5)
    state = state._replace(critics=twins(7.0, 9.0))
    _, losses = cells.learner(algorithm)(state, cells.batch(), random.key(0), True)
    recent = jax.tree.map(lambda leaf: leaf[:4], cells.batch())
    found = jax.jit(algorithm.measure)(state, cells.batch(), recent, random.key(0), 0.5)
    np.testing.assert_allclose(found["actor_loss"], -7.0)
    np.testing.assert_allclose(found["critic_loss"], losses.critic, rtol=1e-6)
    np.testing.assert_allclose(found["actor_lr"], 0.75 * 3e-4, rtol=1e-6)
    mean = networks.mean_action(algorithm.head, algorithm.greedy(state).net, recent.obs)
    np.testing.assert_allclose(
        found["noise"], np.sqrt(np.mean((recent.executed - mean) ** 2)), rtol=1e-6
    )
    assert "strategy_loss" not in found  # there is nothing that it learns


def test_learning_rates_fade_over_a_share_of_the_run():
    """What is learned with lr_decay_share is what constant rates of that size learn."""

    def learned(progress: float, **settings):
        algorithm, state = learner(**settings)
        learn = jax.jit(algorithm.learn, static_argnums=3)
        return learn(state, cells.batch(), random.key(0), Update(), progress)[0]

    fading = {"lr_decay": 0.75, "lr_decay_share": 0.5}
    for progress, left in [(0.0, 1.0), (0.25, 0.625), (0.5, 0.25), (0.9, 0.25)]:
        found = learned(progress, **fading)
        expected = learned(progress, actor_lr=left * 3e-4, critic_lr=left * 3e-4)
        for name in ("actor", "critics"):
            for ours, theirs in zip(
                jax.tree.leaves(getattr(found, name)),
                jax.tree.leaves(getattr(expected, name)),
                strict=True,
            ):
                np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def test_smoothing_noise_is_clipped_gaussian():
    hp = td3.Hyper(smoothing=0.2, smoothing_clip=0.5)
    noise = np.asarray(td3.smoothing_noise(random.key(0), (100_000,), hp))
    assert np.abs(noise).max() == pytest.approx(0.5)
    # A normal of std 0.2 cut at ±2.5 std has std 0.2 · √0.9729.
    assert noise.std() == pytest.approx(0.1973, rel=0.01)


def test_updates_equal_numpy():
    settings = {"gamma": 0.9, "tau": 0.1, "actor_lr": 1e-2, "critic_lr": 2e-2}
    algorithm, state = learner(**settings)
    critics = [jax.tree.map(lambda leaf, i=i: leaf[i], state.critics) for i in range(2)]
    reference = Reference(layers(state.actor["net"]), [layers(c) for c in critics], **settings)
    learn = cells.learner(algorithm)
    for i in range(4):
        batch, key, actor = cells.batch(seed=i), random.key(i), i % 2 == 1
        noise_key = random.split(random.split(key, 3)[0])[1]
        noise = td3.smoothing_noise(noise_key, batch.bare.shape, state.hyper)
        expected = reference.update(batch, np.asarray(noise, np.float64), actor)
        state, losses = learn(state, batch, key, actor)
        for name, value in expected.items():
            assert float(getattr(losses, name)) == pytest.approx(value, rel=1e-4, abs=1e-6)
    assert np.abs(np.asarray(noise)).max() > 0.3  # else smoothing was not tested
    online = [layers(state.actor["net"])]
    online += [layers(jax.tree.map(lambda leaf, i=i: leaf[i], state.critics)) for i in range(2)]
    targets = [layers(state.target_actor["net"])]
    targets += [layers(jax.tree.map(lambda x, i=i: x[i], state.target_critics)) for i in range(2)]
    cells.assert_close(online, [reference.actor, *reference.critics], 2e-4)
    cells.assert_close(targets, [reference.targets[0], *reference.targets[1]], 2e-4)


def bare_update(state: State, batch: Batch, key, actor: bool) -> State:
    """TD3 without any place for a strategy."""
    hp = state.hyper
    noise_key = random.split(random.split(key, 3)[0])[1]
    next_action = jnp.tanh(networks.apply(state.target_actor["net"], batch.next_obs))
    noise = jnp.clip(
        hp.smoothing * random.normal(noise_key, next_action.shape),
        -hp.smoothing_clip,
        hp.smoothing_clip,
    )
    next_action = jnp.clip(next_action + noise, -1, 1)
    value = networks.q_value(state.target_critics, batch.next_obs, next_action).min(0)
    y = jax.lax.stop_gradient(batch.reward + hp.gamma * (1.0 - batch.terminated) * value)

    def critic_loss(critics):
        values = networks.q_value(critics, batch.obs, batch.executed)
        return ((y[None] - values) ** 2).sum(0).mean()

    optimiser = optax.adam(hp.critic_lr)
    gradients = jax.grad(critic_loss)(state.critics)
    updates, critic_optimiser = optimiser.update(gradients, state.critic_optimiser)
    critics = optax.apply_updates(state.critics, updates)
    state = state._replace(critics=critics, critic_optimiser=critic_optimiser)
    if not actor:
        return state

    def actor_loss(params):
        action = jnp.tanh(networks.apply(params["net"], batch.obs))
        first = jax.tree.map(lambda leaf: leaf[0], state.critics)
        return -networks.q_value(first, batch.obs, action).mean()

    optimiser = optax.adam(hp.actor_lr)
    gradients = jax.grad(actor_loss)(state.actor)
    updates, actor_optimiser = optimiser.update(gradients, state.actor_optimiser)
    params = optax.apply_updates(state.actor, updates)
    return state._replace(
        actor=params,
        actor_optimiser=actor_optimiser,
        target_actor=polyak(params, state.target_actor, hp.tau),
        target_critics=polyak(state.critics, state.target_critics, hp.tau),
    )


def test_with_the_strategy_none_it_is_bare_td3_to_the_bit():
    algorithm, state = learner(none.make(cells.SPEC, none.Hyper(), None))
    bare = state
    learn = cells.learner(algorithm)
    update = jax.jit(bare_update, static_argnums=3)
    for i in range(6):
        state, _ = learn(state, cells.batch(seed=i), random.key(i), i % 2 == 1)
        bare = update(bare, cells.batch(seed=i), random.key(i), i % 2 == 1)
    cells.assert_same(state, bare)


def test_warm_up_is_uniform_then_greedy():
    algorithm, state = learner(warmup=4)
    obs = np.ones(3, np.float32)
    greedy = np.tanh(networks.apply(state.actor["net"], jnp.asarray(obs[None]))[0])
    actions = []
    noises = jax.device_get(jax.vmap(algorithm.draw)(random.split(random.key(0), 2000)))
    state = jax.device_get(state)
    for i in range(2000):
        noise = jax.tree.map(lambda leaf, i=i: leaf[i], noises)
        _, _, action = algorithm.act(state, (), obs, noise, 3)
        np.testing.assert_array_equal(action.bare, action.executed)
        actions.append(action.bare)
    _, _, action = algorithm.act(state, (), obs, noise, 4)
    np.testing.assert_allclose(action.executed, greedy, rtol=1e-5)
    # Uniform on −1 … 1: mean 0, variance 1/3; three standard errors of 2,000 draws.
    assert np.abs(np.mean(actions, axis=0)).max() < 0.039
    assert np.abs(np.var(actions, axis=0) - 1 / 3).max() < 0.021


def test_what_is_due():
    algorithm, _ = learner(warmup=4, delay=3)
    assert [algorithm.due(step) for step in (0, 4)] == [(), ()]
    assert [algorithm.due(step)[0] for step in range(5, 11)] == [
        Update(actor, actor, actor) for actor in (False, False, True, False, False, True)
    ]


def test_termination_masks_the_bootstrap_and_nothing_else_does():
    algorithm, state = learner()
    batch = cells.batch()._replace(terminated=np.zeros(32, bool))
    ended = batch._replace(terminated=np.ones(32, bool))
    report = jax.jit(algorithm.report)
    q_on = float(report(state, batch, random.key(0))["td_error"])
    q_off = float(report(state, ended, random.key(0))["td_error"])
    values = networks.q_value(state.critics, jnp.asarray(batch.obs), jnp.asarray(batch.executed))
    assert q_off == pytest.approx(
        float(np.abs(batch.reward[None] - np.asarray(values)).mean()), rel=1e-5
    )
    assert q_on != pytest.approx(q_off, rel=1e-3)
