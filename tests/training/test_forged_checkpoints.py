"""Checkpoints that no version has written, though their checksums fit: each is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from discover_rl.agents.build import build_agent
from discover_rl.core.pytrees import stack_floats
from discover_rl.core.types import UserError
from discover_rl.envs.backends import spaces
from discover_rl.storage import checkpoints, files
from discover_rl.training import launch
from discover_rl.training.agent_setup import setup_of
from discover_rl.training.inheritance import inherited
from discover_rl.training.warm_start import started_from
from tests.helpers.trainings import runs_of, stop_at

KEEP = {"compute.keep_checkpoint": True}
SEVERAL = {"env.count": 3, "steps": 90}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Two runs of 90 steps in three environments each that have kept their checkpoints."""
    out = tmp_path_factory.mktemp("whole")
    launch.train(runs_of(**SEVERAL, **KEEP), out)
    return out


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """The same, stopped before the end."""
    out = tmp_path_factory.mktemp("begun")
    stop_at(45, runs_of(**SEVERAL), out)
    return out


def forged(path: Path, change) -> None:
    """Change a kept checkpoint, and give it the checksums of that.

    Args:
        path: its folder.
        change: changes the manifest and the lane's arrays in place.
    """
    manifest, lane = path / checkpoints.MANIFEST, path / checkpoints.LANE
    content = json.loads(manifest.read_bytes().partition(b"\n")[2])
    arrays = safetensors.numpy.load_file(lane)
    change(content, arrays)
    content["checksum"] = files.write(lane, safetensors.numpy.save(arrays))
    manifest.write_bytes(checkpoints.with_checksum(json.dumps(content).encode()))


def start_from(source: Path) -> None:
    """Start a run from another, as far as that takes anything from there."""
    runs = runs_of(seeds=1, warmup=0, **SEVERAL | {"env.count": 2})
    spec = spaces(runs[0].task, runs[0].env, "cpu")
    (run,) = started_from(source, runs, spec, source / "nowhere")
    agent = build_agent(setup_of(run, spec, 0))
    hyper = (stack_floats([it]) for it in (run.hyper, run.strategy_hyper))
    inherited(agent, agent.init(np.zeros(1, np.uint32), *hyper), run.start)


def counters(**values):
    """Change counters of the replay buffer."""

    def change(manifest, arrays):
        for name, value in values.items():
            arrays[f"replay.{name}"] = np.asarray(value, np.int32)

    return change


def huge(manifest, arrays):
    for segment in manifest["replay"]:
        segment["to"] = [2**31 - 1, 2**31 - 1]
        if segment["from"] != [0, 0]:
            segment["from"] = [2**31 - 1, 2**31 - 1]
    counters(inserted=[2**31 - 1] * 3, head=[2**31 - 2] * 3)(manifest, arrays)


def without_counters(manifest, arrays):
    for name in ("head", "inserted", "oldest"):
        del arrays[f"replay.{name}"]


def nan(manifest, arrays):
    arrays[next(name for name in arrays if name.endswith("weight"))][:] = np.nan


FORGED = {
    "more than the files hold": huge,
    "older than the first": counters(oldest=[-5] * 3),
    "newer than the last": counters(oldest=[2**30] * 3),
    "counters of another shape": counters(inserted=np.zeros((3, 1))),
    "counters of fewer rings": counters(head=[], inserted=[], oldest=[]),
    "counters of many rings": counters(**dict.fromkeys(("head", "inserted", "oldest"), [0] * 9)),
    "a counter more": counters(other=[0] * 3),
    "no counters": without_counters,
    "floats": lambda manifest, arrays: arrays.update({"replay.head": np.zeros(3)}),
    "NaN": nan,
    "backwards": lambda manifest, arrays: manifest["replay"][0].update({"from": [9, 9]}),
    "another step": lambda manifest, arrays: manifest.update(step=7),
    "another run": lambda manifest, arrays: manifest["run"].update(task="Other-v0"),
    "another seed": lambda manifest, arrays: manifest["run"].update(seed=7),
    "of no cohort": lambda manifest, arrays: manifest.update(cohort=[]),
    "twice in its cohort": lambda manifest, arrays: manifest.update(cohort=["seed-0", "seed-0"]),
    "by another name": lambda manifest, arrays: manifest.update(name="seed-9"),
    "dead": lambda manifest, arrays: manifest.update(alive=False),
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_run_does_not_start_from_what_was_never_written(whole, tmp_path, kind):
    source = shutil.copytree(whole / "seed-0", tmp_path / "source")
    forged(source / "checkpoint", lambda *_: None)  # as it was
    start_from(source)
    forged(source / "checkpoint", FORGED[kind])
    with pytest.raises(UserError, match=r"damaged|of another step") as caught:
        start_from(source)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest, arrays: manifest.update(cohort=["seed-1"]),
        lambda manifest, arrays: manifest.update(cohort=["seed-1", "seed-0"]),
        lambda manifest, arrays: manifest.update(workdir="workers/0"),
        lambda manifest, arrays: manifest.update(step=60),
    ],
)
def test_a_cohort_does_not_go_on_from_what_does_not_belong_together(whole, tmp_path, change):
    out = shutil.copytree(whole, tmp_path / "out")
    forged(out / "seed-1/checkpoint", change)
    with pytest.raises(UserError, match="checkpoint"):
        launch.train(runs_of(**SEVERAL | {"steps": 120}, **KEEP), out)
    assert not list(out.glob("checkpoint-*"))


def test_a_lane_has_an_episode_in_each_environment(begun, tmp_path):
    def forge(change):
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        path = checkpoints.find(shutil.copytree(begun, out))
        assert path is not None
        content = json.loads((path / "cohort.json").read_bytes().partition(b"\n")[2])
        entry = content["lanes"][1]
        arrays = safetensors.numpy.load_file(path / entry["file"])
        change(entry["episodes"], arrays)
        entry["checksum"] = files.write(path / entry["file"], safetensors.numpy.save(arrays))
        (path / "cohort.json").write_bytes(checkpoints.with_checksum(json.dumps(content).encode()))
        with pytest.raises(UserError, match="damaged"):
            launch.train(runs_of(**SEVERAL), out)

    forge(lambda episodes, arrays: episodes.append(episodes[0] | {"steps": 0}))
    forge(lambda episodes, arrays: episodes.pop())
    for shape, kind in (((45,), "float32"), ((45, 1), "int32")):
        actions = np.zeros(shape, kind)
        forge(lambda episodes, arrays, it=actions: arrays.update({"episode.actions": it}))


def test_a_run_that_was_left_does_not_go_on_from_another(tmp_path):
    launch.train(runs_of(seeds=2), tmp_path, until=120)
    forged(tmp_path / "seed-1/checkpoint", lambda manifest, _: manifest["run"].update(steps=999))
    with pytest.raises(UserError, match="of another run than the record there"):
        launch.train(runs_of(seeds=2), tmp_path, until=240)
    assert not list(tmp_path.glob("checkpoint-*"))
