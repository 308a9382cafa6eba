"""Coloured noise (Eberhard et al., 2023): ε₁ … ε_T with a power spectrum ∝ f^−β.

    β = 0 is white noise, 1 pink, 2 red. T is the time limit of an episode.

    an episode starts:  a new sequence, each action dimension by itself
                        ε = irfft(Z), Z_k = c k^(−β/2) (X_k + i Y_k),  X_k, Y_k ~ N(0, 1)
                        k = 0, …, T/2 in units of 1/T;  at k = 0 the scale is that of k = 1
    DDPG and TD3:       ã = clip(π(s) + σ ε_t), but for warm-up
    SAC, A2C and PPO:   ε_t in place of the policy's own standard normal numbers

c is such that ε_t has variance 1 at every t. So each ε_t by itself is standard normal, and
densities, entropies and temperatures stay the algorithm's own: only what follows what changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import random

from discover_rl.core import networks
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Array, Key, Nudge, Spec
from discover_rl.strategies.interface import Acting, Blueprint, Strategy, View

UNLIMITED = 1_000
"""T where episodes have no time limit."""


@hyper
class Hyper:
    """Hyper-parameters of coloured noise."""

    beta: float = setting(1.0, "β, its colour: 0 white, 1 pink, 2 red.", low=0, high=10)
    sigma: Amplitude = setting(
        0.3,
        "σ: its size where the policy has no noise of its own, in half-ranges.",
        low=0,
        high=100,
        unless="samples",
    )


class Memory(NamedTuple):
    """What the strategy remembers of a running episode."""

    sequence: Array  # (T, action) ε₁ … ε_T
    step: Array  # () steps made so far


def coloured(key: Key, beta: Any, length: int, size: int) -> Array:
    """Draw noise with a spectrum ∝ f^−β and variance 1 at every time: (length, size).

    Each of the `size` columns is independent of the others. As irfft makes it, a sequence is
    periodic: its end goes on where it began.
    """
    k = np.arange(length // 2 + 1)
    # A frequency and its negative share a coefficient; 0, and ½ if it is there, are alone and real.
    alone = (k == 0) | (2 * k == length)
    real, imaginary = np.where(alone, 2.0**0.5, 1.0), np.where(alone, 0.0, 1.0)
    scale = jnp.asarray(np.maximum(k, 1), jnp.float32) ** (-0.5 * beta)
    scale *= length / jnp.sqrt(2.0 * (jnp.where(alone, 1.0, 2.0) * scale**2).sum())
    x, y = random.normal(key, (2, len(k), size))
    coefficients = (scale * real)[:, None] * x + 1j * (scale * imaginary)[:, None] * y
    return jnp.fft.irfft(coefficients, n=length, axis=0)


def at(step: Array, sequence: Array) -> Array:
    """ε of a step of each sequence, which goes round past its end: (…, 1, action)."""
    length = sequence.shape[-2]
    if isinstance(step, np.ndarray):
        # On the host a slice takes a tenth of the time. Environments that began together share it.
        steps = step.ravel().tolist()
        if steps.count(steps[0]) == len(steps):
            first = steps[0] % length
            return sequence[..., first : first + 1, :]
    row = (step % length)[..., None, None]
    return networks.namespace(sequence).take_along_axis(sequence, row, axis=-2)


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """Coloured noise for policies of this blueprint; β and σ come with the state."""
    del settings
    length = spec.time_limit or UNLIMITED

    def begin(state: Hyper, view: View, key: Key) -> Memory:
        del view
        sequence = coloured(key, state.beta, length, spec.action_size)
        return Memory(sequence, jnp.zeros((), jnp.int32))

    def behave(
        state: Hyper, memory: Memory, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Memory, Nudge]:
        del obs, noise
        epsilon = at(memory.step, memory.sequence)
        memory = Memory(memory.sequence, memory.step + 1)
        if blueprint.samples:
            return memory, Nudge(view.net, noise=epsilon)
        sigma = state.sigma.at(view.progress)
        return memory, Nudge(view.net, shift=sigma * epsilon * (1 - warmup))

    def report(state: Hyper, view: View, batch: Any) -> dict[str, Array]:
        del batch
        return {} if blueprint.samples else {"sigma": state.sigma.at(view.progress)}

    return Strategy(acting=Acting(begin=begin, behave=behave), report=report)
