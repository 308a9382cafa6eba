"""EnvPool's environments of a task: flat observations, the task's rules, repeated actions.

Observations of several parts are put together as `observations.flatten` does: in the alphabetical
order of their names. Parts that the task itself does not have are left out.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np

from discover_rl.core.types import Spec, UserError
from discover_rl.envs.catalogue import PoolTask, pool_task
from discover_rl.envs.settings import PLAIN, Making
from discover_rl.envs.space_rules import size_of
from discover_rl.envs.tasks import spec_of

ACTION_KEYS = ["env_id", "players.env_id", "action"]
"""The inputs of EnvPool at every step."""
STATE_KEYS = ("info:env_id", "reward", "done", "trunc")
"""The fields of its answers that are used beside observations. "done" is also true at the time
limit."""


class PoolAnswer(NamedTuple):
    """The answers of n environments to an action."""

    envs: np.ndarray  # (n,) their numbers
    obs: np.ndarray  # (n, observation) in EnvPool's precision
    reward: np.ndarray  # (n,)
    ended: np.ndarray  # (n,)
    limit: np.ndarray  # (n,) ended at their time limit


class Pool:
    """Environments of a task, one per seed, stepped by EnvPool's threads."""

    def __init__(self, task: str, seeds: list[int], threads: int, making: Making = PLAIN):
        """Make the environments.

        Args:
            task: the task's id.
            seeds: of the environments, one for each.
            threads: the largest number of threads that step them.
            making: how the environments are made.
        """
        try:
            import envpool
        except ImportError as error:
            raise UserError(f"envpool cannot be imported: {error}.") from error
        found = pool_task(task)
        assert found is not None
        self.reward, self.repeat = found.reward, making.action_repeat
        with warnings.catch_warnings():  # it declares bounds in more precision than its arrays have
            warnings.simplefilter("ignore")
            self.raw: Any = envpool.make(
                found.id,
                env_type="gymnasium",
                num_envs=len(seeds),
                seed=seeds,
                num_threads=min(threads, len(seeds)),
                **found.arguments,
            )
            self.spec = _spec(self.raw, self.repeat, found)
            self.action_kind = self.raw.action_space.dtype
        self._absent = found.absent
        self.positions = _positions(self.raw, found)
        """In an answer: of `STATE_KEYS`, in their order, then of the observation's parts."""

    def reset(self, envs: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Start episodes in some environments, by default all; return them (n,) and their
        first observations."""
        raw, info = self.raw.reset(envs)
        whole = not isinstance(raw, dict)
        parts = [raw] if whole else [raw[key] for key in sorted(set(raw) - self._absent)]
        return info["env_id"], _together(parts)

    def send(self, envs: np.ndarray, actions: np.ndarray) -> None:
        """Act in environments, (n,): actions (n, *action) in the task's units."""
        # Not by EnvPool's `send`: it converts and checks arrays that are right already, which takes
        # longer than a step of Swimmer while a GPU waits.
        # EnvPool keeps the arrays for a while, so they have to be new each time.
        boxed = np.array(actions, self.action_kind, order="C")
        self._sent = envs, boxed
        self.raw._send([envs, envs, boxed])

    def receive(self) -> PoolAnswer:
        """Repeat the actions that were sent, as `making` says, and return the answers in their
        order."""
        answer = self._receive()
        return answer if self.repeat == 1 else self.repeated(*self._sent, answer, 1)

    def repeated(
        self, envs: np.ndarray, boxed: np.ndarray, answer: PoolAnswer, done: int
    ) -> PoolAnswer:
        """Repeat actions where episodes go on, and sum the rewards.

        Args:
            envs: the environments, (n,).
            boxed: (n, *action) the actions, in the task's units.
            answer: to the first time that they were sent.
            done: how many times they were sent already.
        """
        obs, ended, limit = (part.copy() for part in (answer.obs, answer.ended, answer.limit))
        total = answer.reward.astype(float)
        for _ in range(done, self.repeat):
            going = np.flatnonzero(~ended)
            if not going.size:
                break
            mine = envs[going]
            self.raw._send([mine, mine, np.array(boxed[going], self.action_kind, order="C")])
            latest = self._receive()
            assert np.array_equal(latest.envs, mine)
            obs[going], ended[going], limit[going] = latest.obs, latest.ended, latest.limit
            total[going] += latest.reward
        return PoolAnswer(answer.envs, obs, total, ended, limit)

    def close(self) -> None:
        """Close the environments."""
        self.raw.close()

    def _receive(self) -> PoolAnswer:
        state = self.raw._recv()
        envs, reward, ended, limit, *parts = (state[i] for i in self.positions)
        obs = _together(parts)
        if self.reward:
            reward = self.reward(obs).astype(np.float32)
        return PoolAnswer(envs, obs, reward, ended, limit)


def pool_spec(task: str, making: Making = PLAIN) -> Spec:
    """The spaces of a task as EnvPool has it."""
    pool = Pool(task, [0], 1, making)
    pool.close()
    return pool.spec


def _together(parts: list[np.ndarray]) -> np.ndarray:
    """(n, …) of each part → (n, observation)."""
    flat = [part.reshape(len(part), -1) for part in parts]
    return flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)


def _positions(pool: Any, task: PoolTask) -> list[int]:
    asked, answered = list(pool._spec._action_keys), list(pool._state_keys)
    parts = sorted(key for key in answered if key == "obs" or key.startswith("obs:"))
    parts = [key for key in parts if key.removeprefix("obs:") not in task.absent]
    if asked != ACTION_KEYS or not set(STATE_KEYS) <= set(answered) or not parts:
        raise UserError("This version of envpool is not supported: its arrays differ from 1.2.")
    return [answered.index(part) for part in (*STATE_KEYS, *parts)]


def _spec(pool: Any, repeat: int, task: PoolTask) -> Spec:
    """The spaces of a pool, with observations and bounds as the task itself has them."""
    spec = spec_of(pool)
    kind = np.float64 if task.double_bounds else np.float32  # of Gymnasium's bounds
    low, high = (tuple(np.asarray(it, kind).tolist()) for it in (spec.low, spec.high))
    limit = -(-int(pool.spec.config.max_episode_steps) // repeat)
    shape = spec.observation_shape
    if task.absent:
        more = sum(size_of(pool.observation_space[part]) for part in task.absent)
        shape = (spec.observation_size - more,)
    return dataclasses.replace(spec, observation_shape=shape, low=low, high=high, time_limit=limit)
