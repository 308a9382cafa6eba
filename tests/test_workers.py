"""Several processes: the same runs as in one, whatever happens to any of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from discover_rl import checkpoint, config, machine, store, training
from discover_rl.engines import local
from discover_rl.jobs import Job
from discover_rl.observers import Observer
from discover_rl.types import Stopped, UserError
from tests.trainings import assert_same_files

STEPS = 6144  # long enough to be killed on the way
SETTINGS = {"horizon": 128, "hidden": (16, 16), "eval.every": 512, "eval.episodes": 1}
COMMAND = [
    *(sys.executable, "-m", "discover_rl", "train", "Pendulum-v1", "--algorithm", "ppo"),
    *("--strategy", "discover", "--steps", str(STEPS), "--seeds", "3", "--processes", "2"),
    *("--set", "horizon=128", "--set", "hidden=16,16"),
    *("--set", "eval.every=512", "--set", "eval.episodes=1"),
]


def runs_of(steps: int = STEPS, seeds: int = 3, **settings):
    return config.resolve("Pendulum-v1", "ppo", "discover", steps, seeds, SETTINGS | settings)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What comes out when one process does it all, undisturbed."""
    out = tmp_path_factory.mktemp("whole")
    training.train(runs_of(), out)
    return out


class Deafening(Observer):
    """Asks to stop once it has heard of so many steps; writes down what else it hears."""

    def __init__(self, enough: int):
        self.enough, self.step, self.heard = enough, 0, []

    def started(self, runs, step):
        self.heard.append(("started", len(runs), step))

    def stepped(self, step):
        assert step >= self.step
        self.step = step

    def evaluated(self, run, step, returns, report):
        self.heard.append((run.name, step, len(returns)))

    def finished(self, runs):
        self.heard.append(("finished", len(runs)))

    def over(self):
        return self.step >= self.enough


@pytest.mark.slow
def test_two_processes_do_what_one_does_and_one_observer_hears_it_all(whole, tmp_path):
    listener = Deafening(10**9)
    records = training.train(runs_of(), tmp_path, listener, processes=2)
    assert all(record.done for record in records.values())
    assert_same_files(whole, tmp_path)
    assert listener.heard[0] == ("started", 3, 0)
    assert listener.heard[-1] == ("finished", 3)
    steps = range(0, STEPS + 1, 512)
    evaluations = {(f"seed-{seed}", step, 1) for seed in range(3) for step in steps}
    assert evaluations == set(listener.heard[1:-1])
    assert not (tmp_path / "workers").exists()


@pytest.mark.slow
def test_stopped_and_gone_on_with_by_another_number_of_processes(whole, tmp_path):
    listener = Deafening(1000)
    with pytest.raises(Stopped) as stopped:
        training.train(runs_of(), tmp_path, listener, listener.over, processes=3)
    assert stopped.value.step >= 1000
    assert len([desk for desk in (tmp_path / "workers").iterdir() if checkpoint.find(desk)]) == 3
    training.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


