"""The loop: the same again is the same, stopping costs nothing, and what goes wrong stays small."""

import filecmp
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from discover_rl import agent, checkpoint, config, provenance, rollouts, store, training
from discover_rl.algorithms import ON_POLICY
from discover_rl.types import Stopped, UserError

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


class Patience(training.Observer):
    """Wants to stop at this step; at step 0 in the midst of the first evaluation."""

    def __init__(self, step: int):
        self.step, self.now, self.asked = step, 0, 0

    def started(self, runs, step):
        self.now = step

    def stepped(self, step):
        self.now = step

    def over(self) -> bool:
        self.asked += 1
        return self.now >= self.step and self.asked > 20


def stop_at(step: int, runs, out: Path, **options) -> int:
    """Train until that step; where it really stopped."""
    patience = Patience(step)
    with pytest.MonkeyPatch.context() as patch:
        # Looking up after every step, not after every few.
        patch.setattr(agent, "CHUNK", 1)
        patch.setattr(rollouts, "CHUNK", 1)
        with pytest.raises(Stopped) as stopped:
            training.train(runs, out, patience, patience.over, **options)
    assert checkpoint.find(out) == out / f"checkpoint-{stopped.value.step}"
    return stopped.value.step


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """An uninterrupted run."""
    out = tmp_path_factory.mktemp("whole")
    training.train(runs_of(), out)
    return out


def test_records_have_a_header_and_every_evaluation(whole):
    lines = store.Record(whole / "seed-1/record.jsonl").lines
    assert lines[0]["run"] == runs_of()[1].to_json()
    assert lines[0]["code"] == provenance.code()
    assert [line["step"] for line in lines[1:]] == [0, 60, 120, 180, 240]
    assert all(len(line["returns"]) == len(line["lengths"]) == 2 for line in lines[1:])
    assert "saturation" in lines[-1]["report"]
    assert files(whole / "seed-1") == ["policy.json", "policy.safetensors", "record.jsonl"]
    assert files(whole) == [".lock"] + [
        f"seed-{i}/{name}"
        for i in range(2)
        for name in ("policy.json", "policy.safetensors", "record.jsonl")
    ]


def test_the_same_again_is_the_same(whole, tmp_path):
    training.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


def test_done_is_done(whole, tmp_path):
    before = {name: (whole / name).stat().st_mtime_ns for name in files(whole) if name != ".lock"}
    training.train(runs_of(), whole)
    assert {name: (whole / name).stat().st_mtime_ns for name in before} == before


@pytest.mark.parametrize("stops", [(0, 0, 41), (25, 120), (230,)])
def test_a_stopped_run_goes_on_exactly(whole, tmp_path, stops):
    """Stopped while evaluating, in warm-up, when learning starts, before an evaluation, late."""
    for step in stops:
        assert stop_at(step, runs_of(), tmp_path) == step
    training.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


