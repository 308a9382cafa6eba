"""A study that is killed many times has, bit for bit, the results of one that was not."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from discover_rl.storage import checkpoints
from tests.helpers.trainings import assert_same_files

STUDY = """
steps = 30_000
seeds = 2

[set]
hidden = [8]
"eval.every" = 2_000
"eval.episodes" = 2

[grid]
task = "Pendulum-v1"

[[arm]]
name = "td3"
algorithm = "td3"
strategy = "discover"
batch_size = 8
warmup = 100

[[arm]]
name = "ppo"
algorithm = "ppo"
strategy = "discover"
horizon = 200
epochs = 20
"""


def reached(out) -> int:
    """The sum of the steps of all cohorts' last checkpoints."""
    return sum(map(checkpoints.step_of, (out / "cohorts").glob("*")))


@pytest.mark.slow
def test_killed_ten_times_at_random_moments(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(STUDY)
    words = [sys.executable, "-m", "discover_rl", "run", str(path), "--checkpoint-seconds", "0.2"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*words, "--out", str(whole)], check=True, capture_output=True, timeout=300)
    chance, steps = random.Random(1), [0]
    for number in range(10):
        process = subprocess.Popen(
            [*words, "--out", str(killed)], stdout=subprocess.PIPE, start_new_session=True
        )
        # Killed while it starts and compiles, or while it trains, evaluates and writes.
        while number % 2 and reached(killed) <= steps[-1]:
            time.sleep(0.05)
        time.sleep(chance.uniform(0.0, 1.0 if number % 2 else 5.0))
        assert process.poll() is None, "the process should still be training"
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        steps.append(reached(killed))
    assert len(set(steps)) > 5  # every second attempt made progress
    done = subprocess.run([*words, "--out", str(killed)], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert_same_files(whole, killed)
