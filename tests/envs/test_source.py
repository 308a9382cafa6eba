"""The code of a task of one's own: what changes its hash; runs on other code are refused."""

import importlib
import sys

import gymnasium
import pytest

from discover_rl import api
from discover_rl.config import Request, resolve
from discover_rl.core.types import UserError
from discover_rl.envs import source
from discover_rl.storage import files
from discover_rl.storage.records import Record
from discover_rl.training import job
from discover_rl.training.observers import Observer
from tests.cli.test_cli import SETTINGS

CODE = """
import gymnasium as gym
import numpy as np

GOAL = 0.0

def reward(x):
    return -abs(x.item() - GOAL)

class Reach(gym.Env):
    observation_space = gym.spaces.Box(-6, 6, (1,))
    action_space = gym.spaces.Box(-0.1, 0.1, (1,))

    def __init__(self, render_mode=None, slope=1.0):
        self.slope = slope

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.x, {}

    def step(self, action):
        self.x = self.x + action
        return self.x, reward(self.x), False, False, {}

gym.register("Reach-v0", Reach, max_episode_steps=10)
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the module and import it anew."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))

    def write(code=CODE):
        (tmp_path / "reach_task.py").write_text(code)
        sys.modules.pop("reach_task", None)
        importlib.invalidate_caches()
        importlib.import_module("reach_task")

    yield write
    sys.modules.pop("reach_task", None)


def hash_of(write, code=CODE):
    write(code)
    return source.fingerprint("reach_task:Reach-v0")


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.x + action", "self.x - action"),  # in the class
        ("-abs(", "-2 * abs("),  # in a function that it uses
        ("GOAL = 0.0", "GOAL = 0.5"),  # a constant that this one uses
        ("max_episode_steps=10", "max_episode_steps=10, kwargs={'slope': 2.0}"),
    ],
)
def test_whatever_changes_the_task_changes_the_hash(write, old, new):
    before = hash_of(write)
    assert before == hash_of(write) != ""
    assert hash_of(write, CODE.replace(old, new)) != before


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_what_is_beside_it_does_not(write):
    assert hash_of(write) == hash_of(write, CODE + "\nOTHER = 3\n\ndef unused():\n    return 1\n")


def test_tasks_of_gymnasium_have_none():
    assert source.fingerprint("Pendulum-v1") == ""
    assert source.fingerprint_of(gymnasium.make("Pendulum-v1")) == ""


def test_a_wrapper_of_ones_own_counts():
    class Louder(gymnasium.RewardWrapper):
        def reward(self, reward):
            return 2 * reward

    assert source.fingerprint_of(Louder(gymnasium.make("Pendulum-v1"))) != ""


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_a_record_of_another_state_of_the_code_is_refused(write, tmp_path):
    (run,) = resolve(Request("reach_task:Reach-v0", strategy="none", settings=SETTINGS))
    path = tmp_path / "out/seed-0/record.jsonl"
    Record(path).begin({"run": run.to_json(), "task_source": hash_of(write)})
    assert job.open_record(run, tmp_path / "out").header is not None
    write(CODE.replace("-abs(", "-2 * abs("))
    with pytest.raises(UserError, match=r"its code has changed since .* --fresh .* --anyway"):
        job.open_record(run, tmp_path / "out")
    assert job.open_record(run, tmp_path / "out", anyway=True).header is not None
    Record(path).begin({"run": run.to_json()})  # of a version that did not ask
    assert job.open_record(run, tmp_path / "out").header is not None


class Enough(Observer):
    """Ends training by an error at its first evaluation after the start."""

    def evaluated(self, run, step, returns, report):
        if step:
            raise RuntimeError("enough")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_an_edited_task_is_refused_started_over_or_gone_on_with(write, tmp_path):
    out = tmp_path / "out"

    def train(seeds=1, observer=None, **options):
        settings = SETTINGS | {"hidden": (4,)}
        request = Request("reach_task:Reach-v0", "td3", "none", 40, seeds, settings)
        return api.launch(request, out, observer or Observer(), **options)

    write()
    (first,) = train()
    record = Record(first.path / "record.jsonl")
    assert record.task_source == source.fingerprint("reach_task:Reach-v0")
    write(CODE.replace("-abs(", "-2 * abs("))
    for seeds in (1, 2, [5]):
        with pytest.raises(UserError, match=r"its code has changed since .* --fresh .* --anyway"):
            train(seeds)
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["seed-0"]
    _, second = train(2, anyway=True)
    changed = Record(second.path / "record.jsonl").task_source
    assert changed != Record(first.path / "record.jsonl").task_source
    before = {path.name for path in out.rglob("*")}
    (again,) = train(fresh=True)
    assert {path.name for path in (tmp_path / "out.old-1").rglob("*")} == before
    assert again.returns != first.returns
    assert Record(again.path / "record.jsonl").task_source == changed
    assert files.move_aside(out) == tmp_path / "out.old-2"
    with pytest.raises(RuntimeError, match="enough"):
        train(observer=Enough())
    write()
    (mixed,) = train(anyway=True)
    events = [line for line in Record(mixed.path / "record.jsonl").lines if "event" in line]
    # Of a task that can be restored or not, the change is what the record says first.
    assert events[0]["event"] == "task_changed"
    assert events[0]["task_source"] == source.fingerprint("reach_task:Reach-v0")
    files.move_aside(out)
    assert files.move_aside(out) is None
