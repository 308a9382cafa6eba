"""Environments and wrappers as users write them, for tests."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Tuple

TENTH = Box(-0.1, 0.1, (2,), np.float64)
"""Whose bounds single precision cannot hold: the nearest number is outside."""


class Parts(gymnasium.Env):
    """Observes a Dict with a Tuple in it; checks its actions; pays 0.1 a step in 7 steps."""

    observation_space = Dict(
        {"z": Box(-9, 9, (1, 2), np.float64), "a": Tuple([Box(-9, 9, ()), Box(-9, 9, (2,))])}
    )
    action_space = TENTH

    def __init__(self, length: int = 7, offset: float = 0.0):
        self.length, self.offset = length, offset

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.t, self.start = 0, self.np_random.random()
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(np.asarray(action)), action
        self.t += 1
        return self._observe(), 0.1, self.t == self.length, False, {}

    def _observe(self):
        z = np.asarray([[self.start, float(self.t)]])
        return {"z": z, "a": (np.float32(self.offset), np.asarray([2.0, 3.0], np.float32))}


class Answers(gymnasium.Env):
    """Answers as it was told to, from the third step on; checks its actions."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, obs=(0.0, 0.0, 0.0), reward=0.0, ends=(False, False), parts=5, begins=2):
        self.obs, self.reward = np.asarray(obs), reward
        self.ends = [np.asarray(it) if isinstance(it, list | tuple) else it for it in ends]
        self.parts, self.begins = parts, begins

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.t = 0
        return (np.zeros(3), {}) if self.begins == 2 else np.zeros(3)

    def step(self, action):
        assert self.action_space.contains(action)
        self.t += 1
        if self.t < 3:
            return np.zeros(3), 0.0, False, False, {}
        reward = np.asarray(self.reward) if isinstance(self.reward, list) else self.reward
        return (self.obs, reward, *self.ends, {})[: self.parts]


class Numbered(Parts):
    """Observes a Dict whose keys are numbers."""

    observation_space = Dict({10: Box(-9, 9, (1,)), 2: Box(-9, 9, (1,))})

    def _observe(self):
        return {10: np.ones(1, np.float32), 2: np.zeros(1, np.float32)}


class Pictures(Parts):
    """Observes images."""

    observation_space = Box(0, 255, (4, 4, 3), np.uint8)

    def _observe(self):
        return np.full((4, 4, 3), self.t, np.uint8)


class ScaledPictures(Pictures):
    """Observes images whose numbers are between 0 and 1."""

    observation_space = Box(0, 1, (4, 4, 3), np.float32)


class Scalar(Parts):
    """Acts by a single number, which has to be an array."""

    action_space = Box(-1.0, 1.0, (), np.float32)

    def step(self, action):
        assert isinstance(action, np.ndarray)
        return super().step(action)


gymnasium.register("Parts-v0", entry_point=Parts)
gymnasium.register("Answers-v0", entry_point=Answers)
gymnasium.register("Numbered-v0", entry_point=Numbered)
gymnasium.register("Pictures-v0", entry_point=Pictures)
gymnasium.register("ScaledPictures-v0", entry_point=ScaledPictures)
gymnasium.register("Scalar-v0", entry_point=Scalar)


def doubled(env):
    """A wrapper that pays twice."""
    return gymnasium.wrappers.TransformReward(env, lambda reward: 2 * reward)


def and_one(env):
    """A wrapper that pays one more."""
    return gymnasium.wrappers.TransformReward(env, lambda reward: reward + 1)


class Counting(gymnasium.Wrapper):
    """Shows how many episodes there were: what happened in earlier ones cannot be repeated."""

    count = 0

    def reset(self, **options):
        obs, info = self.env.reset(**options)
        self.count += 1
        return self._marked(obs), info

    def step(self, action):
        obs, *rest = self.env.step(action)
        return self._marked(obs), *rest

    def _marked(self, obs):
        return {**obs, "a": (np.float32(self.count), obs["a"][1])}


def nothing(env):
    """Not a wrapper."""


def failing(env):
    """A wrapper that fails."""
    raise RuntimeError("no such thing")
