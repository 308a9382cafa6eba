"""The training loop: it is deterministic, and a run that was stopped and resumed is the same."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from discover_rl.storage import load_run, records
from discover_rl.system import provenance
from discover_rl.training import launch
from discover_rl.training.evaluation import evaluate_policy
from tests.helpers.trainings import assert_same_files, files, runs_of, stop_at


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Uninterrupted runs."""
    out = tmp_path_factory.mktemp("whole")
    launch.train(runs_of(), out)
    return out


def test_records_have_a_header_and_every_evaluation(whole):
    lines = records.Record(whole / "seed-1/record.jsonl").lines
    assert lines[0]["run"] == runs_of()[1].to_json()
    assert lines[0]["code"] == provenance.code()
    assert [line["step"] for line in lines[1:]] == [0, 60, 120, 180, 240]
    assert all(len(line["returns"]) == len(line["lengths"]) == 2 for line in lines[1:])
    assert "saturation" in lines[-1]["report"]
    kinds = ("critic", "policy-best", "policy")
    names = [f"{kind}.{end}" for kind in kinds for end in ("json", "safetensors")]
    names += ["record.jsonl", "checkpoint/cohort.json", "checkpoint/lane.safetensors"]
    assert files(whole / "seed-1") == sorted(names)
    assert files(whole) == [".lock"] + [f"seed-{i}/{it}" for i in range(2) for it in sorted(names)]


def test_the_best_policy_is_that_of_the_best_evaluation_since_learning_started(whole):
    for seed in range(2):
        result = load_run(whole / f"seed-{seed}")
        means = [sum(returns) / len(returns) for returns in result.returns]
        best = max(means[1:])  # learning starts after 40 steps
        policy = result.policy(best=True)
        assert (policy.about["step"], policy.about["return"]) == (
            result.steps[means.index(best)],
            best,
        )
        scores = evaluate_policy(policy, "Pendulum-v1", 2)
        np.testing.assert_allclose(scores.returns.mean(), best)
        assert result.policy().about["step"] == 240


def test_training_is_deterministic(whole, tmp_path):
    launch.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


def test_finished_runs_are_not_touched(whole):
    before = {name: (whole / name).stat().st_mtime_ns for name in files(whole) if name != ".lock"}
    launch.train(runs_of(), whole)
    assert {name: (whole / name).stat().st_mtime_ns for name in before} == before


def test_the_commit_is_that_of_the_checkout(monkeypatch):
    assert provenance.commit() is None  # conftest.py hides the checkout
    monkeypatch.delenv("GIT_DIR")
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=12"]
    described = subprocess.run(command, capture_output=True, text=True)
    if described.returncode:
        pytest.skip("not a checkout")
    assert provenance.commit.__wrapped__().removesuffix("-dirty") == described.stdout.strip()


@pytest.mark.parametrize(
    "stops",
    [(0, 0, 41), *(pytest.param(stops, marks=pytest.mark.slow) for stops in ((25, 120), (230,)))],
)
def test_a_stopped_run_resumes_exactly(whole, tmp_path, stops):
    """Stopped in an evaluation, in warm-up, when learning starts, before an evaluation, late."""
    for step in stops:
        assert stop_at(step, runs_of(), tmp_path) == step
    launch.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "strategy", "settings"),
    [
        # Observation statistics and noise with a memory; a temperature and several updates at once.
        ("ddpg", "ou", {}),
        ("sac", "discover", {"train_every": 8, "updates": 8, "lr_decay": 1.0}),
        # Half a rollout of several environments; a last rollout that is not full; noise of each.
        ("ppo", "discover", {"env.count": 2}),
        ("ppo", "none", {"horizon": 200}),
        ("a2c", "ou", {"env.count": 2}),
        # Recalled keys, beliefs, a copy of the actor, weights that change slowly.
        ("ppo", "psne", {"env.count": 2}),
        ("a2c", "noisynet", {}),
        ("ppo", "coherent", {"env.count": 2}),
        ("ddpg", "psne", {}),
        ("sac", "coherent", {}),
    ],
)
def test_every_kind_of_state_resumes_exactly(tmp_path, algorithm, strategy, settings):
    runs = runs_of(algorithm=algorithm, strategy=strategy, **settings)
    launch.train(runs, tmp_path / "whole")
    for step in (36, 102):
        assert stop_at(step, runs, tmp_path / "stopped") == step
    launch.train(runs, tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")


def test_checkpoints_change_nothing(whole, tmp_path):
    launch.train(runs_of(), tmp_path, checkpoint_seconds=0.02)
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
def test_more_seeds_later_only_add(whole, tmp_path):
    launch.train(runs_of(seeds=[0, 1]), tmp_path)
    records = launch.train(runs_of(seeds=3), tmp_path)
    assert records["seed-2"].done
    for name in ("seed-0", "seed-1"):
        assert_same_files(whole / name, tmp_path / name)
