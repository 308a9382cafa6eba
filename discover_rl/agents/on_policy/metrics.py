"""Metrics of learning from rollouts, lane by lane, at the steps at which they are due."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from discover_rl.core.pytrees import stack
from discover_rl.core.types import Array, Losses
from discover_rl.strategies.interface import Learning, Strategy


class RolloutMetrics:
    """Keeps the metrics of the last rollouts of all lanes."""

    def __init__(self, program: Any, strategy: Strategy, every: int):
        """Prepare to measure.

        Args:
            program: (before, after, belief, rollout, seed, step) → numbers by name, of one lane,
                from `jax.jit`.
            strategy: its loss is among the metrics if it has one.
            every: environment steps between metrics; 0: they are never due.
        """
        self._program, self._every = program, every
        self._has_loss = strategy.learning.step is not Learning._field_defaults["step"]
        self._found: dict[int, dict[str, Array]] = {}  # by lane

    def lower(self, learner: Any, given: Any) -> list[Any]:
        """The program, lowered, if metrics will ever be due.

        Args:
            learner: the algorithm's state in one lane.
            given: the other arguments of the program.
        """
        return [self._program.lower(learner, learner, *given)] if self._every else []

    def due(self, step: int) -> bool:
        """Whether metrics are due at this step; forgets those of earlier steps."""
        self._found = {}
        return self._every > 0 and step % self._every == 0

    def note(self, lane: int, before: Any, after: Any, given: Any, losses: Losses) -> None:
        """Measure a lane. Call it before the arrays of `before` are written over.

        Args:
            lane: its number.
            before: the algorithm's state before learning.
            after: its state after learning.
            given: the other arguments of the program.
            losses: of learning, means over a rollout's updates.
        """
        found = {"value_loss": losses.critic, "policy_loss": losses.actor}
        if self._has_loss:
            found["strategy_loss"] = losses.strategy
        self._found[lane] = found | jax.device_get(self._program(before, after, *given))

    def all(self, lanes: int) -> dict[str, Array]:
        """Return the metrics by name, (lanes,) each; NaN for lanes that were not measured."""
        nothing = dict.fromkeys(next(iter(self._found.values()), {}), np.float32(np.nan))
        return stack([self._found.get(lane, nothing) for lane in range(lanes)])
