"""The transitions that a finished run's replay buffer holds, with the last critics' TD errors."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from discover_rl.agents.off_policy.agent import OffPolicyAgent
from discover_rl.agents.off_policy.lane import AgentState
from discover_rl.algorithms.interface import OffPolicyAlgorithm
from discover_rl.core import replay_buffer
from discover_rl.core.prng import Stream, streams
from discover_rl.core.pytrees import lane_of
from discover_rl.core.types import Array, ReplayExport
from discover_rl.system.compilation import with_precision

PART = 8192
"""Transitions whose TD errors are computed at a time."""


def collect(agent: OffPolicyAgent, state: AgentState, lane: int, step: int) -> ReplayExport:
    """Return all transitions in a lane's replay buffer, on the host, with their TD errors.

    Args:
        agent: the agent that has trained them.
        state: of all lanes.
        lane: which of them.
        step: environment steps made.

    With several environments, every ring gives the same number: as many of its newest transitions
    as the shortest ring has. They are in the order of steps, so environments take turns.
    """
    own = lane_of(state, lane)  # one at a time: all of them may not fit on the host
    if agent.environments == 1:
        return _collect_ring(agent, own, step)
    newest = (own.replay.inserted - own.replay.oldest).min()
    whole = own.replay._replace(oldest=own.replay.inserted - newest)
    rings = [
        _collect_ring(agent, own._replace(replay=lane_of(whole, i)), step)
        for i in range(agent.environments)
    ]
    together = (np.stack(leaves, axis=1) for leaves in zip(*rings, strict=True))
    return ReplayExport(*(leaf.reshape(-1, *leaf.shape[2:]) for leaf in together))


def _collect_ring(agent: OffPolicyAgent, own: AgentState, step: int) -> ReplayExport:
    """Return all transitions in one ring of a lane, oldest first; `own.replay` is that ring."""
    oldest, inserted = int(own.replay.oldest), int(own.replay.inserted)
    parts, take = [], with_precision(_part, agent.precision)
    progress = np.float32(step / agent.lane.steps)
    for first in range(oldest, inserted, PART):
        part = take(agent.algorithm, PART, own, np.int32(first), np.int32(step), progress)
        parts.append([leaf[: inserted - first] for leaf in jax.device_get(part)])
    return ReplayExport(*(np.concatenate(leaves) for leaves in zip(*parts, strict=True)))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _part(
    algorithm: OffPolicyAlgorithm,
    size: int,
    state: AgentState,
    first: Array,
    step: Array,
    progress: Array,
) -> tuple[Array, ...]:
    """`size` transitions starting at `first`, padded with the last one."""
    which = jnp.minimum(first + jnp.arange(size), state.replay.inserted - 1)
    batch = replay_buffer.take(state.replay, which)
    key = jax.random.fold_in(streams(state.seed, step)[Stream.REPORT], first)
    parts = batch.obs, batch.executed, batch.reward, batch.terminated
    error = algorithm.errors(state.learner, batch, key, progress)
    return (*parts, replay_buffer.ended(state.replay, which), error)
