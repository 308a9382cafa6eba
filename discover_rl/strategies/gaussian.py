"""White Gaussian noise on the action: ã = clip(a + σ ε), ε ~ N(0, I) anew at every step.

σ is in half-ranges of the action box. During warm-up actions are uniform already and nothing is
added. Critic targets are the algorithm's own.
"""

from __future__ import annotations

from typing import Any

from jax import random

from discover_rl.hyper import hyper, setting
from discover_rl.interfaces import Blueprint, Strategy, View
from discover_rl.types import Array, Nudge, Spec


@hyper
class Hyper:
    sigma: float = setting(0.1, "Standard deviation of the noise, in half-ranges.", low=0)


def make(spec: Spec, hp: Hyper, blueprint: Blueprint) -> Strategy:
    del hp, blueprint

    def init(key: Any, hp: Hyper, view: View) -> Hyper:
        del key, view
        return hp

    def draw(key: Any) -> Array:
        return random.normal(key, (1, spec.action_size))

    def behave(
        hp: Hyper, memory: Any, view: View, obs: Array, noise: Array, warmup: Any
    ) -> tuple[Any, Nudge]:
        del obs
        return memory, Nudge(view.params["net"], shift=hp.sigma * noise * (1 - warmup))

    return Strategy(init=init, draw=draw, behave=behave)
