"""Several processes: the same results as one process, whatever happens to any of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from discover_rl import config
from discover_rl.core.types import Stopped, UserError
from discover_rl.storage import checkpoints, records
from discover_rl.system import hardware
from discover_rl.training import launch
from discover_rl.training.engines import local
from discover_rl.training.job import Job
from discover_rl.training.observers import Observer
from tests.helpers.trainings import assert_same_files

STEPS = 6144  # long enough to be killed before the end
SETTINGS = {"horizon": 128, "hidden": (16, 16), "eval.every": 512, "eval.episodes": 1}
COMMAND = [
    *(sys.executable, "-m", "discover_rl", "train", "Pendulum-v1", "--algorithm", "ppo"),
    *("--strategy", "discover", "--steps", str(STEPS), "--seeds", "3", "--processes", "2"),
    *("--set", "horizon=128", "--set", "hidden=16,16"),
    *("--set", "eval.every=512", "--set", "eval.episodes=1"),
]


def runs_of(steps: int = STEPS, seeds: int = 3, **settings):
    return config.resolve(
        config.Request("Pendulum-v1", "ppo", "discover", steps, seeds, SETTINGS | settings)
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All runs trained by one process without interruption."""
    out = tmp_path_factory.mktemp("whole")
    launch.train(runs_of(), out)
    return out


class Recorder(Observer):
    """Asks to stop at a step, and notes the calls of its other methods."""

    def __init__(self, stop: int):
        self.stop, self.step, self.calls = stop, 0, []

    def started(self, runs, step):
        self.calls.append(("started", len(runs), step))

    def stepped(self, step):
        assert step >= self.step
        self.step = step

    def evaluated(self, run, step, returns, report):
        self.calls.append((run.name, step, len(returns)))

    def finished(self, runs):
        self.calls.append(("finished", len(runs)))

    def stopping(self):
        return self.step >= self.stop


@pytest.mark.slow
def test_two_processes_do_what_one_does_and_one_observer_gets_every_event(whole, tmp_path):
    recorder = Recorder(10**9)
    records = launch.train(runs_of(), tmp_path, recorder, processes=2)
    assert all(record.done for record in records.values())
    assert_same_files(whole, tmp_path)
    assert recorder.calls[0] == ("started", 3, 0)
    assert recorder.calls[-1] == ("finished", 3)
    steps = range(0, STEPS + 1, 512)
    evaluations = {(f"seed-{seed}", step, 1) for seed in range(3) for step in steps}
    assert evaluations == set(recorder.calls[1:-1])
    assert not (tmp_path / "workers").exists()


@pytest.mark.slow
def test_stopped_and_resumed_by_another_number_of_processes(whole, tmp_path):
    recorder = Recorder(1000)
    with pytest.raises(Stopped) as stopped:
        launch.train(runs_of(), tmp_path, recorder, recorder.stopping, processes=3)
    assert stopped.value.step >= 1000
    workdirs = (tmp_path / "workers").iterdir()
    assert len([workdir for workdir in workdirs if checkpoints.find(workdir)]) == 3
    launch.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


