"""A failure in training affects as little as possible and is recorded with its reason."""

import json

import gymnasium
import numpy as np
import pytest

from discover_rl import storage
from discover_rl.core.types import Stopped, UserError
from discover_rl.envs.vector import episode_seed
from discover_rl.storage import checkpoints
from discover_rl.system import provenance
from discover_rl.training import launch
from discover_rl.training.observers import Observer
from tests.helpers.trainings import assert_same_files, files, runs_of, stop_at


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Runs without any failure."""
    out = tmp_path_factory.mktemp("whole")
    launch.train(runs_of(), out)
    return out


class Leaky(gymnasium.Env):
    """Its observations depend on earlier episodes, so none can be repeated in a new process."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    made = 0

    def __init__(self):
        Leaky.made += 1
        self.age = Leaky.made

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.t = 0
        return np.asarray([np.sin(self.age)], np.float32), {}

    def step(self, action):
        self.t += 1
        self.age += 1
        return np.asarray([np.sin(self.age)], np.float32), 1.0, False, self.t == 50, {}


gymnasium.register("Leaky-v0", entry_point=Leaky)


@pytest.mark.slow
def test_an_episode_that_cannot_be_restored_is_recorded_and_a_new_one_begins(tmp_path):
    runs = runs_of("Leaky-v0", 120, seeds=1)
    step = stop_at(80, runs, tmp_path)
    record = launch.train(runs, tmp_path)["seed-0"]
    events = [line for line in record.lines if "event" in line]
    assert events == [{"step": step, "event": "episode_lost"}]
    assert record.done


@pytest.mark.usefixtures("no_limits")
def test_a_lane_that_diverges_stops_alone(tmp_path):
    """The critics' learning rate of one lane is absurd: it fails, and the other is unchanged."""
    healthy = runs_of(seeds=1, critic_lr=[3e-4, 1e-4])
    launch.train(healthy, tmp_path / "healthy")
    mixed = runs_of(seeds=1, critic_lr=[3e-4, 1e30])
    out = tmp_path / "mixed"
    records = launch.train(mixed, out, checkpoint_seconds=0.0)
    good, bad = records[mixed[0].name], records[mixed[1].name]
    assert good.done
    assert_same_files(tmp_path / "healthy" / mixed[0].name, out / mixed[0].name)
    assert not bad.done
    # Learning starts after 40 steps; with steps of 1e30 it takes two or three to leave the floats.
    assert bad.failure is not None
    assert bad.failure["quantity"] in ("critic_loss", "actor_loss", "strategy_loss", "action")
    assert 41 <= bad.failure["step"] <= 44
    assert bad.lines[-1] == bad.failure
    # Its last good state and policy, from before, are kept.
    assert (out / mixed[1].name / "last-good" / "lane.safetensors").exists()
    assert json.loads((out / mixed[1].name / "policy.json").read_text())["about"]["step"] <= 43
    # Trained again, it is still failed, and does not start over.
    before = (out / mixed[1].name / "record.jsonl").read_bytes()
    assert launch.train(mixed, out)[mixed[1].name].failure == bad.failure
    assert (out / mixed[1].name / "record.jsonl").read_bytes() == before


class Sour(gymnasium.Env):
    """Rewards are NaN in episodes of seed 100, with which the evaluation of run 0 begins."""

    bitter = np.nan
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.reward = self.bitter if seed == 100 else 1.0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.reward, True, False, {}


gymnasium.register("Sour-v0", entry_point=Sour)


SOUR = {
    np.nan: {"event": "crashed", "reason": "the reward is not finite"},
    1e300: {"event": "crashed", "reason": "the reward 1e+300 is too large for single precision"},
    3e38: {"event": "diverged", "quantity": "evaluation"},  # as is a sum of a few of these
}


@pytest.mark.slow
@pytest.mark.parametrize("reward", SOUR)
def test_an_evaluation_that_is_not_finite_stops_its_lane_alone(tmp_path, monkeypatch, reward):
    """Or is larger than single precision has."""
    monkeypatch.setattr(Sour, "bitter", reward)
    records = launch.train(runs_of("Sour-v0", 60), tmp_path)
    assert records["seed-0"].failure == {"step": 0} | SOUR[reward]
    assert records["seed-1"].done


@pytest.mark.slow
def test_a_lane_that_failed_by_its_evaluation_stays_failed_after_a_resume(tmp_path):
    """The checkpoint is of the same step, and was written before the evaluation."""

    class StopAfterEvaluation(Observer):
        stop = False

        def evaluated(self, *_):
            self.stop = True

    runs, observer = runs_of("Sour-v0", 60), StopAfterEvaluation()
    launch.train(runs, tmp_path / "whole")
    with pytest.raises(Stopped):
        launch.train(runs, tmp_path / "halves", observer, lambda: observer.stop)
    assert checkpoints.step_of(tmp_path / "halves") == 0
    records = launch.train(runs, tmp_path / "halves")
    assert len(records["seed-0"].lines) == 2
    assert_same_files(tmp_path / "whole", tmp_path / "halves")


