"""Checkpoints of agents that learn from rollouts: exact in the midst of one, and without replay."""

import functools

import jax
import numpy as np
import pytest

from discover_rl import config
from discover_rl.agents.interface import AgentSetup
from discover_rl.agents.on_policy.agent import OnPolicyAgent
from discover_rl.core.pytrees import stack_floats
from discover_rl.core.types import UserError
from discover_rl.storage import checkpoints
from tests.helpers import cells
from tests.helpers.lanes import ALL, assert_same, assert_same_episodes, episodes_at, lanes, listing

COUNT = 2
SEEDS = [0, 1, 2]
SETTINGS = {"hidden": 8, "horizon": 6, "minibatches": 1, "env.count": COUNT}


def runs_of(**settings) -> list[config.Run]:
    return config.resolve(config.Request("Any-v0", "a2c", "ou", 1000, 3, SETTINGS | settings))


RUNS = runs_of()


def build(runs):
    """An agent of these runs, and what its `init` takes."""
    first = runs[0]
    hypers = [
        stack_floats([getattr(run, it) for run in runs]) for it in ("hyper", "strategy_hyper")
    ]
    setup = AgentSetup(
        *(cells.SPEC, "a2c", first.hyper, "ou", first.strategy_hyper, 1000),
        environments=first.env.count,
    )
    return OnPolicyAgent(setup), (np.asarray(SEEDS, np.uint32), *hypers)


@functools.cache
def agent_and_first():
    agent, given = build(RUNS)
    obs = cells.observations(cells.Answers(SEEDS, count=COUNT).seeds, 0)
    return agent, agent.enter(agent.init(*given), obs, np.ones(3 * COUNT, bool), 0)


def at(stop: int, state=None, start: int = 0):
    """The state after so many steps from the beginning, or from another state."""
    agent, first = agent_and_first()
    state, step = agent.place(first if state is None else state), start
    answers = cells.Answers(SEEDS, start // COUNT, COUNT)
    while step < stop:
        state, step, _ = agent.advance(state, answers, ALL, step, stop)
    return state


def save(out, step: int, state, alive=ALL) -> bool:
    return checkpoints.save(out, step, RUNS, alive, state, episodes_at(step, COUNT))


def load(out):
    path = checkpoints.find(out)
    assert path is not None
    agent, _ = agent_and_first()
    state, episodes = checkpoints.load(path, agent.like(*build(RUNS)[1]))
    return agent.place(state), episodes


# Before the first step; in the midst of the first rollout; as it has become full; in the second.
@pytest.mark.parametrize("step", [0, 8, 12, 22])
def test_what_is_loaded_is_what_was_saved_and_goes_on_alike(tmp_path, step):
    state = at(step)
    assert save(tmp_path, step, state)
    loaded, episodes = load(tmp_path)
    assert_same(loaded, state)
    assert_same_episodes(episodes, episodes_at(step, COUNT))
    assert_same(at(step + 14, loaded, step), at(step + 14))
    # A rollout is small: all of it is in the lane's file.
    assert not (tmp_path / "replay").exists()


def test_a_chain_of_checkpoints_ends_where_the_uninterrupted_run_does(tmp_path):
    state, before = at(0), 0
    for step in (2, 12, 14, 22, 26):
        save(tmp_path, step, at(step, state, before))
        state, before = load(tmp_path)[0], step
        assert_same(state, at(step))
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-26"]


def test_a_dead_lane_keeps_its_last_good_file_and_its_place(tmp_path):
    save(tmp_path, 8, at(8))
    good = listing(tmp_path)["checkpoint-8/seed-1.safetensors"]
    spoiled = at(14)
    spoiled.rollout.reward[1, 0, 0] = np.nan
    assert not save(tmp_path, 14, spoiled)
    assert save(tmp_path, 14, spoiled, np.asarray([True, False, True]))
    assert listing(tmp_path)["checkpoint-14/seed-1.safetensors"] == good
    loaded, episodes = load(tmp_path)
    assert_same(lanes(loaded, 0, 2), lanes(at(14), 0, 2))
    assert [len(running) for running in episodes] == [COUNT, 0, COUNT]
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(lanes(loaded, 1)))
    # What stands in the dead lane's place can be exported without a warning.
    nets = agent_and_first()[0].nets(loaded)
    assert np.isfinite(nets["input"]["deviation"][[0, 2]]).all()


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"env.count": 1}, "memory"), ({"horizon": 7}, "rollout"), ({"hidden": 9}, "head")],
)
def test_shapes_that_do_not_fit_are_refused(tmp_path, settings, named):
    save(tmp_path, 8, at(8))
    agent, given = build(runs_of(**settings))
    with pytest.raises(UserError, match=rf"does not fit this agent: \S*{named}\S* is "):
        checkpoints.load(tmp_path / "checkpoint-8", agent.like(*given))
