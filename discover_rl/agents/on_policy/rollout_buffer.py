"""Write each step of all lanes into their rollouts.

Arrays of all environments hold those of the first lane first, then those of the second, and so on.
Every number of a rollout is written once, into the arrays that learning uses.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from discover_rl.core.finite import Divergence, divergences
from discover_rl.core.types import Rollout, Spec, Transition


def empty_rollout(spec: Spec, context: int, shape: tuple[int, int], memory: Any) -> Rollout:
    """Make a rollout of one lane, to be filled.

    Args:
        spec: the task's spaces.
        context: numbers that the strategy appends to an observation.
        shape: (steps, environments).
        memory: where memories are stored, (steps, environments, …), or ().
    """
    return Rollout(
        obs=np.zeros((*shape, spec.observation_size), np.float32),
        context=np.zeros((*shape, context), np.float32),
        action=np.zeros((*shape, spec.action_size), np.float32),
        reward=np.zeros(shape, np.float32),
        terminated=np.zeros(shape, bool),
        ended=np.zeros(shape, bool),
        next_obs=np.zeros((*shape, spec.observation_size), np.float32),
        memory=memory,
    )


class RolloutBuffer:
    """Writes some steps of all lanes into their rollouts, and checks that all is finite."""

    def __init__(self, rollout: Rollout, at: int, step: int, steps: int):
        """Prepare to write.

        Args:
            rollout: of all lanes, (lanes, T, n, …).
            at: the index in the rollouts of the first step.
            step: environment steps that each lane has made before it.
            steps: how many steps follow.
        """
        lanes, _, count, size = rollout.obs.shape
        self._rollout, self._at, self._step, self._steps = rollout, at, step, steps
        # Views with steps in front, (T, lanes, n, …): a step is then written by one assignment.
        given = rollout.obs, rollout.context, rollout.action, rollout.next_obs
        views = (array.swapaxes(0, 1) for array in given)
        self._obs, self._context, self._action, self._following = views
        self._lanes, self._count = lanes, count
        self._lost: list[Divergence] = []
        # As the environments gave them, neither scaled nor standardised.
        shape = steps, lanes * count
        self.reward = np.zeros(shape)
        self._next_obs = np.zeros((*shape, size), np.float32)
        self._starts = np.zeros((*shape, size), np.float32)  # 0 where no episode ended
        self._ended, self._terminated = np.zeros(shape, bool), np.zeros(shape, bool)

    def write_action(self, now: int, obs: Any, action: Any, context: Any) -> None:
        """Write what was acted upon and the policy's own action; all are (environments, 1, …)."""
        self._write(self._obs, now, obs)
        self._write(self._action, now, action)
        if context is not None:
            self._write(self._context, now, context)

    def write_answer(self, now: int, answer: Transition, next_obs: np.ndarray) -> None:
        """Write what the environments answered; `next_obs`, (environments, 1, …), as networks see
        it."""
        self.reward[now], self._next_obs[now] = answer.reward, answer.next_obs
        self._write(self._following, now, next_obs)

    def write_ends(self, now: int, answer: Transition, last_obs: np.ndarray) -> None:
        """Write where episodes ended; `last_obs` are their last observations, likewise."""
        ended = np.asarray(answer.ended)
        self._ended[now], self._terminated[now] = ended, answer.terminated
        self._starts[now, ended] = answer.obs[ended]
        there = self._following[self._at + now]
        where = ended.reshape(self._lanes, self._count)
        there[where] = self._by_lane(last_obs[:, 0])[where]

    def write_memory(self, now: int, memory: Any) -> None:
        """Write memories, (environments, …), for this step and all that follow."""
        steps = slice(self._at + now, self._at + self._steps)
        jax.tree.map(
            lambda whole, part: whole.__setitem__(
                (slice(None), steps), self._by_lane(part)[:, None]
            ),
            self._rollout.memory,
            memory,
        )

    def write_flags(self) -> None:
        """Write for all steps whether episodes ended and how."""
        steps = slice(self._at, self._at + self._steps)
        for name, flags in (("ended", self._ended), ("terminated", self._terminated)):
            by_lane = flags.reshape(self._steps, self._lanes, self._count).swapaxes(0, 1)
            getattr(self._rollout, name)[:, steps] = by_lane

    def write_rewards(self, lane: int, rewards: Any) -> None:
        """Write a lane's rewards, in the order of `rewards_of`."""
        there = self._rollout.reward[lane, self._at : self._at + self._steps]
        there[...] = np.reshape(rewards, there.shape)

    def rewards_of(self, lane: int) -> tuple[list[float], list[bool]]:
        """Return a lane's rewards, and whether episodes ended: step by step, and at each step
        environment by environment."""
        mine = slice(lane * self._count, (lane + 1) * self._count)
        return self.reward[:, mine].ravel().tolist(), self._ended[:, mine].ravel().tolist()

    def step_after(self, steps: int) -> int:
        """How many steps lanes have made once their environments have made `steps` of these."""
        return self._step + steps * self._count

    def lose(self, now: int, bad: np.ndarray) -> np.ndarray:
        """Note environments whose actions are not finite, (environments,); return the same for all
        environments of their lanes, which are lost with them."""
        for env in np.flatnonzero(bad).tolist():
            step = self.step_after(now) + env % self._count
            self._lost.append(Divergence(env // self._count, "action", step))
        return np.repeat(bad.reshape(self._lanes, self._count).any(axis=1), self._count)

    def diverged(self, alive: np.ndarray) -> list[Divergence]:
        """The first quantity of each living lane that is not finite."""
        answers = Transition(
            self.reward, self._terminated, self._ended, self._next_obs, self._starts
        )
        found = divergences(answers, self._lanes, self._step) + self._lost
        first: dict[int, Divergence] = {}
        for one in sorted(found, key=lambda it: it.step):
            first.setdefault(one.lane, one)
        return [first[lane] for lane in sorted(first) if alive[lane]]

    def _by_lane(self, array: Any) -> np.ndarray:
        """(environments, …) → (lanes, n, …)."""
        return np.reshape(array, (self._lanes, self._count, *array.shape[1:]))

    def _write(self, there: Any, now: int, array: Any) -> None:
        """Write a step, (environments, 1, …), into (T, lanes, n, …)."""
        if self._count > 1:  # with one environment it has this shape, and this is done at each step
            array = self._by_lane(array[:, 0])
        there[self._at + now] = array
