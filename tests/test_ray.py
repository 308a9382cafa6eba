"""Cohorts as tasks of Ray: the same results as in local processes, whatever happens to workers."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from discover_rl import checkpoint, engines
from discover_rl.engines import local, ray_tasks
from discover_rl.engines import ray as engine
from discover_rl.jobs import Job
from discover_rl.store import Record
from discover_rl.types import Stopped, UserError
from tests.trainings import assert_same_files, runs_of

# Else Ray's workers come after all others, and the tests beside these take both cores.
os.environ |= {"RAY_worker_niceness": "0"}
LONG = {"steps": 4000, "eval.every": 500, "eval.episodes": 1}


def jobs_of(out: Path, *requests: dict) -> list[Job]:
    """A cohort of two runs for each request."""
    cohorts = [runs_of(**request) for request in requests]
    return [Job(runs, out / str(i), out / f"desk-{i}") for i, runs in enumerate(cohorts)]


class Ears:
    """Writes down what it hears of each job; does something at some of it."""

    def __init__(self, react=lambda number, event, details: None):
        self.heard, self.react = {}, react

    def __call__(self, number, event, details):
        self.heard.setdefault(number, []).append((event, details))
        self.react(number, event, details)

    def events(self, number: int, but: str = "") -> list[str]:
        return [event for event, _ in self.heard[number] if event != but]


def test_nothing_to_do_needs_no_cluster():
    pytest.importorskip("ray")
    assert engines.choose("ray", "127.0.0.1:1")([], Ears(), bool, 0.0) == []


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'discover_rl\[ray\]'"):
        engine.run(jobs_of(tmp_path, {}), Ears(), bool)


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "nonsense"])
def test_nobody_at_the_address(form, tmp_path):
    ray = pytest.importorskip("ray")
    assert not ray.is_initialized()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = form.format(free.getsockname()[1])
    with pytest.raises(UserError, match=f"No Ray cluster can be reached at {address} "):
        engine.run(jobs_of(tmp_path, {}), Ears(), bool, address=address)


@pytest.mark.parametrize("able", [True, False])
def test_off_policy_cohorts_get_the_clusters_gpus_where_jax_computes_on_them(able, tmp_path):
    """Whatever this machine has; half of a node's cores are left to others."""
    pytest.importorskip("ray")
    nodes = [
        {"NodeID": "a" * 56, "Alive": True, "Resources": {"CPU": 64.0}},
        {"NodeID": "b" * 56, "Alive": True, "Resources": {"CPU": 16.0, "GPU": 2.0}},
        {"NodeID": "c" * 56, "Alive": False, "Resources": {"CPU": 2.0, "GPU": 2.0}},
    ]
    asked = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: able))
    cluster = SimpleNamespace(
        nodes=lambda: nodes,
        remote=lambda **_: lambda function: asked,
        get=lambda answer, timeout: answer,
        exceptions=SimpleNamespace(RayError=RuntimeError),
    )
    jobs = jobs_of(tmp_path, {}, {"algorithm": "ppo"})
    placed, needs = engine._placed(cluster, [job._replace(place="gpu") for job in jobs])
    assert [job.place for job in placed] == ["gpu" if able else "cpu", "cpu"]
    assert needs["cpu"] == {"num_cpus": 1.0}
    assert needs.get("gpu") == ({"num_gpus": 1.0, "num_cpus": 4.0} if able else None)


def test_relative_folders_are_this_ones(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    nothing = SimpleNamespace(nodes=list, remote=lambda **_: lambda function: None)
    (job,), _ = engine._placed(nothing, jobs_of(Path("results"), {}))
    assert job.out == tmp_path / "results" / "0"
    assert job.desk == tmp_path / "results" / "desk-0"


def test_a_node_that_does_not_share_the_folder_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_tasks.Line, "stopping", lambda line: False)
    (job,) = jobs_of(tmp_path, {})
    outcome = ray_tasks.work(None, 0, job, [], 60.0, 0.0)
    assert isinstance(outcome, UserError)
    assert "a folder that all nodes of the cluster share" in str(outcome)
    assert not job.desk.exists()


