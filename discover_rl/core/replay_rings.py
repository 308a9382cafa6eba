"""Replay of several environments: a ring for each, sampled from as one buffer.

A ring takes the next observation from the row after (`replay_buffer`), so transitions of two
environments cannot share one. Here every array of a `Replay` has the environments of one lane in
front, (rings, …). All of them store a transition at every step; where episodes are short, the
oldest of a ring may leave earlier than those of another.

All functions are for one lane; the agent vmaps them over lanes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from discover_rl.core import replay_buffer
from discover_rl.core.replay_buffer import Replay
from discover_rl.core.types import Array, Batch

enter = jax.vmap(replay_buffer.enter)
"""(replay, obs, fresh) → replay: start episodes at `obs`, (rings, observation), where `fresh`."""
insert = jax.vmap(replay_buffer.insert)
"""(replay, action, transition) → replay: insert one transition into each ring."""


def init(rings: int, capacity: int, observation_size: int, action_size: int) -> Replay:
    """Make so many empty rings; the other arguments are those of `replay_buffer.init`, of each."""
    empty = replay_buffer.init(capacity, observation_size, action_size)
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], rings, axis=0), empty)


def sample(replay: Replay, key: jax.Array, size: int, recent: int = 0) -> Batch:
    """Sample `size` transitions with replacement, each that a ring holds as likely as any other.

    Args:
        replay: of all rings.
        key: of the random numbers.
        size: how many.
        recent: if not 0, sample from the newest alone: of each ring the same number, together so
            many or up to rings − 1 more.

    Returns:
        (size, …) each.
    """
    each = -(-recent // len(replay.inserted))
    oldest = jnp.maximum(replay.oldest, replay.inserted - each) if recent else replay.oldest
    held = replay.inserted - oldest
    ends = jnp.cumsum(held)
    number = jax.random.randint(key, (size,), 0, ends[-1])
    ring = jnp.searchsorted(ends, number, side="right")
    return take(replay, ring, (oldest - (ends - held))[ring] + number)


def take(replay: Replay, ring: Array, which: Array) -> Batch:
    """The transitions `which`, (n,), of the rings `ring`, (n,), each counted from the first that
    was ever inserted there."""
    slot = which % replay.row.shape[1]
    row, rows = replay.row[ring, slot], replay.rows.shape[1]
    return Batch(
        obs=replay.rows[ring, row % rows],
        bare=replay.bare[ring, slot],
        executed=replay.executed[ring, slot],
        reward=replay.reward[ring, slot],
        terminated=replay.terminated[ring, slot],
        next_obs=replay.rows[ring, (row + 1) % rows],
    )
