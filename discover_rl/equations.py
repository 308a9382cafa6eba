"""The equations that algorithms and strategies share."""

from __future__ import annotations

from typing import Any

import jax

from discover_rl.types import Array


def td_target(reward: Array, terminated: Array, next_value: Array, gamma: Any) -> Array:
    """y = r + γ (1 − d) V(s′); d is termination alone: after a truncation V(s′) still counts."""
    return reward + gamma * (1.0 - terminated) * next_value


def polyak(online: Any, target: Any, tau: Any) -> Any:
    """θ′ ← τ θ + (1 − τ) θ′, for whole trees."""
    return jax.tree.map(lambda new, old: tau * new + (1.0 - tau) * old, online, target)
