"""Complete tunings with real training: trials are lanes, and stopping changes nothing. Slow."""

import csv
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from discover_rl import config
from discover_rl.agents.off_policy import agent
from discover_rl.core.types import Stopped
from discover_rl.storage import checkpoints, load_run
from discover_rl.storage.records import Record
from discover_rl.training import launch
from discover_rl.training.observers import Observer
from tests.cli.test_cli import discover
from tests.helpers.trainings import OFF, StopAt, assert_same_files
from tests.tuning.test_tune import RANGES, SETTINGS, tuned


class CohortRecorder(Observer):
    """Keeps the names of the runs of every cohort that starts."""

    def __init__(self):
        self.cohorts = []

    def started(self, runs, step):
        self.cohorts.append([run.name for run in runs])


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, list[list[str]]]:
    """An uninterrupted tuning, and its cohorts."""
    out, recorder = tmp_path_factory.mktemp("whole"), CohortRecorder()
    tuned(out, observer=recorder)
    return out, recorder.cohorts


@pytest.mark.slow
def test_trials_of_a_batch_are_lanes_of_one_cohort(whole):
    assert whole[1] == [[f"trial-{i}/seed-1000" for i in pair] for pair in ((0, 1), (2, 3))]


@pytest.mark.slow
def test_runs_and_scores_are_those_of_the_chosen_settings(whole, tmp_path):
    out, _ = whole
    with (out / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))[:2]
    runs = []
    for row in rows:
        settings = SETTINGS | {name: float(row[name]) for name in RANGES}
        runs += config.resolve(
            config.Request("Pendulum-v1", "td3", "discover", 240, [1000], settings)
        )
    for row, run in zip(rows, runs, strict=True):
        record = Record(out / f"batch-000/trial-{row['trial']}/seed-1000/record.jsonl")
        assert record.header is not None
        assert record.header["run"] == run.to_json()
        returns = [line["returns"][0] for line in record.evaluations]
        assert float(row["score"]) == returns[-1]  # the last tenth of three, and not step 0


@pytest.mark.slow
def test_a_tuning_that_is_stopped_in_a_batch_resumes_exactly(whole, tmp_path, monkeypatch):
    stop = StopAt(100)
    monkeypatch.setattr(agent, "CHUNK", 1)
    with monkeypatch.context() as patch:
        train = launch.train

        def train_until(runs, out, observer, _stopping, *options, **leg):
            return train(runs, out, stop, stop.stopping, *options, **leg)

        patch.setattr(launch, "train", train_until)
        with pytest.raises(Stopped) as stopped:
            tuned(tmp_path)
    assert stopped.value.step == 100
    tuned(tmp_path)
    for name in ("trials.csv", "request.json"):
        assert (tmp_path / name).read_bytes() == (whole[0] / name).read_bytes()
    for batch in ("batch-000", "batch-001"):
        assert_same_files(whole[0] / batch, tmp_path / batch)


@pytest.mark.slow
@pytest.mark.usefixtures("no_limits")
def test_a_trial_that_diverges_fails_and_keeps_the_reason(tmp_path, capfd):
    """Learning starts after 40 steps; with a rate of 1e30 numbers overflow two or three later."""
    settings = [f"--set={name}={str(value).strip('(),')}" for name, value in SETTINGS.items()]
    words = ["tune", "Pendulum-v1", "--steps=240", "--trials=4", "--lanes=2", "--processes=1"]
    words += [f"--out={tmp_path}", "--range=critic_lr=3e-4,1e30", *settings]
    assert discover(*words) == 0
    with (tmp_path / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    bad = [row for row in rows if row["critic_lr"] == "1e+30"]
    assert 0 < len(bad) < 4  # Optuna tries both choices
    for row in rows:
        assert bool(row["failure"]) == (row in bad) == (not row["score"])
    assert "is not finite (step 4" in bad[0]["failure"]
    assert bad[0]["failure"].endswith(", seed 1000")
    out = capfd.readouterr().out
    assert f"failed, the first of them trial {bad[0]['trial']}: {bad[0]['failure']}\n" in out
    assert "--set critic_lr=0.0003" in out.splitlines()[-1]


KILLED = """
import discover_rl
discover_rl.tune("Pendulum-v1", {ranges!r}, steps=4000, seeds=1, out={out!r},
                 checkpoint_seconds=0.2, processes=2, **{settings!r})
"""


def command(out: Path, **settings) -> list[str]:
    """A command that tunes in a process of its own."""
    settings = OFF | {"eval.every": 500, **settings}
    return [sys.executable, "-c", KILLED.format(ranges=RANGES, out=str(out), settings=settings)]


def kill_once(words: list[str], found: Callable[[], bool]) -> None:
    """Start a command, and kill it as soon as something is found."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    while not found():
        assert process.poll() is None, "the process ended before it could be killed"
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_kill_9_loses_nothing(tmp_path):
    """Killed in the first batch and in the second, with two processes."""
    options = {"trials": 6, "lanes": 4, "eval.every": 1000}
    subprocess.run(command(tmp_path / "whole", **options), check=True, stdout=subprocess.DEVNULL)
    words = command(tmp_path / "killed", **options)
    for batch in ("batch-000", "batch-001"):
        workers = tmp_path / "killed" / batch
        kill_once(words, lambda it=workers: any(it.glob("workers/*/checkpoint-*/cohort.json")))
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert (whole / "trials.csv").read_bytes() == (killed / "trials.csv").read_bytes()
    for batch in ("batch-000", "batch-001"):
        assert_same_files(whole / batch, killed / batch)


@pytest.mark.slow
def test_kill_9_prunes_the_same_trials(tmp_path):
    """Killed on the way to the first rung, past it, and past the last, with two processes."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = {"trials": 12, "lanes": 6, "prune": "median"}
    subprocess.run(command(whole, **options), check=True, stdout=subprocess.DEVNULL)
    words = command(killed, **options)
    for step in (0, 500, 2000):

        def past(step=step) -> bool:
            begun = [it for it in killed.glob("batch-001/workers/*") if checkpoints.find(it)]
            return any(checkpoints.step_of(it) >= step for it in begun)

        kill_once(words, past)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    with (whole / "trials.csv").open() as file:
        pruned = [row for row in csv.DictReader(file) if row["pruned"]]
    assert 0 < len(pruned) < 6
    assert (whole / "trials.csv").read_bytes() == (killed / "trials.csv").read_bytes()
    for batch in ("batch-000", "batch-001"):
        assert_same_files(whole / batch, killed / batch)
    assert not list(whole.rglob("checkpoint-*"))
    for row in pruned:
        folder = whole / f"batch-001/trial-{row['trial']}/seed-1000"
        assert load_run(folder).reason.startswith("pruned: with ")
        assert (
            load_run(folder).steps[-1]
            == int(row["pruned"])
            == load_run(folder).policy().about["step"]
        )
