"""What goes wrong in training stays small and is named."""

import json

import gymnasium
import numpy as np
import pytest

from discover_rl import checkpoint, provenance, store, training
from discover_rl.envs import episode_seed
from discover_rl.observers import Observer
from discover_rl.types import Stopped, UserError
from tests.trainings import assert_same_files, files, runs_of, stop_at


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing happened to."""
    out = tmp_path_factory.mktemp("whole")
    training.train(runs_of(), out)
    return out


class Leaky(gymnasium.Env):
    """A world that remembers earlier episodes, so that none can be had again in a new process."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    born = 0

    def __init__(self):
        Leaky.born += 1
        self.age = Leaky.born

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
def test_what_cannot_be_restored_starts_a_new_episode_and_says_so(tmp_path):
    runs = runs_of("Leaky-v0", 120, seeds=1)
    step = stop_at(80, runs, tmp_path)
    record = training.train(runs, tmp_path)["seed-0"]
    events = [line for line in record.lines if "event" in line]
    assert events == [{"step": step, "event": "episode_lost"}]
    assert record.done


def test_a_lane_that_diverges_stops_alone(tmp_path):
    """The critics' learning rate of one lane is absurd; it fails, and the other never notices."""
    healthy = runs_of(seeds=1, critic_lr=[3e-4, 1e-4])
    training.train(healthy, tmp_path / "healthy")
    mixed = runs_of(seeds=1, critic_lr=[3e-4, 1e30])
    out = tmp_path / "mixed"
    records = training.train(mixed, out, checkpoint_seconds=0.0)
    good, bad = records[mixed[0].name], records[mixed[1].name]
    assert good.done
    assert_same_files(tmp_path / "healthy" / mixed[0].name, out / mixed[0].name)
    assert not bad.done
    # Learning starts after 40 steps; with steps of 1e30 it takes two or three to leave the floats.
    assert bad.failure is not None
    assert bad.failure["quantity"] in ("critic_loss", "actor_loss", "strategy_loss", "action")
    assert 41 <= bad.failure["step"] <= 44
    assert bad.lines[-1] == bad.failure
    # What is left of it is its last good state and policy, from before.
    assert (out / mixed[1].name / "last-good" / "lane.safetensors").exists()
    assert json.loads((out / mixed[1].name / "policy.json").read_text())["about"]["step"] <= 43
    # Asked again, it does not pretend to be well, and does not start over.
    before = (out / mixed[1].name / "record.jsonl").read_bytes()
    assert training.train(mixed, out)[mixed[1].name].failure == bad.failure
    assert (out / mixed[1].name / "record.jsonl").read_bytes() == before


