"""DISCOVER, line by line: what is executed, stored, expected, learned, and left alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import random

from discover_rl.algorithms import td3
from discover_rl.algorithms.off_policy_parts import features, policy, squared_error
from discover_rl.core import networks, replay_buffer
from discover_rl.strategies import discover
from discover_rl.strategies.interface import View
from tests.helpers import cells
from tests.helpers.reference import Reference, layers

RATES = {"gamma": 0.9, "tau": 0.1, "actor_lr": 1e-2, "critic_lr": 2e-2}


@functools.cache
def learner(lam: float = 0.3, **switches):
    hp = td3.Hyper(**{**cells.SMALL, **RATES})
    hyper = discover.Hyper(lam=lam, **switches)
    strategy = discover.make(cells.SPEC, hyper, td3.blueprint(cells.SPEC, hp))
    algorithm = td3.make(cells.SPEC, hp, strategy)
    init = jax.jit(algorithm.init)
    state = init(random.key(0), hp, hyper)
    # Targets of their own, so that a target in the wrong place shows.
    other = init(random.key(1), hp, hyper)
    state = state._replace(
        target_actor=other.actor,
        target_critics=other.critics,
        strategy=state.strategy._replace(target=other.strategy.explorer),
    )
    return algorithm, state, cells.learner(algorithm)


def direction(explorer, obs):
    return np.tanh(networks.apply(explorer, jnp.asarray(obs)))


def critics_of(state):
    return [layers(jax.tree.map(lambda leaf, i=i: leaf[i], state.critics)) for i in range(2)]


def test_updates_equal_numpy():
    _, state, learn = learner()
    explorer = layers(state.strategy.explorer)
    reference = Reference(layers(state.actor["net"]), critics_of(state), explorer, lam=0.3, **RATES)
    target_critics = [
        layers(jax.tree.map(lambda leaf, i=i: leaf[i], state.target_critics)) for i in range(2)
    ]
    reference.targets = (
        layers(state.target_actor["net"]),
        target_critics,
        layers(state.strategy.target),
    )
    for i in range(4):
        batch, actor = cells.batch(seed=i), i % 2 == 1
        expected = reference.update(batch, None, actor)
        state, losses = learn(state, batch, random.key(i), actor)
        for name, value in expected.items():
            assert float(getattr(losses, name)) == pytest.approx(value, rel=1e-4, abs=1e-6)
    cells.assert_close(layers(state.strategy.explorer), reference.explorer, 2e-4)
    cells.assert_close(layers(state.strategy.target), reference.targets[2], 2e-4)
    cells.assert_close(layers(state.actor["net"]), reference.actor, 2e-4)
    cells.assert_close(critics_of(state), reference.critics, 2e-4)


def test_error_by_hand():
    """With critics that answer the sum of their inputs, the explorer's error is plain sums."""
    # Q(s, a) = Σs + Σa for s, a > 0: one ReLU unit that adds up all five inputs.
    layer = {"weight": jnp.ones((2, 5, 1)), "bias": jnp.zeros((2, 1))}
    head = {"weight": jnp.ones((2, 1, 1)), "bias": jnp.zeros((2, 1))}
    obs, bare = jnp.asarray([[1.0, 2.0, 3.0]]), jnp.asarray([[0.5, 0.25]])
    # Q at the bare action is 6.75; with y = 10 both critics err by 3.25: 2 · 3.25² = 21.125.
    critics = {"layer0": layer, "head": head}
    error = squared_error(networks.q_value(critics, obs, bare), jnp.asarray([10.0]))
    np.testing.assert_allclose(error, [21.125])
    # A shift of +0.3 in both dimensions raises Q by 0.6: 2 · 2.65² = 14.045. Nothing is clipped.
    error = squared_error(networks.q_value(critics, obs, bare + 0.3), jnp.asarray([10.0]))
    np.testing.assert_allclose(error, [14.045], rtol=1e-6)


def test_the_executed_action_contains_the_direction_in_warm_up_too():
    algorithm, state, _ = learner()
    obs = np.asarray([0.3, -1.0, 2.0], np.float32)
    xi = direction(state.strategy.explorer, obs[None])[0]
    for step in (0, 100):
        _, _, action = algorithm.act(
            state, (), jnp.asarray(obs), algorithm.draw(random.key(2)), step
        )
        expected = np.clip(action.bare + 0.3 * xi, -1, 1)
        np.testing.assert_allclose(action.executed, expected, rtol=1e-5)
        assert np.abs(action.executed - action.bare).max() > 1e-3


