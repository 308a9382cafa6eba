"""What goes to the device and back at every step.

On a CPU these are plain arrays. On a GPU they are encoded into one array each way, because every
transfer takes its time, however small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discover_rl.agents.off_policy.lane import Reply
from discover_rl.core.types import Array, Transition


class Inbox(NamedTuple):
    """A transition on its way to the device, or there."""

    transition: Transition  # (lanes, …)
    new: Any  # () whether there is one
    step: Any  # () environment steps made, this one included


def plain(transition: Transition, step: int) -> Inbox:
    """Wrap the transition that came after `step` environment steps, as plain arrays."""
    reward = np.asarray(transition.reward, np.float32)
    return Inbox(transition._replace(reward=reward), np.bool_(True), np.int32(step))


def no_transition(lanes: int, size: int, step: int) -> Inbox:
    """Return a placeholder where there is no transition yet, for observations of this size."""
    obs, none = np.zeros((lanes, size), np.float32), np.zeros(lanes, bool)
    nothing = Transition(np.zeros(lanes, np.float32), none, none, obs, obs)
    return Inbox(nothing, np.bool_(False), np.int32(step))


def width(size: int) -> int:
    """Numbers of an encoded transition with observations of this size."""
    return 2 * size + 5


def encode(inbox: Inbox) -> np.ndarray:
    """Write a transition into one array of bits, (lanes, width), on the host."""
    transition, new, step = inbox
    size = transition.obs.shape[1]
    whole = np.empty((len(transition.obs), width(size)), np.float32)
    whole[:, :size], whole[:, size:-5] = transition.obs, transition.next_obs
    whole[:, -5], whole[:, -4] = transition.reward, transition.terminated
    whole[:, -3] = transition.ended
    bits = whole.view(np.int32)
    bits[:, -2], bits[:, -1] = new, step
    return bits


def decode(inbox: Inbox | Array, size: int) -> Inbox:
    """Read the transition again, on the device; one that is not encoded stays as it is."""
    if isinstance(inbox, Inbox):
        return inbox
    whole = jax.lax.bitcast_convert_type(inbox, jnp.float32)
    transition = Transition(
        reward=whole[:, -5],
        terminated=whole[:, -4] > 0,
        ended=whole[:, -3] > 0,
        next_obs=whole[:, size:-5],
        obs=whole[:, :size],
    )
    return Inbox(transition, inbox[0, -2] > 0, inbox[0, -1])


def encode_reply(reply: Reply) -> Array:
    """Write what acting returns to the host into one array, (lanes, action + 1)."""
    return jnp.concatenate([reply.executed, reply.bad[:, None]], axis=1, dtype=jnp.float32)


def decode_reply(reply: Reply | Array) -> Reply:
    """Wait for what acting returns, and read it on the host."""
    if isinstance(reply, Reply):
        return Reply(np.asarray(reply.executed), np.asarray(reply.bad))
    whole = np.asarray(reply)
    return Reply(whole[:, :-1], whole[:, -1].astype(int))
