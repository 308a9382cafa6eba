"""Flights: many steps in one program are what they would be one by one."""

import jax
import numpy as np
import pytest

from discover_rl import agent as agents
from discover_rl import machine, training
from discover_rl.config import resolve
from discover_rl.trees import lane_of, stack
from discover_rl.watch import Bad
from tests import cells
from tests.trainings import assert_same_files, runs_of, stop_at

pytest.importorskip("envpool")
from discover_rl.pools import Pool

ALL = np.ones(3, bool)
SMALL = {"hidden": (16, 16), "batch_size": 8, "replay_size": 128}


class Team:
    """A small agent of three lanes and its environments, as on a GPU; or not, step by step."""

    def __init__(
        self, task: str, algorithm: str, strategy: str, flies: bool, warmup: int = 20, **settings
    ):
        runs = resolve(task, algorithm, strategy, 1000, 3, SMALL | {"warmup": warmup})
        first, seeds = runs[0], [run.seed for run in runs]
        self.pool = Pool(task, seeds, **settings)
        both = (first.hyper, first.strategy, first.strategy_hyper)
        self.agent = agents.Agent(self.pool.spec, algorithm, *both, first.steps)
        self.agent.packs = flies
        hypers = stack([run.hyper for run in runs]), stack([run.strategy_hyper for run in runs])
        for env in range(3):
            self.pool.begin(env)
        state = self.agent.init(np.asarray(seeds, np.uint32), *hypers)
        self.state = self.agent.enter(state, self.pool.obs.copy(), ALL, np.int32(0))
        self.step, self.stops = 0, []

    def go(self, until: int, alive=ALL) -> list[Bad]:
        found = []
        while self.step < until:
            self.state, self.step, bad = self.agent.advance(
                self.state, self.pool, alive, self.step, until
            )
            self.stops.append(self.step)
            found += bad
        return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "strategy"),
    [("td3", "discover"), ("ddpg", "psne"), ("sac", "none"), ("td3", "ou"), ("ddpg", "meta")],
)
def test_it_is_what_it_would_be_step_by_step(algorithm, strategy):
    one, other = (Team("Hopper-v5", algorithm, strategy, flies) for flies in (False, True))
    for team in (one, other):
        assert not team.go(70)
    assert other.agent.flies(other.pool) == (strategy != "meta")
    cells.assert_close(jax.device_get(one.state), jax.device_get(other.state), 1e-4)
    np.testing.assert_allclose(one.pool.obs, other.pool.obs, rtol=1e-3, atol=1e-4)
    for lane in range(3):
        slow, fast = one.pool.episodes(lane)[0], other.pool.episodes(lane)[0]
        assert slow.number == fast.number
        np.testing.assert_allclose(slow.actions, fast.actions, rtol=1e-3, atol=1e-4)


OTHERS = [f"{task}-v5" for task in machine.MUJOCO if task != "Hopper"]


@pytest.mark.parametrize(
    "task", ["Hopper-v5", *(pytest.param(task, marks=pytest.mark.slow) for task in OTHERS)]
)
def test_it_lands_where_the_environments_are(task):
    """Uniform actions alone: the environments' books are the same, to the bit."""
    one, other = (Team(task, "td3", "none", flies, warmup=60) for flies in (False, True))
    for team in (one, other):
        assert not team.go(50)
    assert other.stops == [50]
    for lane in range(3):
        slow, fast = one.pool.episodes(lane)[0], other.pool.episodes(lane)[0]
        assert fast.number == slow.number
        assert fast.number > 0 or task != "Hopper-v5"  # some end on the way
        assert fast.digest == slow.digest
        np.testing.assert_array_equal(fast.actions, slow.actions)
        again = Pool(task, other.pool.seeds)
        assert again.restore(lane, fast)
        np.testing.assert_array_equal(again.obs[lane], other.pool.obs[lane])
    cells.assert_same(jax.device_get(one.state.replay), jax.device_get(other.state.replay))


