"""What must stay finite, and what it is called when it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from discover_rl.types import Array, Losses, Seen

WATCHED = ("observation", "reward", *(f"{name}_loss" for name in Losses._fields), "action")
"""In the order in which they would go bad. Elsewhere each is its index here; −1: all is well."""


class Bad(NamedTuple):
    """A lane that cannot go on: after `step` steps this quantity is not finite."""

    lane: int
    quantity: str
    step: int


def broken(seen: Seen, lanes: int, step: int) -> list[Bad]:
    """The first answers since `step` that are not finite; `seen` is (steps, environments, …)."""
    observed = np.isfinite(seen.next_obs) & np.isfinite(seen.obs)
    fine = {"observation": observed.all(axis=2), "reward": np.isfinite(seen.reward)}
    bad = []
    for name, each in fine.items():
        # Answers count in the order of a lane's environments, step by step.
        rows = each.reshape(len(each), lanes, -1).swapaxes(0, 1).reshape(lanes, -1)
        spoilt = np.flatnonzero(~rows.all(axis=1)).tolist()
        bad += [Bad(lane, name, step + 1 + int(rows[lane].argmin())) for lane in spoilt]
    return bad


def first_bad(watched: Mapping[str, Any], otherwise: Any = -1) -> Array:
    """Which of these is the first that is not finite."""
    bad = jnp.asarray(otherwise, jnp.int32)
    for name, value in reversed(list(watched.items())):
        bad = jnp.where(jnp.isfinite(jnp.asarray(value)).all(), bad, WATCHED.index(name))
    return bad


def bad_loss(losses: Losses) -> Array:
    return first_bad({f"{name}_loss": value for name, value in losses._asdict().items()})
