"""Random numbers from (lane's seed, step, stream) alone."""

from __future__ import annotations

import enum
from typing import Any

from jax import random

from discover_rl.types import Array


class Stream(enum.IntEnum):
    """What random numbers are for. Each has a stream of its own, so that none moves another."""

    INIT = 0
    BEGIN = 1
    ACT = 2
    LEARN = 3
    REPORT = 4


def streams(seed: Array, step: Array | int) -> Any:
    """A lane's keys at a step, one for each Stream."""
    return random.split(random.fold_in(random.key(seed), step), len(Stream))
