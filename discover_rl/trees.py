"""Trees of arrays with lanes in front: put together from one per lane, and taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np


def stack(trees: Sequence[Any]) -> Any:
    """Trees of numbers, one per lane, as one tree of float32 arrays with lanes in front."""
    return jax.tree.map(lambda *leaves: np.asarray(leaves, np.float32), *trees)


def stacked(trees: Sequence[Any]) -> Any:
    """Trees of arrays, one per lane, as one with lanes in front, on the host."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def lane_of(tree: Any, lane: int) -> Any:
    """One lane of a tree, as views; of a memory, one environment."""
    return jax.tree.map(lambda leaf: leaf[lane, ...], tree)
