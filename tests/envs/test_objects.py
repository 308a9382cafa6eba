"""Environments as objects: functions, classes and instances in place of an id."""

import functools
import json

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.wrappers import TimeLimit

import discover_rl
from discover_rl.config import Request, resolve
from discover_rl.core.types import UserError
from discover_rl.envs import objects, source, tasks
from discover_rl.envs.settings import Making, arguments
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


def bare(env):
    """A wrapper that adds nothing."""
    return env


class Aim(Reach):
    """It keeps its goal for itself, and counts its steps."""

    def __init__(self, goal):
        super().__init__(goal)
        self._aim = np.asarray([goal])
        self._put_limit(3)
        self.steps = 0

    def _put_limit(self, steps):
        self._limit = steps

    def step(self, action):
        self.steps += 1
        return super().step(action)


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
        ({"env": Reach, "env_kwargs": ["goal"]}, "env_kwargs are arguments by name, not list"),
        ({"env": Reach, "wrappers": 5}, "wrappers are functions or classes, not int"),
        ({"env": Reach, "wrappers": [5]}, "A wrapper is a function or class, not int"),
        ({"env": Reach, "wrappers": lambda env: 5}, "lambda must return an environment, not int"),
        ({"env": Reach, "wrappers": lambda env: env, "processes": 2}, "lambda has no name that ot"),
    ],
)
def test_what_is_no_environment_is_one_sentence(given, sentence, tmp_path):
    with pytest.raises(UserError, match=sentence):
        discover_rl.train(**given, steps=40, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("out", ["", "a\0b", 5])
def test_an_out_that_is_no_path_is_one_sentence(out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (
        lambda: discover_rl.train("Pendulum-v1", steps=40, out=out),
        lambda: discover_rl.tune("Pendulum-v1", {"gamma": (0, 1)}, steps=40, out=out),
        lambda: discover_rl.load_run(out),
        lambda: discover_rl.load_policy(out),
    ):
        with pytest.raises(UserError, match="A path is needed, not"):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"algorithm": None}, "There is no algorithm None; what is needed is a name"),
        ({"strategy": Reach}, r"There is no strategy <class .*register_strategy gives"),
        ({"processes": "2"}, "processes must be a whole number from 0 to 1,000, not '2'"),
        ({"processes": -1}, "processes must be a whole number from 0 to 1,000, not -1"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds must be a number of seconds, 0 or more"),
        ({"seeds": "3"}, "seeds must be how many, or a list, not '3'"),
        ({"observer": 5}, "An observer is an instance of discover_rl.Observer, not 5"),
        ({"observer": [discover_rl.Observer]}, "An observer is an instance of discover_rl.Obs"),
    ],
)
def test_arguments_without_sense_are_one_sentence(given, sentence, tmp_path):
    for call in (
        lambda **given: discover_rl.train("Pendulum-v1", **given),
        lambda **given: discover_rl.tune("Pendulum-v1", {"gamma": (0, 1)}, **given),
    ):
        with pytest.raises(UserError, match=sentence):
            call(**given, steps=40, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"task": None}, "A task is an id, a function or class that makes an environment"),
        ({"task": lambda: reach(), "processes": 2}, "lambda has no name that other processes"),
        ({"ranges": [("gamma", 0, 1)]}, "ranges are by the names of settings, not list"),
        ({"trials": "3"}, "trials must be a whole number, not '3'"),
        ({"lanes": 2.5}, "lanes must be a whole number, not 2.5"),
        ({"seed": None}, "seed must be a whole number, not None"),
        ({"storage": 3}, "A path is needed, not 3"),
    ],
)
def test_arguments_of_tune_without_sense_are_one_sentence(given, sentence, tmp_path):
    given = {"task": "Pendulum-v1", "ranges": {"gamma": (0, 1)}} | given
    with pytest.raises(UserError, match=sentence):
        discover_rl.tune(**given, steps=40, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_object_of_another_process_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="object:Gone was an object of the Python process"):
        tasks.make("object:Gone")
    with pytest.raises(UserError, match="object:gone was an object of the Python process"):
        tasks.make("Pendulum-v1", making=Making(wrappers=("object:gone",)))


def test_wrappers_need_no_name():
    """What a lambda or a partial says is part of the run, as the code of any wrapper is."""

    def made(*wrappers, task="Pendulum-v1"):
        names = objects.wrapper_names(wrappers)
        making = Making(wrappers=tuple(names))
        return names, tasks.make(task, making=making), source.fingerprint(task, making)

    def paid(factor):
        return lambda env: gymnasium.wrappers.TransformReward(env, lambda it: factor * it)

    names, env, _ = made(functools.partial(TimeLimit, max_episode_steps=9), paid(0.0), bare)
    assert names == ["object:partial", "object:lambda-2", f"{HERE}:bare"]
    env.reset(seed=0)
    answers = [env.step(np.zeros(1)) for _ in range(9)]
    assert [truncated for _, _, _, truncated, _ in answers] == [False] * 8 + [True]
    assert {reward for _, reward, _, _, _ in answers} == {0.0}
    hashes = [made(it)[2] for it in (paid(1.0), paid(1.0), paid(2.0))]
    assert hashes[0] == hashes[1] != hashes[2]
    lengths = [made(functools.partial(TimeLimit, max_episode_steps=it))[2] for it in (9, 9, 8)]
    assert lengths[0] == lengths[1] != lengths[2]
    assert "" not in (*hashes, *lengths)