class Sour(gymnasium.Env):
    """Pays NaN in the episodes of one seed: the evaluation of run 0, whose seed is 100."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.reward = np.nan if seed == 100 else 1.0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.reward, True, False, {}


gymnasium.register("Sour-v0", entry_point=Sour)


@pytest.mark.slow
def test_an_evaluation_that_is_not_finite_stops_its_lane_alone(tmp_path):
    records = training.train(runs_of("Sour-v0", 60), tmp_path)
    failure = {"step": 0, "event": "diverged", "quantity": "evaluation"}
    assert records["seed-0"].failure == failure
    assert records["seed-1"].done


@pytest.mark.slow
def test_a_lane_that_its_evaluation_stopped_stays_so_when_all_go_on(tmp_path):
    """Its checkpoint is of the same step and older."""

    class Seen(Observer):
        over = False

        def evaluated(self, *what):
            self.over = True

    runs, seen = runs_of("Sour-v0", 60), Seen()
    training.train(runs, tmp_path / "whole")
    with pytest.raises(Stopped):
        training.train(runs, tmp_path / "halves", seen, lambda: seen.over)
    assert checkpoint.step_of(tmp_path / "halves") == 0
    records = training.train(runs, tmp_path / "halves")
    assert len(records["seed-0"].lines) == 2
    assert_same_files(tmp_path / "whole", tmp_path / "halves")


class Torn(gymnasium.Env):
    """The second episode of run 0 starts from nowhere."""

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
def test_a_start_that_is_not_finite_stops_its_lane_where_it_is_seen(tmp_path, algorithm):
    records = training.train(runs_of("Torn-v0", 100, algorithm=algorithm), tmp_path)
    failure = {"step": 20, "event": "diverged", "quantity": "observation"}
    assert records["seed-0"].failure == failure
    assert records["seed-1"].done


class Moody(Sour):
    """Raises where that one pays NaN, and in the second episode of run 1."""

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
    """In evaluation, at a reset, at a step; the reason is in the record."""
    records = training.train(runs_of("Moody-v0", 60, seeds=3, strategy="none"), tmp_path / "moody")
    said = "the environment raised RuntimeError"
    assert records["seed-0"].failure == {"step": 0, "event": "crashed", "reason": said}
    said = "the environment raised OSError: the track is closed"
    assert records["seed-1"].failure == {"step": 1, "event": "crashed", "reason": said}
    assert records["seed-2"].done
    records = training.train(
        runs_of("tests.fragile:Fragile-v0", 60, strategy="none"), tmp_path / "fragile"
    )
    said = "the environment raised RuntimeError: the left hip gave way"
    assert records["seed-1"].failure == {"step": 30, "event": "crashed", "reason": said}
    assert records["seed-0"].done
    runs = runs_of("tests.fragile:Fragile-v0", 60, algorithm="ppo", strategy="none")
    records = training.train(runs, tmp_path / "ppo")
    assert records["seed-1"].failure == {"step": 30, "event": "crashed", "reason": said}
    assert records["seed-0"].done


def test_a_folder_is_for_runs_of_one_kind(whole):
    for other in (runs_of("Leaky-v0", seeds=[7]), runs_of(seeds=[7], strategy="none")):
        with pytest.raises(UserError, match=r"holds another run: (task|strategy) is"):
            training.train(other, whole)


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "rate"), [("td3", "critic_lr"), ("ppo", "actor_lr")])
def test_a_diverged_lane_stays_out_when_the_others_are_resumed(tmp_path, algorithm, rate):
    runs = runs_of(seeds=1, algorithm=algorithm, **{rate: [3e-4, 1e30]})
    training.train(runs, tmp_path / "whole")
    out = tmp_path / "stopped"
    stop_at(100, runs, out, checkpoint_seconds=0.0)
    lanes = checkpoint.manifest(checkpoint.find(out))["lanes"]
    assert [lane["alive"] for lane in lanes] == [True, False]
    records = training.train(runs, out)
    assert records[runs[0].name].done
    assert records[runs[1].name].failure
    assert_same_files(tmp_path / "whole" / runs[0].name, out / runs[0].name)
    record = f"{runs[1].name}/record.jsonl"
    assert (out / record).read_bytes() == (tmp_path / "whole" / record).read_bytes()
    assert (out / runs[1].name / "last-good" / "lane.safetensors").exists()


def test_a_folder_with_another_run_is_refused(whole):
    before = (whole / "seed-0/record.jsonl").read_bytes()
    with pytest.raises(UserError, match=r"gamma is 0\.99 there and 0\.9 here"):
        training.train(runs_of(gamma=0.9), whole)
    assert (whole / "seed-0/record.jsonl").read_bytes() == before


def test_a_checkpoint_of_other_code_is_refused(tmp_path, monkeypatch):
    stop_at(100, runs_of(), tmp_path)
    kept = files(tmp_path)
    other = {**provenance.code(), "jax": "9.9"}
    monkeypatch.setattr(provenance, "code", lambda: other)
    with pytest.raises(UserError, match=r"other code .*jax"):
        training.train(runs_of(), tmp_path)
    assert files(tmp_path) == kept


def test_a_checkpoint_with_other_runs_is_refused(tmp_path):
    stop_at(100, runs_of(), tmp_path)
    with pytest.raises(UserError, match=r"not asked for .*seed-1"):
        training.train(runs_of(seeds=1), tmp_path)


def test_a_full_disk_while_checkpointing_leaves_the_last_one(whole, tmp_path, monkeypatch):
    stop_at(100, runs_of(), tmp_path)
    last = checkpoint.find(tmp_path)
    monkeypatch.setattr(store, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(OSError, match="No space"):
        training.train(runs_of(), tmp_path, checkpoint_seconds=0.0)
    assert checkpoint.find(tmp_path) == last
    monkeypatch.undo()
    training.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)
