"""Check the answers of environments and convert them to numbers; explain why one is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from discover_rl.envs.observations import flatten

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
LARGEST = float(np.finfo(SINGLE).max)
"""The largest number that single precision has."""
FLOATS = (float, np.float64)
"""The types of most rewards."""


class WrongAnswer(Exception):
    """An environment gave an answer that cannot be learned from; the message says why."""


def number(reward: Any) -> float:
    """Convert a reward to a Python number.

    Raises:
        WrongAnswer: it is not a number, or too large for single precision.
    """
    if type(reward) in FLOATS and -LARGEST <= reward <= LARGEST:  # as most are
        return float(reward)
    if isinstance(reward, np.ndarray) and reward.ndim:
        raise WrongAnswer(f"the reward has the shape {reward.shape}, and must be one number")
    try:
        value = float(reward)
    except OverflowError:  # of a whole number, which may have any length
        raise WrongAnswer("the reward is too large for single precision") from None
    except (TypeError, ValueError):
        raise WrongAnswer(f"the reward is {reward!r}, and must be one number") from None
    if abs(value) > LARGEST and math.isfinite(value):
        raise WrongAnswer(f"the reward {value:g} is too large for single precision")
    return value


def begun(answer: Any) -> Any:
    """Return the observation of what `reset` returned.

    Raises:
        WrongAnswer: it is not two values.
    """
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise WrongAnswer(f"reset returned {_amount(answer)}, and must return (observation, info)")
    return answer[0]


def stepped(answer: Any) -> tuple[Any, float, bool, bool, Any]:
    """Return what `step` returned, with a reward that is a number and ends that are booleans.

    Raises:
        WrongAnswer: it is not five values, or one of these three is not of its kind.
    """
    if not isinstance(answer, tuple) or len(answer) != 5:
        parts = "(observation, reward, terminated, truncated, info)"
        raise WrongAnswer(f"step returned {_amount(answer)}, and must return {parts}")
    obs, reward, done, limit, info = answer
    if type(done) is not bool:
        done = _flag("terminated", done)
    if type(limit) is not bool:
        limit = _flag("truncated", limit)
    return obs, number(reward), done, limit, info


def _amount(answer: Any) -> str:
    kind = type(answer).__name__
    return f"{len(answer)} values" if isinstance(answer, tuple) else f"one value ({kind})"


def _flag(name: str, value: Any) -> bool:
    try:
        return bool(value)
    except ValueError:
        raise WrongAnswer(f"{name} has the shape {np.shape(value)}, and must be one bool") from None


def shape_of(space: gymnasium.Space) -> Any:
    """Return the shape of a Box; for a Dict or Tuple, a dict or list of its parts' shapes.

    >>> shape_of(spaces.Dict(x=spaces.Box(0, 1, (2,)), y=spaces.Tuple([spaces.Box(0, 1, ())])))
    {'x': (2,), 'y': [()]}
    """
    if isinstance(space, spaces.Dict):
        return {key: shape_of(part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return list(map(shape_of, space.spaces))
    return space.shape


def flat(obs: Any, shape: Any) -> np.ndarray:
    """Flatten an observation to one array (n,) of the same precision.

    Args:
        obs: the observation.
        shape: of its space, as `shape_of` gives it.

    Raises:
        WrongAnswer: its shape differs from that of its space.
    """
    if getattr(obs, "shape", None) != shape:  # a Dict, a Tuple, a list, or wrong
        _check_shape(obs, shape, "")
    return flatten(obs)


def _check_shape(obs: Any, shape: Any, place: str) -> None:
    """Raise WrongAnswer if an observation, or its part at a place, differs from its space."""
    name = f"the observation{place}"
    if isinstance(shape, dict):
        if not isinstance(obs, Mapping) or set(obs) != set(shape):
            parts = sorted(obs, key=str) if isinstance(obs, Mapping) else type(obs).__name__
            raise WrongAnswer(f"{name} has the parts {sorted(shape)} by its space, not {parts}")
        for key, inner in shape.items():
            _check_shape(obs[key], inner, f"{place}[{key!r}]")
    elif isinstance(shape, list):
        parts = len(obs) if isinstance(obs, tuple) else type(obs).__name__
        if parts != len(shape):
            raise WrongAnswer(f"{name} is a tuple of {len(shape)} by its space, not {parts}")
        for i, inner in enumerate(shape):
            _check_shape(obs[i], inner, f"{place}[{i}]")
    elif obs is None:
        raise WrongAnswer(f"{name} is None, and its space has the shape {shape}")
    elif np.shape(obs) != shape:
        found = np.shape(obs)
        raise WrongAnswer(f"{name} has the shape {found}, and its space has {shape}")


def single(found: np.ndarray) -> np.ndarray:
    """Convert an observation to single precision.

    Raises:
        WrongAnswer: a number is too large for that.
    """
    if found.dtype == SINGLE:
        return found
    # A sum of squares takes less time than `errstate`, and no number is larger than its root.
    if found.dtype == DOUBLE and np.vdot(found, found) <= LARGEST**2:
        return found.astype(SINGLE)
    try:
        if found.dtype.kind == "c":
            raise TypeError
        with np.errstate(over="raise"):
            return found.astype(SINGLE)
    except FloatingPointError:
        largest = np.abs(found[np.isfinite(found)]).max()
        message = f"the observation {largest:g} is too large for single precision"
        raise WrongAnswer(message) from None
    except (TypeError, ValueError):
        raise WrongAnswer(f"the observation is no array of numbers, but {found.dtype}") from None
