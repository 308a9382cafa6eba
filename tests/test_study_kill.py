"""A study that is killed again and again is, bit for bit, the one that was not."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from discover_rl import checkpoint
from tests.trainings import assert_same_files

STUDY = """
steps = 24_000
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


@pytest.mark.slow
def test_killed_ten_times_at_random_moments(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(STUDY)
    words = [sys.executable, "-m", "discover_rl", "run", str(path), "--checkpoint-seconds", "0.2"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*words, "--out", str(whole)], check=True, capture_output=True, timeout=300)
    chance, kills, steps = random.Random(1), 0, []
    while kills < 10:
        process = subprocess.Popen(
            [*words, "--out", str(killed)], stdout=subprocess.PIPE, start_new_session=True
        )
        # While it starts, compiles, trains, evaluates, writes.
        time.sleep(chance.uniform(0.5, 7.0))
        assert process.poll() is None, "it should have had more to do"
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        kills += 1
        steps.append(max(map(checkpoint.step_of, (killed / "cohorts").glob("*")), default=0))
    assert len(set(steps)) > 2  # it was killed in the midst of training, not always before
    done = subprocess.run([*words, "--out", str(killed)], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert_same_files(whole, killed)
