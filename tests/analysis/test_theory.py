"""Exploration in tables: tasks, growth with intervals, the command."""

import json
from pathlib import Path

import numpy as np
import pytest

from discover_rl.analysis.theory import (
    AGENTS,
    TASKS,
    VARIANTS,
    Cell,
    Task,
    growth,
    measure,
    ratio,
    report,
)
from discover_rl.analysis.theory.measurement import PAIRS
from discover_rl.analysis.theory.tasks import GAMMA, Outcome, chain, drift, moving, noisy, room
from tests.cli.test_cli import discover
from tests.helpers.records import file_contents


def cell(states: int, *actions: int | None, bound: int = 0) -> Cell:
    """A cell whose seeds needed these numbers of actions; None is over the cap."""
    return Cell(states=states, actions=actions, runs=len(actions), bound=bound)


# Tasks


def iterated(task: Task) -> np.ndarray:
    """True values by value iteration with matrices."""
    states, actions = len(task.outcomes), task.actions
    moves, rewards = np.zeros((states, actions, states)), np.zeros((states, actions))
    for s, row in enumerate(task.outcomes):
        for a, outcomes in enumerate(row):
            for reward, discount, successor in outcomes:
                moves[s, a, successor] += discount / len(outcomes)
                rewards[s, a] += reward / len(outcomes)
    value = np.zeros(states)
    for _ in range(2000):
        value = (rewards + moves @ value).max(axis=1)
    return value


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("states", [4, 6, 10])
def test_true_values_are_those_of_value_iteration(task, states):
    made = TASKS[task](states)
    for phase in filter(None, (made, made.moved)):
        np.testing.assert_allclose(phase.values, iterated(phase), rtol=1e-12)


def test_true_values_are_those_of_the_shortest_path():
    for make in (chain, drift):
        np.testing.assert_allclose(make(5).values, GAMMA ** np.arange(3, -1, -1))
        assert make(5).path == dict.fromkeys(range(4), 0)


def test_a_side_room_is_worth_the_walk_back():
    task = room(4, size=3)
    np.testing.assert_allclose(task.values, GAMMA ** np.array([2, 1, 0, 3, 3, 3]))
    assert task.path == {0: 0, 1: 0, 2: 0}
    assert task.outcomes[0][1] == (Outcome(reward=0.0, discount=GAMMA, successor=3),)
    assert [row[0][0].successor for row in task.outcomes[3:]] == [4, 5, 5]
    assert len(room(6).outcomes) == 5 + 24


def test_a_noisy_state_is_worth_the_mean_of_its_successors():
    """They cost 0 and 1 and lead back to the start, which is worth γ²."""
    task = noisy(4)
    back = GAMMA * GAMMA**2
    np.testing.assert_allclose(task.values[3:], [GAMMA * (back - 0.5), back, back - 1.0])
    assert task.path == {0: 0, 1: 0, 2: 0}
    assert len(task.outcomes[3][0]) == 2
    assert [row[0][0].reward for row in noisy(4, successors=4).outcomes[4:]] == [0, -1, 0, -1]


def test_a_goal_moves_from_one_arm_to_the_other():
    task = moving(6)
    assert task.moved is not None
    assert (task.path, task.moved.path) == ({0: 0, 1: 0, 2: 0}, {0: 1, 3: 0, 4: 0})
    values = GAMMA ** np.array([2, 1, 0, 3, 3])
    np.testing.assert_allclose(task.values, values)
    np.testing.assert_allclose(task.moved.values, values[[0, 3, 4, 1, 2]])
    assert task.moved.moved is None


def test_a_path_with_two_best_actions_is_refused():
    both = (Outcome(reward=1.0, discount=0.0, successor=0),)
    with pytest.raises(ValueError, match=r"State 0 has the best actions \[0, 1\], not one"):
        _ = Task(outcomes=((both, both),)).path


def test_the_bound_is_the_papers():
    """d = 2 actions, m = 3 · 2 pairs, n = 4 states: (4 · 6 + 36) · 16."""
    assert chain(4).bound == 960
    assert drift(4).bound == (9 * 9 + 81) * 16