def test_replay_stores_the_bare_and_the_executed_action():
    agent = cells.build(strategy="discover")
    state = cells.begin(agent, [3], *cells.hypers("td3", "discover"))
    chosen = []
    for step in range(1, 8):
        chosen.append(jax.device_get(state.action))
        state, _ = cells.tick(agent, state, cells.transition_at([3], step), step)
    lane = jax.tree.map(lambda leaf: leaf[0], state.replay)
    stored = replay_buffer.take(lane, jnp.arange(7))
    np.testing.assert_array_equal(stored.bare, np.concatenate([a.bare for a in chosen]))
    np.testing.assert_array_equal(stored.executed, np.concatenate([a.executed for a in chosen]))
    assert np.abs(stored.executed - stored.bare).max() > 1e-3


def test_an_explorer_step_raises_the_error_and_moves_nothing_else():
    _, state, _ = learner()
    strategy = discover.make(
        cells.SPEC, discover.Hyper(), td3.blueprint(cells.SPEC, td3.Hyper(**cells.SMALL))
    )
    batch = jax.tree.map(jnp.asarray, cells.batch(256))
    y = td3.lowest_target(state.target_critics, batch.executed, batch, 0.9)
    nudges = []

    def error(nudge, batch):
        nudges.append(nudge)
        values = networks.q_value(state.critics, batch.obs, batch.bare + nudge.shift)
        return squared_error(values, y)

    view = View(state.actor, policy, features, optimiser=optax.adam(1e-3), error=error)
    own = state.strategy._replace(optimiser=view.optimiser.init(state.strategy.explorer))
    before = jax.device_get((state.actor, state.critics, own.target))
    errors = []
    for _ in range(10):
        own, loss = strategy.learning.step(own, view, batch, random.key(0))
        errors.append(-float(loss))
    assert errors == sorted(errors)
    assert errors[-1] > errors[0] + 1e-4
    cells.assert_same((state.actor, state.critics, own.target), before)
    # The gradient goes through the shift alone: the network it is shown is the actor's own.
    assert all(nudge.net is state.actor["net"] for nudge in nudges)


def test_a_critic_only_update_leaves_explorer_and_targets():
    _, state, learn = learner()
    after, _ = learn(state, cells.batch(), random.key(0), False)
    cells.assert_same(after.strategy, state.strategy)
    cells.assert_same(after.target_actor, state.target_actor)


def test_the_target_explorer_follows_by_polyak():
    _, state, learn = learner()
    after, _ = learn(state, cells.batch(), random.key(0), True)
    expected = jax.tree.map(
        lambda new, old: 0.1 * new + 0.9 * old, after.strategy.explorer, state.strategy.target
    )
    cells.assert_close(after.strategy.target, expected, 1e-6)


def critic_moves(state, learn, **changes):
    """The critics after one critic step, with parts of the strategy's state replaced."""
    changed = state._replace(strategy=state.strategy._replace(**changes))
    return jax.device_get(learn(changed, cells.batch(), random.key(0), False)[0].critics)


@pytest.mark.parametrize(
    ("switches", "uses_target", "uses_online"),
    [
        ({}, True, False),
        ({"target_network": False}, False, True),
        ({"target_smoothing": False}, False, False),
    ],
)
def test_which_explorer_is_in_the_target(switches, uses_target, uses_online):
    _, state, learn = learner(**switches)
    _, other, _ = learner(lam=0.31)
    other = jax.tree.map(lambda leaf: leaf + 0.5, other.strategy.explorer)
    as_it_is = critic_moves(state, learn)

    def differs(**changes):
        moved = critic_moves(state, learn, **changes)
        return not np.array_equal(moved["head"]["bias"], as_it_is["head"]["bias"])

    assert differs(target=other) is uses_target
    assert differs(explorer=other) is uses_online


def test_without_delay_the_explorer_steps_with_every_critic_step():
    algorithm, state, learn = learner(delayed=False)
    updates = [update for step in range(5, 9) for update in algorithm.due(step)]
    assert [(update.actor, update.strategy) for update in updates] == [
        (False, True),
        (True, True),
    ] * 2
    after, losses = learn(state, cells.batch(), random.key(0), False, True)
    assert float(losses.strategy) < 0
    moved = np.abs(
        after.strategy.explorer["head"]["weight"] - state.strategy.explorer["head"]["weight"]
    )
    assert moved.max() > 1e-4
    cells.assert_same(after.strategy.target, state.strategy.target)


