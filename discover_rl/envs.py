"""Lanes of environments, one Gymnasium environment each. The only room that imports Gymnasium.

Every episode is reset with a seed of its own, made from the run's seed and the episode's number, so
an episode can be had again from two numbers and the actions since its start. That is how a run is
resumed exactly: `Lanes.restore` replays them and compares a digest of all that was observed.
"""

from __future__ import annotations

import itertools
import struct
import warnings
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from discover_rl.hyper import nearest
from discover_rl.machine import MUJOCO
from discover_rl.types import Seen, Spec, UserError


def make(task: str, reward_delay: int = 1) -> gymnasium.Env:
    """The environment of this id; a UserError where there is none or it cannot be trained on."""
    module, colon, name = task.rpartition(":")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env = gymnasium.make(task, disable_env_checker=True)
    except ModuleNotFoundError as error:
        cause = error.__cause__ if isinstance(error.__cause__, ModuleNotFoundError) else error
        raise UserError(f"{task} needs a module that is not installed: {cause.name}.") from error
    except (gymnasium.error.Error, ImportError, ValueError) as error:
        if successor := _successor(name):
            raise UserError(
                f"{task} no longer exists; use {successor} instead, whose returns are not the same "
                "one to one."
            ) from error
        reason = " ".join(str(error).split())
        if name in gymnasium.registry:
            raise UserError(f"{task} cannot be made: {reason}.") from error
        hint = nearest(name, gymnasium.registry).replace("mean ", f"mean {module}{colon}")
        raise UserError(f"There is no task {task}.{hint or f' {reason}'}") from error
    seen, acted = env.observation_space, env.action_space
    if not isinstance(acted, gymnasium.spaces.Box) or acted.dtype.kind != "f":
        raise UserError(f"{task} has {_kind(acted)} actions; a Box of continuous ones is needed.")
    if not np.isfinite([acted.low, acted.high]).all() or (acted.low >= acted.high).any():
        raise UserError(f"{task} has actions without bounds; every dimension needs low < high.")
    if not isinstance(seen, gymnasium.spaces.Box):
        raise UserError(
            f"{task} has {_kind(seen)} observations; a Box is needed "
            "(gymnasium.wrappers.FlattenObservation makes one)."
        )
    return env if reward_delay == 1 else DelayedReward(env, reward_delay)


def _successor(name: str) -> str:
    """The id to use in place of one that Gymnasium no longer makes; '' for all others.

    Gymnasium keeps most of these ids in its registry, only to raise when they are made.
    """
    kind, _, version = name.rpartition("-v")
    heirs = dict.fromkeys(MUJOCO, ("v2", "v3"))  # they ran on mujoco-py
    heirs |= {"LunarLanderContinuous": ("v2",), "BipedalWalker": ("v2",)}
    if f"v{version}" not in heirs.get(kind, ()):
        return ""
    return f"{kind}-v5" if kind in MUJOCO else f"{kind}-v3"


def _kind(space: gymnasium.Space) -> str:
    whole = isinstance(space, gymnasium.spaces.Box)
    return "whole-number" if whole else type(space).__name__


def renewed(env: gymnasium.Env, task: str, reward_delay: int = 1) -> gymnasium.Env:
    """The environment to start an episode in: the same, or a new one where episodes leave traces.

    Box2D's worlds do: contacts of earlier episodes change the order in which later ones are solved,
    so neither an evaluation nor a resumed run would come out the same twice.
    """
    if not type(env.unwrapped).__module__.startswith("gymnasium.envs.box2d"):
        return env
    env.close()
    return make(task, reward_delay)


class DelayedReward(gymnasium.Wrapper):
    """Rewards are summed and paid every `period` steps of an episode, and at its end."""

    def __init__(self, env: gymnasium.Env, period: int):
        super().__init__(env)
        self.period = period
        self._owed, self._steps = 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._owed, self._steps = 0.0, 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._owed += float(reward)
        self._steps += 1
        if self._steps % self.period and not (terminated or truncated):
            return obs, 0.0, terminated, truncated, info
        return obs, self.settle(), terminated, truncated, info

    def settle(self) -> float:
        """What is owed, paid now: a period is over, or the episode is."""
        paid, self._owed = self._owed, 0.0
        return paid


def spec_of(env: gymnasium.Env) -> Spec:
    seen, acted = env.observation_space, env.action_space
    assert isinstance(seen, gymnasium.spaces.Box)
    assert isinstance(acted, gymnasium.spaces.Box)
    low, high = acted.low.astype(np.float64).ravel(), acted.high.astype(np.float64).ravel()
    return Spec(seen.shape, acted.shape, tuple(low.tolist()), tuple(high.tolist()))


def episode_seed(seed: int, episode: int, number: int = 0) -> int:
    """A seed for one episode of a run's environment of this number: unrelated for neighbours."""
    entropy = [seed, episode, number] if number else [seed, episode]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


class Episode(NamedTuple):
    """All it takes to have an episode again up to now."""

    number: int
    actions: np.ndarray  # (steps, action) since its start
    digest: int  # of every observation and reward since its start


class Stage:
    """What lanes of environments are told, whoever steps them: `count` environments per lane, those
    of a lane one after the other in every array. A new episode follows an ended one at once."""

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

    def seed(self, env: int, episode: int) -> int:
        """Of an environment's episode."""
        lane, number = divmod(env, self.count)
        return episode_seed(self.seeds[lane], episode, number)

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
        self.envs[env] = renewed(self.envs[env], self.task, self.reward_delay)
        raw, _ = self.envs[env].reset(seed=self.seed(env, int(self._episode[env])))
        self._actions[env] = []
        self._digest[env] = 0
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
            raw, gain, done, limit, _ = here.step(boxed[env])
            self._actions[env].append(actions[env])
            self.obs[env] = next_obs[env] = self._observe(env, raw, gain)
            if done or limit or cut:
                if cut and isinstance(here, DelayedReward):
                    gain = float(gain) + here.settle()
                # A limit of the task's may count as termination; a cut from outside never does.
                terminated[env] = done or (limit and self.limit_terminates)
                ended[env] = True
                self.begin(env)
            reward[env] = gain
        # A copy, because the device may still be reading when the next step writes.
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
            raw, gain, done, cut, _ = self.envs[env].step(self.spec.to_box(action))
            self._actions[env].append(action)
            self.obs[env] = self._observe(env, raw, gain)
            if done or cut:
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

    def __init__(self, task: str, seeds: Sequence[int]):
        self.task, self.seeds = task, tuple(seeds)
        self.envs = [make(task) for _ in self.seeds]
        self.spec = spec_of(self.envs[0])

    def begin(self, which: np.ndarray) -> np.ndarray:
        """Start these; (n, observation)."""
        seen = []
        for i in which.tolist():
            self.envs[i] = renewed(self.envs[i], self.task)
            seen.append(np.ravel(self.envs[i].reset(seed=self.seeds[i])[0]))
        return np.asarray(seen, np.float32)

    def step(
        self, which: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Act in these, in the task's units; (n, observation), (n,) rewards, (n,) ended."""
        seen, rewards, ended = [], [], []
        for i, action in zip(which.tolist(), actions, strict=True):
            raw, reward, terminated, truncated, _ = self.envs[i].step(action)
            seen.append(np.ravel(raw).astype(np.float32))
            rewards.append(float(reward))
            ended.append(bool(terminated or truncated))
        return np.asarray(seen), np.asarray(rewards), np.asarray(ended)

    def close(self) -> None:
        for env in self.envs:
            env.close()
