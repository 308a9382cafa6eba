"""Twin Delayed DDPG (Fujimoto, van Hoof & Meger, 2018), with room for a strategy.

    act:      a = π(s)
    critics:  ã′ = clip(π′(s′) + smoothing or the strategy's shift)                  target
              y = r + γ (1 − d) min over i of Q′ᵢ(s′, ã′)
              descend Σᵢ (y − Qᵢ(s, ã))²
    every `delay` updates
    actor:    ascend Q₁(s, π(s))                                                 actor_loss
    targets:  actor, critics and the strategy's own follow

What surrounds this is in offpolicy.py.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from discover_rl import networks
from discover_rl.algorithms import core, offpolicy
from discover_rl.algorithms.core import Core, State, blueprint, clip, policy
from discover_rl.equations import td_target
from discover_rl.hyper import hyper, setting
from discover_rl.interfaces import Algorithm, Strategy
from discover_rl.types import Array, Batch, Net, Nudge, Spec

__all__ = ["Hyper", "blueprint", "make"]


@hyper
class Hyper(core.Hyper):
    smoothing: float = setting(0.2, "Std of the noise on target actions, in half-ranges.", low=0)
    smoothing_clip: float = setting(0.5, "Largest noise on target actions, in half-ranges.", low=0)
    delay: int = setting(2, "Critic updates per update of actor and targets.", low=1)


def smoothing_noise(key: Any, shape: tuple[int, ...], hp: Hyper) -> Array:
    return jnp.clip(hp.smoothing * random.normal(key, shape), -hp.smoothing_clip, hp.smoothing_clip)


def lowest_target(critics: Net, next_action: Array, batch: Batch, gamma: Any) -> Array:
    """y = r + γ (1 − d) min Q′ᵢ(s′, ã′); (n,)."""
    value = networks.q_value(critics, batch.next_obs, next_action).min(axis=0)
    return td_target(batch.reward, batch.terminated, value, gamma)


def make(spec: Spec, settings: Hyper, strategy: Strategy) -> Algorithm:
    def target(state: State, nudge: Nudge, batch: Batch, key: Any) -> Array:
        action = policy(nudge, batch.next_obs)
        if not strategy.smooths:
            action += smoothing_noise(key, action.shape, state.hyper)
        return lowest_target(state.target_critics, clip(action), batch, state.hyper.gamma)

    def actor_loss(state: State, nudge: Nudge, obs: Array, key: Any) -> tuple[Array, Any]:
        del key
        first = jax.tree.map(lambda leaf: leaf[0], state.critics)
        return -networks.q_value(first, obs, policy(nudge, obs)).mean(), ()

    parts = Core(
        core.critic(spec, settings),
        target,
        actor_loss,
        actor_every=settings.delay,
        targets_every=settings.delay,
    )
    return offpolicy.make(spec, settings, strategy, parts)