def test_as_the_authors_code_does_nothing_directed_is_executed():
    algorithm, state, _ = learner(acts=False)
    noise = algorithm.draw(random.key(2))
    for step in (0, 100):
        _, _, action = algorithm.act(state, (), jnp.ones(3), noise, step)
        np.testing.assert_array_equal(action.executed, action.bare)


def test_as_the_authors_code_does_the_loss_takes_the_targets_direction_off():
    """The loss of an action a is that of a − λ ξ′(s′) in the method as written."""
    _, state, learn = learner(subtracts=True)
    batch = cells.batch()
    taken_off = batch.bare - 0.3 * direction(state.strategy.target, batch.next_obs)
    _, theirs = learn(state, batch, random.key(0), True)
    _, _, as_written = learner()
    _, ours = as_written(state, batch._replace(bare=np.asarray(taken_off)), random.key(0), True)
    np.testing.assert_allclose(theirs.strategy, ours.strategy, rtol=1e-5)
    _, untouched = as_written(state, batch, random.key(0), True)
    assert float(untouched.strategy) != pytest.approx(float(theirs.strategy), rel=1e-4)
    np.testing.assert_allclose(theirs.critic, untouched.critic, rtol=1e-6)


@pytest.mark.parametrize(
    ("algorithm", "unsmoothed"),
    [
        pytest.param("td3", {"smoothing": 0.0}, marks=pytest.mark.slow),
        pytest.param("ddpg", {}, marks=pytest.mark.slow),
        pytest.param("sac", {}, marks=pytest.mark.slow),
    ],
)
def test_lambda_zero_without_smoothing_is_greedy_without_smoothing(algorithm, unsmoothed):
    seeds = [0, 1]
    greedy = cells.build(algorithm, "none", **unsmoothed)
    hypers = cells.hypers(algorithm, "none", **unsmoothed)
    state, actions = cells.run(greedy, cells.begin(greedy, seeds, *hypers), seeds, 30)
    settings = {"strategy_lam": 0.0, "strategy_target_smoothing": False}
    agent = cells.build(algorithm, "discover", **settings)
    begun = cells.begin(agent, seeds, *cells.hypers(algorithm, "discover", **settings))
    directed, same_actions = cells.run(agent, begun, seeds, 30)
    np.testing.assert_allclose(actions, same_actions, rtol=1e-5, atol=1e-6)
    cells.assert_close(state.learner.critics, directed.learner.critics, 1e-5)
    cells.assert_close(state.learner.target_actor, directed.learner.target_actor, 1e-5)


def test_evaluation_has_no_direction():
    agent = cells.build(strategy="discover")
    state = cells.begin(agent, [0], *cells.hypers("td3", "discover"))
    cells.assert_same(agent.nets(state), jax.device_get(state.learner.actor["net"]))


def test_the_report_says_how_the_explorer_fares():
    algorithm, state, _ = learner()
    batch = jax.tree.map(jnp.asarray, cells.batch(64))
    # A head with huge biases, of opposite signs: saturated, and the same in every state.
    head = state.strategy.explorer["head"]
    head = {"weight": 0 * head["weight"], "bias": jnp.asarray([9.0, -9.0])}
    stuck = state._replace(
        strategy=state.strategy._replace(explorer={**state.strategy.explorer, "head": head})
    )
    report = jax.jit(algorithm.report)
    there = report(stuck, batch, random.key(0))
    assert there["saturation"] == 1.0
    assert float(there["direction_spread"]) < 1e-6
    free = report(state, batch, random.key(0))
    assert free["saturation"] == 0.0
    xi = direction(state.strategy.explorer, batch.obs)
    assert float(free["direction_spread"]) == pytest.approx(xi.std(axis=0).mean(), rel=1e-4)
    shifted = batch._replace(bare=batch.bare + 0.3 * xi)
    assert free["error_directed"] == pytest.approx(
        float(report(state, shifted, random.key(0))["error_bare"]), rel=1e-5
    )
    assert free["error_bare"] != pytest.approx(float(free["error_directed"]), rel=1e-6)
