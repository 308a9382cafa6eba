"""Small runs, stopped where a test wants them to be, and what they left compared."""

import filecmp
from pathlib import Path

import pytest

from discover_rl import agent, checkpoint, config, rollouts, training
from discover_rl.algorithms import ON_POLICY
from discover_rl.observers import Observer
from discover_rl.types import Stopped

ALWAYS = {"hidden": (8,), "eval.every": 60, "eval.episodes": 2}
OFF = ALWAYS | {"batch_size": 8, "warmup": 40}
ON = ALWAYS | {"horizon": 25, "minibatches": 2, "epochs": 2}


def settings_of(algorithm: str) -> dict:
    return ON if algorithm in ON_POLICY else OFF


def runs_of(
    task="Pendulum-v1", steps=240, seeds=2, strategy="discover", algorithm="td3", **settings
):
    settings = {**settings_of(algorithm), **settings}
    return config.resolve(task, algorithm, strategy, steps, seeds, settings)


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def assert_same_files(a: Path, b: Path) -> None:
    assert files(a) == files(b)
    _, different, missing = filecmp.cmpfiles(a, b, files(a), shallow=False)
    assert not different
    assert not missing


class Patience(Observer):
    """Wants to stop at this step; at step 0 in the midst of the first evaluation."""

    def __init__(self, step: int):
        self.step, self.now, self.asked = step, 0, 0

    def started(self, runs, step):
        self.now = step

    def stepped(self, step):
        self.now = step

    def over(self) -> bool:
        self.asked += 1
        return self.now >= self.step and (self.step > 0 or self.asked > 20)


def stop_at(step: int, runs, out: Path, chunk: int = 1, **options) -> int:
    """Train until that step; where it really stopped."""
    patience = Patience(step)
    with pytest.MonkeyPatch.context() as patch:
        # Looking up after every step, not after every few.
        patch.setattr(agent, "CHUNK", chunk)
        patch.setattr(rollouts, "CHUNK", chunk)
        with pytest.raises(Stopped) as stopped:
            training.train(runs, out, patience, patience.over, **options)
    assert checkpoint.find(out) == out / f"checkpoint-{stopped.value.step}"
    return stopped.value.step
