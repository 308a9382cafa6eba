"""What goes to a device and back at every step.

One array each way, because every transfer takes its time, however small.
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
    return 2 * size + 4


def packed(seen: Seen, step: int) -> np.ndarray:
    """All of it, as bits."""
    size = seen.obs.shape[1]
    parcel = np.empty((len(seen.obs), width(size)), np.float32)
    parcel[:, :size], parcel[:, size:-4] = seen.obs, seen.next_obs
    parcel[:, -4], parcel[:, -3], parcel[:, -2] = seen.reward, seen.terminated, seen.ended
    bits = parcel.view(np.int32)
    bits[:, -1] = step
    return bits


def unpacked(bits: Array, size: int) -> tuple[Seen, Array]:
    parcel = jax.lax.bitcast_convert_type(bits, jnp.float32)
    seen = Seen(
        reward=parcel[:, -4],
        terminated=parcel[:, -3] > 0,
        ended=parcel[:, -2] > 0,
        next_obs=parcel[:, size:-4],
        obs=parcel[:, :size],
    )
    return seen, bits[0, -1]


def sealed(reply: Reply) -> Array:
    return jnp.concatenate([reply.executed, reply.bad[:, None]], axis=1, dtype=jnp.float32)


def opened(reply: Array) -> Reply:
    """The reply of a program, once it is there, on the host."""
    whole = np.asarray(reply)
    return Reply(whole[:, :-1], whole[:, -1].astype(int))
