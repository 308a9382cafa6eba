"""Environments stepped by Gymnasium, one after the other."""

from __future__ import annotations

import functools
import itertools
import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from discover_rl.core.types import Spec, Transition
from discover_rl.envs.answers import WrongAnswer, begun, flat, shape_of, single, stepped
from discover_rl.envs.rewards import DelayedReward
from discover_rl.envs.settings import PLAIN, Making
from discover_rl.envs.tasks import close, make, raised, renewed, spec_of
from discover_rl.envs.vector import EndedEpisodes, Episode, VectorEnv


class GymnasiumVector(VectorEnv):
    """Environments stepped by Gymnasium, one after the other."""

    def __init__(self, task: str, seeds: Sequence[int], **settings: Any):
        """Make the environments; the arguments are those of `VectorEnv`."""
        super().__init__(task, seeds, **settings)
        self._make = functools.partial(make, task, self.reward_delay, making=self.making)
        self.envs = [self._make() for _ in range(len(self.seeds) * self.count)]
        self.spec = spec_of(self.envs[0])
        envs, size = len(self.envs), self.spec.observation_size
        self._shape = shape_of(self.envs[0].observation_space)
        # One box for the actions of all: converting them together takes no longer than one.
        low, high, shape = self.spec.low * envs, self.spec.high * envs, self.spec.action_shape
        self._boxes = Spec((), (envs, *shape), low, high)
        self.obs = np.zeros((envs, size), np.float32)
        self._episode = np.full(envs, -1)
        self._actions: list[list[np.ndarray]] = [[] for _ in self.envs]
        self._digest = [0] * envs
        self._return = [0.0] * envs  # of the running episodes

    def begin(self, env: int) -> None:
        self._episode[env] += 1
        self._actions[env] = []
        self._digest[env] = 0
        self._return[env] = 0.0
        try:
            self.envs[env] = renewed(self.envs[env], self._make)
            seed = self.seed(env, int(self._episode[env]))
            self.obs[env] = self._observe(env, begun(self.envs[env].reset(seed=seed)), 0.0)
        except Exception as error:
            self.crashes[env] = raised(error)
            self.obs[env] = np.nan

    def send(self, actions: np.ndarray, alive: np.ndarray, truncate: bool = False) -> None:
        self._sent = actions, alive, truncate

    def receive(self) -> Transition:
        actions, alive, truncate = self._sent
        envs, boxed = len(self.envs), self._boxes.to_box(actions.ravel())
        reward, next_obs = np.zeros(envs), np.zeros(self.obs.shape, np.float32)
        terminated, ended = np.zeros(envs, bool), np.zeros(envs, bool)
        for env in itertools.compress(range(envs), alive.tolist()):
            here = self.envs[env]
            try:
                if env in self.crashes:
                    raise RuntimeError  # it is not to be touched again
                raw, reward_now, done, limit, _ = stepped(here.step(boxed[env, ...]))
                self._actions[env].append(actions[env])
                self.obs[env] = next_obs[env] = self._observe(env, raw, reward_now)
                self._return[env] += reward_now
            except Exception as error:  # other lanes have nothing to do with it
                self.crashes.setdefault(env, raised(error))
                reward[env] = np.nan
                continue
            if done or limit or truncate:
                if truncate and isinstance(here, DelayedReward):
                    owed = here.settle()
                    reward_now += owed
                    self._return[env] += owed
                terminated[env] = self.is_termination(done, limit)
                ended[env] = True
                this = EndedEpisodes(1, self._return[env], len(self._actions[env]))
                self._ended[env] = self._ended[env].plus(this)
                self.begin(env)
            reward[env] = reward_now if env not in self.crashes else np.nan
        # A copy: the receiver may still be reading it when the next step writes.
        return Transition(reward, terminated, ended, next_obs, obs=self.obs.copy())

    def episodes(self, lane: int) -> list[Episode]:
        size = self.spec.action_size
        return [
            Episode(
                int(self._episode[env]),
                np.asarray(self._actions[env], np.float32).reshape(-1, size),
                self._digest[env],
                self._ended[env],
            )
            for env in range(lane * self.count, (lane + 1) * self.count)
        ]

    def restore(self, env: int, episode: Episode) -> bool:
        self._episode[env], self._ended[env] = episode.number - 1, episode.before
        self.begin(env)
        try:
            for action in episode.actions:
                answer = self.envs[env].step(self.spec.to_box(action))
                raw, reward, done, limit, _ = stepped(answer)
                self._actions[env].append(action)
                self.obs[env] = self._observe(env, raw, reward)
                self._return[env] += reward
                if done or limit:
                    break
        except Exception:  # it did not when the episode was played first
            self._digest[env] = -1
        same = len(self._actions[env]) == len(episode.actions)
        if same and self._digest[env] == episode.digest:
            return True
        self.begin(env)
        return False

    def close(self) -> None:
        for env in self.envs:
            close(env)

    def _observe(self, env: int, raw: Any, reward: float) -> np.ndarray:
        """Add an answer to the digest and return the observation, flat, as a copy: some
        environments reuse their arrays."""
        found = flat(raw, self._shape)
        digest = zlib.crc32(found.data, self._digest[env])
        self._digest[env] = zlib.crc32(struct.pack("d", reward), digest)
        return single(found)


