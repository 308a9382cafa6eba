"""Training that is killed or interrupted and started again: nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from discover_rl import algorithms, config, strategies
from discover_rl.storage import checkpoints
from discover_rl.strategies.interface import Acting
from discover_rl.training import launch
from tests.helpers.cells import SPEC, is_on_policy
from tests.helpers.trainings import OFF, assert_same_files, runs_of, settings_of

COMMAND = """
import sys
from pathlib import Path
import discover_rl
discover_rl.train({task!r}, algorithm={algorithm!r}, strategy={strategy!r}, steps={steps}, seeds=2,
                  out={out!r}, checkpoint_seconds=0.2, **{settings!r})
"""


def kill_and_resume(out: Path, kills: int, algorithm: str, settings: dict, **request) -> None:
    """Kill −9 at random moments after a new checkpoint, then let the command finish."""
    generator = np.random.default_rng(0)
    settings = {**settings_of(algorithm), **settings}
    code = COMMAND.format(algorithm=algorithm, settings=settings, out=str(out), **request)
    command = [sys.executable, "-c", code]
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        before = checkpoints.find(out)
        while process.poll() is None and checkpoints.find(out) == before:
            time.sleep(0.01)
        time.sleep(generator.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the process ended before it could be killed"
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


# Steps of on-policy algorithms are quick: more of them leave time to be killed.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "algorithm", "strategy", "kills", "steps", "more"),
    [
        ("Pendulum-v1", "td3", "discover", 2, 4000, {"compute.keep_replay": True}),
        ("HalfCheetah-v5", "td3", "discover", 5, 4000, {}),
        ("HalfCheetah-v5", "ddpg", "discover", 3, 4000, {}),
        ("HalfCheetah-v5", "sac", "discover", 3, 4000, {}),
        ("BipedalWalker-v3", "sac", "discover", 3, 4000, {}),
        ("HalfCheetah-v5", "ppo", "discover", 3, 20_000, {"horizon": 256}),
        ("HalfCheetah-v5", "a2c", "none", 3, 20_000, {"horizon": 32, "minibatches": 1}),
        ("BipedalWalker-v3", "ppo", "discover", 3, 20_000, {"horizon": 256, "env.count": 2}),
        ("Pendulum-v1", "ppo", "ou", 3, 30_000, {"horizon": 256, "env.count": 2}),
        # A task of each family, with strategies that remember or learn something of their own.
        ("MountainCarContinuous-v0", "td3", "pink", 2, 4000, {}),
        ("dm_control/cartpole-swingup_sparse-v0", "sac", "gsde", 2, 4000, {}),
        ("gymnasium_robotics:PointMaze_UMaze-v3", "td3", "rnd", 2, 4000, {}),
        ("gymnasium_robotics:FetchReach-v4", "td3", "corner", 2, 4000, {}),
        ("discover_rl:SparseHopper-v0", "td3", "see", 2, 4000, {}),
        # Several environments, a ring of replay for each.
        ("Pendulum-v1", "td3", "pink", 3, 4000, {"env.count": 4, "compute.keep_replay": True}),
        ("Hopper-v5", "ddpg", "psne", 2, 4000, {"env.count": 5, "replay_size": 1000}),
    ],
)
def test_kill_9_loses_nothing(tmp_path, task, algorithm, strategy, kills, steps, more):
    settings = {"eval.every": steps // 8, **more}
    request = {"task": task, "algorithm": algorithm, "strategy": strategy, "steps": steps}
    launch.train(runs_of(**request, **settings), tmp_path / "whole")
    kill_and_resume(tmp_path / "killed", kills, settings=settings, **request)
    assert_same_files(tmp_path / "whole", tmp_path / "killed")


# With those above and those of a study, more than a hundred kills, nearly all past a checkpoint:
# for each strategy with a memory of its own, and for both families.
MEMORIES = [
    ("ddpg", "zeta"),
    ("ddpg", "meta"),
    ("td3", "ou"),
    ("td3", "corner"),
    ("td3", "psne"),
    ("td3", "rnd"),
    ("td3", "seek"),
    ("sac", "pink"),
    ("sac", "gsde"),
    ("sac", "noisynet"),
    ("sac", "see"),
    ("ppo", "pink"),
    ("ppo", "coherent"),
    ("a2c", "ou"),
]
KILLS = 5


@pytest.mark.parametrize("strategy", strategies.STRATEGIES)
def test_every_strategy_with_a_memory_is_killed(strategy):
    """A memory is what `begin` makes; one that is only () needs no kill."""
    name = strategies.ONLY.get(strategy, ("td3",))[0]
    algorithm, exploring = algorithms.load(name), strategies.load(strategy)
    made = exploring.make(SPEC, exploring.Hyper(), algorithm.blueprint(SPEC, algorithm.Hyper()))
    remembers = made.acting.begin is not Acting._field_defaults["begin"]
    assert not remembers or strategy in {killed for _, killed in MEMORIES}


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "strategy"), MEMORIES)
def test_kill_9_loses_no_memory(tmp_path, algorithm, strategy):
    steps = 4_000 if is_on_policy(algorithm) else 600
    settings = settings_of(algorithm) | {"eval.every": steps // 4, "eval.episodes": 1}
    request = {"task": "Pendulum-v1", "algorithm": algorithm, "strategy": strategy}
    request |= {"steps": steps, "seeds": 2, "settings": settings}
    (tmp_path / "request.json").write_text(json.dumps(request))
    words = [str(tmp_path / "request.json"), str(tmp_path / "killed"), str(KILLS)]
    subprocess.run([sys.executable, "-m", "tests.helpers.killer", *words], check=True)
    launch.train(config.resolve(config.Request(**request)), tmp_path / "whole")
    assert_same_files(tmp_path / "whole", tmp_path / "killed")


def test_ctrl_c_writes_a_checkpoint_prints_how_to_continue_and_exits_130(tmp_path):
    settings = [f"--set={name}={str(value).strip('(),')}" for name, value in OFF.items()]
    command = ["train", "Pendulum-v1", "--steps=100000", f"--out={tmp_path}", *settings]
    process = subprocess.Popen(
        [sys.executable, "-m", "discover_rl", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    while "step 120" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "To go on: discover train Pendulum-v1" in err
    assert err.splitlines()[0] == "Stopping after a checkpoint; again: at once."
    assert len(err.strip().splitlines()) == 2
    assert checkpoints.find(tmp_path)
