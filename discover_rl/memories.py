"""A strategy's memories on the host: recalled for acting, kept with a rollout, told apart again."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from discover_rl.interfaces import Strategy


class Memories:
    """Of a cohort's environments. Where a strategy has nothing to recall, this does nothing."""

    def __init__(self, strategy: Strategy):
        self.recalls = strategy.recall is not None
        self._recall = jax.jit(strategy.recall) if strategy.recall else None
        self._held: dict[tuple[int, int], tuple[bytes, Any]] = {}

    def held(self, lane: int, env: int, memory: Any) -> Any:
        """What `behave` is given for this memory."""
        if self._recall is None:
            return memory
        tag = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(memory))
        known = self._held.get((lane, env))
        if known is None or known[0] != tag:
            known = self._held[lane, env] = tag, jax.device_get(self._recall(memory))
        return known[1]

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


def write(memory: Any, env: int, new: Any) -> None:
    """Put an environment's memory where it belongs."""
    jax.tree.map(lambda whole, part: whole.__setitem__(env, part), memory, new)


def keep(room: Any, at: int, env: int, memories: list[Any]) -> None:
    """Put down what an environment's memory was at these steps."""
    upto = at + len(memories)
    jax.tree.map(
        lambda whole, *each: whole.__setitem__((slice(at, upto), env), np.stack(each)),
        room,
        *memories,
    )
