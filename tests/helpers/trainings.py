"""Small runs, stopped at a chosen step, and the files they write compared."""

import filecmp
from pathlib import Path

import pytest

from discover_rl import config
from discover_rl.agents.off_policy import agent as off_policy
from discover_rl.agents.on_policy import agent as on_policy
from discover_rl.core.types import Stopped
from discover_rl.storage import checkpoints
from discover_rl.training import launch
from discover_rl.training.observers import Observer
from tests.helpers.cells import is_on_policy

ALWAYS = {"hidden": (8,), "eval.every": 60, "eval.episodes": 2}
OFF = ALWAYS | {"batch_size": 8, "warmup": 40}
ON = ALWAYS | {"horizon": 25, "minibatches": 2, "epochs": 2}


def settings_of(algorithm: str) -> dict:
    """Settings that make runs of an algorithm small."""
    return ON if is_on_policy(algorithm) else OFF


def runs_of(
    task="Pendulum-v1", steps=240, seeds=2, strategy="discover", algorithm="td3", **settings
):
    """Small runs: 240 steps on Pendulum, evaluated every 60 steps."""
    settings = {**settings_of(algorithm), **settings}
    return config.resolve(config.Request(task, algorithm, strategy, steps, seeds, settings))


def files(folder: Path) -> list[str]:
    """The paths of all files below a folder, relative to it."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def assert_same_files(a: Path, b: Path) -> None:
    """Two folders have the same files with the same contents, but for which runs were trained
    beside each other and where, which the manifests of kept checkpoints say."""
    assert files(a) == files(b)
    compared = [name for name in files(a) if not name.endswith("checkpoint/cohort.json")]
    _, different, missing = filecmp.cmpfiles(a, b, compared, shallow=False)
    assert not different
    assert not missing


class StopAt(Observer):
    """Asks to stop at a step; at step 0, in the midst of the first evaluation."""

    def __init__(self, step: int):
        self.step, self.now, self.calls = step, 0, 0

    def started(self, runs, step):
        self.now = step

    def stepped(self, step):
        self.now = step

    def stopping(self) -> bool:
        self.calls += 1
        return self.now >= self.step and (self.step > 0 or self.calls > 20)


def stop_at(step: int, runs, out: Path, chunk: int = 1, **options) -> int:
    """Train until this step; return the step at which training really stopped."""
    stop = StopAt(step)
    with pytest.MonkeyPatch.context() as patch:
        # Whether to stop is asked after every step, not after every few.
        patch.setattr(off_policy, "CHUNK", chunk)
        patch.setattr(on_policy, "CHUNK", chunk)
        with pytest.raises(Stopped) as stopped:
            launch.train(runs, out, stop, stop.stopping, **options)
    assert checkpoints.find(out) == out / f"checkpoint-{stopped.value.step}"
    return stopped.value.step
