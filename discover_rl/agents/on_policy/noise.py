"""The random numbers of a rollout, drawn in one block before it is played."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from discover_rl.core.prng import Stream, streams
from discover_rl.core.types import Array, Key


class NoiseBlocks:
    """The random numbers of a cohort's present rollouts."""

    def __init__(self, draw: Callable[[Key], Any], horizon: int, environments: int):
        """Prepare to draw.

        Args:
            draw: (key) → the random numbers of one action.
            horizon: steps of each environment in a rollout.
            environments: of each lane.
        """
        self._shape = horizon, environments
        self._each = jax.vmap(jax.vmap(draw))
        self._draw = jax.jit(self._drawn)
        self._known: tuple[Any, list[Any]] = None, []  # of which rollout, and its numbers

    def of(self, seeds: np.ndarray, step: int) -> list[Any]:
        """The numbers of the rollout that contains `step`, one pytree for each of its steps, with
        the environments of all lanes in front."""
        horizon, environments = self._shape
        first = step - step % (horizon * environments)
        which = seeds.tolist(), first
        if self._known[0] != which:
            # Lane by lane, so that it makes no difference how many there are.
            drawn = jax.device_get([self._draw(seed, np.int32(first)) for seed in seeds])
            whole = jax.tree.map(lambda *lanes: np.concatenate(lanes, axis=1), *drawn)
            # Taken apart all at once, because taking pytrees apart is slow.
            leaves, shape = jax.tree.flatten(whole)
            self._known = which, [shape.unflatten(part) for part in zip(*leaves, strict=True)]
        return self._known[1]

    def _drawn(self, seed: Array, step: Array) -> Any:
        return self._each(jax.random.split(streams(seed, step)[Stream.ACT], self._shape))
