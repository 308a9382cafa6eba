"""What must stay finite, and what it is called when it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from discover_rl.types import Array, Losses

WATCHED = ("observation", "reward", *(f"{name}_loss" for name in Losses._fields), "action")
"""In the order in which they would go bad. Elsewhere each is its index here; −1: all is well."""


class Bad(NamedTuple):
    """A lane that cannot go on: after `step` steps this quantity is not finite."""

    lane: int
    quantity: str
    step: int


def broken(lane: int, step: int, seen: list) -> list[Bad]:
    """The first answer since `step` that is not finite, if there is one."""
    if not seen:
        return []
    reward, _, _, next_obs, obs = zip(*seen, strict=True)
    observed = np.isfinite(np.stack(next_obs)) & np.isfinite(np.stack(obs))
    fine = {"observation": observed.all(axis=1), "reward": np.isfinite(reward)}
    bad = [
        Bad(lane, name, step + 1 + int(it.argmin())) for name, it in fine.items() if not it.all()
    ]
    return sorted(bad, key=lambda it: it.step)[:1]


def first_bad(watched: Mapping[str, Any], otherwise: Any = -1) -> Array:
    """Which of these is the first that is not finite."""
    bad = jnp.asarray(otherwise, jnp.int32)
    for name, value in reversed(list(watched.items())):
        bad = jnp.where(jnp.isfinite(jnp.asarray(value)).all(), bad, WATCHED.index(name))
    return bad


def bad_loss(losses: Losses) -> Array:
    return first_bad({f"{name}_loss": value for name, value in losses._asdict().items()})
