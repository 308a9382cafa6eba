"""Q-learning in a table, and how many actions it takes until the policy is optimal.

From Q = 0 and with learning rate 1, after action a in state s with reward r and successor s′,

    δ = r + γ′ max Q(s′, ·) − Q(s, a),    Q(s, a) ← Q(s, a) + δ.

The policy is optimal when, in every state that an optimal policy meets on its way from the start,
the best action has its true value and every other action has less than that. In tasks without
noise that pay at the goal alone, values never are above the true ones, and this is the same as that
these states have their true values. Values off the path need not be true: the optimal policy does
not depend on them, and that of a noisy state never settles with learning rate 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from discover_rl.analysis.theory.tasks import Outcome, Outcomes, Task

Draw = Callable[[], float]
"""Returns the next random number, uniform in [0, 1)."""
BLOCK = 1024
"""How many random numbers are drawn at a time."""


class Table(NamedTuple):
    """What is learned: `q[s][a]`, and `value[s]`, the greatest of `q[s]`."""

    q: list[list[float]]
    value: list[float]


class Policy(NamedTuple):
    """How an agent behaves, with a memory of its own.

    Attributes:
        scores: `scores[s][a]`: it takes the action with the greatest score, ties at random.
        epsilon: The probability with which it takes any action, whatever the scores.
        choose: Takes a state and returns an action; in place of scores.
        observe: Takes a state, an action, |δ| and the outcome, after each action. None: there is
            nothing to remember.
    """

    scores: list[list[float]] | None = None
    epsilon: float = 0.0
    choose: Callable[[int], int] | None = None
    observe: Callable[[int, int, float, Outcome], None] | None = None


Agent = Callable[[Table, Draw], Policy]
"""Makes a policy for a table, which it may read at any time."""


def empty(task: Task) -> Table:
    """A table of zeros."""
    return Table(q=filled(task.states - 1, task.actions, 0.0), value=[0.0] * (task.states - 1))


def filled(states: int, actions: int, number: float) -> list[list[float]]:
    """A table with one number everywhere."""
    return [[number] * actions for _ in range(states)]


def uniform(rng: np.random.Generator) -> Draw:
    """A source of random numbers that draws them in blocks, which is faster than one by one."""
    blocks = (rng.random(BLOCK).tolist() for _ in itertools.count())
    return itertools.chain.from_iterable(blocks).__next__


def count(task: Task, agent: Agent, rng: np.random.Generator, cap: int) -> int | None:
    """Count actions until the policy is optimal. If the goal moves, count from the move on.

    Args:
        task: Where to learn.
        agent: How to explore.
        rng: Source of the agent's random numbers and of the task's.
        cap: The number of actions after which to give up, before the move and again after it.

    Returns:
        The number of actions, or None if it is more than the cap.
    """
    table, draw = empty(task), uniform(rng)
    policy = agent(table, draw)
    actions, state = until_optimal(task, table, policy, draw, cap)
    if task.moved is not None and actions is not None:
        actions, _ = until_optimal(task.moved, table, policy, draw, cap, state)
    return actions


def until_optimal(
    task: Task, table: Table, policy: Policy, draw: Draw, cap: int, state: int = 0
) -> tuple[int | None, int]:
    """Act and learn until the policy is optimal.

    Args:
        task: Where to learn.
        table: What is learned; it is changed.
        policy: How to behave.
        draw: Source of random numbers.
        cap: The number of actions after which to give up.
        state: Where to start.

    Returns:
        The number of actions, None if it is more than the cap, and the state that was reached.
    """
    (q, value), (_, epsilon, choose, observe) = table, policy
    scores, size = policy.scores or [], task.actions
    certain = [[each[0] if len(each) == 1 else None for each in row] for row in task.outcomes]
    truth, path = task.values, task.path
    right = {s: _is_right(q[s], action, truth[s]) for s, action in path.items()}
    wrong = len(path) - sum(right.values())
    for actions in range(1, cap + 1):
        # Written out instead of calling functions: most of the time is spent in this loop.
        if choose is not None:
            action = choose(state)
        elif epsilon and draw() < epsilon:
            action = int(draw() * size)
        else:
            scored = scores[state]
            most = max(scored)
            ties = scored.count(most)
            if ties == 1:
                action = scored.index(most)
            elif ties == size:
                action = int(draw() * size)
            else:
                tied = [i for i, score in enumerate(scored) if score == most]
                action = tied[int(draw() * ties)]
        outcome = certain[state][action] or _one_of(task.outcomes[state][action], draw)
        reward, discount, successor = outcome
        target = reward + discount * value[successor]
        row = q[state]
        error = target - row[action]
        if error:
            row[action] = target
            value[state] = max(row)
            if state in path:
                before, right[state] = right[state], _is_right(row, path[state], truth[state])
                wrong += before - right[state]
        if observe is not None:
            observe(state, action, error if error >= 0.0 else -error, outcome)
        state = successor
        if not wrong:
            return actions, state
    return None, state


def _one_of(outcomes: Outcomes, draw: Draw) -> Outcome:
    return outcomes[int(draw() * len(outcomes))]


def _is_right(row: list[float], best: int, truth: float) -> bool:
    """Whether the best action alone is greatest and has its true value."""
    return row[best] == truth and row.count(truth) == 1 and max(row) == truth
