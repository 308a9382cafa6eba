"""EnvPool's environments, called from inside a program.

EnvPool offers its sending and receiving to XLA, on a CPU and on a GPU. A *ticket* is a few bytes
that a call takes and gives: XLA may do things in any order unless one needs the other, so whoever
has to come after a call asks for its ticket, and whoever has to come before it is made part of its
ticket (`after`).
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discover_rl.types import Array, Spec

TICKET = jax.ShapeDtypeStruct((8,), jnp.uint8)

_numbers = itertools.count()


class Answer(NamedTuple):
    obs: Array  # (n, observation)
    bits: Array  # (n, observation, 2) as EnvPool has it, in double precision
    reward: Array  # (n,)
    done: Array  # (n,) ended, and not at its limit
    limit: Array  # (n,) at its limit


class Calls:
    """Of a pool whose environments all move together; `places` are those of an Answer's parts in
    what it receives: observations, rewards, whether episodes ended, whether at their limit."""

    def __init__(self, pool: Any, spec: Spec, places: list[int]):
        self.spec, self._places = spec, places
        offered, number = dict(pool._xla()), next(_numbers)
        handle, ((_, asked, _, _), _), send = offered["send"]
        _, (_, answered), receive = offered["recv"]
        self.environments: int = asked[1][0]
        self._handle = int.from_bytes(handle, "little")
        self._answered = [jax.ShapeDtypeStruct(tuple(shape), kind) for kind, shape in answered]
        self._send, self._receive = f"envpool.send.{number}", f"envpool.receive.{number}"
        for name, (host, device) in ((self._send, send), (self._receive, receive)):
            jax.ffi.register_ffi_target(name, host, platform="cpu")
            if device is not None:
                jax.ffi.register_ffi_target(name, device, platform="CUDA")

    def send(self, ticket: Array, actions: Array) -> Array:
        """Act in all environments, with 0 for what is not finite."""
        boxed = jax.vmap(self.spec.to_box)(jnp.where(jnp.isfinite(actions), actions, 0.0))
        everyone = np.arange(self.environments, dtype=np.int32)
        with jax.enable_x64(True):  # EnvPool's physics has no other precision
            asked = everyone, everyone, boxed.astype(jnp.float64)
            return self._call(self._send, TICKET)(ticket, *asked, handle=self._handle)

    def receive(self, ticket: Array) -> tuple[Array, Answer]:
        """What came of it, once all have moved."""
        with jax.enable_x64(True):
            told = self._call(self._receive, self._answered)(ticket, handle=self._handle)
            obs, reward, ended, limit = (told[1 + place] for place in self._places)
            obs = obs.reshape(self.environments, -1)
            bits = jax.lax.bitcast_convert_type(obs, jnp.uint32)
            return told[0], Answer(obs.astype(jnp.float32), bits, reward, ended & ~limit, limit)

    def _call(self, name: str, result: Any) -> Any:
        return jax.ffi.ffi_call(name, result, has_side_effect=True, input_output_aliases={0: 0})


def possible(pool: Any) -> bool:
    """Whether programs of the default device can call this pool: it must offer itself there, and
    calling the host, where episodes end, takes a CPU device."""
    offered = [capsules for _, _, capsules in dict(pool._xla()).values()]
    offers = all(host if jax.default_backend() == "cpu" else device for host, device in offered)
    platform = jax.devices()[0].client.platform
    try:
        jax.devices("cpu")
    except RuntimeError:
        return False
    return offers and platform in ("cpu", "cuda", "gpu")


def first_ticket() -> Array:
    return jnp.zeros(TICKET.shape, TICKET.dtype)


def after(value: Any, others: Any) -> Any:
    """The value, but not before `others` are there."""
    return jax.lax.optimization_barrier((value, others))[0]


def doubles(bits: np.ndarray) -> np.ndarray:
    """(…, 2) → (…), on the host."""
    return np.ascontiguousarray(bits).view(np.float64)[..., 0]
