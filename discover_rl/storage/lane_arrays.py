"""Name the arrays of a state lane by lane, check that runs can go on from them, and write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors.numpy

from discover_rl.config import Run
from discover_rl.envs.vector import Episode
from discover_rl.storage import files, manifests

ACTIONS = "episode.actions"
"""The array of the running episodes' actions, one after the other."""


def named(tree: Any) -> dict[str, Any]:
    """Return a pytree's leaves by their paths, such as 'learner.actor.net.head.weight'."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def of_lanes(state: Any, lanes: Sequence[int]) -> dict[int, dict[str, np.ndarray]]:
    """Return the arrays of some lanes, by lane and by name.

    Args:
        state: on the host, lanes in front.
        lanes: which of them.
    """
    return {i: named(jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), state)) for i in lanes}


def first_unsound(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the name of the first of a lane's arrays that is not sound; '' if all are.

    >>> first_unsound({"weight": np.ones(2), "bias": np.array([0.0, np.nan])})
    'bias'
    """
    return next((name for name, leaf in arrays.items() if not _is_sound(name, leaf)), "")


def _is_sound(name: str, leaf: np.ndarray) -> bool:
    """Whether a state is finite. An optimiser's moments may overflow: that stops learning, but the
    run can be resumed exactly."""
    return bool(np.isfinite(leaf).all() or ("optimiser" in name and not np.isnan(leaf).any()))


def write(
    path: Path,
    run: Run,
    step: int,
    arrays: Mapping[str, np.ndarray],
    episodes: Sequence[Episode],
) -> dict[str, Any]:
    """Write a lane's file; return its entry in a manifest, without the replay buffer.

    Args:
        path: of the file.
        run: of the lane.
        step: environment steps made.
        arrays: of the lane's state, by name.
        episodes: the running ones, one per environment.
    """
    written = {**arrays, ACTIONS: np.concatenate([it.actions for it in episodes])}
    return {
        "name": run.name,
        "run": run.to_json(),
        "step": step,
        "alive": True,
        "file": manifests.file_of(run.name),
        "checksum": files.write(path, safetensors.numpy.save(written)),
        "episodes": [
            {
                "number": it.number,
                "steps": len(it.actions),
                "digest": it.digest,
                "before": list(it.before),
            }
            for it in episodes
        ],
        "replay": [],
    }
