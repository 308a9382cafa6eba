"""White or pink noise that a strategy adds to a shift of its own.

    ã = clip(a + the strategy's shift + σ ε), ε as in gaussian.py or pink.py

σ is in half-ranges of the action box, one value per lane. During warm-up nothing is added.
"""

from __future__ import annotations

from typing import Any

from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Array, Key, Nudge, Spec
from discover_rl.strategies import gaussian, pink
from discover_rl.strategies.interface import Acting, Blueprint, StrategyModule, View

COLOURS: dict[str, StrategyModule] = {"white": gaussian, "pink": pink}
"""The strategies whose noise is added, by the colour that a setting names."""
NOISE: dict[str, Any] = {
    "sentence": "The noise on top.",
    "choices": tuple(COLOURS),
    "omit_default": True,
}
"""The arguments of `setting` for a strategy's choice among them, `noise`."""


def make(colour: str, spec: Spec, blueprint: Blueprint) -> Acting:
    """Return how the noise begins, is drawn, and nudges.

    Args:
        colour: "white" or "pink".
        spec: the spaces of the task.
        blueprint: what is known of the algorithm.

    Returns:
        Functions that take σ, an `Amplitude`, in place of a strategy's state.
    """
    source = COLOURS[colour]
    plain = blueprint._replace(samples=False)  # pink noise would replace a policy's own
    acting = source.make(spec, source.Hyper(), plain).acting

    def begin(sigma: Amplitude, view: View, key: Key) -> Any:
        return acting.begin(source.Hyper(sigma=sigma), view, key)

    def behave(
        sigma: Amplitude, memory: Any, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Any, Nudge]:
        return acting.behave(source.Hyper(sigma=sigma), memory, view, obs, noise, warmup)

    return Acting(begin=begin, draw=acting.draw, behave=behave)
