"""White Gaussian noise on the action: ã = clip(a + σ ε), a new ε ~ N(0, I) at every step.

σ is in half-ranges of the action box. During warm-up actions are uniform already and nothing is
added. Critic targets are the algorithm's own.
"""

from __future__ import annotations

from typing import Any

from jax import random

from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Array, Key, Nudge, Spec
from discover_rl.strategies.interface import Acting, Blueprint, Strategy, View


@hyper
class Hyper:
    """Hyper-parameters of white noise."""

    sigma: Amplitude = setting(
        0.1, "Standard deviation of the noise, in half-ranges.", low=0, high=100
    )


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """White noise on actions of these spaces; σ comes with the state, one value per lane."""
    del settings, blueprint

    def draw(key: Key) -> Array:
        return random.normal(key, (1, spec.action_size))

    def behave(
        state: Hyper, memory: Any, view: View, obs: Array, noise: Array, warmup: Any
    ) -> tuple[Any, Nudge]:
        del obs
        return memory, Nudge(view.net, shift=state.sigma.at(view.progress) * noise * (1 - warmup))

    return Strategy(acting=Acting(draw=draw, behave=behave))
