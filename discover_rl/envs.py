"""Lanes of environments, stepped by Gymnasium one after the other.

Every episode is reset with a seed of its own, made from the run's seed and the episode's number, so
an episode can be had again from two numbers and the actions since its start. That is how a run is
resumed exactly: `Lanes.restore` replays them and compares a digest of all that was observed.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from discover_rl.tasks import DelayedReward, make, raised, renewed, spec_of
from discover_rl.types import Seen, Spec


def episode_seed(seed: int, episode: int, number: int = 0) -> int:
    """A seed for one episode of a run's environment of this number: unrelated for neighbours."""
    entropy = [seed, episode, number] if number else [seed, episode]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


class Episode(NamedTuple):
    """All it takes to have an episode again up to now."""

    number: int
    actions: np.ndarray  # (steps, action) since its start
    digest: int  # of every observation and reward since its start


class Flown(NamedTuple):
    """What was done and seen on a flight (flight.py), step by step."""

    executed: np.ndarray  # (steps, lanes, action)
    obs: np.ndarray  # (steps, lanes, observation) what it led to, in double precision
    reward: np.ndarray  # (steps, lanes)
    ended: np.ndarray  # (steps, lanes)


class Stage:
    """What lanes of environments are told, whoever steps them: `count` environments per lane, those
    of a lane one after the other in every array. A new episode follows an ended one at once."""

    calls: Any = None  # for programs that step environments by themselves, where they can

    def __init__(
        self,
        task: str,
        seeds: Sequence[int],
        reward_delay: int = 1,
        limit_terminates: bool = False,
        count: int = 1,
    ):
        self.task, self.seeds, self.count = task, tuple(seeds), count
        self.reward_delay, self.limit_terminates = reward_delay, limit_terminates
        self.crashes: dict[int, str] = {}  # what environments raised; from then on they answer NaN

    def crash(self, lane: int) -> str:
        """What the first of a lane's environments raised that did; '' if none."""
        mine = range(lane * self.count, (lane + 1) * self.count)
        return next((self.crashes[env] for env in mine if env in self.crashes), "")

    def seed(self, env: int, episode: int) -> int:
        """Of an environment's episode."""
        lane, number = divmod(env, self.count)
        return episode_seed(self.seeds[lane], episode, number)

    def terminates(self, done: Any, limit: Any) -> Any:
        """Whether an end is a termination; one at the task's limit may count as such."""
        return done | limit & self.limit_terminates

    def send(self, actions: np.ndarray, alive: np.ndarray, cut: bool = False) -> None:
        """Act in every environment that is alive. With `cut`, episodes that would go on end."""
        raise NotImplementedError

    def receive(self) -> Seen:
        """What came of it; those that are not alive answer zeros."""
        raise NotImplementedError

    def step(self, actions: np.ndarray, alive: np.ndarray, cut: bool = False) -> Seen:
        self.send(actions, alive, cut)
        return self.receive()


