"""What lanes did and met, noted step by step while they act together, put into rollouts afterwards.

In every entry the environments of all lanes are in front, those of a lane one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from discover_rl.agent import Bad, broken
from discover_rl.types import Rollout, Seen


class Track:
    """Of lanes that are at `step`."""

    def __init__(self, lanes: int, count: int, step: int):
        self._shape, self._step = (lanes, count), step
        # By step; some may stay empty.
        self.obs: list[np.ndarray] = []
        self.context: list[np.ndarray] = []
        self.action: list[np.ndarray] = []
        self.next_obs: list[np.ndarray] = []
        self.memory: list[Any] = []
        self.seen: list[Seen] = []
        self._lost: list[Bad] = []

    @property
    def step(self) -> int:
        """Where the lanes are by now."""
        return self._step + len(self.seen) * self._shape[1]

    def lose(self, spoilt: np.ndarray) -> np.ndarray:
        """These environments cannot be sent their actions; those of the lanes that are to stop."""
        lanes, count = self._shape
        for env in np.flatnonzero(spoilt).tolist():
            self._lost.append(Bad(env // count, "action", self.step + env % count))
        return np.repeat(spoilt.reshape(lanes, count).any(axis=1), count)

    def answers(self) -> Seen:
        """(steps, environments, …)"""
        return Seen(*(_joined(column) for column in zip(*self.seen, strict=True)))

    def bad(self, seen: Seen, alive: np.ndarray) -> list[Bad]:
        """Of each lane that was alive the first that is not finite, if there is any."""
        first: dict[int, Bad] = {}
        for it in sorted(broken(seen, len(alive), self._step) + self._lost, key=lambda it: it.step):
            first.setdefault(it.lane, it)
        return [first[lane] for lane in sorted(first) if alive[lane]]

    def put(self, seen: Seen, rollout: Rollout, lanes: list[int], at: int) -> None:
        """Fill rollouts of these lanes from `at` on with all but rewards, which are to be scaled."""
        for name in ("obs", "context", "action", "next_obs"):
            if column := getattr(self, name):
                _fill(getattr(rollout, name), _joined(column), lanes, at)
        for name in ("terminated", "ended"):
            _fill(getattr(rollout, name), getattr(seen, name), lanes, at)
        if self.memory:
            jax.tree.map(
                lambda whole, *column: _fill(whole, _joined(column), lanes, at),
                rollout.memory,
                *self.memory,
            )


def _joined(column: Sequence[np.ndarray]) -> np.ndarray:
    # NumPy's stack takes several times as long.
    return np.concatenate(column).reshape(len(column), *column[0].shape)


def _fill(whole: np.ndarray, column: np.ndarray, lanes: list[int], at: int) -> None:
    """(steps, environments, …) into (lanes, T, n, …)"""
    steps = len(column)
    by_lane = column.reshape(steps, len(whole), *whole.shape[2:]).swapaxes(0, 1)
    whole[lanes, at : at + steps] = by_lane[lanes]
