"""Proximal policy optimisation (Schulman et al., 2017), with room for a strategy.

    policy:  ρ = π(a|s) / π_old(a|s);  ascend min(ρ A, clip(ρ, 1 ± ε) A), A normalised  policy_loss
    value:   descend ½ max((V − R̂)², (V_old + clip(V − V_old, ± ε) − R̂)²)              value_loss

What surrounds this is in on_policy.py.
"""

from __future__ import annotations

import jax.numpy as jnp
import optax

from discover_rl.algorithms import on_policy, on_policy_parts
from discover_rl.algorithms.interface import OnPolicyAlgorithm
from discover_rl.algorithms.likelihood import Sample
from discover_rl.algorithms.on_policy_parts import Parts, blueprint
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.types import Array, Optimiser, Spec
from discover_rl.strategies.interface import Strategy

__all__ = ["Hyper", "blueprint", "make"]


@hyper
class Hyper(on_policy_parts.Hyper):
    """Hyper-parameters of PPO."""

    lr_decay = 1.0
    normalise_advantages = "rollout"
    clip: float = setting(
        0.2, "ε: how far ratios and values may move before they are cut.", low=0, high=10**9
    )
    clip_value: bool = setting(True, "Cut how far values move.")


def policy_loss(log_prob: Array, sample: Sample, hp: Hyper) -> Array:
    """The clipped surrogate loss, mean over the samples."""
    ratio = jnp.exp(log_prob - sample.log_prob)
    cut = jnp.clip(ratio, 1.0 - hp.clip, 1.0 + hp.clip)
    return -jnp.minimum(ratio * sample.advantage, cut * sample.advantage).mean()


def value_loss(value: Array, sample: Sample, hp: Hyper) -> Array:
    """The value's loss, clipped if `clip_value`, mean over the samples."""
    error = (value - sample.target) ** 2
    if hp.clip_value:
        near = sample.value + jnp.clip(value - sample.value, -hp.clip, hp.clip)
        error = jnp.maximum(error, (near - sample.target) ** 2)
    return 0.5 * error.mean()


def clip_fraction(ratio: Array, hp: Hyper) -> dict[str, Array]:
    """Return the share of actions whose ratio ρ lies outside the clipping range."""
    return {"clip_fraction": (jnp.abs(ratio - 1.0) > hp.clip).mean()}


def optimiser(hp: Hyper) -> Optimiser:
    """Adam, with PPO's ε."""
    return optax.adam(hp.actor_lr, eps=1e-5)


def make(spec: Spec, settings: Hyper, strategy: Strategy) -> OnPolicyAlgorithm:
    """PPO on tasks with these spaces, exploring by this strategy."""
    parts = Parts(
        policy_loss=policy_loss,
        value_loss=value_loss,
        optimiser=optimiser,
        measure=clip_fraction,
    )
    return on_policy.make(spec, settings, strategy, parts)