def test_an_argument_may_be_a_number_of_numpys():
    kwargs = arguments({"env.kwargs.goal": np.float32(0.25), "env.kwargs.count": np.int64(2)})
    assert kwargs == (("count", 2), ("goal", 0.25))
    assert json.dumps(Making(kwargs=kwargs).to_json())


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


def test_an_objects_private_attributes_count_and_what_has_happened_to_it_does_not():
    def hash_of(env):
        return source.fingerprint(objects.task_of(env))

    env, other = Aim(0.5), Aim(0.5)
    assert hash_of(env) == hash_of(other)
    env.reset(seed=7)
    env.step(env.action_space.sample())
    assert env.steps == 1
    assert hash_of(env) == hash_of(other)
    for name, value in (("_aim", np.asarray([0.6])), ("_limit", 4)):
        other = Aim(0.5)
        setattr(other, name, value)
        assert hash_of(env) != hash_of(other)


@pytest.mark.slow
def test_of_an_environment_of_gymnasiums_all_that_it_was_made_with_counts():
    """Its task is called object:PendulumEnv, whatever it is."""

    def hash_of(env):
        return source.fingerprint(objects.task_of(env))

    def twice(reward):
        return 2 * reward

    def made(**given):
        return gymnasium.make("Pendulum-v1", **given)

    wrappers, changed = gymnasium.wrappers, made()
    changed.unwrapped.max_torque = 1.0
    others = [
        *(made(), made(g=5.0), made(max_episode_steps=50), changed),
        wrappers.TimeLimit(made(), 50),
        wrappers.TimeLimit(wrappers.TimeLimit(made(), 30), 50),
        wrappers.TransformReward(made(), lambda reward: 3 * reward),
        wrappers.TransformReward(made(), twice),
        functools.partial(gymnasium.make, "Pendulum-v1", g=4.0),
    ]
    found = [hash_of(env) for env in others]
    assert len({"", *found}) == len(others) + 1
    used = made(g=5.0)
    used.reset(seed=0)
    used.step(used.action_space.sample())
    assert hash_of(used) == found[1]


def test_what_copies_would_lack_is_one_sentence():
    """MuJoCo's environments of Gymnasium are copied by making them anew."""

    def changed(change) -> gymnasium.Env:
        env = gymnasium.make("InvertedPendulum-v5")
        env.reset(seed=0)
        env.step(env.action_space.sample())
        change(env.unwrapped)
        return env

    assert source.fingerprint(objects.task_of(changed(lambda env: None)))
    for lost, change in (
        ("frame_skip", lambda env: setattr(env, "frame_skip", 7)),
        ("model", lambda env: env.model.opt.gravity.fill(0.0)),
    ):
        with pytest.raises(UserError, match=f"without what was changed in it since .{lost}.; give"):
            objects.task_of(changed(change))


def test_they_are_trained_on(tmp_path, capfd):
    """The same task by its name, as a lambda and as an instance: the same run, seed by seed."""
    given = {"seeds": 2, "env_kwargs": {"goal": 0.75}}
    first = train(reach, tmp_path / "function", **given)
    assert first[0].run["settings"]["env.kwargs.goal"] == 0.75
    assert first[0].run["task"] == f"{HERE}:reach"
    for name, env in (("lambda", lambda: reach(0.75)), ("instance", reach(0.75))):
        other = train(env, tmp_path / name, seeds=2, wrappers=lambda env: env)
        assert [result.returns for result in other] == [result.returns for result in first]
    given = {"seeds": 2, "wrappers": lambda env: env}
    again = train(reach(0.75), tmp_path / "instance", **given)  # nothing left to do
    assert again[0].returns == first[0].returns
    with pytest.raises(UserError, match="its code has changed"):
        train(reach(0.5), tmp_path / "instance", **given)
    policy = discover_rl.load_policy(tmp_path / "instance" / "seed-0")
    scores = evaluation.evaluate_policy(policy, f"{HERE}:reach", 2)
    assert scores.returns.shape == (1, 2)
    assert "task_source" in (Record(again[0].path / "record.jsonl").header or {})
    assert discover("evaluate", str(tmp_path / "instance" / "seed-0")) == 2
    assert "--task module:Reach." in capfd.readouterr().err
