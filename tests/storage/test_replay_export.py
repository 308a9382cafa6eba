"""What a run keeps of its replay when it is done, and that keeping it changes nothing else."""

from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors.numpy

from discover_rl.config import Request, resolve
from discover_rl.core import replay_buffer
from discover_rl.core.prng import Stream, streams
from discover_rl.core.pytrees import lane_of
from discover_rl.core.types import UserError
from discover_rl.storage import files, records, replay_export
from discover_rl.training import job as jobs
from discover_rl.training import launch as training
from tests.helpers import cells, trainings
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

KEEP = {"compute.keep_replay": True}
NAMES = {"obs", "executed", "reward", "terminated", "ended", "error"}


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("kept")
    training.train(runs_of(**KEEP), out)
    return out


def loaded(out: Path, name: str = "seed-0") -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(out / name / records.REPLAY_FILE)


# Keeping changes nothing else


def test_lines_and_policy_are_those_of_a_run_that_keeps_nothing(kept, tmp_path):
    training.train(runs_of(), tmp_path)
    for name in ("seed-0", "seed-1"):
        headers, lines = [], []
        for out in (kept, tmp_path):
            first, *rest = (out / name / "record.jsonl").read_bytes().splitlines(keepends=True)
            headers.append(first)
            lines.append(rest)
        assert lines[0] == lines[1]
        said = [b'"compute.keep_replay": ' + word for word in (b"true", b"false")]
        assert headers[0].replace(*said) == headers[1]
        policies = [(out / name / "policy.safetensors").read_bytes() for out in (kept, tmp_path)]
        assert policies[0] == policies[1]
    assert {*trainings.files(kept)} - {*trainings.files(tmp_path)} == {
        f"seed-{i}/{records.REPLAY_FILE}" for i in (0, 1)
    }


@pytest.mark.slow
def test_a_stopped_run_keeps_the_same(kept, tmp_path):
    assert stop_at(102, runs_of(**KEEP), tmp_path) == 102
    training.train(runs_of(**KEEP), tmp_path)
    assert_same_files(kept, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_who_dies_while_keeping_it_does_it_again(kept, tmp_path, monkeypatch, when):
    """A run is not done before its replay is there: what says so is written last."""
    write, whole = files.write, records.Record.append

    def dies(path, content):
        if path.name == records.REPLAY_FILE and path.parent.name == "seed-1" and when == "before":
            raise KeyboardInterrupt
        return write(path, content)

    def stops(record, line):
        if line["step"] == 240 and when == "after":
            raise KeyboardInterrupt
        whole(record, line)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write", dies)
        patch.setattr(records.Record, "append", stops)
        with pytest.raises(KeyboardInterrupt):
            training.train(runs_of(**KEEP), tmp_path)
    assert not records.Record(tmp_path / "seed-1/record.jsonl").done
    training.train(runs_of(**KEEP), tmp_path)
    assert_same_files(kept, tmp_path)


# What is kept


def test_it_has_every_transition_in_order(kept):
    there = loaded(kept)
    assert there.keys() == NAMES
    assert there["obs"].shape == (240, 3)
    assert there["obs"].dtype == np.float32
    assert np.flatnonzero(there["ended"]).tolist() == [199]  # Pendulum's time limit
    assert not there["terminated"].any()
    # Pendulum's own equations lead from one observation to the next, but where an episode ends.
    cos, sin, speed = there["obs"].T.astype(float)
    torque = 2 * there["executed"][:, 0]
    after = np.clip(speed + (15 * sin + 3 * torque) * 0.05, -8, 8)
    off = np.abs(after[:-1] - speed[1:]) > 1e-4
    assert np.flatnonzero(off).tolist() == [199]
    angle = np.arctan2(sin, cos)
    cost = angle**2 + 0.1 * speed**2 + 0.001 * torque**2
    np.testing.assert_allclose(there["reward"], -cost, atol=1e-4)


@pytest.mark.slow
def test_parts_are_the_whole(monkeypatch):
    """In chunks, of a ring that has gone round, against one batch of all of them."""
    monkeypatch.setattr(replay_export, "PART", 16)
    hypers = cells.hypers("td3", "discover", replay_size=40)
    made, seeds = cells.made("td3", "discover", *hypers), [5, 6]
    state, _ = cells.run(made, cells.begin(made, seeds, *hypers), seeds, 50)
    for lane in (0, 1):
        kept = replay_export.collect(made, state, lane, 50)
        own = lane_of(state, lane)
        which = np.arange(own.replay.oldest, 50)
        assert len(which) < 40 + 1
        batch = replay_buffer.take(own.replay, which)
        # DISCOVER's targets draw no noise, so the key does not matter.
        key = streams(own.seed, 50)[Stream.REPORT]
        np.testing.assert_array_equal(kept.obs, batch.obs)
        np.testing.assert_array_equal(kept.reward, batch.reward)
        expected = jax.jit(made.algorithm.errors)(own.learner, batch, key)
        np.testing.assert_allclose(kept.error, expected, rtol=1e-5)
        ends = [(seeds[lane] + step) % 10 == 0 for step in range(51 - len(which), 51)]
        assert kept.ended.tolist() == ends


@pytest.mark.parametrize(
    "algorithm", ["td3", *(pytest.param(it, marks=pytest.mark.slow) for it in ("ddpg", "sac"))]
)
def test_every_off_policy_algorithm_has_errors(algorithm):
    hypers = cells.hypers(algorithm, "gaussian")
    made = cells.made(algorithm, "gaussian", *hypers)
    state = lane_of(cells.begin(made, [3], *hypers), 0).learner
    batch, key = cells.batch(), jax.random.key(0)
    errors_of = jax.jit(made.algorithm.errors)
    errors = errors_of(state, batch, key)
    assert errors.shape == batch.reward.shape
    reported = jax.jit(made.algorithm.report)(state, batch, key)["td_error"]
    assert float(errors.mean()) == pytest.approx(float(reported), rel=1e-5)
    ends = batch._replace(terminated=np.ones_like(batch.terminated))  # y = r, so no nets in it
    moved = errors_of(state, ends._replace(reward=batch.reward + 1000), key)
    scale = getattr(hypers[0], "reward_scale", 1.0)
    np.testing.assert_allclose(moved, 1000 * scale, rtol=0.02)


# Old records


def test_a_record_from_before_the_setting_is_of_the_same_run_by_default():
    (now,) = resolve(Request("Pendulum-v1", "td3", "none", 2000, 1, {}))
    (other,) = resolve(Request("Pendulum-v1", "td3", "none", 2000, 1, KEEP))
    old = now.to_json()
    del old["settings"]["compute.keep_replay"]
    assert jobs.difference(old, now.to_json()) == ""
    assert jobs.difference(now.to_json(), old) == ""
    said = "compute.keep_replay is False there and True here"
    assert jobs.difference(old, other.to_json()) == said
    old["settings"]["gamma"] = 0.5
    assert jobs.difference(old, now.to_json()) == "gamma is 0.5 there and 0.99 here"


def test_on_policy_there_is_nothing_to_keep():
    with pytest.raises(UserError, match=r"^compute\.keep_replay is off-policy only; ppo has"):
        resolve(Request("Pendulum-v1", "ppo", "none", 5000, 1, KEEP))
