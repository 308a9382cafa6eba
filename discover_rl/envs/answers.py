"""What environments answer, as numbers that can be learned from; a sentence where it cannot be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discover_rl.envs.observations import flatten

LARGEST = float(np.finfo(np.float32).max)
"""The largest number that single precision has."""


class WrongAnswer(Exception):
    """An environment's answer that nothing can be learned from; the message says why."""


def number(reward: Any) -> float:
    """A reward as a number.

    Raises:
        WrongAnswer: it is none, or too large for single precision.
    """
    if isinstance(reward, np.ndarray) and reward.ndim:
        raise WrongAnswer(f"the reward has the shape {reward.shape}, and must be one number")
    try:
        value = float(reward)
    except (TypeError, ValueError):
        raise WrongAnswer(f"the reward is {reward!r}, and must be one number") from None
    if abs(value) > LARGEST and math.isfinite(value):
        raise WrongAnswer(f"the reward {value:g} is too large for single precision")
    return value


def flat(obs: Any, size: int) -> np.ndarray:
    """An observation as one array (size,), in the precision it has.

    Raises:
        WrongAnswer: it has another size than its space.
    """
    found = flatten(obs)
    if found.size != size:
        raise WrongAnswer(f"the observation has {found.size} numbers, and its space has {size}")
    return found


def single(found: np.ndarray) -> np.ndarray:
    """An observation in single precision.

    Raises:
        WrongAnswer: a number is too large for that.
    """
    if found.dtype == np.float32:
        return found
    try:
        with np.errstate(over="raise"):
            return found.astype(np.float32)
    except FloatingPointError:
        largest = np.abs(found[np.isfinite(found)]).max()
        message = f"the observation {largest:g} is too large for single precision"
        raise WrongAnswer(message) from None
    except (TypeError, ValueError):
        raise WrongAnswer(f"the observation is no array of numbers, but {found.dtype}") from None
