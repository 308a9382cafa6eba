"""Exploration in tables: where planners go."""

import numpy as np
import pytest

from discover_rl.analysis.theory import AGENTS
from discover_rl.analysis.theory.learning import empty, uniform
from discover_rl.analysis.theory.tasks import Outcome, chain, drift


def test_a_planner_by_visits_goes_where_it_was_least_often():
    """A chain of three states, "on" and "back" in states 0 and 1. Each pair is taken once first;
    then the pairs of state 0 that were taken twice come after those of state 1 that were not."""
    table, draw = empty(chain(3)), uniform(np.random.default_rng(0))
    policy = AGENTS["planner-counts"](table, draw)
    assert policy.choose is not None
    assert policy.observe is not None
    visits, state = np.zeros((2, 2), int), 0
    for _ in range(60):
        action, least = policy.choose(state), visits.min()
        rare = np.argwhere(visits == least)
        near = rare[:, 0] == state
        if near.any() and not (visits[state] == least).all():
            assert visits[state, action] == least  # it is here, so it is taken
        elif not near.any():
            assert (state, action) == (0, 0)  # the way to the other state
        visits[state, action] += 1
        successor = 1 if (state, action) == (0, 0) else 0
        policy.observe(state, action, 0.5, Outcome(reward=0.0, discount=0.95, successor=successor))
        state = successor
    assert visits.min() >= 10


@pytest.mark.parametrize(("agent", "action"), [("planner", 2), ("planner-both", 0)])
def test_a_planner_knows_errors_that_a_change_of_values_causes_elsewhere(agent, action):
    """In states 0 and 1, action 0 leads to 1, the others to 0. The value of 0 rises by 0.2, learned
    from its action 1: by the model, action 2 is off by 0.19 now, as are two of state 1. Action 0 of
    state 0 was taken once and is right: only by visits, 1 / 1, does it come first."""
    table, draw = empty(drift(3)), uniform(np.random.default_rng(0))
    policy = AGENTS[agent](table, draw)
    assert policy.choose is not None
    assert policy.observe is not None

    def observe(state: int, action: int, error: float) -> None:
        assert policy.observe is not None
        outcome = Outcome(reward=0.0, discount=0.95, successor=int(action == 0))
        policy.observe(state, action, error, outcome)

    for state, taken in np.ndindex(2, 3):
        for _ in range(1 if (state, taken) == (0, 0) else 10):
            observe(state, taken, 0.0)
    table.q[0][1] = table.value[0] = 0.2
    observe(0, 1, 0.2)
    assert policy.choose(0) == action
