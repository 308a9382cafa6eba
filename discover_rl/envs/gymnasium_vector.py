"""Environments stepped by Gymnasium, one after the other."""

from __future__ import annotations

import functools
import itertools
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from discover_rl.core.types import Spec, Transition
from discover_rl.envs.answers import flat, number, single
from discover_rl.envs.rewards import DelayedReward
from discover_rl.envs.settings import PLAIN, Making
from discover_rl.envs.tasks import make, raised, renewed, spec_of
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
        self._size = size
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
            raw, _ = self.envs[env].reset(seed=self.seed(env, int(self._episode[env])))
            self.obs[env] = self._observe(env, raw, 0.0)
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
                raw, paid, done, limit, _ = here.step(boxed[env])
                reward_now = number(paid)
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
                terminated[env] = self.is_termination(bool(done), bool(limit))
                ended[env] = True
                this = EndedEpisodes(1, self._return[env], len(self._actions[env]))
                self._ended[env] = self._ended[env].plus(this)
                self.begin(env)
            reward[env] = reward_now if env not in self.crashes else np.nan
        # A copy, because whoever gets it may still be reading when the next step writes.
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
        for action in episode.actions:
            raw, paid, done, limit, _ = self.envs[env].step(self.spec.to_box(action))
            self._actions[env].append(action)
            self.obs[env] = self._observe(env, raw, number(paid))
            self._return[env] += number(paid)
            if done or limit:
                break
        same = len(self._actions[env]) == len(episode.actions)
        if same and self._digest[env] == episode.digest:
            return True
        self.begin(env)
        return False

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def _observe(self, env: int, raw: Any, reward: float) -> np.ndarray:
        """Add an answer to the digest and return the observation, flat. It must be copied: some
        environments reuse their arrays."""
        found = flat(raw, self._size)
        digest = zlib.crc32(found.data, self._digest[env])
        self._digest[env] = zlib.crc32(struct.pack("d", reward), digest)
        return single(found)


class GymnasiumEpisodes:
    """Single episodes from given seeds, played by Gymnasium (`vector.Episodes`)."""

    def __init__(
        self, task: str, seeds: Sequence[int], filmed: bool = False, making: Making = PLAIN
    ):
        """Make an environment for each seed.

        Args:
            task: the task's id.
            seeds: of the episodes.
            filmed: whether pictures of them are wanted.
            making: how the environments are made.
        """
        self.seeds = tuple(seeds)
        self._make = functools.partial(make, task, filmed=filmed, making=making)
        self.envs = [self._make() for _ in self.seeds]
        self.spec = spec_of(self.envs[0])
        self._size = self.spec.observation_size
        self.crashes: dict[int, str] = {}  # of these the return is NaN

    def begin(self, which: np.ndarray) -> np.ndarray:
        """Start the episodes of these numbers, (n,); return (n, observation)."""
        obs = np.zeros((len(which), self._size), np.float32)
        for row, i in enumerate(which.tolist()):
            try:
                self.envs[i] = renewed(self.envs[i], self._make)
                obs[row] = self._flat(self.envs[i].reset(seed=self.seeds[i])[0])
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
                    obs[row], rewards[row], terminated, truncated, _ = self._stepped(i, action)
                    ended[row] = bool(terminated or truncated)
            except Exception as error:
                self.crashes[i] = raised(error)
        return obs, rewards, ended

    def _stepped(self, i: int, action: np.ndarray) -> Any:
        raw, reward, *rest = self.envs[i].step(action)
        return self._flat(raw), number(reward), *rest

    def _flat(self, raw: Any) -> np.ndarray:
        return single(flat(raw, self._size))

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs:
            env.close()