def until(condition, seconds: float = 60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    """The workers of a process."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    lines = {int(child): Path(f"/proc/{child}/cmdline").read_text() for child in listed}
    return [child for child, line in lines.items() if "spawn_main" in line]


def begun(out) -> bool:
    desks = list((out / "workers").glob("*")) if (out / "workers").exists() else []
    return len(desks) == 2 and all(checkpoint.find(desk) for desk in desks)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["parent", "worker"])
def test_killed_and_run_again(whole, tmp_path, victim):
    process = subprocess.Popen([*COMMAND, "--out", str(tmp_path)], stderr=subprocess.PIPE)
    until(lambda: begun(tmp_path))
    workers = children(process.pid)
    os.kill(process.pid if victim == "parent" else workers[0], signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    if victim == "worker":
        assert process.returncode == 1
        assert b"killed by signal 9; the same command again goes on" in said
    done = subprocess.run([*COMMAND, "--out", str(tmp_path)], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
def test_interrupted_by_the_keyboard(whole, tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "--out", str(tmp_path)], stderr=subprocess.PIPE, start_new_session=True
    )
    until(lambda: begun(tmp_path))
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"all is saved" in said
    training.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
def test_a_users_mistake_in_a_worker_is_a_users_mistake(tmp_path):
    runs = runs_of(seeds=2)
    listener = Deafening(300)
    with pytest.raises(Stopped):
        training.train(runs, tmp_path, listener, listener.over, processes=2)
    # One of them may be over before the other begins.
    lane, *_ = (tmp_path / "workers").glob("*/checkpoint-*/*.safetensors")
    lane.write_bytes(lane.read_bytes()[:-1])
    with pytest.raises(UserError, match="damaged"):
        training.train(runs, tmp_path, processes=2)


def test_what_goes_wrong_in_a_worker_travels_with_its_traceback():
    try:
        raise ZeroDivisionError("by nought")
    except ZeroDivisionError as error:
        told = local.told(error)
    assert isinstance(told, ChildProcessError)
    assert str(told) == "A worker failed: ZeroDivisionError: by nought"
    assert "test_workers.py" in told.__notes__[0]
    mistake = UserError("a mistake")
    assert local.told(mistake) is mistake


def test_as_many_processes_as_cores_and_no_more_than_runs():
    lockstep = config.resolve("Pendulum-v1", "td3", "none", 100, 3, {})
    assert training.fitting(lockstep) == min(3, machine.cores())
    assert 1 <= training.fitting(runs_of()) <= 3


@pytest.mark.slow
def test_off_policy_runs_go_on_exactly_whoever_is_left(tmp_path):
    """One thread in every worker, however many there are, also when the last goes on alone."""
    settings = {"hidden": (8,), "batch_size": 8, "warmup": 40, "eval.every": 60}
    runs = config.resolve("Pendulum-v1", "td3", "discover", 180, 3, settings)
    training.train(runs, tmp_path / "whole", processes=2)
    listener = Deafening(60)
    with pytest.raises(Stopped):
        training.train(runs, tmp_path / "cut", listener, listener.over, processes=2)
    training.train(runs, tmp_path / "cut", processes=1)
    assert_same_files(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.slow
def test_killed_when_only_one_worker_had_begun(tmp_path):
    """The others' runs, of which there is nothing yet, train together again."""
    settings = {"hidden": (8,), "batch_size": 8, "warmup": 40, "eval.every": 60}
    runs = config.resolve("Pendulum-v1", "td3", "discover", 180, 4, settings)
    training.train(runs, tmp_path / "whole", processes=2)
    listener, cut = Deafening(60), tmp_path / "cut"
    with pytest.raises(Stopped):
        training.train(runs, cut, listener, listener.over, processes=2)
    shutil.rmtree(cut / "workers" / "1")
    for run in runs[1::2]:
        shutil.rmtree(cut / run.name)
    training.train(runs, cut, processes=2)
    assert_same_files(tmp_path / "whole", cut)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_interrupted_while_workers_start(whole, tmp_path, seconds):
    process = subprocess.Popen(
        [*COMMAND, "--out", str(tmp_path)], stderr=subprocess.PIPE, start_new_session=True
    )
    until((tmp_path / ".lock").exists)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in said
    training.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
def test_stopped_before_any_worker_has_started(whole, tmp_path):
    with pytest.raises(Stopped) as stopped:
        training.train(runs_of(), tmp_path, stopping=lambda: True, processes=2)
    assert stopped.value.step == 0
    training.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


@pytest.mark.slow
def test_an_orphan_writes_nothing_beside_who_goes_on(tmp_path):
    """Killed in the midst of a long evaluation, and begun again in one process at once."""
    slow = [*COMMAND, "--out", str(tmp_path), "--set", "eval.episodes=400"]
    slow[slow.index(str(STEPS))] = "512"
    process = subprocess.Popen(slow)
    until(lambda: begun(tmp_path))
    process.kill()
    process.wait()
    slow[slow.index("--processes") + 1] = "1"
    done = subprocess.run(slow, capture_output=True, timeout=200)
    assert done.returncode == 0, done.stderr
    for path in tmp_path.glob("seed-*/record.jsonl"):
        steps = [line["step"] for line in store.Record(path).lines[1:]]
        assert steps == [0, 512]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no such thing")
def test_parts_of_the_cores_are_disjoint_and_make_up_all():
    every = os.sched_getaffinity(0)
    parts = []
    try:
        for part in range(len(every)):
            machine.keep_to(part, len(every))
            parts.append(os.sched_getaffinity(0))
            os.sched_setaffinity(0, every)
        machine.keep_to(0, len(every) + 1)  # there is no such part: all stay
        parts.append(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, every)
    assert sorted(core for part in parts[:-1] for core in part) == sorted(every)
    assert parts[-1] == every


@pytest.mark.slow
@pytest.mark.skipif(machine.cores() < 2, reason="one core cannot be divided")
def test_those_who_share_a_gpu_have_cores_of_their_own(tmp_path, monkeypatch):
    """Three cohorts at two seats: the third takes the one that is free first."""
    monkeypatch.setenv("SEATS", str(tmp_path))
    small = {"hidden": (8,), "warmup": 20, "eval.every": 60, "eval.episodes": 1}
    runs = config.resolve("tests.fragile:Seated-v0", "td3", "none", 60, (0, 2, 3), small)
    jobs = [Job([run], tmp_path / "out", tmp_path / f"desk-{run.seed}", "gpu") for run in runs]
    outcomes = local.run(jobs, lambda *_: None, lambda: False, places={"cpu": 2, "gpu": 2})
    assert outcomes == [None] * 3
    seats = [set(json.loads(path.read_text())) for path in tmp_path.iterdir() if path.is_file()]
    assert len(seats) == 3
    different = {frozenset(seat) for seat in seats}
    assert len(different) == 2
    assert frozenset.union(*different) == os.sched_getaffinity(0)
    assert not frozenset.intersection(*different)
