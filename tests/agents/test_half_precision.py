"""Learning in half precision: what it learns from and what it learns stay in float32."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from discover_rl.agents.build import build_agent
from discover_rl.agents.interface import AgentSetup
from discover_rl.config import pairs
from discover_rl.core.types import Update
from tests.helpers import cells

SEEDS = [5, 1]
OFF_POLICY = [pair for pair in pairs() if not cells.is_on_policy(pair[0])]
ONE_OF_EACH = {strategy: algorithm for algorithm, strategy in reversed(OFF_POLICY)}


@functools.cache
def agent_of(algorithm: str, strategy: str, precision: str):
    hypers = cells.hypers(algorithm, strategy)
    setup = AgentSetup(cells.SPEC, algorithm, hypers[0], strategy, hypers[1], cells.STEPS)
    agent = build_agent(dataclasses.replace(setup, precision=precision))
    return agent, cells.begin(agent, SEEDS, *hypers)


def way(after, before) -> np.ndarray:
    """How far parameters have moved, all of them in one array."""
    moved = jax.tree.leaves(jax.tree.map(np.subtract, after, before))
    return np.concatenate([leaf.ravel() for leaf in moved])


def lowered(algorithm: str, strategy: str, precision: str) -> dict[str, str]:
    """The programs that learn and act, as they are given to the compiler."""
    agent, state = agent_of(algorithm, strategy, precision)
    inbox = agent.no_transition(len(SEEDS), 0)
    learn = agent._learn((Update(),)).lower(*agent._learning_part(state), state.action, inbox)
    bad = np.full(len(SEEDS), -1, np.int32)
    return {
        "learn": learn.as_text(),
        "act": agent._act.lower(*agent._acting_part(state), bad, inbox).as_text(),
        "report": agent.report.lower(state, np.int32(0)).as_text(),
    }


def test_only_learning_is_in_half_precision():
    half, usual, tf32 = (lowered("td3", "discover", it) for it in ("bf16", "float32", "tf32"))
    assert {name for name, program in half.items() if "bf16" in program} == {"learn"}
    assert half["act"] == usual["act"]
    assert usual == tf32  # on a CPU
    assert not any("bf16" in program for program in usual.values())


@pytest.mark.parametrize("strategy", ONE_OF_EACH)
def test_what_is_learned_stays_in_float32(strategy):
    agent, state = agent_of(ONE_OF_EACH[strategy], strategy, "bf16")
    given = (*agent._learning_part(state), state.action, agent.no_transition(len(SEEDS), 0))
    before = given[0], given[1]
    after = jax.eval_shape(agent._learn((Update(),)), *given)[:2]
    kinds = [jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), it) for it in (before, after)]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize(
    ("algorithm", "strategy"), [("td3", "discover"), ("sac", "gaussian"), ("ddpg", "none")]
)
def test_it_learns_as_in_float32_to_rounding(algorithm, strategy):
    steps, learners = 24, {}
    for precision in ("float32", "bf16"):
        agent, state = agent_of(algorithm, strategy, precision)
        state = jax.tree.map(lambda leaf: leaf.copy(), state)  # programs take their arguments
        before = jax.device_get(state.learner)
        state, _ = cells.run(agent, state, SEEDS, steps)
        learners[precision] = jax.device_get(state.learner)
    for name in ("actor", "critics", "target_critics"):
        start = getattr(before, name)
        moved = [way(getattr(learner, name), start) for learner in learners.values()]
        lengths = [np.linalg.norm(it) for it in moved]
        assert min(lengths) > 0
        apart = np.linalg.norm(moved[0] - moved[1])
        assert 0 < apart < 0.15 * lengths[0]
