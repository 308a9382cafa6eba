"""Running means and standard deviations of observations and rewards.

There are two types, for two places. `RunningStats` lives on the host, in float64: on-policy
algorithms standardise there, before anything is sent to a device. `Moments` lives on the device, in
float32, as part of an algorithm's or a strategy's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from discover_rl.core.types import Array

LIMIT = 10.0
"""Scaled rewards are clipped to ± this."""
EPSILON = 1e-8
"""Added to variances, so that a constant can be divided by its standard deviation."""


class RunningStats(NamedTuple):
    """Mean and spread of all numbers so far, in float64: a million of them lose no digits."""

    samples: Any  # (), or as large as the mean
    mean: Any  # (…)
    squares: Any  # (…) sum of squared distances from the mean

    @property
    def variance(self) -> Any:
        """The variance of the numbers so far, of the mean's shape."""
        return self.squares / self.samples


class Moments(NamedTuple):
    """Mean and variance of all observations so far, in float32.

    After a million observations a new one moves the mean by less than its last digit. So the
    rounding error of each sum is kept and added the next time (Kahan summation).
    """

    samples: Array  # ()
    mean: Array  # (observation,), or () of single numbers
    variance: Array  # likewise
    lost: tuple[Array, Array]  # what rounding has taken from mean and variance


def deviation(stats: RunningStats | Moments) -> Any:
    """The standard deviation to divide by; never 0."""
    return (stats.variance + EPSILON) ** 0.5


# On the host.


def update(stats: RunningStats, x: Any) -> RunningStats:
    """Add one observation, by Welford's recursion.

    >>> stats = update(update(RunningStats(0.0, 0.0, 0.0), 1.0), 3.0)
    >>> stats.mean, stats.variance
    (2.0, 1.0)
    """
    samples = stats.samples + 1.0
    before = x - stats.mean
    mean = stats.mean + before / samples
    return RunningStats(samples, mean, stats.squares + before * (x - mean))


def as_numbers(stats: RunningStats) -> RunningStats:
    """Replace arrays without axes by Python numbers, which are faster."""
    return RunningStats(*(part if part.ndim else part.item() for part in stats))


def assign(stats: RunningStats, which: Any, new: RunningStats) -> None:
    """Write the statistics `new`, of the lanes `which`, into the arrays of all lanes in `stats`."""
    stats.samples[which], stats.mean[which], stats.squares[which] = new


def scale_rewards(
    stats: RunningStats,
    returns: list[float],
    reward: Sequence[float],
    ended: Sequence[bool],
    gamma: float,
) -> tuple[RunningStats, list[float], list[float]]:
    """Divide rewards by the standard deviation of the discounted return so far.

    Args:
        stats: of the discounted returns.
        returns: the discounted return so far of each environment's episode.
        reward: one for each environment, step after step.
        ended: whether an episode ended there; likewise.
        gamma: the discount.

    Returns:
        The new `stats` and `returns`, and the scaled rewards.
    """
    count, rewards = len(returns), []
    for first in range(0, len(reward), count):
        for env in range(count):
            returns[env] = returns[env] * gamma + reward[first + env]
            stats = update(stats, returns[env])
        unit = deviation(stats)
        for env in range(count):
            rewards.append(min(max(reward[first + env] / unit, -LIMIT), LIMIT))
            returns[env] = 0.0 if ended[first + env] else returns[env]
    return stats, returns, rewards


# On the device.


def no_moments(size: int | tuple[()]) -> Moments:
    """Return the moments before the first observation of this size; size () is for numbers."""
    import jax.numpy as jnp  # here, because what lives on the host needs no JAX

    zeros = jnp.zeros(size)
    return Moments(jnp.zeros(()), zeros, zeros, (zeros, zeros))


def observe(moments: Moments, x: Array) -> Moments:
    """Add one observation, (observation,), by Welford's recursion."""
    samples = moments.samples + 1.0
    before = x - moments.mean
    mean, mean_lost = _add(moments.mean, before / samples, moments.lost[0])
    change = (before * (x - mean) - moments.variance) / samples
    variance, variance_lost = _add(moments.variance, change, moments.lost[1])
    return Moments(samples, mean, variance, (mean_lost, variance_lost))


def observe_batch(moments: Moments, x: Array) -> Moments:
    """Add n observations at once, (n, observation), by Chan's formula.

    With w = n / (samples + n), the mean moves by w times its distance d to the batch's, and the
    variance by w times its distance to the batch's, plus w (1 − w) d². After 2²⁴ batches the number
    of samples, in float32, grows no more: from there on older batches fade.
    """
    count = x.shape[0]
    samples = moments.samples + count
    share = count / samples
    apart = x.mean(axis=0) - moments.mean
    mean, mean_lost = _add(moments.mean, share * apart, moments.lost[0])
    change = share * (x.var(axis=0) - moments.variance) + share * (1.0 - share) * apart**2
    variance, variance_lost = _add(moments.variance, change, moments.lost[1])
    return Moments(samples, mean, variance, (mean_lost, variance_lost))


def _add(total: Array, change: Array, lost: Array) -> tuple[Array, Array]:
    """Return the sum and its rounding error, to be added the next time."""
    wanted = change - lost
    new = total + wanted
    return new, (new - total) - wanted
