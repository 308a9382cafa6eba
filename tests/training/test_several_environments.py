"""Off-policy runs with several environments: what they leave, and that they go on exactly."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors.numpy

from discover_rl.analysis.visitation import states
from discover_rl.config import Request, resolve
from discover_rl.core import replay_buffer, replay_rings
from discover_rl.core.pytrees import lane_of
from discover_rl.core.types import UserError
from discover_rl.envs.backends import spaces
from discover_rl.storage import kept_checkpoints, records
from discover_rl.storage.records import Record
from discover_rl.training import launch
from discover_rl.training.warm_start import started_from
from tests.helpers.trainings import assert_same_files, files, runs_of, stop_at

THREE = {"env.count": 3}
ASKED = {"strategy": "ou", "steps": 720, "eval.every": 180, "metrics.every": 90, **THREE}
ASKED |= {"compute.keep_replay": True}
KEEP = {"compute.keep_checkpoint": True, **THREE}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Two runs of 720 steps, 240 in each of three environments."""
    out = tmp_path_factory.mktemp("whole")
    launch.train(runs_of(**ASKED), out)
    return out


def test_steps_are_those_of_all_environments(whole):
    record = Record(whole / "seed-0/record.jsonl")
    assert [line["step"] for line in record.evaluations] == [0, 180, 360, 540, 720]
    lines = [line for line in record.lines if "metrics" in line]
    assert [line["step"] for line in lines] == list(range(90, 721, 90))
    # An episode of Pendulum has 200 steps, and all three end with the 600th step of the run.
    episodes = {line["step"]: line["metrics"]["episodes"] for line in lines}
    assert {step for step, ended in episodes.items() if ended} == {630}
    assert episodes[630] == 3
    assert lines[6]["metrics"]["length"] == 200


def test_replay_holds_what_each_environment_answered(whole):
    """In the order of steps: Pendulum's own equations lead from every third to the next."""
    for seed in range(2):
        there = safetensors.numpy.load_file(whole / f"seed-{seed}" / records.REPLAY_FILE)
        assert there["obs"].shape == (720, 3)
        starts = []
        for env in range(3):
            own = {name: array[env::3] for name, array in there.items()}
            cos, sin, speed = own["obs"].T.astype(float)
            torque = 2 * own["executed"][:, 0]
            after = np.clip(speed + (15 * sin + 3 * torque) * 0.05, -8, 8)
            off = np.abs(after[:-1] - speed[1:]) > 1e-4
            assert np.flatnonzero(off).tolist() == np.flatnonzero(own["ended"]).tolist() == [199]
            cost = np.arctan2(sin, cos) ** 2 + 0.1 * speed**2 + 0.001 * torque**2
            np.testing.assert_allclose(own["reward"], -cost, atol=1e-4)
            starts += [tuple(own["obs"][0]), tuple(own["obs"][200])]
        assert len(set(starts)) == 6
        # Uniform for 40 steps of the run, which end within a step of all environments.
        assert np.abs(there["executed"][:40]).max() > 0.9
        assert len(np.unique(there["error"])) > 700


def test_visitation_tells_the_episodes_of_environments_apart(whole):
    visited = states.load(whole / "seed-0")
    assert visited.first == 40
    episodes = visited.episodes
    assert len(np.unique(episodes)) == 6
    for index in range(3):  # the 41st step of the run is the second environment's
        assert len(np.unique(episodes[index::3])) == 2
    assert (episodes[:3] == [1, 2, 0]).all()


def test_a_stopped_run_resumes_exactly(whole, tmp_path):
    """Stopped in an evaluation, in warm-up, between evaluations, after episodes have ended."""
    for step in (0, 36, 303, 636):
        assert stop_at(step, runs_of(**ASKED), tmp_path) == step
    launch.train(runs_of(**ASKED), tmp_path)
    assert_same_files(whole, tmp_path)


RESUMED = [
    # A ring that goes round; running statistics of observations and rewards; delayed rewards.
    ("td3", "discover", {"replay_size": 100, "env.reward_delay": 5}),
    ("ddpg", "ou", {"normalise_rewards": True, "train_every": 4, "updates": 4}),
    ("sac", "gsde", {"lr_decay": 1.0, "env.limit_terminates": True}),
    ("td3", "noisynet", {}),
    ("sac", "coherent", {"task": "Hopper-v5", "env.backend": "envpool", "replay_size": 150}),
    ("td3", "seek", {"task": "Hopper-v5", "replay_size": 77}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "strategy", "settings"), RESUMED)
