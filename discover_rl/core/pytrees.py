"""Pytrees with lanes in front: put together from one per lane, and taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np


def stack_floats(trees: Sequence[Any]) -> Any:
    """Stack pytrees of numbers, one per lane, into one of float32 arrays (lanes,).

    >>> stack_floats([{"gamma": 0.5}, {"gamma": 1.0}])
    {'gamma': array([0.5, 1. ], dtype=float32)}
    """
    return jax.tree.map(lambda *leaves: np.asarray(leaves, np.float32), *trees)


def stack(trees: Sequence[Any]) -> Any:
    """Stack pytrees of arrays, one per lane, into one with lanes in front, on the host."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def lane_of(tree: Any, lane: int) -> Any:
    """One lane of a pytree, as views."""
    return jax.tree.map(lambda leaf: leaf[lane, ...], tree)


def assign(tree: Any, where: Any, new: Any) -> None:
    """Write `new` into the NumPy arrays of a pytree, at the index `where`."""
    jax.tree.map(lambda whole, part: whole.__setitem__(where, part), tree, new)
