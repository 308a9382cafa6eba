"""DDPG, held against NumPy; its critic, its penalty, and the observations it standardises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import ddpg
from discover_rl.core import networks
from discover_rl.core.normalization import deviation, no_moments, observe
from discover_rl.core.types import Nudge, PolicyHead, Update
from discover_rl.storage.policies import Policy
from discover_rl.strategies import discover, none
from discover_rl.strategies.interface import Learning, Strategy
from tests.helpers import cells
from tests.helpers.reference import Adam, backward, forward, layers, tanh_slopes

RATES = {"gamma": 0.9, "tau": 0.1, "actor_lr": 1e-2, "critic_lr": 2e-2, "weight_decay": 0.3}


def learner(strategy: Strategy | None = None, hyper=None, seed: int = 0, **settings):
    hp = ddpg.Hyper(**{**cells.SMALL, **settings})
    algorithm = ddpg.make(cells.SPEC, hp, strategy or Strategy())
    return algorithm, jax.jit(algorithm.init)(random.key(seed), hp, hyper or none.Hyper())


def q(critic, obs, action):
    return forward(critic, obs, action)[0][:, 0]


def q_slopes(critic, obs, action, slope):
    _, inputs = forward(critic, obs, action)
    return backward(critic, inputs, slope[:, None], late=action.shape[1])


def mix(new, old, tau):
    return [
        tuple(tau * a + (1 - tau) * b for a, b in zip(*pair, strict=True))
        for pair in zip(new, old, strict=True)
    ]


@pytest.mark.parametrize("lam", [0.0, 0.3])
def test_updates_equal_numpy(lam):
    """Greedy, and with DISCOVER; raw observations in the batch, standardised ones in the losses."""
    hyper = discover.Hyper(lam=lam)
    hp = ddpg.Hyper(**{**cells.SMALL, **RATES})
    strategy = discover.make(cells.SPEC, hyper, ddpg.blueprint(cells.SPEC, hp))
    algorithm, state = learner(strategy, hyper, **RATES)
    moments = state.moments._replace(
        mean=jnp.asarray([1.0, -2.0, 0.5]), variance=jnp.asarray([4.0, 0.25, 1.0])
    )
    state = state._replace(moments=moments)
    learn = cells.learner(algorithm)

    def standardised(obs):
        return np.clip((obs - np.asarray([1.0, -2.0, 0.5])) / np.asarray([2.0, 0.5, 1.0]), -10, 10)

    actor, explorer = layers(state.actor["net"]), layers(state.strategy.explorer)
    critic = layers(jax.tree.map(lambda leaf: leaf[0], state.critics))
    targets = actor, critic, explorer
    adams = Adam(RATES["actor_lr"]), Adam(RATES["critic_lr"]), Adam(RATES["actor_lr"])
    for i in range(4):
        batch = cells.batch(seed=i)
        obs, next_obs, n = standardised(batch.obs), standardised(batch.next_obs), len(batch.obs)
        shift = lam * np.tanh(forward(targets[2], next_obs)[0])
        next_action = np.clip(np.tanh(forward(targets[0], next_obs)[0]) + shift, -1, 1)
        value = np.where(batch.terminated, 0.0, q(targets[1], next_obs, next_action))
        y = batch.reward + RATES["gamma"] * value

        error = q(critic, obs, batch.executed) - y
        slopes, _ = q_slopes(critic, obs, batch.executed, 2 * error / n)
        penalised = [
            tuple(g + RATES["weight_decay"] * p for g, p in zip(*pair, strict=True))
            for pair in zip(slopes, critic, strict=True)
        ]
        critic = adams[1].step(critic, penalised)

        action = np.tanh(forward(actor, obs)[0])
        expected = {"critic": (error**2).mean(), "actor": -q(critic, obs, action).mean()}
        _, slope = q_slopes(critic, obs, action, np.full(n, -1 / n))
        actor = adams[0].step(actor, tanh_slopes(actor, obs, slope))

        directed = batch.bare + lam * np.tanh(forward(explorer, obs)[0])
        error = y - q(critic, obs, directed)
        expected["strategy"] = -(error**2).mean()
        _, slope = q_slopes(critic, obs, directed, 2 * error / n)
        explorer = adams[2].step(explorer, tanh_slopes(explorer, obs, lam * slope))
        online = actor, critic, explorer
        targets = tuple(mix(*pair, RATES["tau"]) for pair in zip(online, targets, strict=True))

        state, losses = learn(state, batch, random.key(i), True)
        for name, loss in expected.items():
            assert float(getattr(losses, name)) == pytest.approx(loss, rel=1e-4, abs=1e-6)
    first = jax.tree.map(lambda leaf: leaf[0], (state.critics, state.target_critics))
    got = [state.actor["net"], first[0], state.strategy.explorer]
    got += [state.target_actor["net"], first[1], state.strategy.target]
    cells.assert_close([layers(net) for net in got], [*online, *targets], 2e-4)


def test_the_action_joins_at_the_critics_second_layer():
    _, state = learner()
    critic = jax.tree.map(lambda leaf: leaf[0], state.critics)
    size = cells.SPEC.observation_size, cells.SPEC.action_size
    assert critic["layer0"]["weight"].shape == (size[0], 16)
    assert critic["layer1"]["weight"].shape == (16 + size[1], 16)
    # By hand: one unit that passes s₀ on, then one that adds a₀ to it; Q = 2 (s₀ + a₀) + 1.
    net = {
        "layer0": {"weight": jnp.asarray([[[1.0], [0.0], [0.0]]]), "bias": jnp.zeros((1, 1))},
        "layer1": {"weight": jnp.asarray([[[1.0], [1.0], [0.0]]]), "bias": jnp.zeros((1, 1))},
        "head": {"weight": jnp.asarray([[[2.0]]]), "bias": jnp.ones((1, 1))},
    }
    obs, action = jnp.asarray([[3.0, 9.0, 9.0]]), jnp.asarray([[0.5, 7.0]])
    np.testing.assert_allclose(ddpg.q_value(net, obs, action), [[8.0]])
    # With one hidden layer it joins there: at the head Q would be linear in the action.
    _, state = learner(hidden=(16,))
    assert state.critics["layer0"]["weight"].shape == (1, sum(size), 16)
    assert state.critics["head"]["weight"].shape == (1, 16, 1)


def test_the_penalty_draws_the_critic_alone_to_zero():
    """Without an error to learn from, only the penalty is left: Adam moves by its learning rate."""
    algorithm, state = learner(weight_decay=1.0, critic_lr=1e-3, gamma=0.0, normalise=False)
    batch = cells.batch()
    values = ddpg.q_value(state.critics, jnp.asarray(batch.obs), jnp.asarray(batch.executed))[0]
    exact = batch._replace(reward=np.asarray(values))
    after, losses = cells.learner(algorithm)(state, exact, random.key(0), False)
    assert float(losses.critic) < 1e-10
    for part in ("weight", "bias"):
        old, new = state.critics["layer1"][part], after.critics["layer1"][part]
        np.testing.assert_allclose(new, old - 1e-3 * np.sign(old), atol=2e-5)
    cells.assert_same(after.actor, state.actor)


def test_moments_equal_numpy_in_one_pass():
    g = np.random.default_rng(0)
    # Large offsets are what a naive Σx² would lose its digits on.
    rows = (g.normal(size=(20_000, 3)) * [1.0, 0.01, 50.0] + [0.0, 30.0, -1e3]).astype(np.float32)
    moments, _ = jax.lax.scan(lambda m, x: (observe(m, x), ()), no_moments(3), rows)
    exact = rows.astype(np.float64)
    assert float(moments.samples) == len(rows)
    np.testing.assert_allclose(moments.mean, exact.mean(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moments.variance, exact.var(0), rtol=1e-5)
    np.testing.assert_allclose(deviation(moments), np.sqrt(exact.var(0) + 1e-8), rtol=1e-5)


def test_moments_stay_exact_over_a_million_observations_that_drift():
    """A plain float32 mean stands still long before: each step is less than its last digit."""
    g = np.random.default_rng(0)
    drift = np.linspace(100.0, 101.0, 1_000_000)[:, None]
    rows = (drift + 0.5 * g.normal(size=(1_000_000, 1))).astype(np.float32)
    moments, _ = jax.lax.scan(lambda m, x: (observe(m, x), ()), no_moments(1), rows)
    exact = rows.astype(np.float64)
    np.testing.assert_allclose(moments.mean, exact.mean(0), rtol=1e-6)
    np.testing.assert_allclose(moments.variance, exact.var(0), rtol=1e-4)


@pytest.mark.slow
def test_every_observation_that_is_acted_upon_counts_once():
    agent = cells.build("ddpg", "none")
    seeds = [3, 4]
    state = cells.begin(agent, seeds, *cells.hypers("ddpg", "none"))
    acted_upon = [cells.observations(seeds, 0)]
    for step in range(1, 31):
        transition = cells.transition_at(seeds, step)
        acted_upon.append(transition.obs)
        state, _ = cells.tick(agent, state, transition, step)
    rows = np.asarray(acted_upon, np.float64)
    moments = state.learner.moments
    np.testing.assert_array_equal(moments.samples, [31, 31])
    np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(moments.variance, rows.var(0), rtol=1e-4)
    # Raw in replay: statistics move on, stored observations do not.
    np.testing.assert_array_equal(state.replay.rows[:, 0], acted_upon[0])


def test_statistics_travel_with_the_policy_and_are_frozen_there():
    agent = cells.build("ddpg", "none")
    seeds = [3]
    state = cells.begin(agent, seeds, *cells.hypers("ddpg", "none"))
    state, _ = cells.run(agent, state, seeds, 30)
    net = jax.tree.map(lambda leaf: leaf[0], agent.nets(state))
    lane = jax.tree.map(lambda leaf: np.asarray(leaf)[0], state.learner)
    policy = Policy(net, cells.SPEC, PolicyHead())
    obs = np.asarray([0.5, 40.0, -2.0], np.float32)  # the second lies beyond the limit
    scaled = (obs - lane.moments.mean) / np.sqrt(lane.moments.variance + 1e-8)
    assert scaled[1] > 10
    expected = np.tanh(networks.apply(lane.actor["net"], np.clip(scaled, -10, 10)[None]))[0]
    for _ in range(3):  # playing it moves nothing
        np.testing.assert_allclose(policy.predict(obs)[0], expected, rtol=1e-4)


def test_without_normalisation_there_are_no_statistics():
    algorithm, state = learner(normalise=False)
    assert state.moments == ()
    assert "input" not in algorithm.greedy(state).net


def test_target_actions_leave_the_box_only_if_told_to():
    """With a shift of 5, Q′ is asked at the box's edge, or far outside of it."""
    expect = lambda state, view, obs, key, role: Nudge(view.net, shift=5.0)  # noqa: E731
    strategy = Strategy(learning=Learning(expect=expect))
    for clipped in (True, False):
        algorithm, state = learner(strategy, clip_target=clipped, normalise=False)
        batch = jax.tree.map(jnp.asarray, cells.batch()._replace(terminated=np.zeros(32, bool)))
        action = jnp.tanh(networks.apply(state.actor["net"], batch.next_obs)) + 5.0
        action = jnp.clip(action, -1, 1) if clipped else action
        y = batch.reward + 0.99 * ddpg.q_value(state.critics, batch.next_obs, action)[0]
        values = ddpg.q_value(state.critics, batch.obs, batch.executed)[0]
        report = jax.jit(algorithm.report)(state, batch, random.key(0))
        expected = float(jnp.abs(y - values).mean())
        assert float(report["td_error"]) == pytest.approx(expected, rel=1e-5)


def test_every_update_steps_actor_and_targets():
    algorithm, _ = learner(warmup=4)
    assert [algorithm.due(step) for step in (0, 4)] == [(), ()]
    assert [algorithm.due(step) for step in (5, 6)] == [(Update(),), (Update(),)]
