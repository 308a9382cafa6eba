"""Kinds of exploration in a table.

Two are undirected:

- `random`: all actions alike.
- `epsilon`: the greatest Q, ties at random; with probability ε any action.

The others are directed by the TD error δ, by novelty, or by both:

- `local`: the action of *this* state whose |δ|, when it was last taken, is largest; ∞ if it was
  never taken. DISCOVER's explorer, too, looks at its present state only.
- An *exploration value* Q_x(s, a), learned without a model from what happens, beside Q. After
  action a in state s, with the TD error δ and the successor s′,

      r_x = max(w_e |δ|, w_c / N(s, a)),        N: how often the pair was taken, this time included
      y_x = max(r_x, γ_x max_a′ Q_x(s′, a′)),   or the sum of the two,
      Q_x(s, a) ← (1 − α_x) Q_x(s, a) + α_x y_x,

  and the agent takes the action with the greatest Q_x, ties at random. Q_x looks past the ends of
  episodes: then s′ is the start. The initial Q_x is what the agent expects of a pair that was never
  taken. No TD error is above 1, so 1 is the largest possible value, and starting there is optimism;
  starting at 0 is none. Five of these, w_e / w_c / start:

  - `errors`, 1 / 0 / 0: a value of errors without optimism (SEE's idea);
  - `optimism`, 1 / 0 / 1: a value of errors with optimism;
  - `novelty`, 0 / 0 / 1: a value of novelty, 1 for a pair never taken and 0 afterwards; errors are
    left out;
  - `counts`, 0 / 1 / 1: a value of novelty that fades with each visit;
  - `both`, 1 / 1 / 1: a value of errors and of novelty that fades.

  `optimism` also is the value of errors *and* of novelty that is 1 once: with the maximum and a
  table, what was never taken is known exactly, and an optimistic start is that novelty.
- `planner`: what the theorem's proof assumes. The agent keeps a model, the last outcome of each
  pair, and walks by the shortest known path to the pair with the largest TD error *anywhere*: |δ|
  by the model and the present values, ∞ for a pair never taken. It learns on the way, too.
- `planner-novelty`: the same to the nearest pair that was never taken; errors are left out. When
  there is no such pair, it acts at random.
- `planner-counts`: the same to the pair with the largest 1 / N(s, a), and `planner-both` to that
  with the largest of |δ| and 1 / N(s, a). A pair that was never taken comes first here, too.

Variants that differ in one setting: `errors-epsilon` is `errors` with any action at probability ε;
`optimism-rate` is `optimism` with α_x = 0.5, `optimism-gamma` with γ_x = 0.95, `optimism-sum`
with the sum in y_x, of which the largest possible value is 1 / (1 − γ_x). `optimism-replay`,
`counts-replay` and `both-replay` learn Q_x, and not Q, 40 times more after each action: from pairs
that were taken, drawn at random, with their last outcome and their |δ| by the present values.

What the paper leaves open, and what `planner` does: the TD error of what was never taken (∞, so the
unknown comes first, as in the proof); whether errors are remembered or computed anew (anew, or
those that a change of values causes elsewhere would be missed); how the agent gets there (by a
shortest path); ties (the nearest, then at random).
"""

from __future__ import annotations

from typing import NamedTuple

from discover_rl.analysis.theory.learning import Agent, Draw, Policy, Table, filled
from discover_rl.analysis.theory.tasks import Outcome

EPSILON = 0.1
"""The probability of any action, where there is one."""
GAMMA_X = 0.99
"""The discount of exploration values."""
REPLAYS = 40
"""How often Q_x learns from what happened before, after each action, where it does."""
INFINITY = float("inf")
"""The TD error of a pair that was never taken."""


def random(table: Table, draw: Draw) -> Policy:
    """All actions with the same probability."""
    actions = len(table.q[0])
    return Policy(choose=lambda _: int(draw() * actions))


def epsilon(table: Table, draw: Draw) -> Policy:
    """The greatest Q; with probability ε any action."""
    return Policy(scores=table.q, epsilon=EPSILON)


def local(table: Table, draw: Draw) -> Policy:
    """The largest |δ| of this state's actions, when last taken."""
    errors = filled(len(table.q), len(table.q[0]), INFINITY)

    def observe(state: int, action: int, error: float, outcome: Outcome) -> None:
        errors[state][action] = error

    return Policy(scores=errors, observe=observe)


class Value(NamedTuple):
    """An agent that acts by an exploration value Q_x.

    Attributes:
        errors: w_e, the weight of |δ|.
        counts: w_c, the weight of 1 / N(s, a).
        start: Q_x of a pair that was never taken.
        discount: γ_x.
        rate: α_x, the learning rate.
        total: Whether y_x is a sum, in place of a maximum.
        epsilon: The probability of taking any action, whatever Q_x.
        replays: How many pairs Q_x learns from again, after each action.
    """

    errors: float = 1.0
    counts: float = 0.0
    start: float = 1.0
    discount: float = GAMMA_X
    rate: float = 1.0
    total: bool = False
    epsilon: float = 0.0
    replays: int = 0

    def __call__(self, table: Table, draw: Draw) -> Policy:
        """A policy with a Q_x of its own."""
        weight, counts, start, discount, rate, total, epsilon, replays = self
        states, actions, kept = len(table.q), len(table.q[0]), 1.0 - rate
        qx, visits = filled(states, actions, start), filled(states, actions, 0.0)
        last: dict[tuple[int, int], Outcome] = {}
        taken: list[tuple[int, int]] = []  # the keys of `last`, in order

        def learn(state: int, action: int, error: float, outcome: Outcome) -> None:
            reward = weight * error
            if counts:
                reward = max(reward, counts / visits[state][action])
            ahead = discount * max(qx[outcome[2]])
            larger = reward if reward > ahead else ahead
            target = reward + ahead if total else larger
            row = qx[state]
            row[action] = kept * row[action] + rate * target

        def observe(state: int, action: int, error: float, outcome: Outcome) -> None:
            visits[state][action] += 1.0
            learn(state, action, error, outcome)
            if not replays:
                return
            if (state, action) not in last:
                taken.append((state, action))
            last[state, action] = outcome
            for _ in range(replays):
                pair = taken[int(draw() * len(taken))]
                learn(*pair, _error(table, *pair, last[pair]), last[pair])

        return Policy(scores=qx, epsilon=epsilon, observe=observe)


