"""Exploration in tables: closed forms for random walkers, the theorem's bound, the command."""

import json

import numpy as np
import pytest

from discover_rl import theory
from discover_rl.commands.theory import sentences
from discover_rl.theory import Cell, Task
from tests.test_cli import discover, files


def counts(task: Task, strategy: str, seeds: int, cap: int = 10**6) -> np.ndarray:
    rngs = [np.random.default_rng([7, seed]) for seed in range(seeds)]
    found = [theory.count(task, strategy, rng, cap) for rng in rngs]
    assert None not in found
    return np.array(found, float)


def assert_mean(sample: np.ndarray, expected: float) -> None:
    """Within four standard errors, and those are small enough to tell."""
    error = sample.std() / len(sample) ** 0.5
    assert error < 0.1 * expected
    assert abs(sample.mean() - expected) < 4 * error


def expected_on_chain(forward: int) -> float:
    """Actions of a random walker until every value of a chain of N forward moves is true.

    To stand on position k, from the start, takes 2^(k+1) − 2 actions: k heads in a row. First the
    goal must be reached, k = N; it pays, so the last state's value is true, and the walker is back
    at the start. Then values become true one by one from the end: that of state N − j when the
    walker next moves from it to N − j + 1. For j = 2 that takes 2^N − 2. After it, the walker
    stands on N − j + 1 and has to come back to the start before it can make the next such move:
    that takes T(p) = 1 + T(p + 1)/2 from p, with T(N) = 0, so T(p) = 2 − 2^(1 − N + p). Then
    2^(N − j + 2) − 2 for j = 3 … N. The sum of all is 2^(N+2) − 10 + 2^(3−N).
    """
    return 2 ** (forward + 2) - 10 + 2.0 ** (3 - forward)


@pytest.mark.parametrize("states", [2, 3, 4, 6, 9])
def test_a_random_walker_on_the_chain_needs_what_was_derived(states):
    sample = counts(theory.chain(states), "random", 600)
    assert_mean(sample, expected_on_chain(states - 1))


def test_the_sum_is_the_sum_of_its_parts():
    for n in range(2, 12):
        parts = [2 ** (n + 1) - 2, 2**n - 2]
        parts += [2 - 2 ** (1 - (j - 2)) + 2 ** (n - j + 2) - 2 for j in range(3, n + 1)]
        assert sum(parts) == pytest.approx(expected_on_chain(n))


def test_a_random_walker_with_drift_finds_the_goal_late():
    """From i to i + 1 takes h(i) = 3 + 2 h(i − 1), h(0) = 3 actions, so h(i) = 3 (2^(i+1) − 1); to
    the goal, N steps away, it is 3 (2^(N+1) − 2 − N). A walker that has reached it knows the value
    of the last state and of no other."""
    task, forward = theory.drift(7), 6
    found = []
    for seed in range(600):
        table = theory.Table(task)
        draws = iter(np.random.default_rng([3, seed]).random(50_000).tolist())
        choose, state, actions = theory.random(table, draws), 0, 0
        while table.value[-1] == 0.0:
            state = table.act(state, choose(state))
            actions += 1
        assert (state, table.wrong) == (0, forward - 1)
        found.append(actions)
    assert_mean(np.array(found, float), 3 * (2 ** (forward + 1) - 2 - forward))


def test_true_values_are_those_of_the_shortest_way():
    for make in (theory.chain, theory.drift):
        table = theory.Table(make(5))
        np.testing.assert_allclose(table.truth, 0.95 ** np.arange(3, -1, -1))


def test_values_grow_and_the_policy_found_is_optimal():
    task = theory.drift(6)
    for name, make in theory.STRATEGIES.items():
        table = theory.Table(task)
        draws = iter(np.random.default_rng(1).random(100_000).tolist())
        choose, state = make(table, draws), 0
        while table.wrong:
            before = [list(row) for row in table.q]
            state = table.act(state, choose(state))
            assert all(np.greater_equal(table.q, before).ravel()), name
        assert table.value == table.truth, name
        for row in table.q:
            assert [i for i, q in enumerate(row) if q == max(row)] == [0], name


def test_what_a_state_says_is_followed_and_ties_are_drawn():
    table = theory.Table(theory.drift(4))
    table.q[1], table.errors[1] = [0.0, 0.5, 0.2], [0.1, 0.0, 0.3]
    table.errors[2] = [0.2, 0.0, 0.2]
    shares = {}
    for name in ("random", "epsilon", "local"):
        draws = iter(np.random.default_rng(2).random(50_000).tolist())
        choose = theory.STRATEGIES[name](table, draws)
        for state in (0, 1, 2):
            chosen = [choose(state) for _ in range(5000)]
            shares[name, state] = np.bincount(chosen, minlength=3) / 5000
    third = [1 / 3] * 3
    expected = {(name, state): third for name in ("random", "epsilon") for state in (0, 1, 2)}
    expected["epsilon", 1] = [0.1 / 3, 0.9 + 0.1 / 3, 0.1 / 3]
    expected |= {("local", 0): third, ("local", 1): [0, 0, 1], ("local", 2): [0.5, 0, 0.5]}
    for cell, share in expected.items():
        np.testing.assert_allclose(shares[cell], share, atol=0.025, err_msg=str(cell))


