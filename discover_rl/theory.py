"""How many actions until the policy is optimal: undirected exploration against maximum TD error.

The setting of Theorem 1 and Corollary 1 of the DISCOVER paper, in tables: a finite deterministic
task with a goal; reward 1 for reaching it, 0 otherwise; then the walker is put back at the start,
which costs no action. Q-learning with learning rate 1 from Q = 0,

    δ = r + γ max Q(s′, ·) − Q(s, a),    Q(s, a) ← Q(s, a) + δ,

so values only grow, and are never above the true ones. An optimal policy counts as found when every
state has its true value: then whatever action is greatest is best, in every state.

Four ways to choose the next action:

- `random`: all alike.
- `epsilon`: the greatest Q, ties at random; with probability ε at random.
- `local`: the action of *this* state whose TD error, |δ| when it was last tried, is largest; ∞ for
  one never tried; ties at random.
- `directed`: what the theorem's proof assumes. The agent keeps a model of what it saw and goes, by
  the shortest known way, to the state and action that has the largest TD error *anywhere*, |δ| by
  the model and the present values; ∞ for one never tried. It learns on the way, too.

What the paper leaves open, and what `directed` does: the TD error of what was never tried (∞, so
the unknown comes first, as the proof has it); whether errors are remembered or computed anew (anew,
or those that a change of values brings about elsewhere would be missed); how the agent gets there
(a shortest way); ties (the nearest, then at random). `d`, in the theorem the cost of an iteration
of TD learning, is the number of actions, over which the maximum is taken; `m`, what is unknown, is
all states but the goal times actions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

GAMMA = 0.95
EPSILON = 0.1
SIZES = (4, 6, 8, 10, 12, 14, 16, 24, 32, 48, 64)


class Task(NamedTuple):
    """A deterministic task: where each action leads. The goal is the last state."""

    after: tuple[tuple[int, ...], ...]  # per state but the goal, per action

    @property
    def goal(self) -> int:
        return len(self.after)

    @property
    def bound(self) -> int:
        """(d² m + m²) n², Theorem 1's bound with 1 for the constant that it leaves open."""
        states, actions = self.goal + 1, len(self.after[0])
        unknown = self.goal * actions
        return (actions**2 * unknown + unknown**2) * states**2


def chain(states: int) -> Task:
    """A chain with resets: one action leads on, the other back to the start."""
    return Task(tuple((i + 1, 0) for i in range(states - 1)))


def drift(states: int) -> Task:
    """Whitehead's kind of task: every step can be taken back, but more actions lead away from the
    goal than towards it. Of three, one leads a step on and two lead a step back."""
    return Task(tuple((i + 1, max(i - 1, 0), max(i - 1, 0)) for i in range(states - 1)))


TASKS: dict[str, Callable[[int], Task]] = {"chain": chain, "drift": drift}


class Table:
    """Q-learning in a table, and what else an agent can remember."""

    def __init__(self, task: Task):
        self.task = task
        sizes = [len(row) for row in task.after]
        self.q = [[0.0] * size for size in sizes]
        self.value = [0.0] * task.goal
        self.errors = [[float("inf")] * size for size in sizes]
        """|δ| when it was last tried."""
        self.model: list[list[int | None]] = [[None] * size for size in sizes]
        """Where it led."""
        self.truth = _values(task)
        self.wrong = task.goal
        """How many states do not have their true value yet."""

    def target(self, after: int) -> float:
        return 1.0 if after == self.task.goal else GAMMA * self.value[after]

    def act(self, state: int, action: int) -> int:
        """Take an action and learn from it; where the walker stands then."""
        after = self.task.after[state][action]
        target = self.target(after)
        self.errors[state][action] = abs(target - self.q[state][action])
        self.model[state][action] = after
        self.q[state][action] = target
        if target > self.value[state]:
            self.value[state] = target
            self.wrong -= target == self.truth[state]
        return self.place(after)

    def place(self, after: int) -> int:
        """From the goal it goes on at the start."""
        return 0 if after == self.task.goal else after


def _values(task: Task) -> list[float]:
    """True values, from the goal backwards and rounded as learning rounds them."""
    values = [0.0] * task.goal
    while True:
        targets = [
            max(1.0 if after == task.goal else GAMMA * values[after] for after in row)
            for row in task.after
        ]
        if targets == values:
            return values
        values = targets


Choose = Callable[[int], int]


def random(table: Table, draws: Iterator[float]) -> Choose:
    def choose(state: int) -> int:
        return int(next(draws) * len(table.q[state]))

    return choose


def epsilon(table: Table, draws: Iterator[float]) -> Choose:
    def choose(state: int) -> int:
        if next(draws) < EPSILON:
            return int(next(draws) * len(table.q[state]))
        return _largest(table.q[state], draws)

    return choose