class Planner(NamedTuple):
    """An agent that takes the shortest known path to the largest score anywhere: ∞ for a pair that
    was never taken, and for others the larger one of the two below.

    When all scores are 0 it acts at random.

    Attributes:
        errors: The weight of |δ|.
        counts: The weight of 1 / N(s, a).
    """

    errors: float = 1.0
    counts: float = 0.0

    def __call__(self, table: Table, draw: Draw) -> Policy:
        """A policy with a model of its own."""
        weight, counts = self
        states, actions = len(table.q), len(table.q[0])
        model: Model = [[None] * actions for _ in range(states)]
        scores, visits = filled(states, actions, INFINITY), filled(states, actions, 0.0)
        into: list[set[tuple[int, int]]] = [set() for _ in range(states)]  # what leads to a state
        path: list[int] = []  # actions, the last one first
        any_left = True  # False: all scores are 0, until something changes

        def choose(state: int) -> int:
            nonlocal any_left
            if not path and any_left:
                largest, found = _path_to_largest(model, scores, state, draw)
                path.extend(found)
                any_left = largest > 0.0
            return path.pop() if path else int(draw() * actions)

        def score(state: int, action: int) -> None:
            outcome = model[state][action]
            assert outcome is not None
            error = weight * _error(table, state, action, outcome) if weight else 0.0
            scores[state][action] = max(error, counts / visits[state][action])

        def observe(state: int, action: int, error: float, outcome: Outcome) -> None:
            nonlocal any_left
            before = model[state][action]
            if before is None or before != outcome:
                any_left = any_left or before is None or weight > 0.0
                if before is not None:
                    into[before.successor].discard((state, action))
                into[outcome.successor].add((state, action))
                model[state][action] = outcome
            visits[state][action] += 1.0
            score(state, action)
            if weight and error:  # the state's value may have changed
                any_left = True
                for pair in into[state]:
                    score(*pair)

        return Policy(choose=choose, observe=observe)


Model = list[list[Outcome | None]]
"""The last outcome of each state and action; None if it was never taken."""


def _error(table: Table, state: int, action: int, outcome: Outcome) -> float:
    """|δ| of an outcome, by the present values."""
    reward, discount, successor = outcome
    return abs(reward + discount * table.value[successor] - table.q[state][action])


def _path_to_largest(
    model: Model, scores: list[list[float]], start: int, draw: Draw
) -> tuple[float, list[int]]:
    """Find the largest score by the model, and the shortest path to it.

    Returns:
        The score, and the actions up to and including the one that has it, the last one first.
    """
    came: dict[int, tuple[int, int]] = {}  # from which state, by which action
    depth = {start: 0}
    top = max(map(max, scores))
    largest, nearest, ties = -1.0, 0, []
    for state in (queue := [start]):  # nearest first
        here = depth[state]
        if largest == top and here > nearest:
            break  # no score is larger, and none as large is nearer
        for action, outcome in enumerate(model[state]):
            score = scores[state][action]
            if outcome is not None and outcome[2] not in depth:
                successor = outcome[2]
                came[successor], depth[successor] = (state, action), here + 1
                queue.append(successor)
            if score > largest:
                largest, nearest, ties = score, here, [(state, action)]
            elif score == largest and here == nearest:
                ties.append((state, action))
    state, action = ties[int(draw() * len(ties))]
    path = [action]
    while state != start:
        state, action = came[state]
        path.append(action)
    return largest, path


AGENTS: dict[str, Agent] = {
    "random": random,
    "epsilon": epsilon,
    "local": local,
    "errors": Value(start=0.0),
    "optimism": Value(),
    "novelty": Value(errors=0.0),
    "counts": Value(errors=0.0, counts=1.0),
    "both": Value(counts=1.0),
    "planner": Planner(),
    "planner-novelty": Planner(errors=0.0),
    "planner-counts": Planner(errors=0.0, counts=1.0),
    "planner-both": Planner(counts=1.0),
}
"""The agents, by name."""
VARIANTS: dict[str, Agent] = {
    "errors-epsilon": Value(start=0.0, epsilon=EPSILON),
    "optimism-rate": Value(rate=0.5),
    "optimism-gamma": Value(discount=0.95),
    "optimism-sum": Value(total=True, start=1.0 / (1.0 - GAMMA_X)),
    "optimism-replay": Value(replays=REPLAYS),
    "counts-replay": Value(errors=0.0, counts=1.0, replays=REPLAYS),
    "both-replay": Value(counts=1.0, replays=REPLAYS),
}
"""The same agents with one other setting each, by name."""
