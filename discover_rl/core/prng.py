"""Random numbers from (seed, step, stream) alone: there is no generator to save or to lose."""

from __future__ import annotations

import enum
from typing import Any

from jax import random

from discover_rl.core.types import Array


class Stream(enum.IntEnum):
    """The purposes of random numbers. Drawing more in one stream never changes another."""

    INIT = 0
    BEGIN = 1
    ACT = 2
    LEARN = 3
    REPORT = 4


def streams(seed: Array, step: Array | int) -> Any:
    """The keys of a lane at a step, (len(Stream),), one for each stream."""
    return random.split(random.fold_in(random.key(seed), step), len(Stream))