def local(table: Table, draws: Iterator[float]) -> Choose:
    def choose(state: int) -> int:
        return _largest(table.errors[state], draws)

    return choose


def directed(table: Table, draws: Iterator[float]) -> Choose:
    way: list[int] = []  # last action first

    def choose(state: int) -> int:
        if not way:
            way.extend(_way_to_largest(table, state, draws))
        return way.pop()

    return choose


def _largest(numbers: list[float], draws: Iterator[float]) -> int:
    most = max(numbers)
    ties = numbers.count(most)
    if ties == len(numbers):  # no list is made where all are alike, which is most of the time
        return int(next(draws) * ties)
    return _one_of([i for i, number in enumerate(numbers) if number == most], draws)


def _one_of(members: list, draws: Iterator[float]) -> Any:
    return members[int(next(draws) * len(members))]


def _way_to_largest(table: Table, start: int, draws: Iterator[float]) -> list[int]:
    """The shortest known way to the largest TD error, and the action that has it; last first."""
    came: dict[int, tuple[int, int]] = {}  # from which state, by which action
    depth = {start: 0}
    found: dict[tuple[float, int], list[tuple[int, int]]] = {}
    for state in (queue := [start]):  # nearest first
        for action, after in enumerate(table.model[state]):
            error = float("inf")
            if after is not None:
                error = abs(table.target(after) - table.q[state][action])
                place = table.place(after)
                if place not in depth:
                    came[place], depth[place] = (state, action), depth[state] + 1
                    queue.append(place)
            found.setdefault((error, -depth[state]), []).append((state, action))
    state, action = _one_of(found[max(found)], draws)
    way = [action]
    while state != start:
        state, action = came[state]
        way.append(action)
    return way


STRATEGIES: dict[str, Callable[[Table, Iterator[float]], Choose]] = {
    "random": random,
    "epsilon": epsilon,
    "local": local,
    "directed": directed,
}


def count(task: Task, strategy: str, rng: np.random.Generator, cap: int) -> int | None:
    """Actions until every value is true; None if that takes more than the cap."""
    table = Table(task)
    blocks = (rng.random(1024).tolist() for _ in itertools.count())
    choose = STRATEGIES[strategy](table, itertools.chain.from_iterable(blocks))
    state = 0
    for actions in range(1, cap + 1):
        state = table.act(state, choose(state))
        if not table.wrong:
            return actions
    return None


class Cell(NamedTuple):
    """Actions of all seeds for one task, strategy and size, in order of size; None is the cap."""

    states: int
    actions: tuple[int | None, ...]
    bound: int

    def quantile(self, share: float) -> int | None:
        """Of the seeds, and one of their numbers. Capped ones come last: None is beyond the cap."""
        return self.actions[round(share * (len(self.actions) - 1))]

    @property
    def median(self) -> int | None:
        return self.quantile(0.5)

    @property
    def censored(self) -> int:
        return self.actions.count(None)


class Fit(NamedTuple):
    """Least squares through the logarithms of medians, as an exponential and as a power."""

    cells: int
    doublings: float
    """Per state, of the exponential: log₂ actions = doublings · n + …"""
    exponential_error: float
    """Root of its mean squared distance, in doublings."""
    exponent: float
    """Of the power: log₂ actions = exponent · log₂ n + …"""
    power_error: float

    @property
    def exponential(self) -> bool:
        """Whether the exponential lies closer."""
        return self.exponential_error < self.power_error


def measure(
    task: str, strategy: str, sizes: Sequence[int], seeds: int, cap: int, seed: int = 0
) -> list[Cell]:
    """A cell per size, in rising order. Once so many seeds meet the cap that there is no median,
    larger sizes are not tried."""
    cells = []
    for states in sorted(sizes):
        made = TASKS[task](states)
        rngs = [np.random.default_rng([seed, states, i]) for i in range(seeds)]
        counts = [count(made, strategy, rng, cap) for rng in rngs]
        known = sorted(actions for actions in counts if actions is not None)
        cells.append(Cell(states, (*known, *[None] * (seeds - len(known))), made.bound))
        if cells[-1].median is None:
            break
    return cells


def fit(cells: Sequence[Cell]) -> Fit | None:
    """Of the cells that have a median; None for fewer than three, through which anything goes."""
    points = [(cell.states, cell.median) for cell in cells if cell.median is not None]
    if len(points) < 3:
        return None
    states, actions = np.array(points, float).T
    lines = [_line(x, np.log2(actions)) for x in (states, np.log2(states))]
    return Fit(len(points), *lines[0], *lines[1])


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope of the least squares line, and the root of the mean squared distance from it."""
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    rest = y - y.mean() - slope * (x - x.mean())
    return float(slope), float(np.sqrt((rest**2).mean()))