@pytest.mark.slow
def test_how_long_flights_are_makes_no_difference(monkeypatch):
    states = []
    for longest in (20, 32, 512):
        monkeypatch.setattr(agents, "FLIGHT", longest)
        team = Team("InvertedPendulum-v5", "td3", "discover", True)
        assert not team.go(84)
        states.append(jax.device_get(team.state))
    assert team.stops == [20, 84]
    cells.assert_same(states[0], states[1])
    cells.assert_same(states[0], states[2])


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(agents, "FLIGHT", 32)
    init = agents.Agent.__init__

    def flying(self, *args):
        init(self, *args)
        self.packs = True

    monkeypatch.setattr(agents.Agent, "__init__", flying)
    asked = {"task": "Hopper-v5", "steps": 130, "env.engine": "envpool"}
    training.train(runs_of(**asked), tmp_path / "whole")
    for step in (70, 101):
        stop_at(step, runs_of(**asked), tmp_path / "stopped", agents.CHUNK)
    training.train(runs_of(**asked), tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.slow
def test_a_lane_that_goes_bad_is_told_and_harms_no_other():
    well, ill = (Team("Hopper-v5", "td3", "none", True) for _ in range(2))
    weight = ill.state.learner.actor["net"]["head"]["weight"]
    ill.state = jax.tree.map(
        lambda leaf: leaf.at[1].set(np.nan) if leaf is weight else leaf, ill.state
    )
    assert not well.go(60)
    bad = ill.go(60)
    assert {it.lane for it in bad} == {1}
    assert bad[0].quantity == "action"
    # It may be left behind, as the loop does.
    assert not well.go(90)
    assert not ill.go(90, np.asarray([True, False, True]))
    for lane in (0, 2):
        cells.assert_same(*(lane_of(jax.device_get(team.state), lane) for team in (well, ill)))
        assert well.pool.episodes(lane)[0].digest == ill.pool.episodes(lane)[0].digest


def test_a_course_is_what_repeats_itself():
    agent = cells.build("td3", "none", warmup=30)
    (critic,), (both,) = agent.due(31), agent.due(32)
    assert critic != both
    assert agent.course(0) == (((),), 30)
    assert agent.course(10) == (((),), 20)
    assert agent.course(30) == (((critic,), (both,)), agents.FLIGHT)
    assert agent.course(31) == (((both,), (critic,)), agents.FLIGHT)
    assert agent.course(27)[1] < agents.CHUNK


@pytest.mark.slow
def test_what_comes_once_is_a_step_by_itself():
    """PSNE adapts its noise now and then; between, it flies."""
    team = Team("InvertedPendulum-v5", "ddpg", "psne", True)
    team.go(240)
    assert team.stops == [20, 69, 70, 119, 120, 169, 170, 219, 220, 240]


def test_a_cut_ends_a_course():
    agent = cells.build("td3", "none", warmup=30)
    agent.strategy = agent.strategy._replace(cuts=lambda step: step == 12)
    assert agent.course(0) == (((),), 11)
    assert agent.course(11) == ((), 0)


@pytest.mark.slow
@pytest.mark.parametrize("terminates", [False, True])
def test_limits_are_met_as_step_by_step(terminates):
    """Reacher's episodes are 50 steps long; the first ends with the first flight."""
    settings = {"warmup": 50, "limit_terminates": terminates}
    one, other = (Team("Reacher-v5", "td3", "none", flies, **settings) for flies in (False, True))
    for team in (one, other):
        assert not team.go(120)
    assert other.stops == [50, 120]
    assert other.pool.episodes(0)[0].number == 2
    cells.assert_close(jax.device_get(one.state.replay), jax.device_get(other.state.replay), 1e-4)
    assert int(other.state.replay.terminated.sum()) == (6 if terminates else 0)


def test_rewards_that_are_delayed_are_the_hosts():
    team = Team("Hopper-v5", "td3", "none", True, reward_delay=3)
    assert not team.agent.flies(team.pool)
