"""The strategy interface bears more than the strategies there are.

Each test makes a small strategy that touches the policy in one of the places which rivals of
DISCOVER need – perturbed parameters, parameters trained with the actor, copies frozen for an
episode, context at the input, a schedule of its own – and looks at what TD3 does with it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import td3
from discover_rl.core import networks
from discover_rl.core.types import Nudge, StrategyEvent, Update
from discover_rl.strategies import none
from discover_rl.strategies.interface import (
    Acting,
    Learning,
    NetworkSpec,
    Schedule,
    Strategy,
)
from tests.helpers import cells

HP = td3.Hyper(**cells.SMALL, actor_lr=1e-2)


def build(strategy: Strategy):
    algorithm = td3.make(cells.SPEC, HP, strategy)
    return algorithm, jax.jit(algorithm.init)(random.key(0), HP, none.Hyper())


def noisy(view, eps) -> Nudge:
    """A head whose weights are μ + σ ε; σ is trained with the actor."""
    net, sigma = view.net, view.joint["sigma"]
    head = {**net["head"], "weight": net["head"]["weight"] + sigma * eps}
    return Nudge({**net, "head": head})


def test_parameters_that_are_trained_with_the_actor():
    shape = (HP.hidden[-1], cells.SPEC.action_size)
    strategy = Strategy(
        acting=Acting(
            draw=lambda key: random.normal(key, shape),
            behave=lambda state, memory, view, obs, noise, warmup: (memory, noisy(view, noise)),
        ),
        learning=Learning(
            joint=lambda key, hyper, net, critic: {"sigma": jnp.full(shape, 0.5)},
            expect=lambda state, view, obs, key, role: noisy(view, random.normal(key, shape)),
        ),
    )
    algorithm, state = build(strategy)
    learn = cells.learner(algorithm)
    after, _ = learn(state, cells.batch(), random.key(1), True)
    sigma, moved = state.actor["joint"]["sigma"], after.actor["joint"]["sigma"]
    assert (moved != sigma).mean() > 0.8  # the actor's loss reaches σ, but for units that are off
    followed = 0.005 * moved + 0.995 * sigma
    cells.assert_close(after.target_actor["joint"]["sigma"], followed, 1e-6)
    # Acting differs from draw to draw, and only by the noise; evaluation has none.
    obs = jnp.ones(3)
    act = jax.jit(lambda key: algorithm.act(state, (), obs, algorithm.draw(key), 100)[2].bare)
    assert np.abs(act(random.key(1)) - act(random.key(2))).max() > 1e-3
    np.testing.assert_array_equal(act(random.key(1)), act(random.key(1)))
    cells.assert_same(algorithm.greedy(state).net, state.actor["net"])


@pytest.mark.slow
def test_a_copy_that_is_frozen_for_an_episode():
    def begin(state, view, key):
        del state
        return jax.tree.map(lambda leaf: leaf + 0.1, view.net)

    strategy = Strategy(
        acting=Acting(
            begin=begin,
            behave=lambda state, memory, view, obs, noise, warmup: (memory, Nudge(memory)),
        ),
        network=NetworkSpec(layer_norm=True),
    )
    agent = cells.build(strategy="none")
    agent.strategy = strategy
    agent.lane.algorithm = td3.make(cells.SPEC, HP, strategy)
    seeds = [5, 6]
    state = cells.begin(agent, seeds, HP, none.Hyper())
    assert "gain" in state.learner.actor["net"]["layer0"]
    copies = []
    for step in range(1, 15):
        transition = cells.transition_at(seeds, step)
        state, _ = cells.tick(agent, state, transition, step)
        newest = jax.device_get(state.learner)
        copies.append(jax.device_get(state.memory["head"]["weight"]))
        for lane in range(2):
            if transition.ended[lane]:  # a fresh copy of the actor as it was when the episode began
                expected = newest.actor["net"]["head"]["weight"][lane] + np.float32(0.1)
                np.testing.assert_allclose(copies[-1][lane], expected, rtol=1e-6)
            elif step > 1:
                np.testing.assert_array_equal(copies[-1][lane], copies[-2][lane])


def test_context_widens_the_actor_and_reaches_it():
    def context(obs, value):
        return networks.namespace(obs).zeros((len(obs), 4), dtype=obs.dtype) + value

    def nudge(view, obs):
        return Nudge(view.net, context=context(obs, 1.0))

    strategy = Strategy(
        acting=Acting(
            behave=lambda state, memory, view, obs, noise, warmup: (memory, nudge(view, obs))
        ),
        learning=Learning(expect=lambda state, view, obs, key, role: nudge(view, obs)),
        network=NetworkSpec(context_size=4),
    )
    algorithm, state = build(strategy)
    assert state.actor["net"]["layer0"]["weight"].shape == (3 + 4, 16)
    obs = jnp.ones(3)
    action = algorithm.act(state, (), obs, algorithm.draw(random.key(0)), 100)[2]
    widened = jnp.ones((1, 7))
    expected = jnp.tanh(networks.apply(state.actor["net"], widened))[0]
    np.testing.assert_allclose(action.bare, expected, rtol=1e-5)
    after, _ = cells.learner(algorithm)(state, cells.batch(), random.key(0), True)
    moved = after.actor["net"]["layer0"]["weight"] - state.actor["net"]["layer0"]["weight"]
    assert np.abs(moved[3:]).max() > 0


def test_events_between_updates_and_transitions_that_are_received():
    """What is learned is saved, makes two updates and is put back; rewards are summed."""
    made = (StrategyEvent("save"), Update(), Update(), StrategyEvent("back"), Update(actor=False))
    agent = cells.build(strategy="none", warmup=0)

    def on_event(state, view, name):
        if name == "save":
            return {**state, "saved": view.learned}, view.learned
        return state, state["saved"]

    def on_transition(state, memory, transition):
        return {**state, "sum": state["sum"] + transition.reward}

    agent.strategy = Strategy(
        init=lambda key, hyper, view: {"saved": view.learned, "sum": jnp.zeros(())},
        schedule=Schedule(
            updates=lambda step, due: made if step == 3 else (),
            on_event=on_event,
            on_transition=on_transition,
        ),
    )
    agent.lane.algorithm = td3.make(cells.SPEC, HP, agent.strategy)
    seeds = [5]
    state = cells.begin(agent, seeds, HP, none.Hyper())
    rewards = [cells.transition_at(seeds, step).reward[0] for step in (1, 2, 3)]
    before = jax.device_get(state.learner)
    state, _ = cells.run(agent, state, seeds, 3)
    after = jax.device_get(state.learner)
    np.testing.assert_allclose(after.strategy["sum"], [sum(rewards)], rtol=1e-6)
    cells.assert_same((after.actor, after.actor_optimiser), (before.actor, before.actor_optimiser))
    assert after.critic_optimiser[0].count.tolist() == [1]


@pytest.mark.slow
def test_a_schedule_of_its_own():
    """Ten quiet steps, then three updates on the newest ten transitions."""
    burst = (Update(actor=False, recent=10), Update(actor=False, recent=10), Update(recent=10))
    agent = cells.build(strategy="none", warmup=0)
    updates = lambda step, due: burst if step % 10 == 0 else ()  # noqa: E731
    agent.strategy = Strategy(schedule=Schedule(updates=updates))
    seeds = [5]
    state = cells.begin(agent, seeds, *cells.hypers("td3", "none", warmup=0))
    counts = []
    for step in range(1, 21):
        state, _ = cells.tick(agent, state, cells.transition_at(seeds, step), step)
        adam = state.learner.critic_optimiser[0].count, state.learner.actor_optimiser[0].count
        counts.append(tuple(int(count[0]) for count in adam))
    assert counts == [(0, 0)] * 9 + [(3, 1)] * 10 + [(6, 2)]
