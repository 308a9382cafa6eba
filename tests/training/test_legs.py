"""Runs that are left at a step and go on in other cohorts: exact, wherever they are killed."""

from pathlib import Path

import pytest

from discover_rl.core.types import UserError
from discover_rl.storage import checkpoints, kept_checkpoints
from discover_rl.storage.policies import load_policy
from discover_rl.storage.records import Record
from discover_rl.training import launch
from discover_rl.training.observers import Observer
from tests.helpers.trainings import assert_same_files, runs_of, stop_at


class Cohorts(Observer):
    """Keeps which runs start together, and where."""

    def __init__(self):
        self.started_at, self.finished_runs = [], []

    def started(self, runs, step):
        self.started_at.append((step, [run.seed for run in runs]))

    def finished(self, runs):
        self.finished_runs += [run.seed for run in runs]


def in_legs(runs, out, steps=(120, 240), **options):
    """Train all runs to the first step, and then all but the second, of which nothing is kept."""
    for i, step in enumerate(steps):
        living = runs if not i else [run for run in runs if run.seed != 1]
        launch.train(living, out, until=step, **options)
    kept_checkpoints.drop(runs, out)


def lines(out, seed):
    return Record(out / f"seed-{seed}/record.jsonl").lines[1:]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Three runs of which the second does not go on after step 120."""
    out = tmp_path_factory.mktemp("whole")
    in_legs(runs_of(seeds=3), out)
    return out


def test_runs_that_are_left_go_on_without_others(whole, tmp_path):
    seen = Cohorts()
    launch.train(runs_of(seeds=3), tmp_path, seen, until=120)
    assert seen.finished_runs == []
    assert checkpoints.find(tmp_path) is None
    kept = [kept_checkpoints.kept(tmp_path / f"seed-{i}") or {} for i in range(3)]
    assert [entry.get("step") for entry in kept] == [120] * 3
    assert load_policy(tmp_path / "seed-1").about["step"] == 120
    assert (tmp_path / "seed-1/critic.safetensors").exists()
    launch.train(runs_of(seeds=3), tmp_path, seen, until=120)  # there is nothing to do
    launch.train([runs_of(seeds=3)[0], runs_of(seeds=3)[2]], tmp_path, seen, until=240)
    assert seen.started_at == [(0, [0, 1, 2]), (120, [0, 2])]
    assert seen.finished_runs == [0, 2]
    assert [line["step"] for line in lines(tmp_path, 1)] == [0, 60, 120]
    assert [line["step"] for line in lines(tmp_path, 2)] == [0, 60, 120, 180, 240]
    assert [it.parent.parent.name for it in tmp_path.glob("*/checkpoint/replay")] == ["seed-1"]
    kept_checkpoints.drop(runs_of(seeds=3), tmp_path)
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_on_policy_they_are_the_same_as_without_leaving(tmp_path, algorithm):
    """There, lanes together are lanes alone to the bit; the step is within a rollout."""
    runs = runs_of(algorithm=algorithm, seeds=2)
    launch.train(runs, tmp_path / "whole")
    launch.train(runs, tmp_path / "legs", until=120)
    launch.train(runs[:1], tmp_path / "legs", until=240)
    launch.train(runs, tmp_path / "legs", until=240)
    assert_same_files(tmp_path / "whole", tmp_path / "legs")


@pytest.mark.slow
def test_stopped_before_at_and_after_the_step_they_are_the_same(whole, tmp_path):
    runs = runs_of(seeds=3)
    stop_at(50, runs, tmp_path, until=120)
    launch.train(runs, tmp_path, until=120)
    living = [runs[0], runs[2]]
    stop_at(150, living, tmp_path, until=240)
    assert not list(tmp_path.glob("seed-[02]/checkpoint"))
    in_legs(runs, tmp_path)  # the first leg is over and stays so
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["keep", "put_back", "drop"])
def test_killed_while_checkpoints_are_moved_they_are_the_same(whole, tmp_path, monkeypatch, name):
    """Before, between and after the files of different runs."""
    left, kills = 0, 0

    def killing(function):
        def called(*given, **named):
            nonlocal left
            for do in (lambda: None, lambda: function(*given, **named)):
                do()
                if not left:
                    raise KeyboardInterrupt
                left -= 1

        return called

    with monkeypatch.context() as patch:
        patch.setattr(kept_checkpoints, name, killing(getattr(kept_checkpoints, name)))
        patch.setattr(checkpoints, "copy_lane", killing(checkpoints.copy_lane))
        for writes in range(4):
            left = writes
            try:
                in_legs(runs_of(seeds=3), tmp_path)
            except KeyboardInterrupt:
                kills += 1
    assert kills == 4
    in_legs(runs_of(seeds=3), tmp_path)
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
def test_a_lane_that_nothing_can_go_on_from_fails_at_the_step(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "unsound", lambda state, living: {1: "critic.weight"})
    in_legs(runs_of(seeds=2), tmp_path)
    assert lines(tmp_path, 1)[-1] == {"step": 120, "event": "diverged", "quantity": "critic.weight"}
    assert [line["step"] for line in lines(tmp_path, 0)] == [0, 60, 120, 180, 240]


def test_a_checkpoint_that_is_gone_is_named(tmp_path):
    launch.train(runs_of(), tmp_path, until=120)
    (tmp_path / "seed-1/checkpoint").rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"seed-1/checkpoint is gone or too old, though .* 120;"):
        launch.train(runs_of(), tmp_path, until=240)


@pytest.mark.slow
def test_with_two_processes_they_are_divided_anew(tmp_path):
    runs = runs_of(seeds=4)
    for name in ("once", "twice"):
        launch.train(runs, tmp_path / name, processes=2, until=120)
        if name == "twice":
            launch.train(runs, tmp_path / name, processes=2, until=120)
        launch.train([runs[0], runs[2]], tmp_path / name, processes=2, until=240)
    assert_same_files(tmp_path / "once", tmp_path / "twice")
    assert [line["step"] for line in lines(tmp_path / "once", 2)] == [0, 60, 120, 180, 240]
