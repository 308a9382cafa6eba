"""Environments stepped together by EnvPool's threads.

The starts of an environment's episodes come from one generator, seeded by the run and used only at
resets. So resetting n times reproduces the start of the n-th episode. That holds for all tasks of
`catalogue`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from discover_rl.core.types import Transition
from discover_rl.envs.envpool_pool import Pool, PoolAnswer
from discover_rl.envs.envpool_xla import EnvPoolXla, doubles, possible, words
from discover_rl.envs.settings import PLAIN, Making
from discover_rl.envs.vector import EndedEpisodes, Episode, StepLog, VectorEnv
from discover_rl.system.hardware import cores, environment_threads

MIX = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without pattern. Multiplying by it makes a digest depend on the order of its
parts."""


class EnvPoolVector(VectorEnv):
    """Environments stepped by EnvPool, all at once."""

    def __init__(self, task: str, seeds: Sequence[int], **settings: Any):
        """Make the environments; the arguments are those of `VectorEnv`."""
        super().__init__(task, seeds, **settings)
        number = len(self.seeds) * self.count
        first = [self.seed(env, 0) % 2**31 for env in range(number)]
        self.pool = Pool(task, first, environment_threads(), self.making)
        self.spec = self.pool.spec
        size = self.spec.observation_size
        self.obs = np.zeros((number, size), np.float32)
        self._episode = np.full(number, -1)
        self._all = np.arange(number, dtype=np.int32)
        self._digest = np.zeros(number, np.uint64)
        self._undigested: Any = None
        self._weights = MIX ** np.arange(1, size + 2, dtype=np.uint64)
        self._owed, self._made = np.zeros(number), np.zeros(number, int)
        self._return = np.zeros(number)  # of the running episodes
        # The actions of every step, since before the oldest of the running episodes.
        self._log: list[np.ndarray] = []
        # Episodes that a fused loop began since the last `record_steps`: which, and where.
        self._renewed: deque[tuple[np.ndarray, np.ndarray]] = deque()

    def begin(self, env: int) -> None:
        self._begin(np.asarray([env], np.int32))

    def send(self, actions: np.ndarray, alive: np.ndarray, truncate: bool = False) -> None:
        envs = self._all if alive.all() else np.flatnonzero(alive).astype(np.int32)
        if envs.size:
            self._send(envs, actions[envs])
        # The rest can be done while the environments are busy.
        self._sent = envs, truncate
        self._log.append(actions.copy())
        self._update_digests()

    def receive(self) -> Transition:
        envs, truncate = self._sent
        if not envs.size:
            nothing, none = np.zeros_like(self.obs), np.zeros(len(self.obs), bool)
            return Transition(np.zeros(len(self.obs)), none, none, nothing, obs=self.obs.copy())
        raw, paid, done, limit = self._receive(envs)
        ended = done | limit | truncate
        terminated = self.is_termination(done, limit)
        answer = self._paid(envs, paid, ended), terminated, ended, raw
        self._count_rewards(envs, answer[0], ended)
        self.obs[envs] = raw
        if ended.any():
            self._begin(envs[ended])
        if len(envs) < len(self.obs):
            answer = [self._among_all(envs, part) for part in answer]
        return Transition(*answer, obs=self.obs.copy())

    @cached_property
    def xla(self) -> EnvPoolXla | None:
        """Send and receive for compiled programs; None where these cannot step the environments."""
        return EnvPoolXla(self.pool) if possible(self.pool) else None

    def owed(self) -> tuple[np.ndarray, np.ndarray]:
        """What a fused loop needs to know of delayed rewards: (environments, 2), what is owed, as
        the bits of doubles, and (environments,), steps of the running episodes."""
        return words(self._owed), self._made.astype(np.int32)

    def finish_repeating(
        self, done: Any, actions: Any, obs: Any, reward: Any, ended: Any, limit: Any
    ) -> tuple[np.ndarray, ...]:
        """Repeat actions to the end while a fused loop waits, because some episodes have ended.

        Args:
            done: () how many times the actions were sent already.
            actions: (environments, action) in −1 … 1.
            obs: (environments, observation, 2) observations, as the bits of doubles.
            reward: (environments, 2) the sums of rewards so far, as the bits of doubles.
            ended: (environments,) whether the episode has ended.
            limit: (environments,) whether it ended at its time limit.

        Returns:
            `obs`, `reward`, `ended` and `limit` after the last repetition.
        """
        known = doubles(np.array(obs)), doubles(np.array(reward)), np.array(ended), np.array(limit)
        finite = np.where(np.isfinite(actions), actions, 0.0).astype(np.float32)
        boxed = self.spec.to_box(finite)
        answer = PoolAnswer(self._all, *known)
        last = self.pool.repeated(self._all, boxed, answer, int(done))
        return words(last.obs), words(last.reward), last.ended, last.limit

    def begin_ended(self, ended: Any, obs: Any) -> np.ndarray:
        """Begin the next episodes while a fused loop waits; return where all environments stand.

        What ended is noted by `record_steps`, later.

        Args:
            ended: (environments,) whose episodes ended.
            obs: (environments, observation) where they stand now.
        """
        which, raw = self.pool.reset(np.flatnonzero(ended).astype(np.int32))
        self._renewed.append((which, raw))
        obs = np.array(obs)
        obs[which] = raw
        return obs

    def record_steps(self, log: StepLog, obs: np.ndarray, alive: np.ndarray) -> None:
        """Note the steps of a fused loop, after which the environments observe `obs`."""
        self._update_digests()
        envs = np.flatnonzero(alive)
        mixed = self._mixed(log.obs, log.reward)
        for row, (actions, ended) in enumerate(zip(log.executed, log.ended, strict=True)):
            self._log.append(actions)
            self._made[envs] += 1
            self._digest[envs] = (self._digest[envs] ^ mixed[row, envs]) * MIX
            paid = self._paid(envs, log.reward[row, envs], ended[envs])
            self._count_rewards(envs, paid, ended[envs])
            if ended[envs].any():
                which, raw = self._renewed.popleft()
                assert np.array_equal(which, envs[ended[envs]])
                self._started(which, raw)
        assert not self._renewed
        self.obs[envs] = obs[envs]

    def episodes(self, lane: int) -> list[Episode]:
        self._update_digests()
        size, last = self.spec.action_size, len(self._log)
        found = []
        for env in range(lane * self.count, (lane + 1) * self.count):
            rows = [row[env] for row in self._log[last - self._made[env] :]]
            actions = np.asarray(rows, np.float32).reshape(-1, size)
            about = int(self._digest[env]), self._ended[env]
            found.append(Episode(int(self._episode[env]), actions, *about))
        return found

    def restore(self, env: int, episode: Episode) -> bool:
        one = np.asarray([env], np.int32)
        self._ended[env] = episode.before
        while self._episode[env] < episode.number:
            self._begin(one)
        for action in episode.actions:
            self._send(one, action[None])
            raw, reward, done, limit = self._receive(one)
            self.obs[env] = raw[0]
            self._return[env] += self._paid(one, reward, done | limit)[0]
            if done[0] or limit[0]:
                break
        self._update_digests()
        # Environments are restored one after the other, and each has its own place in the log.
        missing = len(episode.actions) - len(self._log)
        if missing > 0:
            zeros = np.zeros((len(self.obs), self.spec.action_size), np.float32)
            self._log = [zeros.copy() for _ in range(missing)] + self._log
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
        self._update_digests()
        self._started(*self.pool.reset(envs))

    def _started(self, which: np.ndarray, raw: np.ndarray) -> None:
        """Note that episodes have started at `raw`."""
        self._episode[which] += 1
        self._digest[which] = 0
        self._owed[which] = self._return[which] = 0.0
        self._made[which] = 0
        self._digest_answers(which, raw, np.zeros(len(which)))
        self.obs[which] = raw
        self._forget()

    def _send(self, envs: np.ndarray, actions: np.ndarray) -> None:
        self.pool.send(envs, self.spec.to_box(actions))

    def _receive(self, envs: np.ndarray) -> tuple[Any, ...]:
        """(observations, rewards, terminated, at their limit), in the order of `envs`. EnvPool says
        of an episode that terminates in its last possible step that it is at its limit."""
        self._update_digests()
        answered, raw, reward, ended, limit = self.pool.receive()
        self._made[envs] += 1
        self._undigested = envs, raw, reward, answered
        return raw.astype(np.float32), reward, ended & ~limit, limit

    def _paid(self, envs: np.ndarray, reward: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Return the rewards that are paid now; with a delay they are summed over its period."""
        if self.reward_delay == 1:
            return reward
        self._owed[envs] += reward
        pays = ended | (self._made[envs] % self.reward_delay == 0)
        paid = np.where(pays, self._owed[envs], 0.0)
        self._owed[envs] = np.where(pays, 0.0, self._owed[envs])
        return paid

    def _count_rewards(self, envs: np.ndarray, paid: np.ndarray, ended: np.ndarray) -> None:
        """Add rewards, (envs,), to the returns of running episodes; note those that have ended."""
        self._return[envs] += paid
        for env in envs[ended].tolist():
            this = EndedEpisodes(1, float(self._return[env]), int(self._made[env]))
            self._ended[env] = self._ended[env].plus(this)

    def _among_all(self, envs: np.ndarray, part: np.ndarray) -> np.ndarray:
        """(envs, …) → (environments, …), with zeros for the others."""
        whole = np.zeros((len(self.obs), *part.shape[1:]), part.dtype)
        whole[envs] = part
        return whole

    def _update_digests(self) -> None:
        """Add the last answers to the digests. This is done while the environments move."""
        if self._undigested is None:
            return
        (envs, raw, reward, answered), self._undigested = self._undigested, None
        assert np.array_equal(answered, envs)
        self._digest_answers(envs, raw, reward)

    def _digest_answers(self, envs: np.ndarray, raw: np.ndarray, reward: np.ndarray) -> None:
        """Add answers to all digests at once: one by one would take longer than the physics."""
        mixed = self._mixed(raw, reward)
        self._digest[envs] = (self._digest[envs] ^ mixed) * MIX

    def _mixed(self, raw: np.ndarray, reward: np.ndarray) -> np.ndarray:
        """(…, observation), (…) → (…), an answer as one number."""
        whole = np.concatenate([raw, reward[..., None]], axis=-1, dtype=float)
        return (whole.view(np.uint64) * self._weights).sum(axis=-1, dtype=np.uint64)

    def _forget(self) -> None:
        """From time to time, drop the actions from before the oldest running episode."""
        needed = int(self._made.max())
        if len(self._log) > 2 * needed + 1000:
            self._log = self._log[len(self._log) - needed :]


class EnvPoolEpisodes:
    """Single episodes from given seeds, played by EnvPool (`vector.Episodes`)."""

    def __init__(self, task: str, seeds: Sequence[int], making: Making = PLAIN):
        """Each episode has a seed; `making`: how the environments are made."""
        self.task, self.seeds, self.making = task, [seed % 2**31 for seed in seeds], making
        self._pool = Pool(task, self.seeds[:1], 1, making)
        self.spec = self._pool.spec
        self.crashes: dict[int, str] = {}  # always empty: an error of EnvPool ends all episodes

    def begin(self, which: np.ndarray) -> np.ndarray:
        """Start the episodes of these numbers, (n,); return (n, observation)."""
        # A pool cannot be seeded again, and making one takes as long as some forty steps.
        self._pool.close()
        # All cores: nothing else goes on while these move.
        seeds = [self.seeds[i] for i in which.tolist()]
        self._pool = Pool(self.task, seeds, cores(), self.making)
        self._place = np.zeros(len(self.seeds), np.int32)
        self._place[which] = np.arange(len(which))
        return self._pool.reset()[1].astype(np.float32)

    def step(
        self, which: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Act in these episodes, in the task's units; (n, observation), (n,) rewards, (n,)
        ended."""
        self._pool.send(self._place[which], actions)
        answer = self._pool.receive()
        assert np.array_equal(answer.envs, self._place[which])
        return answer.obs.astype(np.float32), answer.reward, answer.ended | answer.limit

    def close(self) -> None:
        """Close the environments."""
        self._pool.close()