NO_ACTION = np.zeros(0, np.float32)
"""What led to an episode's first observation."""


class GymnasiumEpisodes:
    """Single episodes from given seeds, played by Gymnasium (`vector.Episodes`)."""

    def __init__(
        self, task: str, seeds: Sequence[int], filmed: bool = False, making: Making = PLAIN
    ):
        """Make an environment for each seed.

        Args:
            task: the task's id.
            seeds: of the episodes.
            filmed: whether they are going to be rendered.
            making: how the environments are made.
        """
        self.seeds = tuple(seeds)
        self._make = functools.partial(make, task, filmed=filmed, making=making)
        self.envs = [self._make() for _ in self.seeds]
        self.spec = spec_of(self.envs[0])
        self._size = self.spec.observation_size
        self._shape = shape_of(self.envs[0].observation_space)
        self.crashes: dict[int, str] = {}  # of these the return is NaN

    def begin(self, which: np.ndarray) -> np.ndarray:
        """Start the episodes of these numbers, (n,); return (n, observation)."""
        obs = np.zeros((len(which), self._size), np.float32)
        for row, i in enumerate(which.tolist()):
            try:
                self.envs[i] = renewed(self.envs[i], self._make)
                obs[row] = self._flat(begun(self.envs[i].reset(seed=self.seeds[i])))
            except Exception as error:
                self.crashes[i] = raised(error)
        return obs

    def step(
        self, which: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Act in these episodes, in the task's units; (n, observation), (n,) rewards, (n,)
        ended."""
        obs = np.zeros((len(which), self._size), np.float32)
        rewards, ended = np.full(len(which), np.nan), np.ones(len(which), bool)
        for row, (i, action) in enumerate(zip(which.tolist(), actions, strict=True)):
            try:
                if i not in self.crashes:
                    raw, reward, *ends, _ = stepped(self.envs[i].step(np.asarray(action)))
                    obs[row] = self._flat(raw, action)
                    if not math.isfinite(reward):
                        raise WrongAnswer("the reward is not finite")
                    rewards[row], ended[row] = reward, any(ends)
            except Exception as error:
                if np.isfinite(action).all():  # else it is the policy that failed
                    self.crashes[i] = raised(error)
        return obs, rewards, ended

    def _flat(self, raw: Any, action: np.ndarray = NO_ACTION) -> np.ndarray:
        obs = single(flat(raw, self._shape))
        if not np.isfinite(obs).all() and np.isfinite(action).all():
            raise WrongAnswer("the observation is not finite")
        return obs

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs:
            close(env)
