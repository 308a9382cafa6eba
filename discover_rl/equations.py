"""The equations that algorithms and strategies share."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from discover_rl.types import Array


def td_target(reward: Array, terminated: Array, next_value: Array, gamma: Any) -> Array:
    """y = r + γ (1 − d) V(s′); d is termination alone: after a truncation V(s′) still counts."""
    return reward + gamma * (1.0 - terminated) * next_value


def polyak(online: Any, target: Any, tau: Any) -> Any:
    """θ′ ← τ θ + (1 − τ) θ′, for whole trees."""
    return jax.tree.map(lambda new, old: tau * new + (1.0 - tau) * old, online, target)


def squash(mean: Array, deviation: Array, noise: Array) -> tuple[Array, Array]:
    """a = tanh(u), u = mean + deviation · noise, and log π(a), for noise ~ N(0, I); (n, ·) → (n,).

    log π(a) = Σ [log N(u; mean, deviation) − log(1 − tanh² u)]. The last term is written as
    2 (log 2 − u − softplus(−2u)), which is exact where 1 − tanh² u has long been rounded to 0.
    """
    raw = mean + deviation * noise
    density = -0.5 * noise**2 - jnp.log(deviation) - 0.5 * math.log(2 * math.pi)
    stretch = 2.0 * (math.log(2.0) - raw - jax.nn.softplus(-2.0 * raw))
    return jnp.tanh(raw), (density - stretch).sum(axis=-1)


class Moments(NamedTuple):
    """Mean and variance of all observations so far, found in one pass."""

    seen: Array  # () how many
    mean: Array  # (observation,)
    variance: Array  # (observation,)


def no_moments(size: int) -> Moments:
    return Moments(jnp.zeros(()), jnp.zeros(size), jnp.zeros(size))


def observe(moments: Moments, x: Array) -> Moments:
    """One observation more, by Welford's recursion."""
    seen = moments.seen + 1.0
    before = x - moments.mean
    mean = moments.mean + before / seen
    variance = moments.variance + (before * (x - mean) - moments.variance) / seen
    return Moments(seen, mean, variance)


def deviation(moments: Moments) -> Array:
    """What to divide by; never 0."""
    return (moments.variance + 1e-8) ** 0.5
