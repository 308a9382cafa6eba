"""On-policy DISCOVER: which value is asked at which direction, and when the explorer steps."""

import functools

import jax
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import a2c, ppo
from discover_rl.core import networks
from discover_rl.core.pytrees import lane_of
from discover_rl.core.types import Losses, UserError
from discover_rl.strategies import discover
from tests.algorithms.test_on_policy import rollout, without_belief
from tests.helpers import cells, rollouts

HORIZON = 30
LAM = 0.7  # large, so that a direction in the wrong place shows
SIZE = cells.SPEC.observation_size


@functools.cache
def learner(module):
    settings = {"hidden": (16, 16), "horizon": 12, "minibatches": 1, "epochs": 1}
    hp, theirs = module.Hyper(**settings, gamma=0.9), discover.Hyper(lam=LAM)
    strategy = discover.make(cells.SPEC, theirs, module.blueprint(cells.SPEC, hp))
    algorithm = module.make(cells.SPEC, hp, strategy)
    state = jax.jit(algorithm.init)(random.key(3), hp, theirs)
    return state, jax.jit(lambda *given: without_belief(algorithm, *given))


def xi(state, obs):
    return np.tanh(networks.apply(jax.device_get(state.strategy.explorer), obs, "tanh"))


def value(state, obs, context):
    wide = np.concatenate([obs, context], axis=-1)
    return networks.apply(jax.device_get(state.critic), wide, "tanh")[..., 0]


@pytest.mark.parametrize("module", [a2c, ppo])
def test_values_are_asked_at_the_right_direction(module):
    """V(s) at the one that was kept, V(s′) at the explorer's at s′; the explorer's error at its
    own, with R̂ and V as they were before anything moved."""
    state, learn = learner(module)
    data = rollout(context=SIZE)
    hp = state.hyper
    here = value(state, data.obs, data.context)
    there = value(state, data.next_obs, LAM * xi(state, data.next_obs))
    delta = data.reward + hp.gamma * np.where(data.terminated, 0.0, there) - here
    advantage, later = np.zeros_like(delta), 0.0
    for t in reversed(range(len(delta))):
        later = delta[t] + hp.gamma * hp.gae_lambda * np.where(data.ended[t], 0.0, later)
        advantage[t] = later
    target = advantage + here
    _, losses, diagnostics = learn(state, data, random.key(0), 0.0)
    weight = 0.5 if module is ppo else 1.0
    expected = weight * ((here - target) ** 2).mean()
    assert float(losses.critic) == pytest.approx(expected, rel=1e-4)
    error = (target - value(state, data.obs, LAM * xi(state, data.obs))) ** 2
    assert float(losses.strategy) == pytest.approx(-error.mean(), rel=1e-4)
    assert float(diagnostics["error_directed"]) == pytest.approx(error.mean(), rel=1e-4)
    bare = (target - value(state, data.obs, 0 * data.obs)) ** 2
    assert float(diagnostics["error_bare"]) == pytest.approx(bare.mean(), rel=1e-4)
    assert abs(error.mean() - bare.mean()) > 1e-2 * bare.mean()  # the direction does matter here


def test_switches_of_the_other_family_are_refused():
    blueprint = ppo.blueprint(cells.SPEC, ppo.Hyper())
    for switches in ({"subtracts": True}, {"delayed": False}, {"target_network": False}):
        with pytest.raises(UserError, match="are for off-policy algorithms"):
            discover.make(cells.SPEC, discover.Hyper(**switches), blueprint)


def new_agent():
    """An agent without a strategy, and its hyper-parameters."""
    return rollouts.agent_of("a2c", "none", 1, horizon=HORIZON, minibatches=1, epochs=1)


cached_agent = functools.cache(new_agent)


def begun(make=cached_agent):
    """An agent, its state before the first step, and its environments."""
    agent, hypers = make()
    return agent, *rollouts.begin(agent, hypers, [5, 1])


def test_every_rollout_has_noise_of_its_own():
    """With nothing learned yet, actions differ by their noise alone."""
    agent, state, vector = begun()
    start = jax.tree.map(np.copy, lane_of(state.learner.actor["net"], 0))
    drawn = [np.asarray(agent._noise._draw(np.uint32(5), step)[0]) for step in (0, HORIZON)]
    assert np.abs(drawn[0] - drawn[1]).min() > 0.0
    state, _ = rollouts.advance(agent, state, vector, HORIZON)
    mean = networks.apply(start, state.rollout.obs[0, :, 0], "tanh")
    noise = state.rollout.action[0, :, 0] - mean
    # A block of numbers has those of many rollouts, one after the other.
    np.testing.assert_allclose(noise, drawn[0][:HORIZON, 0, 0], rtol=1e-4, atol=1e-5)


def test_the_first_rollout_learns_at_full_rates_and_the_last_at_nearly_none(monkeypatch):
    agent, state, vector = begun(new_agent)
    spy = lambda learner, belief, rollout, key, progress: (  # noqa: E731
        learner,
        belief,
        Losses(0.0, 0.0, 0.0),
        {"progress": progress},
    )
    monkeypatch.setattr(agent, "algorithm", agent.algorithm._replace(learn=spy))
    state = state._replace(diagnostics={"progress": np.zeros(2, np.float32)})
    for number in range(3):
        step = number * HORIZON
        state, _ = rollouts.advance(agent, state, vector, step + HORIZON, step)
        expected = step / agent.steps  # the share of the run that lay behind this rollout's start
        np.testing.assert_allclose(state.diagnostics["progress"], expected, rtol=1e-6)


def test_nothing_flows_back_to_an_episode_that_was_lost():
    agent, state, vector = begun()
    state, _ = rollouts.advance(agent, state, vector, 7)
    before = state.rollout.ended.copy()
    entered = agent.enter(state, cells.observations(vector.seeds, 9), np.asarray([True, False]), 7)
    assert entered.rollout.ended[0, 6, 0]
    assert not entered.rollout.terminated[0, 6, 0]
    np.testing.assert_array_equal(entered.rollout.ended[1], before[1])
