"""Check that training stays finite, and name the first quantity that does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from discover_rl.core.types import Array, Losses, Transition

QUANTITIES = ("observation", "reward", *(f"{name}_loss" for name in Losses._fields), "action")
"""The quantities that are checked, in the order in which they would go bad.

Programs on the device return an index into this tuple; −1 means that everything is finite."""


class Divergence(NamedTuple):
    """Why a lane cannot continue: after `step` steps this quantity is not finite."""

    lane: int
    quantity: str
    step: int


def divergences(transitions: Transition, lanes: int, step: int) -> list[Divergence]:
    """Find the first observation and the first reward of each lane that are not finite.

    Args:
        transitions: (steps, environments, …), a lane's environments one after the other.
        lanes: how many there are.
        step: environment steps that a lane had made before them.
    """
    observed = np.isfinite(transitions.next_obs) & np.isfinite(transitions.obs)
    fine = {"observation": observed.all(axis=2), "reward": np.isfinite(transitions.reward)}
    found = []
    for name, each in fine.items():
        # A lane counts the steps of its environments in their order, step after step.
        rows = each.reshape(len(each), lanes, -1).swapaxes(0, 1).reshape(lanes, -1)
        for lane in np.flatnonzero(~rows.all(axis=1)).tolist():
            found.append(Divergence(lane, name, step + 1 + int(rows[lane].argmin())))
    return found


def first_bad(quantities: Mapping[str, Any], otherwise: Any = -1) -> Array:
    """Return the index in `QUANTITIES` of the first value that is not finite, else `otherwise`."""
    bad = jnp.asarray(otherwise, jnp.int32)
    for name, value in reversed(list(quantities.items())):
        bad = jnp.where(jnp.isfinite(jnp.asarray(value)).all(), bad, QUANTITIES.index(name))
    return bad


def bad_loss(losses: Losses) -> Array:
    """Return the index in `QUANTITIES` of the first loss that is not finite, else −1."""
    return first_bad({f"{name}_loss": value for name, value in losses._asdict().items()})
