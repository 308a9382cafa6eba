"""Lanes of environments stepped together by EnvPool's threads. The only room that imports it.

It has the same methods as `envs.Lanes` and the same rules: a new episode follows an ended one at
once, the true last observation is kept, and an episode can be had again from its number and the
actions since its start. An environment's episodes come from one generator, seeded by the run, that
is used at resets alone; so the start of the n-th is had again by resetting so many times. That
holds for MuJoCo's tasks, and these are all that is taken.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from discover_rl.calls import Calls, possible
from discover_rl.envs import Episode, Flown, Stage
from discover_rl.machine import cores, threads
from discover_rl.tasks import spec_of
from discover_rl.types import Seen, Spec, UserError

MIX = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without pattern, to tell the order of what was seen."""

ASKED = ["env_id", "players.env_id", "action"]
"""What EnvPool is told at every step."""
PARTS = ("info:env_id", "obs", "reward", "done", "trunc")
"""What is wanted of its answers; "done" is said of episodes at their limit, too."""


class Pool(Stage):
    """Stepped by EnvPool, all at once."""

    def __init__(self, task: str, seeds: Sequence[int], *rest: Any, **settings: Any):
        super().__init__(task, seeds, *rest, **settings)
        number = len(self.seeds) * self.count
        self.pool = _pool(task, [self.seed(env, 0) % 2**31 for env in range(number)], threads())
        self.spec = _spec(self.pool)
        self._parts = _places(self.pool)
        size = self.spec.observation_size
        self.obs = np.zeros((number, size), np.float32)
        self._episode = np.full(number, -1)
        self._all = np.arange(number, dtype=np.int32)
        self._digest = np.zeros(number, np.uint64)
        self._uncounted: Any = None
        self._weights = MIX ** np.arange(1, size + 2, dtype=np.uint64)
        self._owed, self._made = np.zeros(number), np.zeros(number, int)
        # What was done at every step, since before the oldest of the running episodes.
        self._log: list[np.ndarray] = []
        # Where programs had episodes begin that `flown` has not told of yet.
        self._renewed: deque[tuple[np.ndarray, np.ndarray]] = deque()

    def begin(self, env: int) -> None:
        """Start the next episode of an environment."""
        self._begin(np.asarray([env], np.int32))

    def send(self, actions: np.ndarray, alive: np.ndarray, cut: bool = False) -> None:
        envs = self._all if alive.all() else np.flatnonzero(alive).astype(np.int32)
        if envs.size:
            self._send(envs, actions[envs])
        # The rest can be done while the environments are busy.
        self._sent = envs, cut
        self._log.append(actions.copy())
        self._count()

    def receive(self) -> Seen:
        envs, cut = self._sent
        if not envs.size:
            nothing, none = np.zeros_like(self.obs), np.zeros(len(self.obs), bool)
            return Seen(np.zeros(len(self.obs)), none, none, nothing, self.obs.copy())
        raw, paid, done, limit = self._receive(envs)
        ended = done | limit | cut
        terminated = self.terminates(done, limit)  # which a cut from outside never is
        answer = self._due(envs, paid, ended), terminated, ended, raw
        self.obs[envs] = raw
        if ended.any():
            self._begin(envs[ended])
        if len(envs) < len(self.obs):
            answer = [self._among_all(envs, part) for part in answer]
        return Seen(*answer, obs=self.obs.copy())

    @cached_property
    def calls(self) -> Calls | None:
        """For programs to step the environments; delayed rewards are added up by the host."""
        if self.reward_delay > 1 or not possible(self.pool):
            return None
        return Calls(self.pool, self.spec, self._parts[1:])

    def renew(self, ended: Any, obs: Any) -> np.ndarray:
        """Begin the next episodes while a program waits; `flown` will tell what ended."""
        raw, info = self.pool.reset(np.flatnonzero(ended).astype(np.int32))
        self._renewed.append((info["env_id"], raw))
        obs = np.array(obs)
        obs[info["env_id"]] = raw.reshape(len(raw), -1)
        return obs

    def flown(self, flown: Flown, obs: np.ndarray, alive: np.ndarray) -> None:
        """Take note of what a program has done here; now the environments are at `obs`."""
        self._count()
        envs = np.flatnonzero(alive)
        mixed = self._mixed(flown.obs, flown.reward)
        for row, (actions, ended) in enumerate(zip(flown.executed, flown.ended, strict=True)):
            self._log.append(actions)
            self._made[envs] += 1
            self._digest[envs] = (self._digest[envs] ^ mixed[row, envs]) * MIX
            if ended[envs].any():
                which, raw = self._renewed.popleft()
                assert np.array_equal(which, envs[ended[envs]])
                self._started(which, raw)
        assert not self._renewed
        self.obs[envs] = obs[envs]

    def episodes(self, lane: int) -> list[Episode]:
        """Those that are running in a lane's environments."""
        self._count()
        size, last = self.spec.action_size, len(self._log)
        found = []
        for env in range(lane * self.count, (lane + 1) * self.count):
            rows = [row[env] for row in self._log[last - self._made[env] :]]
            actions = np.asarray(rows, np.float32).reshape(-1, size)
            found.append(Episode(int(self._episode[env]), actions, int(self._digest[env])))
        return found

    def restore(self, env: int, episode: Episode) -> bool:
        """Have this episode again. False: it came out differently, so a new one was started."""
        one = np.asarray([env], np.int32)
        while self._episode[env] < episode.number:
            self._begin(one)
        for action in episode.actions:
            self._send(one, action[None])
            raw, reward, done, limit = self._receive(one)
            self.obs[env] = raw[0]
            self._due(one, reward, done | limit)
            if done[0] or limit[0]:
                break
        self._count()
        # Environments are restored one after the other, and each has its own place in the log.
        missing = len(episode.actions) - len(self._log)
        if missing > 0:
            blank = np.zeros((len(self.obs), self.spec.action_size), np.float32)
            self._log = [blank.copy() for _ in range(missing)] + self._log
        first = len(self._log) - len(episode.actions)
        for row, action in enumerate(episode.actions, first):
            self._log[row][env] = action
        if self._made[env] == len(episode.actions) and self._digest[env] == episode.digest:
            return True
        self._begin(one)
        return False

    def close(self) -> None:
        self.pool.close()

    def _begin(self, envs: np.ndarray) -> None:
        self._count()
        raw, info = self.pool.reset(envs)
        self._started(info["env_id"], raw)

    def _started(self, which: np.ndarray, raw: np.ndarray) -> None:
        """Episodes that start where `raw` says."""
        self._episode[which] += 1
        self._digest[which] = 0
        self._owed[which] = 0.0
        self._made[which] = 0
        self._see(which, raw, np.zeros(len(which)))
        self.obs[which] = raw.reshape(len(which), -1)
        self._forget()

    def _send(self, envs: np.ndarray, actions: np.ndarray) -> None:
        # Not by the pool's `send`, which converts and checks what is right already: that takes
        # longer than a step of Swimmer, and a GPU waits.
        # It keeps what it is sent for a while, so that has to be a new array each time.
        boxed = np.ascontiguousarray(self.spec.to_box(actions), np.float64)
        self.pool._send([envs, envs, boxed])

    def _receive(self, envs: np.ndarray) -> tuple[Any, ...]:
        """(observations, rewards, terminated, at their limit), in the order of `envs`. Which of the
        two it was, EnvPool does not say of an episode that falls in its last step: at its limit."""
        self._count()
        state = self.pool._recv()
        answered, raw, reward, ended, limit = (state[i] for i in self._parts)
        self._made[envs] += 1
        self._uncounted = envs, raw, reward, answered
        return raw.reshape(len(envs), -1).astype(np.float32), reward, ended & ~limit, limit

    def _due(self, envs: np.ndarray, reward: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """What is paid now: rewards are summed until a period of their delay is over."""
        if self.reward_delay == 1:
            return reward
        self._owed[envs] += reward
        pays = ended | (self._made[envs] % self.reward_delay == 0)
        paid = np.where(pays, self._owed[envs], 0.0)
        self._owed[envs] = np.where(pays, 0.0, self._owed[envs])
        return paid

    def _among_all(self, envs: np.ndarray, part: np.ndarray) -> np.ndarray:
        """With zeros for the environments that were not asked."""
        whole = np.zeros((len(self.obs), *part.shape[1:]), part.dtype)
        whole[envs] = part
        return whole

    def _count(self) -> None:
        """Add what was received last to the digests."""
        if self._uncounted is None:
            return
        (envs, raw, reward, answered), self._uncounted = self._uncounted, None
        assert np.array_equal(answered, envs)
        self._see(envs, raw, reward)

    def _see(self, envs: np.ndarray, raw: np.ndarray, reward: np.ndarray) -> None:
        """All digests at once: one by one, they would take longer than the physics."""
        mixed = self._mixed(raw.reshape(len(envs), -1), reward)
        self._digest[envs] = (self._digest[envs] ^ mixed) * MIX

    def _mixed(self, raw: np.ndarray, reward: np.ndarray) -> np.ndarray:
        """(…, observation), (…) → (…) what was seen, as one number."""
        seen = np.concatenate([raw, reward[..., None]], axis=-1, dtype=float)
        return (seen.view(np.uint64) * self._weights).sum(axis=-1, dtype=np.uint64)

    def _forget(self) -> None:
        """Drop what was done before the oldest of the running episodes, now and then."""
        needed = int(self._made.max())
        if len(self._log) > 2 * needed + 1000:
            self._log = self._log[len(self._log) - needed :]


class PooledTrials:
    """Episodes from given seeds, one of each, as often as they are begun."""

    def __init__(self, task: str, seeds: Sequence[int]):
        self.task, self.seeds = task, [seed % 2**31 for seed in seeds]
        self._pool = _pool(task, self.seeds[:1], 1)
        self.spec = _spec(self._pool)
        self.crashes: dict[int, str] = {}  # none: what goes wrong here is told to all at once

    def begin(self, which: np.ndarray) -> np.ndarray:
        """Start these; (n, observation)."""
        # A pool cannot be seeded again, and making one takes as long as some forty steps.
        self._pool.close()
        # Nobody acts while these move, and nobody learns.
        self._pool = _pool(self.task, [self.seeds[i] for i in which.tolist()], cores())
        self._place = np.zeros(len(self.seeds), np.int32)
        self._place[which] = np.arange(len(which))
        raw, _ = self._pool.reset()
        return raw.reshape(len(which), -1).astype(np.float32)

    def step(
        self, which: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Act in these, in the task's units; (n, observation), (n,) rewards, (n,) ended."""
        raw, reward, done, limit, _ = self._pool.step(actions.astype(float), self._place[which])
        return raw.reshape(len(which), -1).astype(np.float32), reward, done | limit

    def close(self) -> None:
        self._pool.close()


def _places(pool: Any) -> list[int]:
    """Where in an answer its parts are."""
    asked, answered = list(pool._spec._action_keys), list(pool._state_keys)
    if asked != ASKED or not set(PARTS) <= set(answered):
        raise UserError("This version of envpool is told and answers other things than 1.2 does.")
    return [answered.index(part) for part in PARTS]


def _spec(pool: Any) -> Spec:
    """Bounds as Gymnasium has them, in float32."""
    spec = spec_of(pool)
    low, high = (tuple(np.asarray(it, np.float32).tolist()) for it in (spec.low, spec.high))
    return dataclasses.replace(spec, low=low, high=high)


def _pool(task: str, seeds: list[int], most: int) -> Any:
    """So many threads step it, at most."""
    try:
        import envpool
    except ImportError as error:
        raise UserError(f"envpool cannot be imported: {error}.") from error
    return envpool.make(
        task,
        env_type="gymnasium",
        num_envs=len(seeds),
        seed=seeds,
        num_threads=min(most, len(seeds)),
    )
