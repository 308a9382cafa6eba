"""The random numbers of a rollout, drawn in one block before it is played."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from discover_rl.keys import Stream, streams
from discover_rl.types import Array


class Blocks:
    """Of a cohort's lanes, at their present rollout."""

    def __init__(self, draw: Callable[[Any], Any], horizon: int, environments: int):
        """`draw`: (key) → the random numbers of one action."""
        self._shape = horizon, environments
        self._each = jax.vmap(jax.vmap(draw))
        self._draw = jax.jit(self._drawn)
        self._known: tuple[Any, list[Any]] = None, []  # whose they are, the numbers

    def of(self, seeds: np.ndarray, step: int) -> list[Any]:
        """The numbers of the rollout that this step belongs to, by step; the environments of all
        lanes in front."""
        horizon, environments = self._shape
        first = step - step % (horizon * environments)
        whose = seeds.tolist(), first
        if self._known[0] != whose:
            # Lane by lane, so that it makes no difference how many there are.
            drawn = jax.device_get([self._draw(seed, np.int32(first)) for seed in seeds])
            whole = jax.tree.map(lambda *lanes: np.concatenate(lanes, axis=1), *drawn)
            # Taken apart all at once, because taking trees apart is slow.
            leaves, shape = jax.tree.flatten(whole)
            self._known = whose, [shape.unflatten(part) for part in zip(*leaves, strict=True)]
        return self._known[1]

    def _drawn(self, seed: Array, step: Array) -> Any:
        return self._each(jax.random.split(streams(seed, step)[Stream.ACT], self._shape))
