"""A strategy's memories on the host: recalled for acting, kept with a rollout, told apart again."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from discover_rl.interfaces import Strategy
from discover_rl.trees import stacked


class Memories:
    """Of a cohort's environments. Where a strategy has nothing to recall, this does nothing."""

    def __init__(self, strategy: Strategy):
        self.recalls = strategy.recall is not None
        self._recall = jax.jit(strategy.recall) if strategy.recall else None
        self._known: dict[bytes, Any] = {}  # a memory's bytes → what is recalled of it
        self._held: tuple[list[bytes], Any] = [], ()

    def held(self, memory: Any) -> Any:
        """What `behave` is given for these memories, (environments, …)."""
        if self._recall is None:
            return memory
        leaves, shape = jax.tree.flatten(memory)
        each = list(zip(*leaves, strict=True))
        tags = [b"".join(part.tobytes() for part in parts) for parts in each]
        if tags != self._held[0]:
            # One by one, so that it makes no difference what there is beside.
            self._known = {
                tag: self._known[tag]
                if tag in self._known
                else jax.device_get(self._recall(shape.unflatten(parts)))
                for tag, parts in zip(tags, each, strict=True)
            }
            self._held = tags, stacked([self._known[tag] for tag in tags])
        return self._held[1]

    def room(self, memory: Any, shape: tuple[int, ...]) -> Any:
        """Where a rollout of this shape keeps its memories."""
        if not self.recalls:
            return ()
        return jax.tree.map(lambda leaf: np.zeros((*shape, *leaf.shape), leaf.dtype), memory)

    def told_apart(self, kept: Any) -> Any:
        """(T, n, …) → the different ones (k, …) and which of them it was each time (T, n)."""
        if not self.recalls:
            return ()
        leaves = jax.tree.leaves(kept)
        steps, envs = leaves[0].shape[:2]
        rows = [np.ascontiguousarray(leaf).reshape(steps * envs, -1) for leaf in leaves]
        tags = np.concatenate([row.view(np.uint8) for row in rows], axis=1)
        _, first, which = np.unique(tags, axis=0, return_index=True, return_inverse=True)
        # A program is compiled for every number of memories: let there be few of these.
        count = 4 ** math.ceil(math.log(len(first), 4))
        first = np.concatenate([first, np.full(count - len(first), first[0])])
        different = jax.tree.map(
            lambda leaf: leaf.reshape(steps * envs, *leaf.shape[2:])[first], kept
        )
        return different, which.reshape(steps, envs).astype(np.int32)


def by_environment(memory: Any) -> Any:
    """(lanes, n, …) → (lanes · n, …), a copy."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]).copy(), memory)


def put(memory: Any, lanes: list[int], new: Any) -> None:
    """Put the memories of some lanes where they belong: (lanes · n, …) into (lanes, n, …)."""
    jax.tree.map(
        lambda whole, part: whole.__setitem__(lanes, part.reshape(whole.shape)[lanes]), memory, new
    )


def write(memory: Any, env: int, new: Any) -> None:
    """Put an environment's memory where it belongs."""
    jax.tree.map(lambda whole, part: whole.__setitem__(env, part), memory, new)
