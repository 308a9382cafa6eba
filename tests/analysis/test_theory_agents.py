"""Exploration in tables: cases worked by hand, and slow references that agree to the bit."""

import numpy as np
import pytest

from discover_rl.analysis.theory import AGENTS, TASKS, VARIANTS, Task, Value, count
from discover_rl.analysis.theory.learning import empty, uniform, until_optimal
from discover_rl.analysis.theory.tasks import Outcome, chain, drift, noisy

EXPLORERS = AGENTS | VARIANTS
VALUES = {name: agent for name, agent in EXPLORERS.items() if isinstance(agent, Value)}
ONE_STEP = [name for name, agent in VALUES.items() if not agent.replays]


def counts(task: Task, agent: str, seeds: int, cap: int = 10**6) -> np.ndarray:
    """Actions that an agent needs on a task, one number per seed."""
    rngs = [np.random.default_rng([7, seed]) for seed in range(seeds)]
    found = [count(task, EXPLORERS[agent], rng, cap) for rng in rngs]
    assert None not in found
    return np.array(found, float)


def assert_mean(sample: np.ndarray, expected: float) -> None:
    """Within four standard errors, and those are small enough to tell."""
    error = sample.std() / len(sample) ** 0.5
    assert error < 0.1 * expected
    assert abs(sample.mean() - expected) < 4 * error


# By hand


def expected_on_chain(forward: int) -> float:
    """Actions of random exploration until every value of a chain of N forward moves is true.

    To reach position k, from the start, takes 2^(k+1) − 2 actions: k heads in a row. First the
    goal must be reached, k = N; it pays, so the last state's value is true, and the agent is back
    at the start. Then values become true one by one from the end: that of state N − j when the
    agent next moves from it to N − j + 1. For j = 2 that takes 2^N − 2. After it, the agent
    is at N − j + 1 and has to come back to the start before it can make the next such move:
    that takes T(p) = 1 + T(p + 1)/2 from p, with T(N) = 0, so T(p) = 2 − 2^(1 − N + p). Then
    2^(N − j + 2) − 2 for j = 3 … N. The sum of all is 2^(N+2) − 10 + 2^(3−N).
    """
    return 2 ** (forward + 2) - 10 + 2.0 ** (3 - forward)


@pytest.mark.parametrize("states", [2, 3, 4, 6, 9])
def test_random_exploration_of_the_chain_needs_what_was_derived(states):
    assert_mean(counts(chain(states), "random", 600), expected_on_chain(states - 1))


def test_the_sum_is_the_sum_of_its_parts():
    for n in range(2, 12):
        parts = [2 ** (n + 1) - 2, 2**n - 2]
        parts += [2 - 2 ** (1 - (j - 2)) + 2 ** (n - j + 2) - 2 for j in range(3, n + 1)]
        assert sum(parts) == pytest.approx(expected_on_chain(n))


def test_random_exploration_with_drift_finds_the_goal_late():
    """From i to i + 1 takes h(i) = 3 + 2 h(i − 1), h(0) = 3 actions, so h(i) = 3 (2^(i+1) − 1); to
    the goal, N steps away, it is 3 (2^(N+1) − 2 − N)."""
    task, forward, found = drift(7), 6, []
    for seed in range(600):
        table, draw = empty(task), uniform(np.random.default_rng([3, seed]))
        policy, state, actions = AGENTS["random"](table, draw), 0, 0
        while table.value[-1] == 0.0:
            _, state = until_optimal(task, table, policy, draw, cap=1, state=state)
            actions += 1
        assert state == 0
        found.append(actions)
    assert_mean(np.array(found, float), 3 * (2 ** (forward + 1) - 2 - forward))


