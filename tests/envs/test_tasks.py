"""Which tasks can be trained on, and what is said of the others."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Sequence

from discover_rl.core.types import UserError
from discover_rl.envs.tasks import make


def refusal(task: str) -> str:
    with pytest.raises(UserError) as caught:
        make(task)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Odd(gymnasium.Env):
    def __init__(self, action_space, observation_space):
        if action_space:
            self.action_space = action_space
        self.observation_space = observation_space


BOX = Box(-1, 1, (2,))
for name, acted, observed in [
    ("DictObserved", BOX, Dict({"a": BOX, "b": Dict({"c": Discrete(3)})})),
    ("Motionless", Box(-1, 1, (0,)), BOX),
    ("Numberless", BOX, Box(-1, 1, (0,))),
    ("Narrow", Box(1.0, 1.0 + 1e-12, (2,), np.float64), BOX),
    ("Wide", Box(-1e300, 1e300, (2,), np.float64), BOX),
    ("Span", Box(-3e38, 3e38, (2,), np.float64), BOX),
    ("Actionless", None, BOX),
    ("Observationless", BOX, None),
    ("Disordered", BOX, Dict({"a": BOX, 1: BOX})),
    ("DiscreteObserved", BOX, Discrete(3)),
    ("SequenceObserved", BOX, Sequence(BOX)),
    ("Unbounded", Box(-np.inf, np.inf, (2,)), BOX),
    ("HalfBounded", Box(np.float32([0, 0]), np.float32([1, np.inf])), BOX),
    ("Pointwise", Box(np.float32([0, 1]), np.float32([1, 1])), BOX),
    ("Whole", Box(0, 5, (2,), np.int32), BOX),
    ("Half", Box(-1, 1, (2,), np.float16), BOX),
]:
    spaces = {"action_space": acted, "observation_space": observed}
    gymnasium.register(f"{name}-v0", entry_point=Odd, kwargs=spaces)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("CartPole-v1", ["Discrete actions", "Box"]),
        ("Whole-v0", ["whole-number actions", "continuous"]),
        ("Half-v0", ["float16 actions", "float32"]),
        ("DictObserved-v0", ["Dict of Discrete observations", "FlattenObservation"]),
        ("Motionless-v0", ["actions without dimensions"]),
        ("Numberless-v0", ["observations without numbers"]),
        ("Narrow-v0", ["bounds that single precision cannot tell apart"]),
        ("Wide-v0", ["bounds that are too large for single precision"]),
        ("Span-v0", ["bounds that are too large for single precision"]),
        ("Actionless-v0", ["no action_space"]),
        ("Observationless-v0", ["no observation_space"]),
        ("Disordered-v0", ["Dict", "keys have no order"]),
        ("DiscreteObserved-v0", ["Discrete observations", "FlattenObservation"]),
        ("SequenceObserved-v0", ["Sequence observations", "Tuple of Boxes."]),
        ("Unbounded-v0", ["without bounds"]),
        ("HalfBounded-v0", ["without bounds"]),
        ("Pointwise-v0", ["low < high"]),
    ],
)
def test_unfit_spaces_are_refused_with_what_is_needed(task, words):
    said = refusal(task)
    assert said.startswith(f"{task} has ")
    assert all(word in said for word in words)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("Pendulm-v1", "Pendulum-v1"),
        ("pendulum-v1", "Pendulum-v1"),
        ("Pendulum-v7", "Pendulum-v1"),
        ("Pendulum-v0", "Pendulum-v1"),
        ("HalfChetah-v5", "HalfCheetah-v5"),
    ],
)
def test_an_unknown_task_gives_the_nearest(wrong, right):
    assert refusal(wrong) == f"There is no task {wrong}. Did you mean {right}?"


@pytest.mark.parametrize("task", ["zzzzzzzzzzzz", "", "a b", "one:two:three"])
def test_an_id_near_nothing_is_refused(task):
    assert f"There is no task {task}." in refusal(task)


def test_an_unknown_id_may_be_of_a_module_of_ones_own():
    task = "Zqxjkzqxjkzqxjk-v0"  # like no other, also of those that tests register
    own = "If a module of yours registers {0}, name that too: module:{0}."
    assert refusal(task) == f"There is no task {task}. {own.format(task)}"
    # One that is a little like a known one may be either.
    said = refusal("Lunar-v3")
    assert said.endswith(f"Did you mean LunarLander-v3? {own.format('Lunar-v3')}")


def test_an_id_without_its_module_is_refused():
    assert ":Pendulum-v1" in refusal(":Pendulum-v1")


MUJOCO = (
    *("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "Swimmer", "Walker2d"),
    *("Reacher", "InvertedPendulum", "InvertedDoublePendulum"),
)
OLD = {f"{kind}-v{version}": f"{kind}-v5" for kind in MUJOCO for version in (2, 3)}
OLD |= {"LunarLanderContinuous-v2": "LunarLanderContinuous-v3"}
OLD |= {"BipedalWalker-v2": "BipedalWalker-v3"}


@pytest.mark.parametrize(("old", "new"), OLD.items())
def test_the_papers_own_ids_are_answered_with_the_ones_to_use(old, new):
    said = refusal(old)
    assert said == (
        f"{old} no longer exists; use {new} instead, whose returns are not the same one to one."
    )
    make(new).close()


@pytest.mark.parametrize("kind", MUJOCO)
def test_version_4_is_accepted(kind):
    env = make(f"{kind}-v4")
    assert env.spec.id == f"{kind}-v4"
    env.reset(seed=0)
    obs, *_ = env.step(env.action_space.sample())
    assert env.observation_space.contains(obs)
    env.close()


def uninstalled():
    raise gymnasium.error.DependencyNotInstalled("Box3D is missing, pip install box3d")


gymnasium.register("NeedsBox3D-v0", entry_point=uninstalled)


def test_a_task_whose_engine_is_missing_says_so_and_does_not_suggest_itself():
    said = refusal("NeedsBox3D-v0")
    assert "pip install box3d" in said
    assert "Did you mean" not in said


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module that can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    return lambda name, text: (tmp_path / f"{name}.py").write_text(text)


MINE = """
import gymnasium
gymnasium.register("Mine-v0", "gymnasium.envs.classic_control:PendulumEnv")
"""


def test_a_module_can_register_the_task(module):
    module("my_tasks", MINE)
    env = make("my_tasks:Mine-v0")
    assert isinstance(env.action_space, Box)
    assert env.action_space.high.tolist() == [2.0]
    assert refusal("my_tasks:Mime-v0").endswith("Did you mean my_tasks:Mine-v0?")


def test_a_module_may_have_a_task_of_an_old_name(module, monkeypatch):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    module("old_tasks", MINE.replace("Mine-v0", "LunarLanderContinuous-v2"))
    assert make("old_tasks:LunarLanderContinuous-v2").action_space.high.tolist() == [2.0]


def test_a_missing_module_is_named(module):
    module("their_tasks", "import no_such_engine")
    for name, missing in (("no_such_module",) * 2, ("their_tasks", "no_such_engine")):
        said = refusal(f"{name}:Any-v0")
        assert said == f"{name}:Any-v0 needs a module that is not installed: {missing}."
