"""A strategy's memories on the host: recall them for acting, and store them with a rollout."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from discover_rl.core.pytrees import stack
from discover_rl.strategies.interface import Strategy


class Memories:
    """The memories of a cohort's environments.

    Where the strategy has no `Density.recall`, nothing is recalled or stored.
    """

    def __init__(self, strategy: Strategy):
        recall = strategy.density.recall
        self.recalls = recall is not None
        self._recall = jax.jit(recall) if recall else None
        self._known: dict[bytes, Any] = {}  # a memory's bytes → what is recalled from it
        self._last: tuple[list[bytes], Any] = [], ()

    def recalled(self, memory: Any) -> Any:
        """Return what `behave` is given in place of these memories, (environments, …)."""
        if self._recall is None:
            return memory
        leaves, shape = jax.tree.flatten(memory)
        each = list(zip(*leaves, strict=True))
        tags = [b"".join(part.tobytes() for part in parts) for parts in each]
        if tags != self._last[0]:
            # One by one, so that a result does not depend on the other memories.
            self._known = {
                tag: self._known[tag]
                if tag in self._known
                else jax.device_get(self._recall(shape.unflatten(parts)))
                for tag, parts in zip(tags, each, strict=True)
            }
            self._last = tags, stack([self._known[tag] for tag in tags])
        return self._last[1]

    def empty(self, memory: Any, shape: tuple[int, ...]) -> Any:
        """Return zeros into which a rollout of this shape writes its memories."""
        if not self.recalls:
            return ()
        return jax.tree.map(lambda leaf: np.zeros((*shape, *leaf.shape), leaf.dtype), memory)

    def distinct(self, stored: Any) -> Any:
        """(T, n, …) → the distinct memories (k, …), and the index of each step's memory (T, n)."""
        if not self.recalls:
            return ()
        leaves = jax.tree.leaves(stored)
        steps, envs = leaves[0].shape[:2]
        rows = [np.ascontiguousarray(leaf).reshape(steps * envs, -1) for leaf in leaves]
        tags = np.concatenate([row.view(np.uint8) for row in rows], axis=1)
        _, first, which = np.unique(tags, axis=0, return_index=True, return_inverse=True)
        # A program is compiled for every number of memories, so the numbers are rounded up.
        count = 4 ** math.ceil(math.log(len(first), 4))
        first = np.concatenate([first, np.full(count - len(first), first[0])])
        different = jax.tree.map(
            lambda leaf: leaf.reshape(steps * envs, *leaf.shape[2:])[first], stored
        )
        return different, which.reshape(steps, envs).astype(np.int32)


def by_environment(memory: Any) -> Any:
    """(lanes, n, …) → (lanes · n, …), a copy."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]).copy(), memory)


def assign_lanes(memory: Any, lanes: list[int], new: Any) -> None:
    """Write the memories of some lanes, of (lanes · n, …), into (lanes, n, …)."""
    jax.tree.map(
        lambda whole, part: whole.__setitem__(lanes, part.reshape(whole.shape)[lanes]), memory, new
    )