# Without optimism nothing tells "stay" from "on" before the goal: heads come at last.
HEADS = {1: 1 / 2, 2: 1 / 4, 3: 1 / 8, 4: 1 / 16}
# "Stay" is taken once, at most: then "on", never taken, is worth more.
ONCE = {1: 1 / 2, 2: 1 / 2}
# The first visit is worth 1/1 still: a second tie.
TWICE = {1: 1 / 2, 2: 1 / 4, 3: 1 / 4}
ONE_STATE = {"random": HEADS, "errors": HEADS, "counts": TWICE, "both": TWICE, "local": ONCE}
ONE_STATE |= {"planner-counts": ONCE, "planner-both": ONCE, "optimism-replay": ONCE}
ONE_STATE |= {"optimism": ONCE, "novelty": ONCE, "optimism-rate": ONCE, "optimism-sum": ONCE}
ONE_STATE |= {"planner": ONCE, "planner-novelty": ONCE}


@pytest.mark.parametrize("agent", ONE_STATE)
def test_one_state_by_hand(agent):
    sample = counts(chain(2), agent, 1500)
    for actions, share in ONE_STATE[agent].items():
        assert (sample == actions).mean() == pytest.approx(share, abs=0.05)
    if ONE_STATE[agent] is not HEADS:
        assert set(sample) == set(ONE_STATE[agent])


@pytest.mark.parametrize("agent", ["optimism", "novelty"])
def test_values_with_optimism_by_hand(agent):
    """A chain of three states, "on" and "back" in states 0 and 1. Let g = γ_x.

    - "on", "on" (1/4): the goal. Then "back" of 0 is new, after which both of 0 are worth g: "on"
      at once (4 actions), or after another "back", now worth g² (5).
    - "back", "on", "on" (1/4): the same from the other side: 4 or 5.
    - "on", "back", then "back" of 0; or "back", "on", "back" (1/2 together). Both of 0 are worth g.
      "Back" once more (1/2) makes it g², so then only "on": "on", "on", "on" are 7. "On" at once:
      "on" to the goal, and again a tie: 6 or 7.
    """
    sample = counts(chain(3), agent, 3000)
    assert set(sample) == {4, 5, 6, 7}
    for actions, share in {4: 1 / 4, 5: 1 / 4, 6: 1 / 8, 7: 3 / 8}.items():
        assert (sample == actions).mean() == pytest.approx(share, abs=0.035)


def test_the_planner_by_hand():
    """A chain of three states. At state 0 both actions are new: back, on; or on at once, and back
    later, as it is the nearest that is new when the agent is next there. At state 1 both are new,
    too. With on first, the goal is found, and the path to state 1's back makes state 0's value
    true: on, on, back, on in some order, 4 actions. With back first, it takes on, on to the goal
    and one more on for state 0, whose error is the only one: 6 actions."""
    sample = counts(chain(3), "planner", 400)
    assert set(sample) == {4, 6}
    assert_mean(sample, 5)


def test_scores_are_followed_and_ties_are_drawn():
    task = drift(4)
    shares = {}
    for agent in ("random", "epsilon", "local", "errors"):
        table, draw = empty(task), uniform(np.random.default_rng(2))
        policy = AGENTS[agent](table, draw)
        taken = np.zeros((3, 3))
        for state in (0, 1, 2):
            for _ in range(3000):
                for row in range(3):  # undo what was learned: only the choice is tested
                    table.q[row][:] = [[0.0] * 3, [0.0, 0.5, 0.2], [0.2, 0.0, 0.2]][row]
                    if policy.scores is not None:
                        policy.scores[row][:] = table.q[row]
                _, after = until_optimal(task, table, policy, draw, cap=1, state=state)
                successors = [outcomes[0].successor for outcomes in task.outcomes[state]]
                moved = {successor: action for action, successor in enumerate(successors)}
                taken[state, moved[after]] += 1
        shares[agent] = taken / 3000
    # Actions 1 and 2 lead to the same state, so they are counted together, as 2.
    third, tenth = [1 / 3, 0, 2 / 3], 0.1 / 3
    for agent, expected in {
        "random": [third, third, third],
        "epsilon": [third, [tenth, 0, 1 - tenth], [0.45 + tenth, 0, 0.55 - tenth]],
        "local": [third, [0, 0, 1], [0.5, 0, 0.5]],
        "errors": [third, [0, 0, 1], [0.5, 0, 0.5]],
    }.items():
        np.testing.assert_allclose(shares[agent], expected, atol=0.035, err_msg=agent)


