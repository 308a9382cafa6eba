"""What the replay of a finished run holds, and how wrong its last critics are about it."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from discover_rl import replay
from discover_rl.agent import Agent
from discover_rl.interfaces import Algorithm
from discover_rl.keys import Stream, streams
from discover_rl.lane import State
from discover_rl.programs import precise
from discover_rl.trees import lane_of
from discover_rl.types import Array, Visits

PART = 8192
"""Transitions judged at a time."""


def collect(agent: Agent, state: State, lane: int, step: int) -> Visits:
    """All that a lane's replay holds, on the host, judged by the critics of this step."""
    own = lane_of(state, lane)  # one at a time: all of them may not fit on the host
    oldest, inserted = int(own.replay.oldest), int(own.replay.inserted)
    parts, judge = [], precise(_part, agent.precision)
    for first in range(oldest, inserted, PART):
        part = judge(agent.algorithm, PART, own, np.int32(first), np.int32(step))
        parts.append([leaf[: inserted - first] for leaf in jax.device_get(part)])
    return Visits(*(np.concatenate(leaves) for leaves in zip(*parts, strict=True)))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _part(
    algorithm: Algorithm, size: int, state: State, first: Array, step: Array
) -> tuple[Array, ...]:
    """So many transitions from this one on; past the last one, that one again."""
    which = jnp.minimum(first + jnp.arange(size), state.replay.inserted - 1)
    batch = replay.take(state.replay, which)
    key = jax.random.fold_in(streams(state.seed, step)[Stream.REPORT], first)
    met = batch.obs, batch.executed, batch.reward, batch.terminated
    error = algorithm.errors(state.learner, batch, key)
    return (*met, replay.ended(state.replay, which), error)