def test_directed_by_hand():
    """A chain of three states. At state 0 both actions are new: back, on; or on at once, and back
    later, as it is the nearest that is new when the walker is next there. At state 1 both are new,
    too. With on first, the goal is found, and the way to state 1's back makes state 0's value true:
    on, on, back, on in some order, 4 actions. With back first, it takes on, on to the goal and one
    more on for state 0, whose error is the only one: on, back, back, on, on, on, 6 actions."""
    sample = counts(theory.chain(3), "directed", 400)
    assert set(sample) == {4, 6}
    assert_mean(sample, 5)


@pytest.mark.parametrize("task", theory.TASKS)
@pytest.mark.parametrize("states", [2, 3, 5, 8, 13, 21, 34])
def test_directed_exploration_keeps_the_bound(task, states):
    made = theory.TASKS[task](states)
    sample = counts(made, "directed", 10)
    assert sample.max() <= made.bound
    # What was never tried is at most n steps away, and so is every error after it.
    pairs = made.goal * len(made.after[0])
    assert sample.max() <= (pairs + made.goal) * states


def test_the_bound_is_the_papers():
    """d = 2 actions, m = 3 · 2 pairs, n = 4 states: (4 · 6 + 36) · 16."""
    assert theory.chain(4).bound == 960
    assert theory.drift(4).bound == (9 * 9 + 81) * 16


def test_directed_needs_fewer_and_local_does_not():
    task = theory.chain(10)
    means = {name: counts(task, name, 40).mean() for name in theory.STRATEGIES}
    assert means["directed"] < means["random"] / 8
    for name in ("epsilon", "local"):
        assert means["random"] / 2 < means[name] < means["random"] * 2


def test_fits_find_the_growth_that_is_there():
    cells = [Cell(n, (3 * 2**n,), 0) for n in (4, 6, 8, 10)]
    fitted = theory.fit(cells)
    assert fitted is not None
    assert fitted.exponential
    assert fitted[:3] == pytest.approx((4, 1.0, 0.0))
    fitted = theory.fit([Cell(n, (5 * n**3,), 0) for n in (4, 6, 8, 10)])
    assert fitted is not None
    assert not fitted.exponential
    assert fitted[3:] == pytest.approx((3.0, 0.0))
    assert theory.fit([*cells[:2], Cell(8, (None,), 0)]) is None


def test_what_meets_the_cap_is_kept_and_said():
    cells = theory.measure("chain", "random", [12, 4, 8, 20], seeds=5, cap=300)
    assert [cell.states for cell in cells][:2] == [4, 8]
    last = cells[-1]
    assert last.states in (8, 12)
    assert last.median is None
    assert last.censored == last.actions.count(None) >= 3
    assert all(cell.median is not None for cell in cells[:-1])
    assert Cell(4, (1, 2, 3, None, None), 0).quantile(0.5) == 3
    assert Cell(4, (1, 2, 3, None, None), 0).quantile(0.75) is None


def test_what_is_said_is_what_was_measured():
    def cells(*medians):
        return [Cell(n, (it,), 100) for n, it in zip((4, 8), medians, strict=True)]

    measured = {
        task: {"random": cells(20, 400), "local": cells(10, 300), "directed": cells(*directed)}
        for task, directed in {"chain": (30, 40), "drift": (5, 6)}.items()
    }
    said = " ".join(sentences(measured))
    assert "Chain with resets, 8 states, medians: random 400, largest TD error" in said
    assert "of the present state 300, anywhere 40." in said
    assert "in 3 of 4 sizes" in said
    assert "at most 40.0% of the bound" in said
    assert "under that bound, too, in 2 of them" in said


SMALL = ["theory", "--states", "10", "--seeds", "3", "--cap", "1000", "--out"]


@pytest.mark.slow
def test_the_command_writes_and_says_the_same_every_time(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    told = []
    for _ in range(2):
        assert discover(*SMALL, "out") == 0
        told.append((capfd.readouterr().out, files(tmp_path / "out")))
    assert told[0] == told[1]
    assert told[0][1].keys() == {"theory.png", "theory.svg", "theory.json"}
    assert "Drift away from the goal" in told[0][0]
    content = json.loads(told[0][1]["theory.json"])
    assert content["settings"]["sizes"] == [4, 6, 8, 10]
    results = {(it["task"], it["strategy"]): it for it in content["results"]}
    assert results.keys() == {(task, name) for task in theory.TASKS for name in theory.STRATEGIES}
    capped = results["drift", "random"]
    last = capped["cells"][-1]
    assert last["censored"] >= 2
    assert last["quartiles"][1] is None
    assert [it["states"] for it in capped["cells"]] + capped["not_tried"] == [4, 6, 8, 10]
    assert f"{last['states']}: {last['censored']}" in told[0][0]
    assert results["chain", "directed"]["fit"]["exponent"] < 3
