"""Twin Delayed DDPG (Fujimoto, van Hoof & Meger, 2018), with room for a strategy.

    act:      a = π(s)
    critics:  ã′ = clip(π′(s′) + smoothing or the strategy's shift)                  target
              y = r + γ (1 − d) min over i of Q′ᵢ(s′, ã′)
              descend Σᵢ (y − Qᵢ(s, ã))²
    every `delay` updates
    actor:    ascend Q₁(s, π(s))                                                 actor_loss
    targets:  those of actor, critics and strategy follow

What surrounds this is in off_policy.py.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from discover_rl.algorithms import off_policy, off_policy_parts
from discover_rl.algorithms.interface import OffPolicyAlgorithm
from discover_rl.algorithms.off_policy_parts import Parts, State, blueprint, clip, policy
from discover_rl.core import networks
from discover_rl.core.equations import td_target
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.types import Array, Batch, Key, Net, Nudge, Spec
from discover_rl.strategies.interface import Strategy

__all__ = ["Hyper", "blueprint", "make"]


@hyper
class Hyper(off_policy_parts.Hyper):
    """Hyper-parameters of TD3."""

    smoothing: float = setting(
        0.2, "Std of the noise on target actions, in half-ranges.", low=0, high=100
    )
    smoothing_clip: float = setting(
        0.5, "Largest noise on target actions, in half-ranges.", low=0, high=100
    )
    delay: int = setting(
        2, "Critic updates per update of actor and targets.", low=1, high=1_000_000
    )


def smoothing_noise(key: Key, shape: tuple[int, ...], hp: Hyper) -> Array:
    """The clipped noise on target actions, of this shape."""
    return jnp.clip(hp.smoothing * random.normal(key, shape), -hp.smoothing_clip, hp.smoothing_clip)


def lowest_target(critics: Net, next_action: Array, batch: Batch, gamma: Any) -> Array:
    """y = r + γ (1 − d) min Q′ᵢ(s′, ã′); (n,)."""
    value = networks.q_value(critics, batch.next_obs, next_action).min(axis=0)
    return td_target(batch.reward, batch.terminated, value, gamma)


def make(spec: Spec, settings: Hyper, strategy: Strategy) -> OffPolicyAlgorithm:
    """TD3 on tasks with these spaces, exploring by this strategy."""

    def target(state: State, nudge: Nudge, batch: Batch, key: Key) -> Array:
        action = policy(nudge, batch.next_obs)
        if not strategy.learning.replaces_smoothing:
            action += smoothing_noise(key, action.shape, state.hyper)
        return lowest_target(state.target_critics, clip(action), batch, state.hyper.gamma)

    def actor_loss(state: State, nudge: Nudge, obs: Array, key: Key) -> tuple[Array, Any]:
        del key
        first = jax.tree.map(lambda leaf: leaf[0], state.critics)
        return -networks.q_value(first, obs, policy(nudge, obs)).mean(), ()

    parts = Parts(
        critic=off_policy_parts.critic(spec, settings),
        target=target,
        actor_loss=actor_loss,
        normalise=settings.normalise,
        actor_every=settings.delay,
        targets_every=settings.delay,
    )
    return off_policy.make(spec, settings, strategy, parts)
