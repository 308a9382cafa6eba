"""Which updates follow an environment step, and how they are done one after the other.

All functions are for one lane; the agent vmaps them over lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import random

from discover_rl.algorithms.interface import OffPolicyAlgorithm
from discover_rl.core.types import Batch, Key, Losses, StrategyEvent, Update

Updates = tuple[Update | StrategyEvent, ...]
"""The updates and events that follow one environment step, in order."""


def run_updates(
    algorithm: OffPolicyAlgorithm,
    updates: Updates,
    learner: Any,
    sample: Callable[[Key, int], Batch],
    key: Key,
    progress: Any,
) -> tuple[Any, Losses]:
    """Do all updates and events. Repeated updates become a loop, which keeps the program short.

    Args:
        algorithm: what learns.
        updates: what is to be done; static.
        learner: the algorithm's state.
        sample: (key, recent) → a batch; see `replay_buffer.sample`.
        key: of the random numbers.
        progress: the share of the run that lies behind.

    Returns:
        The new state and the losses of the last update.
    """
    keys = random.split(key, (len(updates), 2))
    losses = Losses()
    done = 0
    for pattern, times in repeats(updates):
        upto = done + times * len(pattern)
        rounds = keys[done:upto].reshape(times, len(pattern), 2)
        done = upto

        def once(learner: Any, keys: Any, pattern=pattern) -> tuple[Any, Losses]:
            losses = Losses()
            for update, (sample_key, learn_key) in zip(pattern, keys, strict=True):
                if isinstance(update, StrategyEvent):
                    learner = algorithm.on_event(learner, update.name)
                    continue
                batch = sample(sample_key, update.recent)
                learner, losses = algorithm.learn(learner, batch, learn_key, update, progress)
            return learner, losses

        if times == 1:
            learner, losses = once(learner, rounds[0])
        else:
            learner, each = jax.lax.scan(once, learner, rounds)
            losses = jax.tree.map(lambda leaf: leaf[-1], each)
    return learner, losses


def repeats(updates: Updates) -> list[tuple[Updates, int]]:
    """Split a sequence into patterns, each with the number of times that it repeats.

    >>> repeats(tuple("abababcc"))
    [(('a', 'b'), 3), (('c',), 2)]
    """
    parts = []
    while updates:
        best, times = updates[:1], 1
        for length in range(1, len(updates) // 2 + 1):
            pattern = updates[:length]
            count = 1
            while updates[count * length : (count + 1) * length] == pattern:
                count += 1
            if count > 1 and count * length > times * len(best):
                best, times = pattern, count
        parts.append((best, times))
        updates = updates[times * len(best) :]
    return parts


def longest_cycle(
    due: Callable[[int], Updates], steps: range, longest: int
) -> tuple[tuple[Updates, ...], int]:
    """Find the cycle of updates that lasts longest, and the number of steps that it lasts.

    Args:
        due: (step) → the updates that follow it.
        steps: the steps to look at.
        longest: the longest cycle to look for.

    >>> longest_cycle(lambda step: ("a",) if step % 2 else ("b",), range(1, 9), longest=8)
    ((('a',), ('b',)), 8)
    """
    ahead = [due(step) for step in steps]
    found = [(0, -1)]
    for length in range(1, min(longest, len(ahead)) + 1):
        unlike = (i for i, updates in enumerate(ahead) if updates != ahead[i % length])
        found.append((next(unlike, len(ahead)), -length))
    reach, length = max(found)
    return tuple(ahead[:-length]), reach
