"""The random numbers of rollouts, drawn in blocks before they are acted with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from discover_rl.core.prng import Stream, streams
from discover_rl.core.pytrees import on_host
from discover_rl.core.types import Array, Key

BLOCK = 1024
"""Steps of a lane whose numbers are drawn by one call, in whole rollouts: calls take time."""


class NoiseBlocks:
    """The random numbers of a cohort's present rollouts."""

    def __init__(self, draw: Callable[[Key], Any], horizon: int, environments: int):
        """Prepare to draw.

        Args:
            draw: (key) → the random numbers of one action.
            horizon: steps of each environment in a rollout.
            environments: of each lane.
        """
        self._shape, self._steps = (horizon, environments), horizon * environments
        self._rollouts = max(1, BLOCK // self._steps)
        self._each = jax.vmap(jax.vmap(draw))
        self._draw = jax.jit(self._drawn)
        self._known: tuple[Any, list[Any]] = None, []  # of which block, and its numbers

    def of(self, seeds: np.ndarray, step: int) -> list[Any]:
        """The numbers of the rollout that contains `step`, one pytree for each of its steps, with
        the environments of all lanes in front."""
        horizon, _ = self._shape
        first = step - step % (self._rollouts * self._steps)
        which = seeds.tolist(), first
        if self._known[0] != which:
            # Lane by lane, so that a lane's numbers do not depend on how many lanes there are.
            drawn = on_host([self._draw(seed, np.int32(first)) for seed in seeds])
            whole = jax.tree.map(lambda *lanes: np.concatenate(lanes, axis=1), *drawn)
            # Split for all steps at once, because taking pytrees apart is slow.
            leaves, shape = jax.tree.flatten(whole)
            self._known = which, [shape.unflatten(part) for part in zip(*leaves, strict=True)]
        at = (step - first) // self._steps * horizon
        return self._known[1][at : at + horizon]

    def _drawn(self, seed: Array, first: Array) -> Any:
        """(steps, environments, …) numbers of all rollouts of a block, one after the other."""

        def rollout(step: Array) -> Any:
            return self._each(jax.random.split(streams(seed, step)[Stream.ACT], self._shape))

        # One by one, and not side by side, so that a rollout's numbers do not depend on the block.
        each = jax.lax.map(rollout, first + self._steps * jnp.arange(self._rollouts))
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), each)
