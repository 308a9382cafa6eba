"""What lanes did and met, noted step by step while they act together, put into rollouts afterwards.

The environments of all lanes lie side by side, those of a lane one after the other.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from discover_rl.agent import Bad, broken
from discover_rl.types import Rollout, Seen, Spec


class Track:
    """Room for some steps, from `step` on; `shape` is (lanes, environments of each)."""

    def __init__(self, spec: Spec, context: int, shape: tuple[int, int], step: int, steps: int):
        self._shape, self._step = shape, step
        self._lost: list[Bad] = []

        # (steps, environments, …), written into: arrays of every step would lie all over the memory.
        def room(*size: int, kind: Any = np.float32) -> np.ndarray:
            return np.zeros((steps, shape[0] * shape[1], *size), kind)

        size = spec.observation_size
        self.obs, self.next_obs, self.context = room(1, size), room(1, size), room(1, context)
        self.action = room(1, spec.action_size)
        self.memory: list[Any] = []  # (environments, …) by step, where memories are to be kept
        # What was met, before it was standardised or scaled. Where no episode ended, `obs` is
        # `next_obs`, and stays 0 here.
        ends = room(kind=bool), room(kind=bool)
        self.seen = Seen(room(kind=float), *ends, room(size), room(size))

    def after(self, steps: int) -> int:
        """How many steps lanes have made when their environments have made so many here."""
        return self._step + steps * self._shape[1]

    def end(self, at: int, answer: Seen) -> None:
        """Note where episodes ended, and where the next start."""
        over = answer.ended
        self.seen.ended[at], self.seen.terminated[at] = over, answer.terminated
        self.seen.obs[at, over] = answer.obs[over]

    def lose(self, spoilt: np.ndarray, at: int) -> np.ndarray:
        """These environments cannot be sent their actions; all environments of their lanes."""
        count = self._shape[1]
        for env in np.flatnonzero(spoilt).tolist():
            self._lost.append(Bad(env // count, "action", self.after(at) + env % count))
        return np.repeat(spoilt.reshape(self._shape).any(axis=1), count)

    def bad(self, alive: np.ndarray) -> list[Bad]:
        """Of each lane that was alive the first that is not finite, if there is any."""
        found = broken(self.seen, len(alive), self._step) + self._lost
        first: dict[int, Bad] = {}
        for it in sorted(found, key=lambda it: it.step):
            first.setdefault(it.lane, it)
        return [first[lane] for lane in sorted(first) if alive[lane]]

    def put(self, rollout: Rollout, lanes: list[int], at: int) -> None:
        """Fill rollouts of these lanes from `at` on, but for rewards, which are to be scaled."""

        def fill(whole: np.ndarray, column: np.ndarray) -> None:
            steps = len(column)
            by_lane = column.reshape(steps, *self._shape, *whole.shape[3:]).swapaxes(0, 1)
            whole[lanes, at : at + steps] = by_lane[lanes]

        for name in ("obs", "context", "action", "next_obs"):
            fill(getattr(rollout, name), getattr(self, name))
        fill(rollout.terminated, self.seen.terminated)
        fill(rollout.ended, self.seen.ended)
        if self.memory:
            jax.tree.map(
                lambda whole, *column: fill(whole, np.stack(column)), rollout.memory, *self.memory
            )
