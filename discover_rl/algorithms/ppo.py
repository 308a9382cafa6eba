"""Proximal policy optimisation (Schulman et al., 2017), with room for a strategy.

    policy:  ρ = π(a|s) / π_old(a|s);  ascend min(ρ A, clip(ρ, 1 ± ε) A), A normalised  policy_loss
    value:   descend ½ max((V − R̂)², (V_old + clip(V − V_old, ± ε) − R̂)²)              value_loss

What surrounds this is in onpolicy.py.
"""

from __future__ import annotations

import jax.numpy as jnp
import optax

from discover_rl.algorithms import onpolicy
from discover_rl.algorithms.onpolicy import Core, Sample, blueprint
from discover_rl.hyper import hyper, setting
from discover_rl.interfaces import OnPolicy, Strategy
from discover_rl.types import Array, Optimiser, Spec

__all__ = ["Hyper", "blueprint", "make"]


@hyper
class Hyper(onpolicy.Hyper):
    lr_decay = 1.0
    clip: float = setting(0.2, "ε: how far ratios and values may move before they are cut.", low=0)
    clip_value: bool = setting(True, "Cut how far values move.")


def policy_loss(log_prob: Array, sample: Sample, hp: Hyper) -> Array:
    ratio = jnp.exp(log_prob - sample.log_prob)
    cut = jnp.clip(ratio, 1.0 - hp.clip, 1.0 + hp.clip)
    return -jnp.minimum(ratio * sample.advantage, cut * sample.advantage).mean()


def value_loss(value: Array, sample: Sample, hp: Hyper) -> Array:
    error = (value - sample.target) ** 2
    if hp.clip_value:
        near = sample.value + jnp.clip(value - sample.value, -hp.clip, hp.clip)
        error = jnp.maximum(error, (near - sample.target) ** 2)
    return 0.5 * error.mean()


def optimiser(hp: Hyper) -> Optimiser:
    return optax.adam(hp.actor_lr, eps=1e-5)


def make(spec: Spec, settings: Hyper, strategy: Strategy) -> OnPolicy:
    parts = Core(policy_loss, value_loss, optimiser, normalise_advantages=True)
    return onpolicy.make(spec, settings, strategy, parts)
