"""Cohorts as Ray tasks: the same results as local processes, whatever happens to workers."""

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

from discover_rl.core.types import Stopped, UserError
from discover_rl.storage import checkpoints
from discover_rl.storage.records import Record
from discover_rl.training import engines
from discover_rl.training.engines import local, ray_tasks
from discover_rl.training.engines import ray as engine
from discover_rl.training.events import Ended, Evaluated, Finished, Started, Stepped
from tests.helpers.ray_jobs import LONG, Recorder, holder, jobs_of
from tests.helpers.trainings import assert_same_files

# Otherwise Ray gives its workers a low priority, and tests that run at the same time delay them.
os.environ |= {"RAY_worker_niceness": "0"}


def test_nothing_to_do_needs_no_cluster():
    pytest.importorskip("ray")
    assert engines.choose("ray", "127.0.0.1:1")([], Recorder(), bool, 0.0) == []


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'discover_rl\[ray\]'"):
        engine.run(jobs_of(tmp_path, {}), Recorder(), bool)


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "nonsense"])
def test_an_address_without_a_cluster_is_a_user_error(form, tmp_path):
    ray = pytest.importorskip("ray")
    assert not ray.is_initialized()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = form.format(free.getsockname()[1])
    with pytest.raises(UserError, match=f"No Ray cluster can be reached at {address} "):
        engine.run(jobs_of(tmp_path, {}), Recorder(), bool, address=address)


def test_workers_do_not_search_the_working_directory_first(monkeypatch, tmp_path):
    """Ray puts the one where it is initialised at the front of their search path."""
    ray, there = pytest.importorskip("ray"), []

    def init(*_, **__):
        there.append(Path.cwd())
        raise RuntimeError("enough")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="No Ray cluster can be reached"):
        engine.run(jobs_of(tmp_path, {}), Recorder(), bool)
    assert there == [Path(engine.__file__).parents[3]]
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize("able", [True, False])
def test_off_policy_cohorts_get_the_clusters_gpus_where_jax_computes_on_them(able, tmp_path):
    """This machine's GPU does not matter; half of a node's cores are left to other cohorts."""
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


