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


def advantages(
    reward: Array,
    terminated: Array,
    ended: Array,
    value: Array,
    next_value: Array,
    gamma: Any,
    gae_lambda: Any,
) -> Array:
    """Generalised advantage estimates of a rollout; all are (steps, environments).

    δ = r + γ (1 − d) V(s′) − V(s);  A ← δ + γ λ (1 − e) A of the next step. d is termination, e the
    end of an episode for whatever reason; `next_value` is of the true next observation, so that a
    truncation is bootstrapped from where it cut. λ = 1 gives n-step returns minus V.
    """
    delta = td_target(reward, terminated, next_value, gamma) - value
    carry = gamma * gae_lambda * (1.0 - ended)

    def back(later: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
        now = here[0] + here[1] * later
        return now, now

    return jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, carry), reverse=True)[1]


def gaussian_log_prob(action: Array, mean: Array, log_std: Array) -> Array:
    """log N(a; mean, exp(log_std)²), summed over the last axis."""
    noise = (action - mean) * jnp.exp(-log_std)
    return (-0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)).sum(axis=-1)


class Moments(NamedTuple):
    """Mean and variance of all observations so far, found in one pass.

    After a million of them a new one moves the mean by less than its last digit, so what rounding
    takes from each sum is kept and added the next time (Kahan).
    """

    seen: Array  # () how many
    mean: Array  # (observation,)
    variance: Array  # (observation,)
    lost: tuple[Array, Array]  # of mean and variance, by rounding


def no_moments(size: int) -> Moments:
    zeros = jnp.zeros(size)
    return Moments(jnp.zeros(()), zeros, zeros, (zeros, zeros))


def observe(moments: Moments, x: Array) -> Moments:
    """One observation more, by Welford's recursion."""
    seen = moments.seen + 1.0
    before = x - moments.mean
    mean, mean_lost = _add(moments.mean, before / seen, moments.lost[0])
    change = (before * (x - mean) - moments.variance) / seen
    variance, variance_lost = _add(moments.variance, change, moments.lost[1])
    return Moments(seen, mean, variance, (mean_lost, variance_lost))


def _add(total: Array, change: Array, lost: Array) -> tuple[Array, Array]:
    """The sum, and what rounding has taken from it."""
    wanted = change - lost
    new = total + wanted
    return new, (new - total) - wanted


def deviation(moments: Moments) -> Array:
    """What to divide by; never 0."""
    return (moments.variance + 1e-8) ** 0.5
