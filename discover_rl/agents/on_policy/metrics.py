"""Metrics of what was learned from rollouts, lane by lane, at the steps at which they are due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from discover_rl.core.pytrees import stack
from discover_rl.core.types import Array, Losses
from discover_rl.strategies.interface import Learning, Strategy


class RolloutMetrics:
    """Keeps the metrics of the last rollouts of all lanes."""

    def __init__(self, program: Callable[..., Any], strategy: Strategy, every: int):
        """Prepare to measure.

        Args:
            program: (before, after, belief, rollout, seed, step) → numbers by name, of one lane.
            strategy: whether it has a loss is looked up here.
            every: steps between those at which metrics are due; 0: never.
        """
        self._program, self._every = program, every
        self._has_loss = strategy.learning.step is not Learning._field_defaults["step"]
        self._found: dict[int, dict[str, Array]] = {}  # by lane

    def due(self, step: int) -> bool:
        """Whether metrics are due at this step; forgets those of earlier steps."""
        self._found = {}
        return self._every > 0 and step % self._every == 0

    def note(self, lane: int, before: Any, after: Any, given: Any, losses: Losses) -> None:
        """Measure a lane; to be called while `before` is what it was.

        Args:
            lane: its number.
            before, after: the algorithm's state before and after learning.
            given: what the program takes besides.
            losses: what learning told, means over a rollout's updates.
        """
        found = {"value_loss": losses.critic, "policy_loss": losses.actor}
        if self._has_loss:
            found["strategy_loss"] = losses.strategy
        self._found[lane] = found | jax.device_get(self._program(before, after, *given))

    def all(self, lanes: int) -> dict[str, Array]:
        """What was noted, (lanes,) each; NaN for lanes of which nothing was."""
        nothing = dict.fromkeys(next(iter(self._found.values()), {}), np.float32(np.nan))
        return stack([self._found.get(lane, nothing) for lane in range(lanes)])