@pytest.mark.parametrize(
    ("algorithm", "strategy", "settings"),
    [
        # Observations' statistics and a process with a memory; a temperature and rounds of updates.
        pytest.param("ddpg", "ou", {}, marks=pytest.mark.slow),
        ("sac", "discover", {"train_every": 8, "updates": 8, "lr_decay": 1.0}),
        # Half a rollout of several environments; one that is never full; memories of each.
        ("ppo", "discover", {"env.count": 2}),
        pytest.param("ppo", "none", {"horizon": 500}, marks=pytest.mark.slow),
        pytest.param("a2c", "ou", {"env.count": 2}, marks=pytest.mark.slow),
    ],
)
def test_whatever_learns_goes_on_exactly(tmp_path, algorithm, strategy, settings):
    runs = runs_of(algorithm=algorithm, strategy=strategy, **settings)
    training.train(runs, tmp_path / "whole")
    for step in (36, 102):
        assert stop_at(step, runs, tmp_path / "stopped") == step
    training.train(runs, tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")


def test_checkpoints_change_nothing(whole, tmp_path):
    training.train(runs_of(), tmp_path, checkpoint_seconds=0.02)
    assert_same_files(whole, tmp_path)


def test_more_seeds_later_only_add(whole, tmp_path):
    training.train(runs_of(seeds=[0, 1]), tmp_path)
    records = training.train(runs_of(seeds=3), tmp_path)
    assert records["seed-2"].done
    for name in ("seed-0", "seed-1"):
        assert_same_files(whole / name, tmp_path / name)


COMMAND = """
import sys
from pathlib import Path
import discover_rl
discover_rl.train({task!r}, algorithm={algorithm!r}, strategy={strategy!r}, steps={steps}, seeds=2,
                  out={out!r}, checkpoint_seconds=0.2, **{settings!r})
"""


def kill_and_resume(out: Path, kills: int, algorithm: str, settings: dict, **request) -> None:
    """Kill −9 at random moments after the first checkpoint, then let it run to its end."""
    generator = np.random.default_rng(0)
    settings = {**settings_of(algorithm), **settings}
    code = COMMAND.format(algorithm=algorithm, settings=settings, out=str(out), **request)
    command = [sys.executable, "-c", code]
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        began = checkpoint.find(out)
        while process.poll() is None and checkpoint.find(out) == began:
            time.sleep(0.01)
        time.sleep(generator.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


# Rollouts are quick, so that there are more steps to be killed in.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "algorithm", "strategy", "kills", "steps", "more"),
    [
        ("Pendulum-v1", "td3", "discover", 2, 4000, {}),
        ("HalfCheetah-v5", "td3", "discover", 5, 4000, {}),
        ("HalfCheetah-v5", "ddpg", "discover", 3, 4000, {}),
        ("HalfCheetah-v5", "sac", "discover", 3, 4000, {}),
        ("BipedalWalker-v3", "sac", "discover", 3, 4000, {}),
        ("HalfCheetah-v5", "ppo", "discover", 3, 20_000, {"horizon": 256}),
        ("HalfCheetah-v5", "a2c", "none", 3, 20_000, {"horizon": 32, "minibatches": 1}),
        ("BipedalWalker-v3", "ppo", "discover", 3, 20_000, {"horizon": 256, "env.count": 2}),
        ("Pendulum-v1", "ppo", "ou", 3, 30_000, {"horizon": 256, "env.count": 2}),
    ],
)
def test_kill_9_loses_nothing(tmp_path, task, algorithm, strategy, kills, steps, more):
    settings = {"eval.every": steps // 8, **more}
    request = {"task": task, "algorithm": algorithm, "strategy": strategy, "steps": steps}
    training.train(runs_of(**request, **settings), tmp_path / "whole")
    kill_and_resume(tmp_path / "killed", kills, settings=settings, **request)
    assert_same_files(tmp_path / "whole", tmp_path / "killed")


class Leaky(gymnasium.Env):
    """A world that remembers earlier episodes, so that none can be had again in a new process."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    born = 0

    def __init__(self):
        Leaky.born += 1
        self.age = Leaky.born

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.t = 0
        return np.asarray([np.sin(self.age)], np.float32), {}

    def step(self, action):
        self.t += 1
        self.age += 1
        return np.asarray([np.sin(self.age)], np.float32), 1.0, False, self.t == 50, {}


gymnasium.register("Leaky-v0", entry_point=Leaky)


def test_what_cannot_be_restored_starts_a_new_episode_and_says_so(tmp_path):
    runs = runs_of("Leaky-v0", 120, seeds=1)
    step = stop_at(80, runs, tmp_path)
    record = training.train(runs, tmp_path)["seed-0"]
    events = [line for line in record.lines if "event" in line]
    assert events == [{"step": step, "event": "episode_lost"}]
    assert record.done


def test_a_lane_that_diverges_stops_alone(tmp_path):
    """The critics' learning rate of one lane is absurd; it fails, and the other never notices."""
    healthy = runs_of(seeds=1, critic_lr=[3e-4, 1e-4])
    training.train(healthy, tmp_path / "healthy")
    mixed = runs_of(seeds=1, critic_lr=[3e-4, 1e30])
    out = tmp_path / "mixed"
    records = training.train(mixed, out, checkpoint_seconds=0.0)
    good, bad = records[mixed[0].name], records[mixed[1].name]
    assert good.done
    assert_same_files(tmp_path / "healthy" / mixed[0].name, out / mixed[0].name)
    assert not bad.done
    # Learning starts after 40 steps; with steps of 1e30 it takes two or three to leave the floats.
    assert bad.failure is not None
    assert bad.failure["quantity"] in ("critic_loss", "actor_loss", "strategy_loss", "action")
    assert 41 <= bad.failure["step"] <= 44
    assert bad.lines[-1] == bad.failure
    # What is left of it is its last good state and policy, from before.
    assert (out / mixed[1].name / "last-good" / "lane.safetensors").exists()
    assert json.loads((out / mixed[1].name / "policy.json").read_text())["about"]["step"] <= 43
    # Asked again, it does not pretend to be well, and does not start over.
    before = (out / mixed[1].name / "record.jsonl").read_bytes()
    assert training.train(mixed, out)[mixed[1].name].failure == bad.failure
    assert (out / mixed[1].name / "record.jsonl").read_bytes() == before


class Sour(gymnasium.Env):
    """Pays NaN in the episodes of one seed: the evaluation of run 0, whose seed is 100."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.reward = np.nan if seed == 100 else 1.0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.reward, True, False, {}


gymnasium.register("Sour-v0", entry_point=Sour)


def test_an_evaluation_that_is_not_finite_stops_its_lane_alone(tmp_path):
    records = training.train(runs_of("Sour-v0", 60), tmp_path)
    failure = {"step": 0, "event": "diverged", "quantity": "evaluation"}
    assert records["seed-0"].failure == failure
    assert records["seed-1"].done


def test_a_folder_is_for_runs_of_one_kind(whole):
    for other in (runs_of("Leaky-v0", seeds=[7]), runs_of(seeds=[7], strategy="none")):
        with pytest.raises(UserError, match=r"holds another run: (task|strategy) is"):
            training.train(other, whole)


@pytest.mark.parametrize(("algorithm", "rate"), [("td3", "critic_lr"), ("ppo", "actor_lr")])
def test_a_diverged_lane_stays_out_when_the_others_are_resumed(tmp_path, algorithm, rate):
    runs = runs_of(seeds=1, algorithm=algorithm, **{rate: [3e-4, 1e30]})
    training.train(runs, tmp_path / "whole")
    out = tmp_path / "stopped"
    stop_at(100, runs, out, checkpoint_seconds=0.0)
    lanes = checkpoint.manifest(checkpoint.find(out))["lanes"]
    assert [lane["alive"] for lane in lanes] == [True, False]
    records = training.train(runs, out)
    assert records[runs[0].name].done
    assert records[runs[1].name].failure
    assert_same_files(tmp_path / "whole" / runs[0].name, out / runs[0].name)
    record = f"{runs[1].name}/record.jsonl"
    assert (out / record).read_bytes() == (tmp_path / "whole" / record).read_bytes()
    assert (out / runs[1].name / "last-good" / "lane.safetensors").exists()


def test_a_folder_with_another_run_is_refused(whole):
    before = (whole / "seed-0/record.jsonl").read_bytes()
    with pytest.raises(UserError, match=r"gamma is 0\.99 there and 0\.9 here"):
        training.train(runs_of(gamma=0.9), whole)
    assert (whole / "seed-0/record.jsonl").read_bytes() == before


def test_a_checkpoint_of_other_code_is_refused(tmp_path, monkeypatch):
    stop_at(100, runs_of(), tmp_path)
    kept = files(tmp_path)
    other = {**provenance.code(), "jax": "9.9"}
    monkeypatch.setattr(provenance, "code", lambda: other)
    with pytest.raises(UserError, match=r"other code .*jax"):
        training.train(runs_of(), tmp_path)
    assert files(tmp_path) == kept


def test_a_checkpoint_with_other_runs_is_refused(tmp_path):
    stop_at(100, runs_of(), tmp_path)
    with pytest.raises(UserError, match=r"not asked for .*seed-1"):
        training.train(runs_of(seeds=1), tmp_path)


def test_a_full_disk_while_checkpointing_leaves_the_last_one(whole, tmp_path, monkeypatch):
    stop_at(100, runs_of(), tmp_path)
    last = checkpoint.find(tmp_path)
    monkeypatch.setattr(store, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(OSError, match="No space"):
        training.train(runs_of(), tmp_path, checkpoint_seconds=0.0)
    assert checkpoint.find(tmp_path) == last
    monkeypatch.undo()
    training.train(runs_of(), tmp_path)
    assert_same_files(whole, tmp_path)


def test_ctrl_c_leaves_a_checkpoint_says_how_to_go_on_and_exits_130(tmp_path):
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
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "To go on: discover train Pendulum-v1" in said
    assert len(said.strip().splitlines()) == 1
    assert checkpoint.find(tmp_path)