def test_every_kind_of_state_resumes_exactly(tmp_path, algorithm, strategy, settings):
    asked = {"algorithm": algorithm, "strategy": strategy, **THREE, **settings}
    launch.train(runs_of(**asked), tmp_path / "whole")
    for step in (36, 102, 207):
        assert stop_at(step, runs_of(**asked), tmp_path / "stopped") == step
    launch.train(runs_of(**asked), tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.slow
def test_backends_agree_on_what_a_run_is(tmp_path):
    """The same numbers of steps, evaluations and transitions, and every kind of end."""
    for backend in ("gymnasium", "envpool"):
        more = {"env.backend": backend, "compute.keep_replay": True, **THREE}
        launch.train(runs_of("Hopper-v5", 300, 1, **more), tmp_path / backend)
        there = safetensors.numpy.load_file(tmp_path / backend / "seed-0" / records.REPLAY_FILE)
        assert len(there["obs"]) == 300
        assert there["terminated"].sum() == there["ended"].sum() > 3


@pytest.mark.slow
def test_an_environment_that_breaks_ends_its_run_alone(tmp_path):
    """The first of the second run's environments raises at its 30th step, the 90th of the run."""
    runs = runs_of("tests.helpers.fragile:Fragile-v0", 120, **THREE)
    found = launch.train(runs, tmp_path)
    assert found["seed-0"].done
    failure = found["seed-1"].failure
    assert (failure["step"], failure["event"]) == (90, "crashed")
    assert failure["reason"].endswith("RuntimeError: the left hip gave way")


@pytest.mark.slow
def test_delayed_rewards_are_those_of_each_environment(tmp_path):
    more = {"env.reward_delay": 7, "compute.keep_replay": True, "env.count": 2}
    launch.train(runs_of(steps=60, seeds=1, strategy="none", **more), tmp_path)
    there = safetensors.numpy.load_file(tmp_path / "seed-0" / records.REPLAY_FILE)
    for env in range(2):
        assert np.flatnonzero(there["reward"][env::2]).tolist() == [6, 13, 20, 27]


def test_what_follows_one_episode_after_the_other_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"^env\.count must be 1 with meta, which follows one"):
        launch.train(runs_of(algorithm="ddpg", strategy="meta", **THREE), tmp_path)
    assert not [name for name in files(tmp_path) if name.endswith("record.jsonl")]


# More steps, and other runs that start from one.


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """A run of 102 steps, 34 in each environment, that has kept its checkpoint."""
    out = tmp_path_factory.mktemp("kept")
    stop_at(51, runs_of(steps=102, seeds=1, **KEEP), out)
    launch.train(runs_of(steps=102, seeds=1, **KEEP), out)
    return out


@pytest.mark.slow
def test_more_steps_equal_a_longer_run(kept, tmp_path):
    out, long = tmp_path / "out", tmp_path / "long"
    shutil.copytree(kept, out)
    launch.train(runs_of(seeds=1, **KEEP), out)
    launch.train(runs_of(seeds=1, **KEEP), long)
    for name in ("record.jsonl", "policy.safetensors", "checkpoint/lane.safetensors"):
        assert (out / "seed-0" / name).read_bytes() == (long / "seed-0" / name).read_bytes()


def held(replay) -> list[tuple[float, ...]]:
    """The transitions of a lane's buffer, ring by ring, as plain numbers."""
    rings, found = [replay], []
    if np.ndim(replay.inserted):
        rings = [lane_of(replay, ring) for ring in range(len(replay.inserted))]
    for ring in rings:
        which = np.arange(int(ring.oldest), int(ring.inserted))
        batch = replay_buffer.take(ring, which)
        parts = [np.reshape(part, (len(which), -1)) for part in batch]
        found += map(tuple, np.concatenate(parts, axis=1).tolist())
    return found


@pytest.mark.slow
def test_replay_is_taken_over_whatever_the_number_of_environments(kept):
    source = kept / "seed-0"
    size = spaces("Pendulum-v1", runs_of()[0].env, "cpu").observation_size
    there = held(_taken(source, 3, 300, size))
    inserted = int(kept_checkpoints.counters(source)["inserted"].sum())
    assert len(there) == len(set(there)) == inserted
    for count in (1, 2, 5):
        assert sorted(held(_taken(source, count, 300, size))) == sorted(there)
    # Where there is less room, the newest of each environment; seams take a row each.
    ends = [(i + 1) * inserted // 3 for i in range(3)]
    newest = {it for end in ends for it in there[end - 10 : end]}
    for count in (1, 2, 3):
        found = held(_taken(source, count, 30, size))
        assert len(found) == len(set(found)) >= 28
        assert newest >= set(found)
    assert newest == set(found)


def _taken(source: Path, count: int, capacity: int, size: int):
    """A buffer for so many transitions in all that starts with those of a run."""
    if count == 1:
        empty = replay_buffer.init(capacity, size, 1)
    else:
        empty = replay_rings.init(count, capacity // count, size, 1)
    lanes = jax.tree.map(lambda leaf: leaf[None], empty)
    return jax.tree.map(lambda leaf: leaf[0], kept_checkpoints.load_replay(source, lanes))


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_warm_start_resumes_exactly(kept, tmp_path, count):
    runs = runs_of(seeds=1, steps=120, **{"env.count": count, "warmup": 0})
    spec = spaces(runs[0].task, runs[0].env, "cpu")
    started = started_from(kept / "seed-0", runs, spec, tmp_path)
    assert started[0].start.transitions == started[0].start.step
    launch.train(started, tmp_path / "whole")
    for step in (0, 36, 90):
        stop_at(step, started, tmp_path / "stopped")
    launch.train(started, tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")


def test_a_request_says_when_environments_are_evaluated():
    (run,) = resolve(Request("Pendulum-v1", "sac", "none", 4_800, 1, {"env.count": 16}))
    assert (run.env.count, run.eval.every) == (16, 1008)