class Torn(gymnasium.Env):
    """The first observation of the second episode of run 0 is NaN."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.t = 0
        return np.full(1, np.nan if seed == episode_seed(0, 1) else 0.5, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, 0.5, np.float32), 1.0, False, self.t == 20, {}


gymnasium.register("Torn-v0", entry_point=Torn)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["td3", "ppo"])
def test_a_first_observation_that_is_not_finite_stops_its_lane_at_that_step(tmp_path, algorithm):
    records = launch.train(runs_of("Torn-v0", 100, algorithm=algorithm), tmp_path)
    failure = {"step": 20, "event": "diverged", "quantity": "observation"}
    assert records["seed-0"].failure == failure
    assert records["seed-1"].done


class Moody(Sour):
    """Raises where the rewards of `Sour` are NaN, and in the second episode of run 1."""

    def reset(self, *, seed=None, options=None):
        if seed == episode_seed(1, 1):
            raise OSError("the track\nis closed")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if np.isnan(self.reward):
            raise RuntimeError
        return super().step(action)


gymnasium.register("Moody-v0", entry_point=Moody)


def test_an_environment_that_raises_stops_its_lane_alone(tmp_path):
    """In an evaluation, at a reset or at a step; the reason is in the record."""
    records = launch.train(runs_of("Moody-v0", 60, seeds=3, strategy="none"), tmp_path / "moody")
    reason = "the environment raised RuntimeError"
    assert records["seed-0"].failure == {"step": 0, "event": "crashed", "reason": reason}
    reason = "the environment raised OSError: the track is closed"
    assert records["seed-1"].failure == {"step": 1, "event": "crashed", "reason": reason}
    assert records["seed-2"].done
    records = launch.train(
        runs_of("tests.helpers.fragile:Fragile-v0", 60, strategy="none"), tmp_path / "fragile"
    )
    reason = "the environment raised RuntimeError: the left hip gave way"
    assert records["seed-1"].failure == {"step": 30, "event": "crashed", "reason": reason}
    assert records["seed-0"].done
    runs = runs_of("tests.helpers.fragile:Fragile-v0", 60, algorithm="ppo", strategy="none")
    records = launch.train(runs, tmp_path / "ppo")
    assert records["seed-1"].failure == {"step": 30, "event": "crashed", "reason": reason}
    assert records["seed-0"].done


def test_a_folder_is_for_runs_of_one_kind(whole):
    for other in (runs_of("Leaky-v0", seeds=[7]), runs_of(seeds=[7], strategy="none")):
        with pytest.raises(UserError, match=r"holds another run: (task|strategy) is"):
            launch.train(other, whole)


@pytest.mark.slow
@pytest.mark.usefixtures("no_limits")
@pytest.mark.parametrize(("algorithm", "rate"), [("td3", "critic_lr"), ("ppo", "actor_lr")])
def test_a_diverged_lane_stays_failed_when_the_others_are_resumed(tmp_path, algorithm, rate):
    runs = runs_of(seeds=1, algorithm=algorithm, **{rate: [3e-4, 1e30]})
    launch.train(runs, tmp_path / "whole")
    out = tmp_path / "stopped"
    stop_at(100, runs, out, checkpoint_seconds=0.0)
    lanes = checkpoints.manifest(checkpoints.find(out))["lanes"]
    assert [lane["alive"] for lane in lanes] == [True, False]
    records = launch.train(runs, out)
    assert records[runs[0].name].done
    assert records[runs[1].name].failure
    assert_same_files(tmp_path / "whole" / runs[0].name, out / runs[0].name)
    record = f"{runs[1].name}/record.jsonl"
    assert (out / record).read_bytes() == (tmp_path / "whole" / record).read_bytes()
    assert (out / runs[1].name / "last-good" / "lane.safetensors").exists()


def test_a_folder_with_another_run_is_refused(whole):
    before = (whole / "seed-0/record.jsonl").read_bytes()
    with pytest.raises(UserError, match=r"gamma is 0\.99 there and 0\.9 here"):
        launch.train(runs_of(gamma=0.9), whole)
    assert (whole / "seed-0/record.jsonl").read_bytes() == before


def test_a_checkpoint_of_other_code_is_refused(tmp_path, monkeypatch):
    stop_at(100, runs_of(), tmp_path)
    kept = files(tmp_path)
    other = {**provenance.code(), "jax": "9.9"}
    monkeypatch.setattr(provenance, "code", lambda: other)
    with pytest.raises(UserError, match=r"other code .*jax"):
        launch.train(runs_of(), tmp_path)
    assert files(tmp_path) == kept


def test_a_checkpoint_with_other_runs_is_refused(tmp_path):
    stop_at(100, runs_of(), tmp_path)
    with pytest.raises(UserError, match=r"not asked for .*seed-1"):
        launch.train(runs_of(seeds=1), tmp_path)


def test_a_full_disk_while_checkpointing_leaves_the_last_one(whole, tmp_path, monkeypatch):
    stop_at(100, runs_of(), tmp_path)
    last = checkpoints.find(tmp_path)

    def write(*_):
        raise OSError(28, "No space")

    monkeypatch.setattr(storage.files, "write", write)
    with pytest.raises(OSError, match="No space"):
        launch.train(runs_of(), tmp_path, checkpoint_seconds=0.0)
    assert checkpoints.find(tmp_path) == last
    monkeypatch.undo()
    launch.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)
