"""What goes to a device and back at every step.

One array for each program and one back, because every transfer takes its time, however small.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discover_rl.types import Array, Seen


class Reply(NamedTuple):
    executed: Array  # (action,) to be sent to the environment
    bad: Array  # () what is not finite, as watch.py counts


def width(size: int) -> int:
    """Of a parcel, for observations of this size."""
    return 2 * size + 5


def empty(lanes: int, size: int, step: int) -> np.ndarray:
    """A parcel with nothing in it."""
    bits = np.zeros((lanes, width(size)), np.int32)
    bits[:, -1] = step
    return bits


def packed(seen: Seen, step: int) -> np.ndarray:
    """All that was seen after `step` environment steps, as bits."""
    size = seen.obs.shape[1]
    parcel = np.empty((len(seen.obs), width(size)), np.float32)
    parcel[:, :size], parcel[:, size:-5] = seen.obs, seen.next_obs
    parcel[:, -5], parcel[:, -4], parcel[:, -3] = seen.reward, seen.terminated, seen.ended
    bits = parcel.view(np.int32)
    bits[:, -2], bits[:, -1] = 1, step
    return bits


class Unpacked(NamedTuple):
    seen: Seen
    new: Array  # () whether there is anything in it
    step: Array  # ()


def unpacked(bits: Array, size: int) -> Unpacked:
    parcel = jax.lax.bitcast_convert_type(bits, jnp.float32)
    seen = Seen(
        reward=parcel[:, -5],
        terminated=parcel[:, -4] > 0,
        ended=parcel[:, -3] > 0,
        next_obs=parcel[:, size:-5],
        obs=parcel[:, :size],
    )
    return Unpacked(seen, bits[0, -2] > 0, bits[0, -1])


def sealed(reply: Reply) -> Array:
    return jnp.concatenate([reply.executed, reply.bad[:, None]], axis=1, dtype=jnp.float32)


def opened(reply: Array) -> Reply:
    """The reply of a program, once it is there, on the host."""
    whole = np.asarray(reply)
    return Reply(whole[:, :-1], whole[:, -1].astype(int))
