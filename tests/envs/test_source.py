"""The code of a task of one's own: what changes its hash; runs on other code are refused."""

import importlib
import sys

import gymnasium
import numpy as np
import pytest

from discover_rl import api
from discover_rl.config import Request, resolve
from discover_rl.core.types import PolicyHead, UserError
from discover_rl.envs import own_code, source
from discover_rl.envs.backends import spaces
from discover_rl.storage import files
from discover_rl.storage.policies import Policy
from discover_rl.storage.records import Record
from discover_rl.training import job
from discover_rl.training.observers import Observer
from tests.cli.test_cli import SETTINGS, discover

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

COUNTER = """
class Counter:
    def __init__(self):
        self.n = 0
    def tick(self):
        self.n += 1
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
@pytest.mark.parametrize(
    ("before", "reward", "old", "new"),
    [
        ("import reach_helper", "reach_helper.f(x)", "-abs(x)", "-2 * abs(x)"),  # another module's
        ("import reach_helper", "reach_helper.K * x", "K = 1", "K = 2"),
        ("GOAL = np.array([1.0])", "(x - GOAL).item()", "([1.0])", "([2.0])"),
        ("class C:\n    def __init__(self): self.k = 1\nC = C()", "C.k * x", "k = 1", "k = 2"),
        ("from functools import partial\nF = partial(pow, 2)", "F(x)", "pow, 2", "pow, 3"),
        ("R = {'a': lambda x: -x}", "R['a'](x)", "lambda x: -x", "lambda x: x"),
        ("def m(k):\n    return lambda x: k * x\nF = m(1)", "F(x)", "m(1)", "m(2)"),
        ("K = 1\ndef f(x, k=K):\n    return k * x", "f(x)", "K = 1", "K = 2"),
        ("K = 1\nclass C:\n    k = K", "C.k * x", "K = 1", "K = 2"),
        ("import jax\n@jax.jit\ndef f(x):\n    return -x", "f(x)", "return -x", "return x"),
    ],
)
def test_so_does_what_it_uses(write, tmp_path, before, reward, old, new):
    code = CODE.replace("GOAL = 0.0", before).replace("reward(self.x), F", f"{reward}, F")
    code = code.replace("self.x = self.x + action", "self.x = x = self.x + action")
    helper = "K = 1\n\ndef f(x):\n    return -abs(x)\n"

    def hash_of_both(code, helper):
        (tmp_path / "reach_helper.py").write_text(helper)
        sys.modules.pop("reach_helper", None)
        return hash_of(write, code)

    first = hash_of_both(code, helper)
    assert first == hash_of_both(code, helper) != ""
    assert old in code + helper
    assert hash_of_both(code.replace(old, new), helper.replace(old, new)) != first


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
@pytest.mark.parametrize(
    ("kept", "change"),
    [
        ("    made = 0", "Reach.made += 1"),
        ("    made = 0", "type(self).made += 1"),
        ("    seen = []", "self.seen.append(1)"),
        ("    made = 0", "setattr(type(self), 'made', 1)"),
        ("    made = np.zeros(1)", "self.made += 1"),  # in place
        ("COUNT = 0", "global COUNT; COUNT += 1"),
        ("SEEN = {}", "SEEN[len(SEEN)] = 1"),
        (f"{COUNTER}\nC = Counter()", "C.tick()"),
        (f"{COUNTER}\nC = Counter()", "C.n = 7"),
        (f"{COUNTER}\nC = Counter()\nT = [C]", "T[0].tick(); T.append(0)"),
        ("class Base(gym.Env):\n    seen = []", "self.seen.append(1)"),
    ],
)
def test_what_the_code_itself_changes_is_no_part_of_it(write, kept, change):
    """Such as a counter: else every task that counts its episodes would be another one."""
    head = "class Reach(gym.Env):"
    there = f"{head}\n{kept}" if kept[0] == " " else f"{kept}\n\n{head}"
    there = there.replace(head, "class Reach(Base):") if "class Base" in kept else there
    code = CODE.replace(head, there).replace(
        "        self.x = self.x", f"        {change}; self.x = self.x"
    )
    before = hash_of(write, code)
    env = gymnasium.make("reach_task:Reach-v0").unwrapped
    env.reset(seed=0)
    env.step(np.zeros(1))
    assert source.fingerprint("reach_task:Reach-v0") == before
    assert hash_of(write, code.replace("self.x + action", "self.x - action")) != before


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
@pytest.mark.parametrize(
    ("before", "change", "old", "new"),
    [
        ("gravity = 1", "self.model.gravity = gravity", "y = 1", "y = 2"),
        ("goal = [1]", "self.goal = np.zeros(1); self.goal[0] = goal[0]", "[1]", "[2]"),
        ("seen = [1]", "self.seen = []; self.seen.append(seen[0])", "[1]", "[2]"),
        ("n = [1]\n\ndef f():\n    n = []; n.append(1)", "f(); n[0]", "n = [1]", "n = [2]"),
        ("class C:\n    __slots__ = ('k',)\nC = C(); C.k = 1", "C.k", "k = 1", "k = 2"),
        ("import jax.numpy as jnp\nG = jnp.ones(2)", "G[0]", "ones(2)", "zeros(2)"),
        ("from pathlib import Path\nG = Path('a')", "G.name", "'a'", "'b'"),
    ],
)
def test_a_constant_counts_though_something_of_its_name_is_changed(write, before, change, old, new):
    """Or though it is of a kind that is seldom a constant."""
    code = CODE.replace("GOAL = 0.0", f"GOAL = 0.0\n{before}").replace(
        "        self.x = self.x", f"        {change}; self.x = self.x"
    )
    assert old in code
    assert hash_of(write, code.replace(old, new)) != hash_of(write, code)


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_the_folder_that_the_code_lies_in_is_no_part_of_it(write, tmp_path, monkeypatch):
    """A run goes on where a copy of results and code lies elsewhere."""
    code = CODE.replace("GOAL = 0.0", "GOAL = 0.0\nMODEL = __file__ + '.xml'")
    code = code.replace("self.slope = slope", "self.slope, self.model = slope, MODEL")
    before = hash_of(write, code)
    assert hash_of(write, code.replace(".xml", ".mjcf")) != before
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/reach_task.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path / "copy"))
    sys.modules.pop("reach_task")
    assert source.fingerprint("reach_task:Reach-v0") == before
    assert str(tmp_path / "copy") in sys.modules["reach_task"].MODEL


def test_the_rest_of_a_lambdas_line_is_no_part_of_it(write):
    """Such as the number of steps in the call that takes it."""
    write("STEPS, BOTH = 10, [lambda x: -x, lambda x, y=(lambda z: z): (\n    x + y(1))]\n")
    first, second = sys.modules["reach_task"].BOTH
    assert own_code.source(first) == "lambda x: -x"
    assert own_code.source(second) == "lambda x, y=(lambda z: z): (\n    x + y(1))"
    assert own_code.source(second.__defaults__[0]) == "lambda z: z"


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_what_holds_itself_is_opened_once(write):
    code = CODE.replace("GOAL = 0.0", "TABLE = {}\nTABLE['self'] = TABLE\nGOAL = 0.0")
    code = code.replace("- GOAL", "- GOAL * len(TABLE)")
    assert hash_of(write, code) == hash_of(write, code)


def test_sets_inside_of_containers_are_in_order():
    """Strings have another hash in every process, so that a set is in another order."""
    said = own_code.text({"kinds": ["x", set("hgfedcba")]})
    assert [letter for letter in said if letter in "abcdefgh"][-8:] == list("abcdefgh")


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


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_who_evaluates_a_policy_is_told_that_the_code_has_changed(write, tmp_path, capfd):
    (run,) = resolve(Request("reach_task:Reach-v0", strategy="none", settings=SETTINGS))
    before = hash_of(write)
    net = {"head": {"weight": np.ones((1, 1), np.float32), "bias": np.zeros(1, np.float32)}}
    policy = Policy(net, spaces(run.task, run.env, "cpu"), PolicyHead(), run.to_json())
    for name, content in policy.to_bytes().items():
        (tmp_path / name).write_bytes(content)
    words = ("evaluate", str(tmp_path), "--task", "reach_task:Reach-v0", "--episodes", "1")
    Record(tmp_path / "record.jsonl").begin({"run": run.to_json(), "task_source": before})
    assert discover(*words) == 0
    assert "changed" not in capfd.readouterr().out
    write(CODE.replace("-abs(", "-2 * abs("))
    assert discover(*words) == 0
    assert "Note: the code of reach_task:Reach-v0 has changed since" in capfd.readouterr().out


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
