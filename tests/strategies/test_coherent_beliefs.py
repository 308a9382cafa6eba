"""What Coherent's likelihood knows of an episode is carried by the agent, rollout after rollout."""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from discover_rl.algorithms import likelihood
from discover_rl.algorithms.on_policy_parts import features, policy
from discover_rl.core.pytrees import lane_of
from discover_rl.core.types import Nudge, Rollout
from discover_rl.strategies.coherent import Belief
from discover_rl.strategies.interface import View
from tests.helpers import cells, rollouts
from tests.strategies.test_coherent_on_policy import Q, filtered

HORIZON, WIDTH, BETA = 16, 8, 0.1
ROLLOUTS = 3
SEEDS = [5, 6]
SHORT = {"horizon": HORIZON, "epochs": 1, "hidden": (WIDTH,), "initial_log_std": -1.0}
NOTHING = Belief(np.zeros((Q, WIDTH + 1)), np.stack([np.eye(WIDTH + 1)] * Q))


class BeforeLearning(NamedTuple):
    """What a lane had when it was about to learn from a rollout."""

    learner: Any
    belief: Belief  # (environments, …)
    rollout: Rollout


@functools.cache
def agent_of(algorithm: str, count: int, carry: bool) -> tuple:
    """The agent, its settings, and what its learning takes for a rollout's log-probabilities."""
    minibatches = 2 if algorithm == "ppo" else 1
    theirs = {"strategy_sigma": 0.5, "strategy_beta": BETA, "strategy_carry": carry}
    settings = {"minibatches": minibatches, **SHORT, **theirs}
    agent, hypers = rollouts.agent_of(algorithm, "coherent", count, **settings)
    likely = likelihood.make(agent.strategy, HORIZON, minibatches, 1)

    def log_prob(given: BeforeLearning):
        learner = given.learner
        view = View(learner.actor, policy, features, critic=learner.critic)
        outcome = likely.rollout(learner.strategy, view, given.rollout, None, given.belief)
        return outcome.log_prob.reshape(HORIZON, count)

    return agent, hypers, jax.jit(log_prob)


def trained(monkeypatch, agent, hypers, pauses, lost) -> tuple[list[list[BeforeLearning]], Any]:
    """Some rollouts; what each lane learned from, and the last state.

    `lost`: step → environments, counted over lanes, whose episodes are lost there.
    """
    count, noted, learn = agent.environments, [], agent._learn

    def spy(learner, belief, rollout, *given):
        noted.append(BeforeLearning(*jax.tree.map(np.array, (learner, belief, rollout))))
        return learn(learner, belief, rollout, *given)

    monkeypatch.setattr(agent, "_learn", spy)
    state, vector = rollouts.begin(agent, hypers, SEEDS)
    step, environments = 0, len(vector.seeds)
    for until in sorted({*pauses, *lost, ROLLOUTS * HORIZON * count}):
        state, diverged = rollouts.advance(agent, state, vector, until, step)
        assert not diverged
        step = until
        if step in lost:
            fresh = np.isin(np.arange(environments), lost[step])
            obs = cells.observations(vector.seeds, 1000 + step)
            state = agent.enter(state, obs, fresh, step)
    lanes = len(SEEDS)
    return [noted[lane::lanes] for lane in range(lanes)], state


def ends_of(env: int, count: int, lost) -> np.ndarray:
    """Where episodes of an environment end, by `cells.transition_at` or because they are lost."""
    seed = cells.Answers(SEEDS, count=count).seeds[env]
    ended = (seed + np.arange(1, ROLLOUTS * HORIZON + 1)) % 10 == 0
    for step, envs in lost.items():
        if env in envs:
            assert not ended[step // count - 1]
            ended[step // count - 1] = True
    return ended.reshape(ROLLOUTS, HORIZON)


def evidence(given: BeforeLearning, env: int) -> tuple:
    """What a filter is given of an environment's rollout, in double precision."""
    actor = jax.tree.map(np.float64, given.learner.actor)
    rollout = given.rollout
    obs, action = (np.float64(leaf[:, env]) for leaf in (rollout.obs, rollout.action))
    x = np.hstack([features(Nudge(actor["net"]), obs), np.ones((HORIZON, 1))])
    u = np.exp(actor["joint"]["log_s"]).T[:, None] * x[None]
    deviation = (action - policy(Nudge(actor["net"]), obs)).T
    return deviation, u, np.exp(2 * actor["net"]["log_std"]["value"]), 1 - BETA


SLOW = pytest.mark.slow
CASES = [
    ("ppo", 1, True, (), {}),
    pytest.param("ppo", 2, True, (10, 50), {40: [1], 64: [2]}, marks=SLOW),
    pytest.param("ppo", 2, False, (10,), {}, marks=SLOW),
    pytest.param("ppo", 1, True, (7, 23), {16: [0], 32: [1], 40: [0, 1]}, marks=SLOW),
    pytest.param("ppo", 1, False, (7,), {16: [0], 25: [1]}, marks=SLOW),
    pytest.param("ppo", 3, True, (30,), {48: [1, 4], 60: [0], 96: [2, 5]}, marks=SLOW),
    pytest.param("a2c", 2, True, (10, 50), {40: [1], 64: [2]}, marks=SLOW),
    pytest.param("a2c", 2, False, (10,), {32: [3]}, marks=SLOW),
]


@pytest.mark.parametrize(("algorithm", "count", "carry", "pauses", "lost"), CASES)
def test_beliefs_are_those_of_a_filter_over_all_that_happened(
    algorithm, count, carry, pauses, lost, monkeypatch
):
    """Step by step, in double precision; parameters move from rollout to rollout."""
    agent, hypers, log_prob = agent_of(algorithm, count, carry)
    noted, state = trained(monkeypatch, agent, hypers, pauses, lost)
    for lane, mine in enumerate(noted):
        assert len(mine) == ROLLOUTS
        found = [np.asarray(log_prob(given)) for given in mine]
        for env in range(count):
            ended = ends_of(lane * count + env, count, lost)
            belief = NOTHING
            for number, given in enumerate(mine):
                before = belief if carry else NOTHING
                facts = *evidence(given, env), ended[number]
                expected, belief, _ = filtered(*facts, before)
                got = found[number][:, env]
                np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-4)
            cells.assert_close(lane_of(lane_of(state, lane).belief, env), belief, 2e-4)


@pytest.mark.slow
def test_what_was_known_before_a_rollout_makes_a_difference(monkeypatch):
    """So the test above would show it if it were forgotten, or another environment's."""
    agent, hypers, log_prob = agent_of("ppo", 2, True)
    noted, _ = trained(monkeypatch, agent, hypers, (), {})
    nothing = jax.tree.map(lambda leaf: np.stack([leaf] * 2).astype(np.float32), NOTHING)
    for mine in noted:
        cells.assert_same(mine[0].belief, nothing)
        for given in mine[1:]:
            swapped = jax.tree.map(lambda leaf: leaf[::-1], given.belief)
            for other in (nothing, swapped):
                apart = log_prob(given) - log_prob(given._replace(belief=other))
                assert np.abs(apart).max() > 0.05
