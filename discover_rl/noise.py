"""The random numbers of a rollout, drawn in one block before it is played."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from discover_rl.agent import Stream, streams
from discover_rl.types import Array


class Blocks:
    """Of a cohort's lanes, each at its present rollout."""

    def __init__(self, draw: Callable[[Any], Any], horizon: int, environments: int):
        """`draw`: (key) → the random numbers of one action."""
        self._shape = horizon, environments
        self._each = jax.vmap(jax.vmap(draw))
        self._draw = jax.jit(self._drawn)
        # lane → (seed, first step), numbers
        self._known: dict[int, tuple[tuple[int, int], list[list[Any]]]] = {}

    def of(self, lane: int, seed: np.ndarray, step: int) -> list[list[Any]]:
        """The numbers of the rollout that this step belongs to: by step, by environment."""
        horizon, environments = self._shape
        first = step - step % (horizon * environments)
        whose = seed.item(), first
        if lane not in self._known or self._known[lane][0] != whose:
            leaves, shape = jax.tree.flatten(jax.device_get(self._draw(seed, np.int32(first))))
            # Taken apart all at once, because taking trees apart is slow.
            parts = zip(*(leaf.reshape(-1, *leaf.shape[2:]) for leaf in leaves), strict=True)
            each = [shape.unflatten(part) for part in parts]
            steps = range(0, len(each), environments)
            self._known[lane] = whose, [each[i : i + environments] for i in steps]
        return self._known[lane][1]

    def _drawn(self, seed: Array, step: Array) -> Any:
        return self._each(jax.random.split(streams(seed, step)[Stream.ACT], self._shape))
