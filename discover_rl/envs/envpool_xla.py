"""EnvPool's environments, stepped from inside a compiled program.

EnvPool offers its send and receive to XLA, on a CPU and on a GPU. XLA orders two operations only if
one needs the result of the other. So every call takes and returns a *token* of a few bytes. An
operation that has to come after a call takes the call's token. An operation that has to come before
a call is tied to the token that the call takes (`after`).
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from discover_rl.core.types import Array
from discover_rl.envs.envpool_pool import Pool
from discover_rl.system.hardware import accelerated

TOKEN = jax.ShapeDtypeStruct((8,), jnp.uint8)
"""The shape of a token."""

_numbers = itertools.count()


class Answer(NamedTuple):
    """The answers of n environments."""

    obs: Array  # (n, observation)
    bits: Array  # (n, observation, 2) the same in double precision, as bits
    reward: Array  # (n,)
    done: Array  # (n,) ended, and not at its limit
    limit: Array  # (n,) at its limit
    sums: Array | None = None  # (n, 2) where actions are repeated: the reward as a double, as bits

    @property
    def whole(self) -> Array:
        """(n,) the reward in double precision."""
        with jax.enable_x64(True):
            if self.sums is None:
                return jnp.asarray(self.reward).astype(jnp.float64)
            return jax.lax.bitcast_convert_type(self.sums, jnp.float64)


class EnvPoolXla:
    """Send and receive of a pool whose environments all move together."""

    def __init__(self, pool: Pool):
        """Register the pool's functions with XLA."""
        self.spec, self.repeat, self._reward = pool.spec, pool.repeat, pool.reward
        self._positions = pool.positions[1:]
        offered, number = dict(pool.raw._xla()), next(_numbers)
        handle, ((_, asked, _, kind), _), send = offered["send"]
        _, (_, answered), receive = offered["recv"]
        self._kind = kind[0]
        self.environments: int = asked[1][0]
        self._handle = int.from_bytes(handle, "little")
        self._answered = [jax.ShapeDtypeStruct(tuple(shape), kind) for kind, shape in answered]
        self._send, self._receive = f"envpool.send.{number}", f"envpool.receive.{number}"
        for name, (host, device) in ((self._send, send), (self._receive, receive)):
            jax.ffi.register_ffi_target(name, host, platform="cpu")
            if device is not None:
                jax.ffi.register_ffi_target(name, device, platform="CUDA")

    def send(self, token: Array, actions: Array) -> Array:
        """Act in all environments: (n, action) in −1 … 1, with 0 for what is not finite."""
        boxed = jax.vmap(self.spec.to_box)(jnp.where(jnp.isfinite(actions), actions, 0.0))
        everyone = np.arange(self.environments, dtype=np.int32)
        with jax.enable_x64(True):  # most of EnvPool's physics has no other precision
            asked = everyone, everyone, boxed.astype(self._kind)
            return self._call(self._send, TOKEN)(token, *asked, handle=self._handle)

    def receive(self, token: Array) -> tuple[Array, Answer]:
        """Wait until all have moved; return the token and their answer."""
        with jax.enable_x64(True):
            answer = self._call(self._receive, self._answered)(token, handle=self._handle)
            reward, ended, limit, *parts = (answer[1 + place] for place in self._positions)
            flat = [part.reshape(self.environments, -1) for part in parts]
            obs = flat[0] if len(flat) == 1 else jnp.concatenate(flat, axis=1)
            obs = obs.astype(jnp.float64)
            if self._reward:
                reward = self._reward(obs).astype(jnp.float32)
            bits = jax.lax.bitcast_convert_type(obs, jnp.uint32)
            return answer[0], Answer(obs.astype(jnp.float32), bits, reward, ended & ~limit, limit)

    def _call(self, name: str, result: Any) -> Any:
        return jax.ffi.ffi_call(name, result, has_side_effect=True, input_output_aliases={0: 0})


def repeated(
    xla: EnvPoolXla, token: Array, first: Answer, actions: Array, alive: Array, finish: Any
) -> tuple[Array, Answer]:
    """Repeat actions that were sent once; return the token, and the answer with summed rewards.

    EnvPool starts a new episode if it is asked to step one that has ended. So once an episode has
    ended, the host takes over and repeats the actions only in the other environments.

    Args:
        xla: send and receive.
        token: of the last call.
        first: the answer to the first time that the actions were sent.
        actions: (n, action) in −1 … 1.
        alive: (n,) whose episodes matter.
        finish: called on the host (`EnvPoolVector.finish_repeating`).
    """

    def some_ended(answer: Answer) -> Array:
        return jnp.any((answer.done | answer.limit) & alive)

    def once_more(carry: Any) -> Any:
        times, token, before = carry
        token, answer = xla.receive(xla.send(after(token, before.bits), actions))
        return times + 1, token, answer._replace(sums=_sum(before, answer))

    def on_the_host(times: Array, answer: Answer) -> Answer:
        known = answer.bits, answer.sums, answer.done | answer.limit, answer.limit
        like = jax.eval_shape(lambda: known)
        bits, sums, ended, limit = io_callback(finish, like, times, actions, *known)
        with jax.enable_x64(True):
            obs = jax.lax.bitcast_convert_type(bits, jnp.float64).astype(jnp.float32)
        return Answer(obs, bits, answer.reward, ended & ~limit, limit, sums)

    with jax.enable_x64(True):
        zero = jnp.zeros(xla.environments, jnp.float64)
        nothing = first._replace(sums=jax.lax.bitcast_convert_type(zero, jnp.uint32))
    first = first._replace(sums=_sum(nothing, first))
    times, token, answer = jax.lax.while_loop(
        lambda carry: (carry[0] < xla.repeat) & ~some_ended(carry[2]),
        once_more,
        (jnp.int32(1), token, first),
    )
    answer = jax.lax.cond(times < xla.repeat, lambda: on_the_host(times, answer), lambda: answer)
    with jax.enable_x64(True):
        return token, answer._replace(reward=answer.whole.astype(jnp.float32))


def _sum(before: Answer, latest: Answer) -> Array:
    """Return the sum of two answers' rewards, as the bits of doubles."""
    with jax.enable_x64(True):
        total = before.whole + latest.reward.astype(jnp.float64)
        return jax.lax.bitcast_convert_type(total, jnp.uint32)


def possible(pool: Pool) -> bool:
    """Whether compiled programs of the default device can step this pool.

    The pool must offer its functions on that device. The program calls the host where episodes end,
    for which JAX needs a CPU device, too.
    """
    offered = [capsules for _, _, capsules in dict(pool.raw._xla()).values()]
    offers = all(device if accelerated() else host for host, device in offered)
    platform = jax.devices()[0].client.platform
    try:
        jax.devices("cpu")
    except RuntimeError:
        return False
    return offers and platform in ("cpu", "cuda", "gpu")


def first_token() -> Array:
    """The token that the first call of a program takes."""
    return jnp.zeros(TOKEN.shape, TOKEN.dtype)


def after(value: Any, others: Any) -> Any:
    """Return the value, and make XLA compute `others` before it is used."""
    return jax.lax.optimization_barrier((value, others))[0]


def doubles(bits: np.ndarray) -> np.ndarray:
    """Doubles from their bits, on the host: (…, 2) → (…)."""
    return np.ascontiguousarray(bits).view(np.float64)[..., 0]


def words(numbers: np.ndarray) -> np.ndarray:
    """The bits of doubles, on the host: (…) → (…, 2)."""
    whole = np.ascontiguousarray(numbers, np.float64)
    return whole[..., None].view(np.uint32)
