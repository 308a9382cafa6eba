"""Small on-policy agents, advanced to where a test wants them."""

from typing import Any

import numpy as np

from discover_rl.agents.interface import AgentSetup
from discover_rl.agents.on_policy.agent import OnPolicyAgent
from discover_rl.algorithms import likelihood
from discover_rl.algorithms.on_policy_parts import distribution, features, policy
from discover_rl.core.finite import Divergence
from discover_rl.core.pytrees import lane_of, stack_floats
from discover_rl.core.types import Nudge
from discover_rl.strategies.interface import View
from tests.helpers import cells


def agent_of(algorithm: str, strategy: str, count: int, **settings: Any):
    """An agent with `count` environments in each lane, and its hyper-parameters."""
    hyper, own = cells.hypers(algorithm, strategy, **settings)
    setup = AgentSetup(cells.SPEC, algorithm, hyper, strategy, own, cells.STEPS, count)
    return OnPolicyAgent(setup), (hyper, own)


def begin(agent: OnPolicyAgent, hypers: tuple, seeds: list[int]):
    """The state of a cohort before its first step, and its environments."""
    vector = cells.Answers(seeds, count=agent.environments)
    given = (stack_floats([it] * len(seeds)) for it in hypers)
    state = agent.init(np.asarray(seeds, np.uint32), *given)
    fresh = np.ones(len(vector.seeds), bool)
    return agent.enter(state, cells.observations(vector.seeds, 0), fresh, 0), vector


def advance(agent: OnPolicyAgent, state, vector, until: int, step: int = 0):
    """The state at `until`, and the lanes that diverged on the way."""
    alive, found = np.ones(len(state.seed), bool), list[Divergence]()
    while step < until:
        state, step, diverged = agent.advance(state, vector, alive, step, until)
        found += diverged
        alive[[it.lane for it in diverged]] = False
    return state, found


def noise_and_ratio(agent: OnPolicyAgent, state, lane: int) -> tuple[np.ndarray, np.ndarray]:
    """Of a lane's full rollout that was not learned from yet: the standard normal numbers by which
    the policy acted, (T, environments, action), and its probability ratios, (T · environments,), in
    the first epoch."""
    mine = lane_of(state, lane)
    actor, rollout = mine.learner.actor, mine.rollout
    mean, std = distribution(Nudge(actor["net"]), rollout.obs)
    likely = likelihood.make(agent.strategy, agent.horizon, 1, 1)
    view = View(actor, policy, features, distribution, critic=mine.learner.critic)
    whole = likely.rollout(mine.learner.strategy, view, rollout, None, mine.belief)
    steps = likelihood.flat(rollout)
    blank = np.zeros(len(whole.log_prob), np.float32)
    known = (whole.log_prob, whole.value, blank, blank)
    sample = likelihood.Sample(steps.obs, steps.context, steps.action, *known, which=whole.which)
    log_prob, _, _ = likely.sample(mine.learner.strategy, view, whole.shared, sample)
    noise = (rollout.action - mean) / std
    normal = (-0.5 * noise**2 - np.log(std) - 0.5 * np.log(2 * np.pi)).sum(axis=-1)
    np.testing.assert_allclose(whole.log_prob, normal.ravel(), rtol=1e-4, atol=1e-4)
    return noise, np.exp(np.asarray(log_prob - whole.log_prob))