# References


def reference_values(agent: Value, transitions, states: int, actions: int) -> np.ndarray:
    """Q_x as its equations say, with arrays."""
    qx = np.full((states, actions), agent.start)
    visits = np.zeros((states, actions))
    for state, action, error, successor in transitions:
        visits[state, action] += 1
        reward = np.maximum(
            agent.errors * error, agent.counts / visits[state, action] if agent.counts else 0.0
        )
        ahead = agent.discount * qx[successor].max()
        target = reward + ahead if agent.total else np.maximum(reward, ahead)
        qx[state, action] = (1 - agent.rate) * qx[state, action] + agent.rate * target
    return qx


def random_transitions(states: int, actions: int, number: int):
    rng = np.random.default_rng(4)
    errors = rng.random(number) * (rng.random(number) < 0.3)
    draws = (rng.integers(top, size=number).tolist() for top in (states, actions, states))
    return [
        (state, action, error, successor)
        for state, action, successor, error in zip(*draws, errors.tolist(), strict=True)
    ]


def scores_after(agent: Value, transitions, task: Task) -> np.ndarray:
    policy = agent(empty(task), uniform(np.random.default_rng(0)))
    assert policy.observe is not None
    for state, action, error, successor in transitions:
        policy.observe(
            state, action, error, Outcome(reward=0.0, discount=0.95, successor=successor)
        )
    return np.array(policy.scores)


@pytest.mark.parametrize("agent", ONE_STEP)
def test_exploration_values_are_their_equations(agent):
    transitions = random_transitions(6, 3, 500)
    expected = reference_values(VALUES[agent], transitions, 6, 3)
    np.testing.assert_array_equal(scores_after(VALUES[agent], transitions, drift(7)), expected)


def test_optimism_is_the_larger_one_of_a_value_of_errors_and_a_value_of_novelty():
    transitions = random_transitions(6, 3, 500)
    for number in (0, 5, 50, 500):
        errors, novelty, both = (
            scores_after(VALUES[agent], transitions[:number], drift(7))
            for agent in ("errors", "novelty", "optimism")
        )
        np.testing.assert_array_equal(np.maximum(errors, novelty), both)


def reference_count(task: Task, agent: Value, rng: np.random.Generator) -> int:
    """The same count with dictionaries, checking every value after every action."""
    draws = iter(rng.random(1_000_000).tolist())
    last: dict = {}
    q = {(s, a): 0.0 for s, row in enumerate(task.outcomes) for a in range(len(row))}
    qx, visits = dict.fromkeys(q, agent.start), dict.fromkeys(q, 0)
    state, total = 0, 0
    for phase in filter(None, (task, task.moved)):
        actions, done = range(task.actions), False
        total = 0
        while not done:
            total += 1
            if agent.epsilon and next(draws) < agent.epsilon:
                action = int(next(draws) * len(actions))
            else:
                most = max(qx[state, a] for a in actions)
                best = [a for a in actions if qx[state, a] == most]
                action = best[0] if len(best) == 1 else best[int(next(draws) * len(best))]
            options = phase.outcomes[state][action]
            index = 0 if len(options) == 1 else int(next(draws) * len(options))
            reward, discount, after = options[index]
            target = reward + discount * max(q[after, a] for a in actions)
            error, q[state, action] = abs(target - q[state, action]), target
            visits[state, action] += 1
            last[state, action] = options[index]
            for replayed in range(1 + agent.replays):
                pair = (state, action) if not replayed else [*last][int(next(draws) * len(last))]
                if replayed:
                    reward, discount, to = last[pair]
                    error = abs(reward + discount * max(q[to, a] for a in actions) - q[pair])
                here = max(agent.errors * error, agent.counts / visits[pair])
                ahead = agent.discount * max(qx[last[pair][2], a] for a in actions)
                target = here + ahead if agent.total else max(here, ahead)
                qx[pair] = (1 - agent.rate) * qx[pair] + agent.rate * target
            state = after
            done = all(
                q[s, best] == phase.values[s]
                and all(q[s, a] < phase.values[s] for a in actions if a != best)
                for s, best in phase.path.items()
            )
    return total


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("agent", [name for name in VALUES if not name.startswith("errors")])
def test_counts_are_those_of_a_slow_reference(task, agent):
    made = TASKS[task](6)
    for seed in range(4):
        found = count(made, VALUES[agent], np.random.default_rng(seed), 20_000)
        assert found == reference_count(made, VALUES[agent], np.random.default_rng(seed))