def wait_for(condition, seconds: float = 60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    """The workers of a process."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    lines = {int(child): Path(f"/proc/{child}/cmdline").read_text() for child in listed}
    return [child for child, line in lines.items() if "spawn_main" in line]


def both_began(out) -> bool:
    """Whether two workers have written checkpoints."""
    workdirs = list((out / "workers").glob("*")) if (out / "workers").exists() else []
    return len(workdirs) == 2 and all(checkpoints.find(workdir) for workdir in workdirs)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["parent", "worker"])
def test_killed_and_run_again(whole, tmp_path, victim):
    process = subprocess.Popen([*COMMAND, "--out", str(tmp_path)], stderr=subprocess.PIPE)
    wait_for(lambda: both_began(tmp_path))
    workers = children(process.pid)
    os.kill(process.pid if victim == "parent" else workers[0], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    if victim == "worker":
        assert process.returncode == 1
        assert b"killed by signal 9; the same command again goes on" in err
    done = subprocess.run([*COMMAND, "--out", str(tmp_path)], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
def test_interrupted_by_the_keyboard(whole, tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "--out", str(tmp_path)], stderr=subprocess.PIPE, start_new_session=True
    )
    wait_for(lambda: both_began(tmp_path))
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"all is saved" in err
    launch.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
def test_a_user_error_in_a_worker_is_raised_as_a_user_error(tmp_path):
    runs = runs_of(seeds=2)
    recorder = Recorder(300)
    with pytest.raises(Stopped):
        launch.train(runs, tmp_path, recorder, recorder.stopping, processes=2)
    # One worker may have finished before the other began.
    lane, *_ = (tmp_path / "workers").glob("*/checkpoint-*/*.safetensors")
    lane.write_bytes(lane.read_bytes()[:-1])
    with pytest.raises(UserError, match="damaged"):
        launch.train(runs, tmp_path, processes=2)


def test_an_error_in_a_worker_is_raised_with_its_traceback():
    try:
        raise ZeroDivisionError("by nought")
    except ZeroDivisionError as error:
        sent = local.portable(error)
    assert isinstance(sent, ChildProcessError)
    assert str(sent) == "A worker failed: ZeroDivisionError: by nought"
    assert "test_workers.py" in sent.__notes__[0]
    mistake = UserError("a mistake")
    assert local.portable(mistake) is mistake


def test_as_many_processes_as_cores_and_no_more_than_runs():
    lockstep = config.resolve(config.Request("Pendulum-v1", "td3", "none", 100, 3, {}))
    assert launch.best_processes(lockstep) == min(3, hardware.cores())
    assert 1 <= launch.best_processes(runs_of()) <= 3


@pytest.mark.slow
def test_off_policy_runs_resume_exactly_with_any_number_of_workers(tmp_path):
    """Every worker has one thread, however many workers there are."""
    settings = {"hidden": (8,), "batch_size": 8, "warmup": 40, "eval.every": 60}
    runs = config.resolve(config.Request("Pendulum-v1", "td3", "discover", 180, 3, settings))
    launch.train(runs, tmp_path / "whole", processes=2)
    recorder = Recorder(60)
    with pytest.raises(Stopped):
        launch.train(runs, tmp_path / "cut", recorder, recorder.stopping, processes=2)
    launch.train(runs, tmp_path / "cut", processes=1)
    assert_same_files(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.slow
def test_killed_when_only_one_worker_had_begun(tmp_path):
    """The runs of the other worker, which have no files yet, train together again."""
    settings = {"hidden": (8,), "batch_size": 8, "warmup": 40, "eval.every": 60}
    runs = config.resolve(config.Request("Pendulum-v1", "td3", "discover", 180, 4, settings))
    launch.train(runs, tmp_path / "whole", processes=2)
    recorder, cut = Recorder(60), tmp_path / "cut"
    with pytest.raises(Stopped):
        launch.train(runs, cut, recorder, recorder.stopping, processes=2)
    shutil.rmtree(cut / "workers" / "1")
    for run in runs[1::2]:
        shutil.rmtree(cut / run.name)
    launch.train(runs, cut, processes=2)
    assert_same_files(tmp_path / "whole", cut)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_interrupted_while_workers_start(whole, tmp_path, seconds):
    process = subprocess.Popen(
        [*COMMAND, "--out", str(tmp_path)], stderr=subprocess.PIPE, start_new_session=True
    )
    wait_for((tmp_path / ".lock").exists)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err
    launch.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
def test_stopped_before_any_worker_has_started(whole, tmp_path):
    with pytest.raises(Stopped) as stopped:
        launch.train(runs_of(), tmp_path, stopping=lambda: True, processes=2)
    assert stopped.value.step == 0
    launch.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
def test_a_worker_whose_parent_was_killed_writes_nothing_more(tmp_path):
    """The parent is killed in a long evaluation, and one process starts again at once."""
    slow = [*COMMAND, "--out", str(tmp_path), "--set", "eval.episodes=400"]
    slow[slow.index(str(STEPS))] = "512"
    process = subprocess.Popen(slow)
    wait_for(lambda: both_began(tmp_path))
    process.kill()
    process.wait()
    slow[slow.index("--processes") + 1] = "1"
    done = subprocess.run(slow, capture_output=True, timeout=200)
    assert done.returncode == 0, done.stderr
    for path in tmp_path.glob("seed-*/record.jsonl"):
        steps = [line["step"] for line in records.Record(path).lines[1:]]
        assert steps == [0, 512]


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="this system cannot bind processes to cores"
)
def test_shares_of_the_cores_are_disjoint_and_cover_all():
    every = os.sched_getaffinity(0)
    parts = []
    try:
        for part in range(len(every)):
            hardware.use_share_of_cores(part, len(every))
            parts.append(os.sched_getaffinity(0))
            os.sched_setaffinity(0, every)
        hardware.use_share_of_cores(0, len(every) + 1)  # too many shares: nothing changes
        parts.append(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, every)
    assert sorted(core for part in parts[:-1] for core in part) == sorted(every)
    assert parts[-1] == every


@pytest.mark.slow
@pytest.mark.skipif(hardware.cores() < 2, reason="one core cannot be divided")
def test_workers_that_share_a_gpu_have_separate_cores(tmp_path, monkeypatch):
    """Three cohorts in two places: the third takes the place that is free first."""
    monkeypatch.setenv("SEATS", str(tmp_path))
    small = {"hidden": (8,), "warmup": 20, "eval.every": 60, "eval.episodes": 1}
    runs = config.resolve(
        config.Request("tests.helpers.fragile:Seated-v0", "td3", "none", 60, (0, 2, 3), small)
    )
    out = tmp_path / "out"
    jobs = [Job([run], out, out / f"work-{run.seed}", "gpu") for run in runs]
    outcomes = local.run(jobs, lambda *_: None, lambda: False, places={"cpu": 2, "gpu": 2})
    assert outcomes == [None] * 3
    cores = [set(json.loads(path.read_text())) for path in tmp_path.iterdir() if path.is_file()]
    assert len(cores) == 3
    different = {frozenset(own) for own in cores}
    assert len(different) == 2
    assert frozenset.union(*different) == os.sched_getaffinity(0)
    assert not frozenset.intersection(*different)
