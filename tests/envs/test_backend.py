"""What steps the environments: decided where a run is placed, recorded, kept when it resumes."""

import importlib.util
import json

import pytest

from discover_rl.core.types import UserError
from discover_rl.envs import backends, tasks
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from discover_rl.storage.policies import load_policy
from discover_rl.storage.records import Record
from discover_rl.system import hardware
from discover_rl.training import job
from discover_rl.training import launch as training
from discover_rl.training.evaluation import backend_of
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

pytest.importorskip("envpool")
from discover_rl.envs.envpool_vector import EnvPoolVector

TASK = "InvertedPendulum-v5"


def asked(backend: str):
    """Runs of the algorithm whose programs are the quickest to compile."""
    return runs_of(TASK, 120, 2, "none", "a2c", **{"env.backend": backend})


@pytest.fixture
def made(monkeypatch) -> list[type]:
    """The kinds of vectors that training makes, in order."""
    kinds = []

    def noting(kind):
        return lambda *args, **settings: kinds.append(kind) or kind(*args, **settings)

    for kind in (GymnasiumVector, EnvPoolVector):
        monkeypatch.setattr(backends, kind.__name__, noting(kind))
    return kinds


@pytest.fixture
def gpu_machine():
    """As if all runs were placed on a GPU, beside many cores; a test may undo it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hardware, "place", lambda on_policy: "gpu")
        patch.setattr(hardware, "cores", lambda: 16)
        yield patch


# The choice


@pytest.mark.parametrize(
    ("task", "place", "cores", "chosen"),
    [
        ("Hopper-v5", "gpu", 16, "envpool"),
        ("Hopper-v5", "gpu", 4, "envpool"),
        ("Hopper-v5", "gpu", 2, "gymnasium"),
        ("Hopper-v5", "cpu", 16, "gymnasium"),
        ("Hopper-v4", "gpu", 16, "gymnasium"),
        ("dm_control/hopper-hop-v0", "gpu", 16, "envpool"),
        ("dm_control/hopper-hop-v0", "cpu", 16, "gymnasium"),
        ("gymnasium_robotics:PointMaze_UMaze-v3", "gpu", 16, "envpool"),
        ("discover_rl:SparseHopper-v0", "gpu", 16, "envpool"),
        ("BipedalWalker-v3", "gpu", 16, "gymnasium"),
    ],
)
def test_auto_is_the_faster_one(monkeypatch, task, place, cores, chosen):
    monkeypatch.setattr(hardware, "cores", lambda: cores)
    assert tasks.choose_backend(task, "auto", place) == chosen
    # What is asked for by name is had anywhere.
    assert tasks.choose_backend(task, "gymnasium", place) == "gymnasium"


def test_envpool_is_had_anywhere_for_its_tasks():
    for place in ("cpu", "gpu"):
        assert tasks.choose_backend("Hopper-v5", "envpool", place) == "envpool"
        with pytest.raises(UserError, match=r"does not have Hopper-v4; it needs gymnasium"):
            tasks.choose_backend("Hopper-v4", "envpool", place)


@pytest.mark.parametrize(
    ("other", "ours"),
    [
        ("CartpoleSwingupSparse-v1", "dm_control/cartpole-swingup_sparse-v0"),
        ("PointMaze_UMaze-v3", "gymnasium_robotics:PointMaze_UMaze-v3"),
    ],
)
def test_envpool_has_its_tasks_by_the_ids_that_they_have_here(other, ours):
    with pytest.raises(UserError, match=f"There is no task {other}. Did you mean {ours}?"):
        tasks.check_backend(other, "envpool")
    tasks.check_backend(ours, "envpool")


def test_without_the_package_it_is_said_how_to_have_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(hardware, "cores", lambda: 16)
    with pytest.raises(UserError, match=r"pip install 'discover_rl\[envpool\]'"):
        tasks.choose_backend("Hopper-v5", "envpool", "gpu")
    assert tasks.choose_backend("Hopper-v5", "auto", "gpu") == "gymnasium"


# The record


def test_on_a_cpu_auto_is_gymnasium_and_says_so(tmp_path, made):
    for backend in ("auto", "gymnasium", "envpool"):
        stop_at(0, asked(backend), tmp_path / backend)
        header = Record(tmp_path / backend / "seed-0" / "record.jsonl").header
        assert header["run"]["settings"]["env.backend"] == backend
        assert header["backend"] == ("envpool" if backend == "envpool" else "gymnasium")
    assert made == [GymnasiumVector, GymnasiumVector, EnvPoolVector]


def test_a_run_goes_on_with_the_backend_it_began_with(tmp_path, made, gpu_machine):
    runs = asked("auto")
    assert stop_at(70, runs, tmp_path / "stopped") == 70
    training.train(runs, tmp_path / "whole")
    gpu_machine.undo()  # on this machine, "auto" would be Gymnasium
    training.train(runs, tmp_path / "stopped")
    assert made == [EnvPoolVector] * 3
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")
    header = Record(tmp_path / "stopped" / "seed-0" / "record.jsonl").header
    assert header["backend"] == "envpool"
    assert header["run"]["settings"]["env.backend"] == "auto"
    # Its policy is evaluated as it was.
    policy = load_policy(tmp_path / "stopped" / "seed-0")
    assert policy.about["backend"] == "envpool"
    assert backend_of(policy, TASK) == "envpool"
    assert backend_of(policy, "Hopper-v5") == "gymnasium"


def test_a_record_of_any_backend_is_what_auto_asked_for():
    """As records have it that were written when "auto" was settled before it was recorded."""
    (auto, _), (gymnasium, _), (envpool, _) = map(asked, ("auto", "gymnasium", "envpool"))
    for there in (auto, gymnasium, envpool):
        assert job.difference(there.to_json(), auto.to_json()) == ""
    said = "env.backend is envpool there and gymnasium here"
    assert job.difference(envpool.to_json(), gymnasium.to_json()) == said
    old = json.loads(json.dumps(envpool.to_json()))
    old["settings"]["env.engine"] = old["settings"].pop("env.backend")
    assert job.difference(old, envpool.to_json()) == ""
    assert job.difference(old, gymnasium.to_json()) == said
