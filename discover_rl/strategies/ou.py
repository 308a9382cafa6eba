"""Ornstein–Uhlenbeck noise on the action: ã = clip(a + n), n a process with a memory.

    n ← n − θ n dt + σ √dt ε,  ε ~ N(0, I);  n = 0 where an episode starts

σ is in half-ranges of the action box. During warm-up actions are uniform already: nothing is added,
and the process rests. Critic targets are the algorithm's own.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import random

from discover_rl.hyper import hyper, setting
from discover_rl.interfaces import Blueprint, Strategy, View
from discover_rl.types import Array, Nudge, Spec


@hyper
class Hyper:
    sigma: float = setting(0.2, "Size of the random push, in half-ranges.", low=0)
    theta: float = setting(0.15, "How strongly the process is drawn back to 0.", low=0)
    dt: float = setting(1.0, "Time that one step takes.", above=0)


def make(spec: Spec, hp: Hyper, blueprint: Blueprint) -> Strategy:
    del hp, blueprint

    def init(key: Any, hp: Hyper, view: View) -> Hyper:
        del key, view
        return hp

    def begin(hp: Hyper, view: View, key: Any) -> Array:
        del hp, view, key
        return jnp.zeros((1, spec.action_size))

    def draw(key: Any) -> Array:
        return random.normal(key, (1, spec.action_size))

    def behave(
        hp: Hyper, now: Array, view: View, obs: Array, noise: Array, warmup: Any
    ) -> tuple[Array, Nudge]:
        del obs
        drawn_back = now - hp.theta * hp.dt * now
        moved = (drawn_back + hp.sigma * hp.dt**0.5 * noise) * (1 - warmup)
        return moved, Nudge(view.params["net"], shift=moved)

    return Strategy(init=init, begin=begin, draw=draw, behave=behave)
