"""Ornstein–Uhlenbeck noise on the action: ã = clip(a + n), n a process with a memory.

    n ← n − θ n dt + σ √dt ε,  ε ~ N(0, I);  n = 0 where an episode starts

σ is in half-ranges of the action box. During warm-up actions are uniform already: nothing is added,
and n stays 0. Critic targets are the algorithm's own.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import random

from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Array, Key, Nudge, Spec
from discover_rl.strategies.interface import Acting, Blueprint, Strategy, View


@hyper
class Hyper:
    """Hyper-parameters of Ornstein–Uhlenbeck noise."""

    sigma: Amplitude = setting(0.2, "Size of the random push, in half-ranges.", low=0, high=100)
    theta: float = setting(0.15, "How strongly the process is drawn back to 0.", low=0, high=100)
    dt: float = setting(1.0, "Time that one step takes.", above=0, high=100)


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """Ornstein–Uhlenbeck noise on actions of these spaces; the memory is n, (1, action)."""
    del settings, blueprint

    def begin(state: Hyper, view: View, key: Key) -> Array:
        del state, view, key
        return jnp.zeros((1, spec.action_size))

    def draw(key: Key) -> Array:
        return random.normal(key, (1, spec.action_size))

    def behave(
        state: Hyper, memory: Array, view: View, obs: Array, noise: Array, warmup: Any
    ) -> tuple[Array, Nudge]:
        del obs
        drawn_back = memory - state.theta * state.dt * memory
        moved = (drawn_back + state.sigma.at(view.progress) * state.dt**0.5 * noise) * (1 - warmup)
        return moved, Nudge(view.net, shift=moved)

    return Strategy(acting=Acting(begin=begin, draw=draw, behave=behave))
