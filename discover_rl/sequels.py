"""What follows an environment step: updates and a strategy's turns, one after the other.

All functions are for one lane; the agent lifts them over lanes.
"""

from __future__ import annotations

from typing import Any

import jax
from jax import random

from discover_rl import replay
from discover_rl.interfaces import Algorithm
from discover_rl.types import Losses, Turn, Update

Sequel = tuple[Update | Turn, ...]
"""What follows, in order."""


def play(
    algorithm: Algorithm,
    sequel: Sequel,
    learner: Any,
    buffer: replay.Replay,
    key: Any,
    progress: Any,
    batch_size: int,
) -> tuple[Any, Losses]:
    """Do all of it; what repeats is a loop in the program, not a longer one."""
    keys = random.split(key, (len(sequel), 2))
    losses = Losses()
    done = 0
    for pattern, times in repeats(sequel):
        upto = done + times * len(pattern)
        rounds = keys[done:upto].reshape(times, len(pattern), 2)
        done = upto

        def once(learner: Any, keys: Any, pattern=pattern) -> tuple[Any, Losses]:
            losses = Losses()
            for update, (sample_key, learn_key) in zip(pattern, keys, strict=True):
                if isinstance(update, Turn):
                    learner = algorithm.turn(learner, update.name)
                    continue
                batch = replay.sample(buffer, sample_key, batch_size, update.recent)
                learner, losses = algorithm.learn(learner, batch, learn_key, update, progress)
            return learner, losses

        if times == 1:
            learner, losses = once(learner, rounds[0])
        else:
            learner, each = jax.lax.scan(once, learner, rounds)
            losses = jax.tree.map(lambda leaf: leaf[-1], each)
    return learner, losses


def repeats(sequel: Sequel) -> list[tuple[Sequel, int]]:
    """The sequence as patterns and how often each comes in a row: abababcc → (ab, 3), (c, 2)."""
    parts = []
    while sequel:
        best, times = sequel[:1], 1
        for length in range(1, len(sequel) // 2 + 1):
            pattern = sequel[:length]
            count = 1
            while sequel[count * length : (count + 1) * length] == pattern:
                count += 1
            if count > 1 and count * length > times * len(best):
                best, times = pattern, count
        parts.append((best, times))
        sequel = sequel[times * len(best) :]
    return parts
