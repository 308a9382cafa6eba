"""Running statistics on the host, for observations and rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

LIMIT = 10.0
"""Scaled rewards go no further."""
EPSILON = 1e-8
"""Added to variances, for what does not vary."""


class Running(NamedTuple):
    """Mean and scatter of all that was met; float64, so that a million of them lose no digits."""

    seen: Any  # (), or as large as the mean, for many at once
    mean: Any  # (…)
    scatter: Any  # (…) sum of squared distances from the mean


def numbers(running: Running) -> Running:
    """Numbers in place of arrays without axes, which are slow."""
    return Running(*(part if part.ndim else part.item() for part in running))


def met(running: Running, x: Any) -> Running:
    """One more, by Welford's recursion."""
    seen = running.seen + 1.0
    before = x - running.mean
    mean = running.mean + before / seen
    return Running(seen, mean, running.scatter + before * (x - mean))


def put(there: Running, which: Any, new: Running) -> None:
    """Replace those of a lane, or of several."""
    there.seen[which], there.mean[which], there.scatter[which] = new


def deviation(running: Running) -> Any:
    """What to divide by; never 0."""
    return (running.scatter / running.seen + EPSILON) ** 0.5


def scaled(
    gains: Running, gain: list[float], reward: Sequence[float], ended: Sequence[bool], gamma: float
) -> tuple[Running, list[float], list[float]]:
    """Rewards in standard deviations of the discounted reward so far, `gain`, of each environment;
    before them what both statistics are in the end."""
    count, rewards = len(gain), []
    for first in range(0, len(reward), count):
        for env in range(count):
            gain[env] = gain[env] * gamma + reward[first + env]
            gains = met(gains, gain[env])
        unit = deviation(gains)
        for env in range(count):
            rewards.append(min(max(reward[first + env] / unit, -LIMIT), LIMIT))
            gain[env] = 0.0 if ended[first + env] else gain[env]
    return gains, gain, rewards
