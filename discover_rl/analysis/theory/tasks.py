"""Small tasks with known values, on which exploration is easy or hard.

A task has states 0, 1, …, of which 0 is the start, and the same number of actions in each state. An
action has one outcome, or several that are equally likely. An outcome is a reward r, a discount γ′
and a successor s′; it is worth

    r + γ′ V(s′),    V(s) = max_a Q(s, a),    Q(s, a) = mean over the outcomes of (s, a).

γ′ is γ, or 0 where the episode ends. The goal ends it with reward 1: the agent is put back at the
start, which is no action, so the goal is no row of the table. All other rewards are 0, but for one
of the noisy task.

Every task is a function of n, the number of states of its chain, goal included. In each of them the
best action of every state on the optimal path is unique.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

GAMMA = 0.95
"""The discount of all tasks."""
ROOM = 4
"""States of the side room per state of the chain."""
TOLERANCE = 1e-15
"""Values that differ by less are equal."""


class Outcome(NamedTuple):
    """What an action leads to. With discount 0 the episode ends."""

    reward: float
    discount: float
    successor: int


Outcomes = tuple[Outcome, ...]
"""The outcomes of an action, all equally likely."""
Rows = list[list[Outcomes]]
"""Outcomes by state and action."""
GOAL = (Outcome(reward=1.0, discount=0.0, successor=0),)
"""The outcome of the action that reaches the goal."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Outcomes by state and action, and what follows from them.

    Attributes:
        outcomes: `outcomes[s][a]` are the equally likely outcomes of action a in state s.
        moved: The task that takes this one's place, once, when the policy is optimal. It has the
            same states and actions.
    """

    outcomes: tuple[tuple[Outcomes, ...], ...]
    moved: Task | None = None

    @property
    def states(self) -> int:
        """The number of states, goal included."""
        return len(self.outcomes) + 1

    @property
    def actions(self) -> int:
        """The number of actions of each state."""
        return len(self.outcomes[0])

    @functools.cached_property
    def values(self) -> list[float]:
        """V of each state, by value iteration from 0.

        On a path without noise, a state's value is computed from its successor's by the same
        product as in learning, so there the two agree to the last bit.
        """
        found = [0.0] * len(self.outcomes)
        while True:
            better = [max(_worth(each, found) for each in row) for row in self.outcomes]
            if all(abs(a - b) <= TOLERANCE for a, b in zip(better, found, strict=True)):
                return better
            found = better

    @functools.cached_property
    def path(self) -> dict[int, int]:
        """The states that an optimal policy meets on its way from the start, with their actions.

        Raises:
            ValueError: A state on the path has several best actions.
        """
        path: dict[int, int] = {}
        for state in (queue := [0]):
            if state in path:
                continue
            worth = [_worth(each, self.values) for each in self.outcomes[state]]
            most = max(worth)
            best = [action for action, each in enumerate(worth) if most - each <= TOLERANCE]
            if len(best) > 1:
                raise ValueError(f"State {state} has the best actions {best}, not one.")
            path[state] = best[0]
            outcomes = self.outcomes[state][best[0]]
            queue += [outcome.successor for outcome in outcomes if outcome.discount]
        return path

    @property
    def bound(self) -> int:
        """Theorem 1's bound (d² m + m²) n², with 1 for the constant that it leaves open.

        d, what an iteration of TD learning costs, is the number of actions, over which the maximum
        is taken; m, what is unknown, is the number of state-action pairs.
        """
        unknown = len(self.outcomes) * self.actions
        return (self.actions**2 * unknown + unknown**2) * self.states**2


def chain(states: int) -> Task:
    """A chain with resets. Action 0 leads a state on, action 1 back to the start.

    The last state's action 0 leads to the goal. At the start, action 1 stays there.
    """
    return _task(_chain(states))


def drift(states: int) -> Task:
    """A walk against drift, after Whitehead: every step can be undone.

    Of three actions, action 0 leads a state on, 1 and 2 lead a state back; at the start they stay.
    """
    rows = [[_to(i + 1), _to(max(i - 1, 0)), _to(max(i - 1, 0))] for i in range(states - 1)]
    rows[-1][0] = GOAL
    return _task(rows)


def room(states: int, size: int | None = None) -> Task:
    """The chain, with a side room: a corridor of useless states.

    The start's action 1 leads to the room's first state. In the room, action 0 leads a state
    deeper, and stays in the last one; action 1 leads back to the start. There is no reward in it.

    Args:
        states: Number of states of the chain, goal included.
        size: Number of states of the room; 4 `states` by default.
    """
    size = ROOM * states if size is None else size
    rows, first = _chain(states), states - 1
    rows[0][1] = _to(first)
    rows += [[_to(first + min(i + 1, size - 1)), _to(0)] for i in range(size)]
    return _task(rows)


def noisy(states: int, successors: int = 2) -> Task:
    """The chain, with a state whose successor is random every time.

    The start's action 1 leads to the noisy state. Both of its actions lead to one of some states,
    all equally likely. Both actions of those lead back to the start, with reward 0 from the first,
    the third, …, and −1 from the others. So the noisy state's TD errors stay near 1 in size
    forever. Nothing there is ever better than to walk the chain, and no estimate says so: what
    leads back to the start is worth at most γ³ of it.

    Args:
        states: Number of states of the chain, goal included.
        successors: Number of successors of the noisy state.
    """
    rows, noise = _chain(states), states - 1
    rows[0][1] = _to(noise)
    one_of = sum((_to(noise + 1 + i) for i in range(successors)), ())
    rows.append([one_of, one_of])
    for i in range(successors):
        back = (Outcome(reward=-float(i % 2), discount=GAMMA, successor=0),)
        rows.append([back, back])
    return _task(rows)


def moving(states: int) -> Task:
    """Two chains with resets from one start, and a goal that moves once.

    The start's actions lead to the first states of two arms of (n − 2)/2 states each. In an arm,
    action 0 leads a state on, action 1 back to the start. The goal is at the end of arm 0; once the
    policy is optimal, it moves to the end of arm 1. The end without the goal leads back to the
    start. Actions count from the move on.
    """
    length = (states - 2) // 2
    return _task(_arms(length, goal=0), moved=_task(_arms(length, goal=1)))


TASKS: dict[str, Callable[[int], Task]] = {
    "chain": chain,
    "drift": drift,
    "room": room,
    "noisy": noisy,
    "moving": moving,
}
"""The tasks, by name; each takes the number of states n."""


def _worth(outcomes: Outcomes, value: list[float]) -> float:
    worth = [reward + discount * value[after] for reward, discount, after in outcomes]
    return worth[0] if len(worth) == 1 else sum(worth) / len(worth)


def _to(successor: int) -> Outcomes:
    return (Outcome(reward=0.0, discount=GAMMA, successor=successor),)


def _chain(states: int) -> Rows:
    rows = [[_to(i + 1), _to(0)] for i in range(states - 1)]
    rows[-1][0] = GOAL
    return rows


def _arms(length: int, goal: int) -> Rows:
    rows = [[_to(1), _to(1 + length)]]
    for arm in (0, 1):
        rows += [[_to(1 + arm * length + i + 1), _to(0)] for i in range(length)]
        rows[-1][0] = GOAL if arm == goal else _to(0)
    return rows


def _task(rows: Rows, moved: Task | None = None) -> Task:
    return Task(outcomes=tuple(tuple(row) for row in rows), moved=moved)
