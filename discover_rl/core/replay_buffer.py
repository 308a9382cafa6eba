"""A replay buffer: a ring on the device that stores each observation once.

Transition k holds the row of the observation it started from; the next observation is the row
after it. Where an episode ends, its true final observation takes that row and the new episode
starts one row further on. There are 1/32 more rows than transitions, for those final observations.
Where episodes are so short that the rows run out first, the oldest transitions leave early, so that
every transition that can be sampled is complete.

All functions are for one lane; the agent vmaps them over lanes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from discover_rl.core.types import Action, Array, Batch, Transition


class Replay(NamedTuple):
    """The contents of one lane's buffer."""

    rows: jax.Array  # (rows, observation)
    bare: jax.Array  # (capacity, action)
    executed: jax.Array  # (capacity, action)
    reward: jax.Array  # (capacity,)
    terminated: jax.Array  # (capacity,)
    row: jax.Array  # (capacity,) where the transition's observation lies, counted from the first
    head: jax.Array  # () the row of the observation the agent stands on, counted from the first
    inserted: jax.Array  # () transitions ever inserted
    oldest: jax.Array  # () the oldest transition that is still whole


def capacity_of(size: int, transitions: int, rings: int = 1) -> int:
    """How many transitions each of `rings` rings holds.

    Together they hold at most `size`, and no more than the `transitions` that a run makes.

    >>> capacity_of(1_000_000, 8_000), capacity_of(1_000, 8_000, rings=3)
    (8000, 333)
    """
    return min(size // rings, -(-transitions // rings))


def row_count(capacity: int) -> int:
    """Rows for that many transitions and their final observations, with two to write ahead."""
    return capacity + capacity // 32 + 4


def init(capacity: int, observation_size: int, action_size: int) -> Replay:
    """Make an empty buffer.

    Args:
        capacity: how many transitions it holds.
        observation_size: numbers in an observation.
        action_size: numbers in an action.
    """
    zero = jnp.zeros((), jnp.int32)
    return Replay(
        rows=jnp.zeros((row_count(capacity), observation_size), jnp.float32),
        bare=jnp.zeros((capacity, action_size), jnp.float32),
        executed=jnp.zeros((capacity, action_size), jnp.float32),
        reward=jnp.zeros(capacity, jnp.float32),
        terminated=jnp.zeros(capacity, jnp.bool),
        row=jnp.zeros(capacity, jnp.int32),
        head=zero - 1,
        inserted=zero,
        oldest=zero,
    )


def enter(replay: Replay, obs: Array, fresh: Array) -> Replay:
    """If `fresh`, start an episode at `obs`, (observation,), to which no transition leads."""
    head = replay.head + fresh
    at = head % replay.rows.shape[0]
    return replay._replace(
        rows=replay.rows.at[at].set(jnp.where(fresh, obs, replay.rows[at])), head=head
    )


def insert(
    replay: Replay, action: Action, transition: Transition, new: Array | bool = True
) -> Replay:
    """Insert the transition that `action` led to, if it is `new`; else change nothing."""
    capacity, rows = replay.row.shape[0], replay.rows.shape[0]
    slot, head = replay.inserted % capacity, replay.head

    def put(array: jax.Array, at: Any, value: Any) -> jax.Array:
        return array.at[at].set(jnp.where(new, value, array[at]))

    row = put(replay.row, slot, head)
    inserted = replay.inserted + new
    # Writing rows head + 1 and head + 2 overwrites what lies a whole ring before them. That moves
    # by two rows, or by three after `enter`, and no two transitions start from the same row.
    oldest = jnp.maximum(replay.oldest, inserted - capacity)
    for _ in range(3):
        oldest += (row[oldest % capacity] <= head + 2 - rows) & new
    return Replay(
        # Without an end the second row is written in vain: the next insertion writes it again.
        rows=put(
            replay.rows,
            jnp.stack([head + 1, head + 2]) % rows,
            jnp.stack([transition.next_obs, transition.obs]),
        ),
        bare=put(replay.bare, slot, action.bare),
        executed=put(replay.executed, slot, action.executed),
        reward=put(replay.reward, slot, transition.reward),
        terminated=put(replay.terminated, slot, transition.terminated),
        row=row,
        head=head + (1 + transition.ended) * new,
        inserted=inserted,
        oldest=oldest,
    )


def sample(replay: Replay, key: jax.Array, size: int, recent: int = 0) -> Batch:
    """Sample transitions with replacement.

    Args:
        replay: the buffer of one lane.
        key: of the random numbers.
        size: how many.
        recent: sample from this many newest ones; 0: from all.

    Returns:
        (size, …) each.
    """
    oldest = jnp.maximum(replay.oldest, replay.inserted - recent) if recent else replay.oldest
    return take(replay, jax.random.randint(key, (size,), oldest, replay.inserted))


def take(replay: Replay, which: Array) -> Batch:
    """The transitions `which`, (n,), counted from the first that was ever inserted."""
    slot = which % replay.row.shape[0]
    row, rows = replay.row[slot], replay.rows.shape[0]
    return Batch(
        obs=replay.rows[row % rows],
        bare=replay.bare[slot],
        executed=replay.executed[slot],
        reward=replay.reward[slot],
        terminated=replay.terminated[slot],
        next_obs=replay.rows[(row + 1) % rows],
    )


def ended(replay: Replay, which: Array) -> Array:
    """Whether an episode ended with each of the transitions `which`, (n,)."""
    # Then the next transition does not start in the row after.
    capacity = replay.row.shape[0]
    after = jnp.where(which + 1 < replay.inserted, replay.row[(which + 1) % capacity], replay.head)
    return after - replay.row[which % capacity] > 1
