"""The loop: the same again is the same, and stopping costs nothing."""

import subprocess
from pathlib import Path

import pytest

from discover_rl import provenance, store, training
from tests.trainings import assert_same_files, files, runs_of, stop_at


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """An uninterrupted run."""
    out = tmp_path_factory.mktemp("whole")
    training.train(runs_of(), out)
    return out


def test_records_have_a_header_and_every_evaluation(whole):
    lines = store.Record(whole / "seed-1/record.jsonl").lines
    assert lines[0]["run"] == runs_of()[1].to_json()
    assert lines[0]["code"] == provenance.code()
    assert [line["step"] for line in lines[1:]] == [0, 60, 120, 180, 240]
    assert all(len(line["returns"]) == len(line["lengths"]) == 2 for line in lines[1:])
    assert "saturation" in lines[-1]["report"]
    assert files(whole / "seed-1") == ["policy.json", "policy.safetensors", "record.jsonl"]
    assert files(whole) == [".lock"] + [
        f"seed-{i}/{name}"
        for i in range(2)
        for name in ("policy.json", "policy.safetensors", "record.jsonl")
    ]


def test_the_same_again_is_the_same(whole, tmp_path):
    training.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


def test_done_is_done(whole, tmp_path):
    before = {name: (whole / name).stat().st_mtime_ns for name in files(whole) if name != ".lock"}
    training.train(runs_of(), whole)
    assert {name: (whole / name).stat().st_mtime_ns for name in before} == before


def test_the_commit_is_that_of_the_checkout(monkeypatch):
    assert provenance.commit() is None  # as where there is none: see conftest.py
    monkeypatch.delenv("GIT_DIR")
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=12"]
    told = subprocess.run(command, capture_output=True, text=True)
    if told.returncode:
        pytest.skip("not a checkout")
    assert provenance.commit.__wrapped__().removesuffix("-dirty") == told.stdout.strip()


@pytest.mark.parametrize(
    "stops", [(0, 0, 41), *(pytest.param(it, marks=pytest.mark.slow) for it in ((25, 120), (230,)))]
)
def test_a_stopped_run_goes_on_exactly(whole, tmp_path, stops):
    """Stopped while evaluating, in warm-up, when learning starts, before an evaluation, late."""
    for step in stops:
        assert stop_at(step, runs_of(), tmp_path) == step
    training.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "strategy", "settings"),
    [
        # Observations' statistics and a process with a memory; a temperature and rounds of updates.
        ("ddpg", "ou", {}),
        ("sac", "discover", {"train_every": 8, "updates": 8, "lr_decay": 1.0}),
        # Half a rollout of several environments; one that is not full at the end; memories of each.
        ("ppo", "discover", {"env.count": 2}),
        ("ppo", "none", {"horizon": 200}),
        ("a2c", "ou", {"env.count": 2}),
        # Keys to recall, beliefs, a copy of the actor, weights that wander.
        ("ppo", "psne", {"env.count": 2}),
        ("a2c", "noisynet", {}),
        ("ppo", "coherent", {"env.count": 2}),
        ("ddpg", "psne", {}),
        ("sac", "coherent", {}),
    ],
)
def test_whatever_learns_goes_on_exactly(tmp_path, algorithm, strategy, settings):
    runs = runs_of(algorithm=algorithm, strategy=strategy, **settings)
    training.train(runs, tmp_path / "whole")
    for step in (36, 102):
        assert stop_at(step, runs, tmp_path / "stopped") == step
    training.train(runs, tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")


def test_checkpoints_change_nothing(whole, tmp_path):
    training.train(runs_of(), tmp_path, checkpoint_seconds=0.02)
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
def test_more_seeds_later_only_add(whole, tmp_path):
    training.train(runs_of(seeds=[0, 1]), tmp_path)
    records = training.train(runs_of(seeds=3), tmp_path)
    assert records["seed-2"].done
    for name in ("seed-0", "seed-1"):
        assert_same_files(whole / name, tmp_path / name)
