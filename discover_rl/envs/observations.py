"""Observations of any structure as one flat array of numbers.

Parts of a Dict come in the alphabetical order of their keys, parts of a Tuple in its order, each
part flat, in every backend. That is the order of `gymnasium.spaces.flatten`, unless a space keeps
the order in which it was given its keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def flatten(obs: Any) -> np.ndarray:
    """Flatten an observation to one array (n,) of the same precision.

    >>> flatten({"velocity": [3.0], "position": [[1.0, 2.0]]})
    array([1., 2., 3.])
    """
    if isinstance(obs, np.ndarray):  # first, because most are, and a Mapping takes longer to tell
        return obs.ravel()
    if isinstance(obs, Mapping):
        return np.concatenate([flatten(obs[key]) for key in sorted(obs)])
    if isinstance(obs, tuple):
        return np.concatenate([flatten(part) for part in obs])
    return np.ravel(obs)