@pytest.fixture(scope="module")
def cluster():
    """One for many tests: the engine uses what is there already."""
    ray = pytest.importorskip("ray")
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    before = signal.getsignal(signal.SIGTERM)
    ray.init("local", num_cpus=2, num_gpus=0, object_store_memory=engine.OBJECTS, **options)
    yield ray
    ray.shutdown()
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What local processes make of it."""
    out = tmp_path_factory.mktemp("whole")
    jobs = jobs_of(out, {}, {"algorithm": "ppo"}, LONG)
    assert local.run(jobs, Ears(), bool, places={"cpu": 2}) == [None] * 3
    return out


def holder(desk: Path) -> int:
    """The process that works at a desk, by its lock."""
    inode = str((desk / ".lock").stat().st_ino)
    for line in Path("/proc/locks").read_text().splitlines():
        _, kind, _, _, pid, place, *_ = line.split()
        if kind == "FLOCK" and place.split(":")[-1] == inode:
            return int(pid)
    raise AssertionError("nobody is at work")


@pytest.mark.slow
def test_the_same_as_local_processes_and_all_is_heard_in_order(cluster, whole, tmp_path):
    ears = Ears()
    jobs = jobs_of(tmp_path, {}, {"algorithm": "ppo"})
    assert engine.run(jobs, ears, bool) == [None, None]
    for i in range(2):
        assert_same_files(whole / str(i), tmp_path / str(i))
        evaluations = ["evaluated"] * 10  # at 0, 60, …, 240, for each of two runs
        told = [event for event in ears.events(i, "stepped") if event not in ("shared", "noted")]
        assert told == ["started", *evaluations, "finished", "ended"]
        steps = [details[0] for event, details in ears.heard[i] if event == "stepped"]
        assert steps == sorted(steps)


@pytest.mark.slow
def test_a_worker_is_killed_and_nothing_is_lost(cluster, whole, tmp_path):
    (job,) = jobs_of(tmp_path, LONG)
    killed = []

    def kill(number, event, details):
        if event == "evaluated" and details[1] >= 1000 * (len(killed) + 1) and len(killed) < 2:
            killed.append(checkpoint.step_of(job.desk))
            os.kill(holder(job.desk), signal.SIGKILL)

    ears = Ears(kill)
    assert engine.run([job], ears, bool, checkpoint_seconds=0.1) == [None]
    begun = [details[1] for event, details in ears.heard[0] if event == "started"]
    assert len(begun) == 3
    # It goes on from the checkpoint that there was, or from a newer one.
    assert begun[0] == 0 < killed[0] <= begun[1]
    assert killed[1] <= begun[2]
    assert_same_files(whole / "2", tmp_path / "0")


@pytest.mark.slow
def test_stopped_and_gone_on_with(cluster, whole, tmp_path):
    """Two at work leave checkpoints; one that waits for a place does not begin."""
    asked = threading.Event()

    def ask(number, event, details):
        if event == "evaluated" and details[1] >= 500:
            asked.set()

    ears, jobs = Ears(ask), jobs_of(tmp_path, LONG, LONG, LONG)
    outcomes = engine.run(jobs, ears, asked.is_set)
    assert all(isinstance(it, Stopped) for it in outcomes)
    assert [it.step for it in outcomes] == [job.step for job in jobs]
    steps = sorted(it.step for it in outcomes)
    assert steps[0] == 0
    assert steps[2] >= 500
    (waited,) = [job for job in jobs if checkpoint.find(job.desk) is None]
    assert not waited.out.exists()
    assert jobs.index(waited) not in ears.heard
    assert engine.run(jobs[:2], Ears(), bool) == [None, None]
    assert_same_files(whole / "2", tmp_path / "0")


@pytest.mark.slow
def test_what_fails_or_kills_its_workers_fails_alone(cluster, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "DEATHS", 2)
    bad = [{"task": f"tests.ray_probes:{name}-v0"} for name in ("Broken", "Deadly")]
    ears, jobs = Ears(), jobs_of(tmp_path, *bad, {})
    broken, deadly, fine = engine.run(jobs, ears, bool)
    assert isinstance(broken, UserError)
    assert "RuntimeError: no such spring" in str(broken)
    assert isinstance(deadly, ChildProcessError)
    assert "died 2 times without getting beyond step 0" in str(deadly)
    assert fine is None
    assert_same_files(whole / "0", tmp_path / "2")
    for i, outcome in enumerate((broken, deadly, fine)):
        assert ears.heard[i][-1] == ("ended", (outcome,))


OWN = """
import gymnasium
from gymnasium.envs.classic_control.pendulum import PendulumEnv
gymnasium.register("Own-v0", entry_point=PendulumEnv, max_episode_steps=200)
"""
STUDY = """
steps = 6000
seeds = 1
[set]
hidden = [8]
batch_size = 8
warmup = 40
"eval.every" = 500
[grid]
task = "own:Own-v0"
algorithm = "td3"
strategy = "none"
"""


@pytest.mark.slow
def test_the_command_finds_tasks_of_ones_own_and_is_interrupted_by_the_keyboard(tmp_path):
    """With a Ray of its own, of which nothing is left."""
    pytest.importorskip("ray")
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "study.toml").write_text(STUDY)
    command = [sys.executable, "-m", "discover_rl", "run", "study.toml", "--processes", "1"]
    options = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*command, "--engine", "ray"], start_new_session=True, **options)
    desk, until = tmp_path / "results" / "study" / "cohorts" / "0000", time.monotonic() + 90
    while not checkpoint.find(desk):
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert b"Traceback" not in said
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    done = subprocess.run([*command, "--engine", "ray"], timeout=120, **options)
    assert done.returncode == 0, done.stderr
    subprocess.run([*command, "--out", "local"], timeout=120, check=True, **options)
    assert_same_files(tmp_path / "results" / "study", tmp_path / "local")
    record = next(tmp_path.glob("results/**/record.jsonl"))
    assert [line["step"] for line in Record(record).evaluations] == list(range(0, 6001, 500))