def test_relative_folders_are_relative_to_the_present_one(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    nothing = SimpleNamespace(nodes=list, remote=lambda **_: lambda function: None)
    (job,), _ = engine._placed(nothing, jobs_of(Path("results"), {}))
    assert job.out == tmp_path / "results" / "0"
    assert job.workdir == tmp_path / "results" / "0" / "work"


def test_a_node_that_does_not_share_the_folder_is_a_user_error(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_tasks.Connection, "stopping", lambda connection: False)
    (job,) = jobs_of(tmp_path, {})
    outcome = ray_tasks.work(None, 0, job, [], 60.0, 0.0)
    assert isinstance(outcome, UserError)
    assert "a folder that all nodes of the cluster share" in str(outcome)
    assert not job.workdir.exists()


@pytest.fixture(scope="module")
def cluster():
    """One cluster for many tests: the engine uses a cluster that is already connected."""
    ray = pytest.importorskip("ray")
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    before = signal.getsignal(signal.SIGTERM)
    ray.init("local", num_cpus=2, num_gpus=0, object_store_memory=engine.OBJECTS, **options)
    yield ray
    ray.shutdown()
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same jobs trained by local processes."""
    out = tmp_path_factory.mktemp("whole")
    jobs = jobs_of(out, {}, {"algorithm": "ppo"}, LONG)
    assert local.run(jobs, Recorder(), bool, places={"cpu": 2}) == [None] * 3
    return out


@pytest.mark.slow
def test_the_same_as_local_processes_and_events_come_in_order(cluster, whole, tmp_path):
    recorder = Recorder()
    jobs = jobs_of(tmp_path, {}, {"algorithm": "ppo"})
    assert engine.run(jobs, recorder, bool) == [None, None]
    for i in range(2):
        assert_same_files(whole / str(i), tmp_path / str(i))
        evaluations = [Evaluated] * 10  # at 0, 60, …, 240, for each of two runs
        kinds = Started, Evaluated, Finished, Ended
        found = [type(event) for event in recorder.of_kind(i, *kinds)]
        assert found == [Started, *evaluations, Finished, Ended]
        steps = [event.step for event in recorder.of_kind(i, Stepped)]
        assert steps == sorted(steps)


@pytest.mark.slow
def test_a_worker_is_killed_and_nothing_is_lost(cluster, whole, tmp_path):
    (job,) = jobs_of(tmp_path, LONG)
    killed = []

    def kill(number, event):
        if not isinstance(event, Evaluated) or len(killed) == 2:
            return
        if event.step >= 1000 * (len(killed) + 1):
            killed.append(checkpoints.step_of(job.workdir))
            os.kill(holder(job.workdir), signal.SIGKILL)

    recorder = Recorder(kill)
    assert engine.run([job], recorder, bool, checkpoint_seconds=0.1) == [None]
    begun = [event.step for event in recorder.of_kind(0, Started)]
    assert len(begun) == 3
    # Each attempt starts from the checkpoint of the time of the kill, or from a newer one.
    assert begun[0] == 0 < killed[0] <= begun[1]
    assert killed[1] <= begun[2]
    assert_same_files(whole / "2", tmp_path / "0")


@pytest.mark.slow
def test_stopped_and_resumed(cluster, whole, tmp_path):
    """Two that are trained write checkpoints; the third, which waits for a place, never begins."""
    asked = threading.Event()

    def ask(number, event):
        if isinstance(event, Evaluated) and event.step >= 500:
            asked.set()

    recorder, jobs = Recorder(ask), jobs_of(tmp_path, LONG, LONG, LONG)
    outcomes = engine.run(jobs, recorder, asked.is_set)
    assert all(isinstance(outcome, Stopped) for outcome in outcomes)
    assert [outcome.step for outcome in outcomes] == [job.step for job in jobs]
    steps = sorted(outcome.step for outcome in outcomes)
    assert steps[0] == 0
    assert steps[2] >= 500
    (waited,) = [job for job in jobs if checkpoints.find(job.workdir) is None]
    assert [path.name for path in waited.out.iterdir()] == ["work"]  # nothing of a run
    assert jobs.index(waited) not in recorder.events
    assert engine.run(jobs[:2], Recorder(), bool) == [None, None]
    assert_same_files(whole / "2", tmp_path / "0")


@pytest.mark.slow
def test_a_job_that_fails_or_kills_its_workers_fails_alone(cluster, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "DEATHS", 2)
    bad = [{"task": f"tests.helpers.ray_probes:{name}-v0"} for name in ("Broken", "Deadly")]
    recorder, jobs = Recorder(), jobs_of(tmp_path, *bad, {})
    broken, deadly, fine = engine.run(jobs, recorder, bool)
    assert isinstance(broken, UserError)
    assert "RuntimeError: no such spring" in str(broken)
    assert isinstance(deadly, ChildProcessError)
    assert "died 2 times without getting beyond step 0" in str(deadly)
    assert fine is None
    assert_same_files(whole / "0", tmp_path / "2")
    for i, outcome in enumerate((broken, deadly, fine)):
        assert recorder.events[i][-1] == Ended(outcome)


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
def test_the_command_finds_tasks_of_the_user_and_stops_on_ctrl_c(tmp_path):
    """The command starts a Ray of its own, of which no process is left."""
    pytest.importorskip("ray")
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "numpy.py").write_text("raise ValueError")  # which nobody has asked for
    command = [sys.executable, "-P", "-m", "discover_rl", "run", "study.toml", "--trust", "own"]
    command += ["--processes", "1"]
    options = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*command, "--engine", "ray"], start_new_session=True, **options)
    workdir, until = tmp_path / "results" / "study" / "cohorts" / "0000", time.monotonic() + 90
    while not checkpoints.find(workdir):
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    done = subprocess.run([*command, "--engine", "ray"], timeout=120, **options)
    assert done.returncode == 0, done.stderr
    subprocess.run([*command, "--out", "local"], timeout=120, check=True, **options)
    assert_same_files(tmp_path / "results" / "study", tmp_path / "local")
    record = next(tmp_path.glob("results/**/record.jsonl"))
    assert [line["step"] for line in Record(record).evaluations] == list(range(0, 6001, 500))