# Growth


def test_lines_find_the_growth_that_is_there():
    found = growth([cell(n, 3 * 2**n) for n in (4, 6, 8, 10)], cap=10**6)
    assert found is not None
    assert found.is_exponential
    assert (found.sizes, found.share) == (4, 1.0)
    assert found.closer.slope == pytest.approx(1.0)
    assert found.closer.interval == pytest.approx((1.0, 1.0))
    found = growth([cell(n, 5 * n**3) for n in (4, 6, 8, 10)], cap=10**6)
    assert found is not None
    assert not found.is_exponential
    assert found.closer.slope == pytest.approx(3.0)
    assert found.closer.distance == pytest.approx(0.0)
    assert growth([cell(4, 9), cell(6, 20), cell(8, None)], cap=30) is None


def test_slopes_and_distances_are_those_of_least_squares():
    states, actions = np.array([4, 6, 8, 12]), np.array([10, 50, 90, 400])
    found = growth([cell(*pair) for pair in zip(states, actions, strict=True)], cap=10**6)
    assert found is not None
    for line, x in ((found.exponential, states), (found.power, np.log2(states))):
        fitted = np.polyfit(x, np.log2(actions), 1)
        rest = np.log2(actions) - np.polyval(fitted, x)
        assert line.slope == pytest.approx(fitted[0])
        assert line.distance == pytest.approx(np.sqrt((rest**2).mean()))


def test_intervals_hold_what_seeds_scatter():
    rng = np.random.default_rng(0)
    cells = [
        cell(n, *sorted((n**2 * rng.lognormal(sigma=0.3, size=21)).astype(int).tolist()))
        for n in (4, 8, 16, 32, 64)
    ]
    found = growth(cells, cap=10**6)
    assert found is not None
    low, high = found.power.interval
    assert low < 2.0 < high
    assert 0.02 < high - low < 0.6


def test_a_size_over_the_cap_counts_against_a_line_that_stays_below_it():
    medians = {4: 16, 8: 70, 16: 260, 32: 1100}
    cells = [cell(n, median) for n, median in medians.items()]
    for cap, exponential in ((4000, False), (10**7, True)):
        found = growth([*cells, cell(64, None)], cap=cap)
        assert found is not None
        assert found.is_exponential == exponential


def test_ratios_are_those_of_medians_at_the_last_common_size():
    first = [cell(4, 10, 10, 10), cell(8, 30, 30, 30), cell(16, None, None, None)]
    second = [cell(4, 10, 10, 10), cell(8, 15, 20, 25), cell(16, 40, 40, 40)]
    found = ratio(first, second)
    assert found is not None
    assert (found.states, found.ratio) == (8, 1.5)
    assert found.interval == pytest.approx((30 / 25, 30 / 15))
    assert ratio(first[2:], second[2:]) is None


def test_seeds_over_the_cap_are_kept():
    cells = measure("chain", "random", [12, 4, 8, 20], seeds=5, cap=300)
    assert [one.states for one in cells][:2] == [4, 8]
    last = cells[-1]
    assert last.states in (8, 12)
    assert last.median is None
    assert last.capped == 3  # more than half: no more are run
    assert len(last.actions) == 5
    assert all(one.median is not None for one in cells[:-1])
    assert cell(4, 1, 2, 3, None, None).quantile(0.5) == 3
    assert cell(4, 1, 2, 3, None, None).quantile(0.75) is None
    assert cells == measure("chain", "random", [12, 4, 8, 20], seeds=5, cap=300)


