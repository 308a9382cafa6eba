"""The fused loop: many steps in one program are what they would be one by one."""

import jax
import numpy as np
import pytest

from discover_rl.agents.interface import AgentSetup
from discover_rl.agents.off_policy import agent as agents
from discover_rl.config import Request, resolve
from discover_rl.core.finite import Divergence
from discover_rl.core.pytrees import lane_of, stack_floats
from discover_rl.envs import sparse, tasks
from discover_rl.envs.settings import Making
from discover_rl.strategies import STRATEGIES
from discover_rl.strategies.interface import Schedule
from discover_rl.training import launch as training
from tests.helpers import cells
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

pytest.importorskip("envpool")
from discover_rl.envs.envpool_vector import EnvPoolVector

ALL = np.ones(3, bool)
SMALL = {"hidden": (16, 16), "batch_size": 8, "replay_size": 128}


class Trained:
    """A small agent of three lanes with its environments: as on a GPU, or step by step."""

    def __init__(
        self, task, algorithm: str, strategy: str, fused: bool, warmup=20, own=None, **settings
    ):
        asked = SMALL | {"warmup": warmup} | (own or {})
        runs = resolve(Request(task, algorithm, strategy, 1000, 3, asked))
        first, seeds = runs[0], [run.seed for run in runs]
        self.vector = EnvPoolVector(task, seeds, **settings)
        hypers = {"hyper": first.hyper, "strategy_hyper": first.strategy_hyper}
        setup = AgentSetup(
            self.vector.spec, algorithm=algorithm, strategy=strategy, steps=first.steps, **hypers
        )
        self.agent = agents.OffPolicyAgent(setup)
        self.agent.on_gpu = fused
        floats = (
            stack_floats([run.hyper for run in runs]),
            stack_floats([run.strategy_hyper for run in runs]),
        )
        for env in range(3):
            self.vector.begin(env)
        state = self.agent.init(np.asarray(seeds, np.uint32), *floats)
        self.state = self.agent.enter(state, self.vector.obs.copy(), ALL, np.int32(0))
        self.step, self.stops = 0, []

    def go(self, until: int, alive=ALL) -> list[Divergence]:
        found = []
        while self.step < until:
            self.state, self.step, bad = self.agent.advance(
                self.state, self.vector, alive, self.step, until
            )
            self.stops.append(self.step)
            found += bad
        return found


# Every strategy; with SAC those, too, that replace the noise of a policy that samples.
CELLS = [
    *[("td3", "discover"), ("ddpg", "psne"), ("sac", "none"), ("td3", "ou"), ("ddpg", "meta")],
    *[("td3", "pink"), ("td3", "zeta"), ("td3", "corner"), ("td3", "gsde")],
    *[("td3", "oac"), ("td3", "rnd"), ("td3", "see"), ("td3", "seek")],
    *[("sac", "pink"), ("sac", "zeta"), ("sac", "gsde"), ("sac", "oac"), ("sac", "see")],
    *[("td3", "gaussian"), ("ddpg", "noisynet"), ("sac", "coherent")],
]


def test_every_strategy_is_fused():
    assert {strategy for _, strategy in CELLS} == {*STRATEGIES}


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "strategy"), CELLS)
def test_it_is_what_it_would_be_step_by_step(algorithm, strategy):
    one, other = (Trained("Hopper-v5", algorithm, strategy, fused) for fused in (False, True))
    for it in (one, other):
        assert not it.go(70)
    assert other.agent.fuses(other.vector) == (strategy != "meta")
    cells.assert_close(jax.device_get(one.state), jax.device_get(other.state), 1e-4)
    np.testing.assert_allclose(one.vector.obs, other.vector.obs, rtol=1e-3, atol=1e-4)
    for lane in range(3):
        slow, fast = one.vector.episodes(lane)[0], other.vector.episodes(lane)[0]
        assert slow.number == fast.number
        np.testing.assert_allclose(slow.actions, fast.actions, rtol=1e-3, atol=1e-4)


OTHERS = [f"{task}-v5" for task in tasks.MUJOCO if task != "Hopper"]


