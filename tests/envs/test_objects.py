"""Environments as objects: functions, classes and instances in place of an id."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.wrappers import TimeLimit

import discover_rl
from discover_rl.config import Request, resolve
from discover_rl.core.types import UserError
from discover_rl.envs import objects, source, tasks
from discover_rl.envs.settings import Making
from discover_rl.storage.records import Record
from discover_rl.training import evaluation
from discover_rl.training.observers import Observer
from tests.cli.test_cli import SETTINGS, discover

HERE = __name__


class Reach(gymnasium.Env):
    """A point that is paid for being near a goal."""

    observation_space = Box(-9, 9, (1,))
    action_space = Box(-1, 1, (1,))

    def __init__(self, goal=0.5, render_mode=None):
        self.goal, self.render_mode = goal, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.x, {}

    def step(self, action):
        self.x = self.x + 0.1 * np.asarray(action, np.float32)
        return self.x, -abs(float(self.x[0]) - self.goal), False, False, {}


def reach(goal=0.5):
    """One with a time limit."""
    return TimeLimit(Reach(goal), 20)


def number():
    """No environment."""
    return 5


class Uncopyable(Reach):
    """It holds what cannot be copied."""

    def __deepcopy__(self, memo):
        raise TypeError("cannot be copied")


def train(env, out, **more):
    given = {"strategy": "none", "steps": 40, "observer": Observer(), "out": out}
    return discover_rl.train(env=env, **given, **SETTINGS, **more)


def test_what_a_module_has_goes_by_its_name():
    assert objects.task_of("Pendulum-v1") == "Pendulum-v1"
    assert objects.task_of(Reach) == f"{HERE}:Reach"
    assert objects.task_of(reach) == f"{HERE}:reach"
    env = tasks.make(f"{HERE}:reach", making=Making(kwargs=(("goal", 0.25),)))
    assert env.unwrapped.goal == 0.25
    assert tasks.make(f"{HERE}:Reach", filmed=True).render_mode == "rgb_array"
    assert tasks.make(f"{HERE}:reach", filmed=True).render_mode is None  # which takes no such word
    with pytest.raises(UserError, match="reach takes no argument colour"):
        tasks.make(f"{HERE}:reach", making=Making(kwargs=(("colour", 1),)))
    with pytest.raises(UserError, match="number must make an environment, not int"):
        tasks.make(f"{HERE}:number")
    with pytest.raises(UserError, match="There is no task"):
        tasks.make(f"{HERE}:nothing")


def test_an_instance_is_copied_and_stays_as_it_is():
    mine = reach(0.75)
    mine.reset(seed=0)
    name = objects.task_of(mine)
    assert name == "object:Reach"
    first, second = tasks.make(name), tasks.make(name)
    assert first.unwrapped is not second.unwrapped
    assert first.unwrapped.goal == 0.75
    before = mine.unwrapped.x.copy()
    first.reset(seed=5)
    first.step(np.ones(1))
    assert (mine.unwrapped.x == before).all()


def test_an_instance_that_cannot_be_copied_is_made_again_by_its_id(monkeypatch):
    registry = dict(gymnasium.registry)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", registry)
    gymnasium.register("Uncopyable-v0", Uncopyable, max_episode_steps=7)
    name = objects.task_of(gymnasium.make("Uncopyable-v0", goal=0.125))
    again = tasks.make(name)
    assert again.unwrapped.goal == 0.125
    assert tasks.spec_of(again).time_limit == 7
    with pytest.raises(UserError, match="This Uncopyable can be neither copied nor made again"):
        objects.task_of(Uncopyable())


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"env": 5}, "A task is an id, a function or class that makes an environment, or an"),
        ({}, "train takes one task"),
        ({"task": "Pendulum-v1", "env": Reach}, "train takes one task"),
        ({"env": lambda: 5}, "object:lambda must make an environment, not int"),
        ({"env": lambda: reach(), "processes": 2}, "lambda has no name that other processes"),
        ({"env": Reach, "env_kwargs": {"goal": object()}}, "env.kwargs.goal must be a number"),
    ],
)
def test_what_is_no_environment_is_one_sentence(given, sentence, tmp_path):
    with pytest.raises(UserError, match=sentence):
        discover_rl.train(**given, steps=40, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("out", ["", "a\0b"])
def test_an_out_that_is_no_path_is_one_sentence(out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="A path is needed, not"):
        discover_rl.train("Pendulum-v1", steps=40, out=out)
    assert list(tmp_path.iterdir()) == []


def test_an_object_of_another_process_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="object:Gone was an object of the Python process"):
        tasks.make("object:Gone")


def test_the_code_and_the_attributes_of_an_object_are_part_of_a_run():
    def hash_of(env, **kwargs):
        return source.fingerprint(objects.task_of(env), Making(kwargs=tuple(kwargs.items())))

    assert hash_of(reach(0.5)) == hash_of(reach(0.5)) != ""
    assert hash_of(reach(0.5)) != hash_of(reach(0.6))
    assert hash_of(reach) == hash_of(reach) != hash_of(Reach)
    assert hash_of(reach, goal=0.1) != hash_of(reach)
    assert hash_of(lambda: reach()) != hash_of(lambda: reach(0.6))
    run = resolve(Request(objects.task_of(reach), "td3", "none", 100))[0]
    assert run.task == f"{HERE}:reach"


def test_they_are_trained_on(tmp_path, capfd):
    """The same task by its name, as a lambda and as an instance: the same run, seed by seed."""
    given = {"seeds": 2, "env_kwargs": {"goal": 0.75}}
    first = train(reach, tmp_path / "function", **given)
    assert first[0].run["settings"]["env.kwargs.goal"] == 0.75
    assert first[0].run["task"] == f"{HERE}:reach"
    for name, env in (("lambda", lambda: reach(0.75)), ("instance", reach(0.75))):
        other = train(env, tmp_path / name, seeds=2)
        assert [result.returns for result in other] == [result.returns for result in first]
    again = train(reach(0.75), tmp_path / "instance", seeds=2)  # nothing left to do
    assert again[0].returns == first[0].returns
    with pytest.raises(UserError, match="its code has changed"):
        train(reach(0.5), tmp_path / "instance", seeds=2)
    policy = discover_rl.load_policy(tmp_path / "instance" / "seed-0")
    scores = evaluation.evaluate_policy(policy, f"{HERE}:reach", 2)
    assert scores.returns.shape == (1, 2)
    assert "task_source" in (Record(again[0].path / "record.jsonl").header or {})
    assert discover("evaluate", str(tmp_path / "instance" / "seed-0")) == 2
    assert "--task module:Reach." in capfd.readouterr().err