class Lanes(Stage):
    """Stepped by Gymnasium, one after the other."""

    def __init__(self, task: str, seeds: Sequence[int], *rest: Any, **settings: Any):
        super().__init__(task, seeds, *rest, **settings)
        count, reward_delay = self.count, self.reward_delay
        self.envs = [make(task, reward_delay) for _ in range(len(self.seeds) * count)]
        self.spec = spec_of(self.envs[0])
        envs, size = len(self.envs), self.spec.observation_size
        # One box for the actions of all: translating them together takes no longer than one.
        low, high, shape = self.spec.low * envs, self.spec.high * envs, self.spec.action_shape
        self._boxes = Spec((), (envs, *shape), low, high)
        self.obs = np.zeros((envs, size), np.float32)
        self._episode = np.full(envs, -1)
        self._actions: list[list[np.ndarray]] = [[] for _ in self.envs]
        self._digest = [0] * envs

    def begin(self, env: int) -> None:
        """Start the next episode of an environment."""
        self._episode[env] += 1
        self._actions[env] = []
        self._digest[env] = 0
        try:
            self.envs[env] = renewed(self.envs[env], self.task, self.reward_delay)
            raw, _ = self.envs[env].reset(seed=self.seed(env, int(self._episode[env])))
        except Exception as error:
            self.crashes[env] = raised(error)
            self.obs[env] = np.nan
            return
        self.obs[env] = self._observe(env, raw, 0.0)

    def send(self, actions: np.ndarray, alive: np.ndarray, cut: bool = False) -> None:
        self._sent = actions, alive, cut

    def receive(self) -> Seen:
        actions, alive, cut = self._sent
        envs, boxed = len(self.envs), self._boxes.to_box(actions.ravel())
        reward, next_obs = np.zeros(envs), np.zeros(self.obs.shape, np.float32)
        terminated, ended = np.zeros(envs, bool), np.zeros(envs, bool)
        for env in itertools.compress(range(envs), alive.tolist()):
            here = self.envs[env]
            try:
                if env in self.crashes:
                    raise RuntimeError  # it is not to be touched again
                raw, gain, done, limit, _ = here.step(boxed[env])
            except Exception as error:  # other lanes have nothing to do with it
                self.crashes.setdefault(env, raised(error))
                reward[env] = np.nan
                continue
            self._actions[env].append(actions[env])
            self.obs[env] = next_obs[env] = self._observe(env, raw, gain)
            if done or limit or cut:
                if cut and isinstance(here, DelayedReward):
                    gain = float(gain) + here.settle()
                terminated[env] = self.terminates(bool(done), bool(limit))  # a cut never is
                ended[env] = True
                self.begin(env)
            reward[env] = gain if env not in self.crashes else np.nan
        # A copy, because whoever gets it may still be reading when the next step writes.
        return Seen(reward, terminated, ended, next_obs, self.obs.copy())

    def episodes(self, lane: int) -> list[Episode]:
        """Those that are running in a lane's environments."""
        size = self.spec.action_size
        return [
            Episode(
                int(self._episode[env]),
                np.asarray(self._actions[env], np.float32).reshape(-1, size),
                self._digest[env],
            )
            for env in range(lane * self.count, (lane + 1) * self.count)
        ]

    def restore(self, env: int, episode: Episode) -> bool:
        """Have this episode again. False: it came out differently, so a new one was started."""
        self._episode[env] = episode.number - 1
        self.begin(env)
        for action in episode.actions:
            raw, gain, done, limit, _ = self.envs[env].step(self.spec.to_box(action))
            self._actions[env].append(action)
            self.obs[env] = self._observe(env, raw, gain)
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

    def _observe(self, env: int, raw: Any, reward: Any) -> np.ndarray:
        """Count it; flat, and not to be kept: some environments reuse their arrays."""
        flat = np.ascontiguousarray(raw).ravel()
        digest = zlib.crc32(flat.data, self._digest[env])
        self._digest[env] = zlib.crc32(struct.pack("d", reward), digest)
        return flat


class Trials:
    """Episodes from given seeds, one of each, as often as they are begun."""

    def __init__(self, task: str, seeds: Sequence[int], filmed: bool = False):
        self.task, self.seeds, self.filmed = task, tuple(seeds), filmed
        self.envs = [make(task, filmed=filmed) for _ in self.seeds]
        self.spec = spec_of(self.envs[0])
        self.crashes: dict[int, str] = {}  # of these the return is NaN

    def begin(self, which: np.ndarray) -> np.ndarray:
        """Start these; (n, observation)."""
        seen = np.zeros((len(which), self.spec.observation_size), np.float32)
        for row, i in enumerate(which.tolist()):
            try:
                self.envs[i] = renewed(self.envs[i], self.task, filmed=self.filmed)
                seen[row] = np.ravel(self.envs[i].reset(seed=self.seeds[i])[0])
            except Exception as error:
                self.crashes[i] = raised(error)
        return seen

    def step(
        self, which: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Act in these, in the task's units; (n, observation), (n,) rewards, (n,) ended."""
        seen = np.zeros((len(which), self.spec.observation_size), np.float32)
        rewards, ended = np.full(len(which), np.nan), np.ones(len(which), bool)
        for row, (i, action) in enumerate(zip(which.tolist(), actions, strict=True)):
            try:
                if i not in self.crashes:
                    seen[row], rewards[row], terminated, truncated, _ = self._stepped(i, action)
                    ended[row] = bool(terminated or truncated)
            except Exception as error:
                self.crashes[i] = raised(error)
        return seen, rewards, ended

    def _stepped(self, i: int, action: np.ndarray) -> Any:
        raw, *rest = self.envs[i].step(action)
        return np.ravel(raw), *rest

    def close(self) -> None:
        for env in self.envs:
            env.close()
