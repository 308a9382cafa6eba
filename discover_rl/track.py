"""What lanes did and met, noted step by step while they act together, put into rollouts afterwards.

The environments of all lanes lie side by side, those of a lane one after the other.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from discover_rl.types import Rollout, Seen, Spec
from discover_rl.watch import Bad, broken


class Track:
    """Room for some steps, from `step` on; `shape` is (lanes, environments of each)."""

    def __init__(self, spec: Spec, context: int, shape: tuple[int, int], step: int, steps: int):
        self._shape, self._step = shape, step
        self._lost: list[Bad] = []

        # Written into, because arrays of every step would lie all over the memory.
        def room(*size: int, kind: Any = np.float32) -> np.ndarray:
            return np.zeros((steps, shape[0] * shape[1], *size), kind)

        size = spec.observation_size
        self.obs, self.context, self.next_obs = room(1, size), room(1, context), room(1, size)
        self.action = room(1, spec.action_size)
        self.terminated, self.ended = room(kind=bool), room(kind=bool)
        self.memory: list[Any] = []  # (environments, …) by step, where memories are to be kept
        # As met: neither scaled nor standardised. Where no episode ended none starts: 0 there.
        self.reward, self.led_to, self.starts = room(kind=float), room(size), room(size)

    def after(self, steps: int) -> int:
        """How many steps lanes have made when their environments have made so many here."""
        return self._step + steps * self._shape[1]

    def end(self, at: int, answer: Seen) -> None:
        """Note where episodes ended, and where the next start."""
        self.ended[at], self.terminated[at] = answer.ended, answer.terminated
        self.starts[at, answer.ended] = answer.obs[answer.ended]

    def lose(self, at: int, spoilt: np.ndarray) -> np.ndarray:
        """These environments cannot be sent their actions; all environments of their lanes."""
        count = self._shape[1]
        for env in np.flatnonzero(spoilt).tolist():
            self._lost.append(Bad(env // count, "action", self.after(at) + env % count))
        return np.repeat(spoilt.reshape(self._shape).any(axis=1), count)

    def bad(self, alive: np.ndarray) -> list[Bad]:
        """Of each lane that was alive the first that is not finite, if there is any."""
        seen = Seen(self.reward, self.terminated, self.ended, self.led_to, self.starts)
        first: dict[int, Bad] = {}
        for it in sorted(broken(seen, len(alive), self._step) + self._lost, key=lambda it: it.step):
            first.setdefault(it.lane, it)
        return [first[lane] for lane in sorted(first) if alive[lane]]

    def put(self, rollout: Rollout, lanes: list[int], at: int) -> None:
        """Fill rollouts of these lanes from `at` on, but for rewards, which are to be scaled."""

        def fill(whole: np.ndarray, column: np.ndarray) -> None:
            steps = len(column)
            by_lane = column.reshape(steps, *self._shape, *whole.shape[3:]).swapaxes(0, 1)
            whole[lanes, at : at + steps] = by_lane[lanes]

        for name in ("obs", "context", "action", "terminated", "ended", "next_obs"):
            fill(getattr(rollout, name), getattr(self, name))
        if self.memory:
            jax.tree.map(
                lambda whole, *column: fill(whole, np.stack(column)), rollout.memory, *self.memory
            )

    def of(self, lane: int) -> tuple[list[float], list[bool]]:
        """A lane's rewards and whether episodes ended, environment by environment at each step."""
        count = self._shape[1]
        mine = slice(lane * count, (lane + 1) * count)
        return self.reward[:, mine].ravel().tolist(), self.ended[:, mine].ravel().tolist()


def blank(spec: Spec, context: int, shape: tuple[int, int], memory: Any) -> Rollout:
    """A rollout of a lane to be filled; `shape` is (steps, environments)."""
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


def learners(learner: Any, count: int) -> Any:
    """(lanes, …) → (environments, …), as acting wants it: numbers multiply rows."""

    def each(leaf: np.ndarray) -> np.ndarray:
        rows = leaf.repeat(count, axis=0)
        return rows if rows.ndim > 1 else rows[:, None, None]

    return jax.tree.map(each, learner)