# What follows


@pytest.mark.parametrize("task", ["chain", "drift", "room"])
@pytest.mark.parametrize("states", [2, 3, 5, 8, 13, 21])
def test_the_planner_keeps_the_bound(task, states):
    made = TASKS[task](states)
    sample = counts(made, "planner", 10)
    assert sample.max() <= made.bound
    # What was never taken is at most n steps away, and so is every error after it.
    rows = len(made.outcomes)
    assert sample.max() <= rows * (made.actions + 1) * made.states


def test_values_that_are_learned_never_exceed_the_true_ones_without_noise():
    task = drift(6)
    for name, agent in EXPLORERS.items():
        if name == "errors":  # which may never end
            continue
        table, draw = empty(task), uniform(np.random.default_rng(1))
        policy, state, found = agent(table, draw), 0, None
        while found is None:
            before = np.array(table.q)
            found, state = until_optimal(task, table, policy, draw, cap=1, state=state)
            assert (np.array(table.q) >= before).all(), name
            assert (np.array(table.value) <= task.values).all(), name
        assert table.value == task.values, name
        assert (np.argmax(table.q, axis=1) == 0).all(), name


def test_errors_help_where_their_value_is_known_at_once():
    """With a model, or with a Q_x that replays, news of an error is there before the value is."""
    task = drift(24)
    for agent, other in (("planner-both", "planner-counts"), ("both-replay", "counts-replay")):
        with_errors, without = (np.median(counts(task, name, 9)) for name in (agent, other))
        assert with_errors < 0.85 * without, agent


def test_errors_without_optimism_stay_where_the_first_one_was():
    """Drift of six states: what was never taken is worth 0, what was is worth more than that."""
    found = [count(drift(6), AGENTS["errors"], np.random.default_rng(i), 5000) for i in range(9)]
    assert found.count(None) > 4


def test_endless_novelty_holds_every_value_with_optimism():
    """With a new successor each time, novelty is two steps away forever: all turn back there."""
    task = noisy(10, successors=2000)
    for agent in ("optimism", "novelty", "counts", "both"):
        found = [count(task, AGENTS[agent], np.random.default_rng(i), 2000) for i in range(5)]
        assert found == [None] * 5, agent


def test_noise_holds_errors_and_not_novelty():
    task = noisy(24)
    errors, novelty = (counts(task, agent, 9) for agent in ("optimism", "novelty"))
    assert np.median(errors) > 1.5 * np.median(novelty)


@pytest.mark.parametrize("agent", EXPLORERS)
def test_a_seed_decides(agent):
    for task in TASKS:
        made = TASKS[task](6)
        twice = [count(made, EXPLORERS[agent], np.random.default_rng(5), 500) for _ in range(2)]
        assert twice[0] == twice[1]


@pytest.mark.parametrize("task", ["chain", "drift", "room"])
def test_a_value_of_errors_never_is_ahead_of_the_value(task):
    """Where Q is 0 still, so is the value of errors: both come from the same successor."""
    made = TASKS[task](6)
    table, draw = empty(made), uniform(np.random.default_rng(3))
    policy, state = AGENTS["errors"](table, draw), 0
    for _ in range(3000):
        _, state = until_optimal(made, table, policy, draw, cap=1, state=state)
        assert (np.array(table.q)[np.array(policy.scores) > 0] > 0).all()
    assert np.max(table.q) == 1.0