def test_a_value_and_optimism_are_needed_together():
    """The chain up to 14 states: exponential without one of them, n² with both."""
    kinds = {}
    for agent in ("random", "local", "errors", "optimism", "novelty", "both", "planner"):
        cells = measure("chain", agent, [4, 6, 8, 10, 12, 14], seeds=5, cap=60_000)
        assert [one.states for one in cells] == [4, 6, 8, 10, 12, 14], agent
        found = growth(cells, cap=60_000)
        assert found is not None
        kinds[agent] = (found.is_exponential, found.closer.slope)
    for agent in ("random", "local", "errors"):
        assert kinds[agent] == (True, pytest.approx(1.05, abs=0.15)), agent
    for agent in ("optimism", "novelty", "both", "planner"):
        assert kinds[agent] == (False, pytest.approx(2.25, abs=0.3)), agent


# Tables and sentences


def test_table_entries_have_what_was_measured():
    power = [cell(n, 5 * n**2) for n in (4, 6, 8, 10)]
    assert report.growth_cell(power, 10**6) == ("n^2.00", "2.00–2.00", "500 at 10")
    double = [*(cell(n, 2**n) for n in (4, 6, 8)), cell(10, None)]
    assert report.growth_cell(double, 1000) == ("2^1.00n", "1.00–1.00", "256 at 8")
    assert report.growth_cell([cell(4, None)], 9) == ("never", "–", "n = 4: > cap")
    assert report.growth_cell([cell(4, 7), cell(6, None)], 9) == ("no line", "–", "7 at 4")
    wild = [cell(n, median) for n, median in ((4, 9000), (6, 10), (8, 9000), (10, 10))]
    assert report.growth_cell(wild, 10**6)[0] == "irregular"


def test_sentences_have_what_was_measured():
    helps = {"optimism": 30, "both": 50, "planner": 5, "both-replay": 50}
    agents = {
        agent: [cell(4, *[helps.get(agent, 40)] * 3, bound=100)]
        for agent in {*PAIRS, *PAIRS.values(), "random"}
    }
    text = " ".join(report.sentences({"chain": agents}, seeds=3, cap=1000))
    assert "without a model: fewer actions in 1 of 2 comparisons, more in 1," in text
    assert "planners and replay: fewer actions in 1 of 3 comparisons, more in 1," in text
    assert "medians are at most 5.0% of it, those of random actions" in text
    assert "at most 40.0%" in text


# The command and its page


def test_the_page_names_every_agent_and_task():
    page = (Path(__file__).parents[2] / "docs" / "theory.md").read_text()
    for agent in AGENTS:
        assert f"| `{agent}` |" in page
    for task in TASKS:
        assert f"| *{task}* |" in page


def test_limits_are_one_sentence(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for option, value in (("--states", 65), ("--seeds", 1001), ("--cap", 10_000_001)):
        assert discover("theory", option, str(value)) == 2
        sentence = capfd.readouterr().err
        assert option in sentence
        assert f"less than or equal to {value - 1}" in sentence
        assert sentence.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_command_writes_and_prints_the_same_every_time(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    outcomes = []
    for _ in range(2):
        words = ["--states", "10", "--seeds", "3", "--cap", "1000", "--variants", "--out", "out"]
        assert discover("theory", *words) == 0
        outcomes.append((capfd.readouterr().out, file_contents(tmp_path / "out")))
    assert outcomes[0] == outcomes[1]
    text, written = outcomes[0]
    assert written.keys() == {"theory.png", "theory.svg", "theory.json"}
    content = json.loads(written["theory.json"])
    assert content["settings"]["sizes"] == [4, 6, 8, 10]
    results = {(result["task"], result["agent"]): result for result in content["results"]}
    assert results.keys() == {(task, agent) for task in TASKS for agent in AGENTS | VARIANTS}
    capped = results["drift", "random"]
    last = capped["cells"][-1]
    assert last["capped"] >= 2
    assert last["quartiles"][1] is None
    assert [one["states"] for one in capped["cells"]] + capped["not_tried"] == [4, 6, 8, 10]
    found = results["chain", "novelty"]["growth"]
    assert found["kind"] == "power"
    assert f"n^{found['power']['slope']:.2f}" in text
    assert {(found["task"], found["agent"]) for found in content["ratios"]} == {
        (task, agent) for task in TASKS for agent in PAIRS
    }