@pytest.mark.parametrize(
    "task", ["Hopper-v5", *(pytest.param(task, marks=pytest.mark.slow) for task in OTHERS)]
)
def test_it_ends_where_the_environments_are(task):
    """With uniform actions alone, what the environments note is the same, to the bit."""
    one, other = (Trained(task, "td3", "none", fused, warmup=60) for fused in (False, True))
    for it in (one, other):
        assert not it.go(50)
    assert other.stops == [50]
    for lane in range(3):
        slow, fast = one.vector.episodes(lane)[0], other.vector.episodes(lane)[0]
        assert fast.number == slow.number
        assert fast.number > 0 or task != "Hopper-v5"  # some end on the way
        assert fast.digest == slow.digest
        assert fast.before == slow.before  # returns and lengths of those that ended
        assert fast.before.number == fast.number
        np.testing.assert_array_equal(fast.actions, slow.actions)
        again = EnvPoolVector(task, other.vector.seeds)
        assert again.restore(lane, fast)
        np.testing.assert_array_equal(again.obs[lane], other.vector.obs[lane])
    cells.assert_same(jax.device_get(one.state.replay), jax.device_get(other.state.replay))


@pytest.mark.slow
def test_how_many_steps_are_fused_makes_no_difference(monkeypatch):
    states = []
    for longest in (20, 32, 512):
        monkeypatch.setattr(agents, "FUSED_STEPS", longest)
        it = Trained("InvertedPendulum-v5", "td3", "discover", True)
        assert not it.go(84)
        states.append(jax.device_get(it.state))
    assert it.stops == [20, 84]
    cells.assert_same(states[0], states[1])
    cells.assert_same(states[0], states[2])


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(agents, "FUSED_STEPS", 32)
    init = agents.OffPolicyAgent.__init__

    def as_on_a_gpu(self, *args):
        init(self, *args)
        self.on_gpu = True

    monkeypatch.setattr(agents.OffPolicyAgent, "__init__", as_on_a_gpu)
    asked = {"task": "Hopper-v5", "steps": 130, "env.backend": "envpool", "metrics.every": 65}
    training.train(runs_of(**asked), tmp_path / "whole")
    for step in (70, 101):
        stop_at(step, runs_of(**asked), tmp_path / "stopped", agents.CHUNK)
    training.train(runs_of(**asked), tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.slow
def test_a_lane_that_diverges_is_named_and_harms_no_other():
    well, ill = (Trained("Hopper-v5", "td3", "none", True) for _ in range(2))
    weight = ill.state.learner.actor["net"]["head"]["weight"]
    ill.state = jax.tree.map(
        lambda leaf: leaf.at[1].set(np.nan) if leaf is weight else leaf, ill.state
    )
    assert not well.go(60)
    bad = ill.go(60)
    assert {it.lane for it in bad} == {1}
    assert bad[0].quantity == "action"
    # It may be left out, as training does.
    assert not well.go(90)
    assert not ill.go(90, np.asarray([True, False, True]))
    for lane in (0, 2):
        cells.assert_same(*(lane_of(jax.device_get(it.state), lane) for it in (well, ill)))
        assert well.vector.episodes(lane)[0].digest == ill.vector.episodes(lane)[0].digest


def test_a_cycle_is_what_the_next_steps_repeat():
    agent = cells.build("td3", "none", warmup=30)
    (critic,), (both,) = agent.due(31), agent.due(32)
    assert critic != both
    assert agent.cycle_after(0) == (((),), 30)
    assert agent.cycle_after(10) == (((),), 20)
    assert agent.cycle_after(30) == (((critic,), (both,)), agents.FUSED_STEPS)
    assert agent.cycle_after(31) == (((both,), (critic,)), agents.FUSED_STEPS)
    assert agent.cycle_after(27)[1] < agents.CHUNK


@pytest.mark.slow
def test_what_comes_once_is_a_step_by_itself():
    """PSNE adapts its noise now and then; the steps between are fused."""
    it = Trained("InvertedPendulum-v5", "ddpg", "psne", True)
    it.go(240)
    assert it.stops == [20, 69, 70, 119, 120, 169, 170, 219, 220, 240]


def test_no_cycle_goes_beyond_a_truncation():
    agent = cells.build("td3", "none", warmup=30)
    schedule = Schedule(truncate=lambda step: step == 12)
    agent.strategy = agent.strategy._replace(schedule=schedule)
    assert agent.cycle_after(0) == (((),), 11)
    assert agent.cycle_after(11) == ((), 0)


@pytest.mark.slow
@pytest.mark.parametrize("terminates", [False, True])
def test_time_limits_are_those_of_step_by_step(terminates):
    """Reacher's episodes are 50 steps long; the first ends with the first call."""
    settings = {"warmup": 50, "limit_terminates": terminates}
    one, other = (
        Trained("Reacher-v5", "td3", "none", fused, **settings) for fused in (False, True)
    )
    for it in (one, other):
        assert not it.go(120)
    assert other.stops == [50, 120]
    assert other.vector.episodes(0)[0].number == 2
    cells.assert_close(jax.device_get(one.state.replay), jax.device_get(other.state.replay), 1e-4)
    assert int(other.state.replay.terminated.sum()) == (6 if terminates else 0)


RULES = [
    ("Hopper-v5", {"reward_delay": 3}),
    ("Hopper-v5", {"making": Making(action_repeat=4)}),
    ("Hopper-v5", {"making": Making(action_repeat=3), "reward_delay": 4}),
    ("discover_rl:SparseHopper-v0", {}),
    ("discover_rl:SparseSwimmer-v0", {"making": Making(action_repeat=2), "reward_delay": 3}),
    ("MountainCarContinuous-v0", {}),
    ("dm_control/finger-turn_hard-v0", {"making": Making(action_repeat=2)}),
    ("dm_control/ball_in_cup-catch-v0", {"making": Making(action_repeat=2)}),
    ("gymnasium_robotics:PointMaze_UMaze-v3", {"reward_delay": 2}),
    ("gymnasium_robotics:HandReach-v3", {}),
]


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        pytest.param(*rule, marks=[pytest.mark.slow] if i != 2 else [])
        for i, rule in enumerate(RULES)
    ],
)
def test_a_tasks_rules_are_those_of_step_by_step(task, settings, monkeypatch):
    """Delayed and sparse rewards, repeated actions, observations of several parts: to the bit."""
    sparse_one = task.removeprefix("discover_rl:")
    if sparse_one in sparse.GOALS:  # put where the bodies start, so that some steps are paid
        goal = sparse.GOALS[sparse_one]._replace(position=0.0)
        monkeypatch.setitem(sparse.GOALS, sparse_one, goal)
    one, other = (
        Trained(task, "td3", "none", fused, warmup=60, **settings) for fused in (False, True)
    )
    for it in (one, other):
        assert not it.go(23)  # in the midst of a delay
        assert not it.go(50)
    assert other.stops == [23, 50]
    for lane in range(3):
        slow, fast = one.vector.episodes(lane)[0], other.vector.episodes(lane)[0]
        assert (fast.number, fast.digest) == (slow.number, slow.digest)
        assert fast.number > 0 or not task.endswith("Hopper-v5")  # some end on the way
        again = EnvPoolVector(task, other.vector.seeds, **settings)
        assert again.restore(lane, fast)
        np.testing.assert_array_equal(again.obs[lane], other.vector.obs[lane])
        np.testing.assert_array_equal(again._owed[lane], one.vector._owed[lane])
    np.testing.assert_array_equal(one.vector._owed, other.vector._owed)
    replays = [jax.device_get(it.state.replay) for it in (one, other)]
    cells.assert_same(*replays)
    if settings.get("reward_delay", 1) > 1 and task == "Hopper-v5":
        assert (replays[1].reward[:, :50] == 0).mean() > 0.5
    if sparse_one in sparse.GOALS:
        paid = replays[1].reward[:, :50]
        assert 0 < paid.mean() < paid.max()
