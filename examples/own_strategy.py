"""Explore in a way of your own, outside the package: every action is pushed to the right.

python examples/own_strategy.py
"""

from typing import Any

import discover_rl
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.types import Nudge, Spec
from discover_rl.strategies import Acting, Blueprint, Strategy


@hyper
class Hyper:
    """Hyper-parameters of a constant push."""

    size: float = setting(0.1, "How large it is, in half-ranges.", low=0)


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """The strategy on tasks with these spaces."""
    del spec, settings, blueprint

    def behave(state: Any, memory: Any, view: Any, obs: Any, noise: Any, warmup: Any) -> Any:
        # During warm-up actions are random already.
        return memory, Nudge(view.net, shift=state.size * (1 - warmup))

    return Strategy(acting=Acting(behave=behave))


# Outside of `main`, so that processes which import this file know it, too.
discover_rl.register_strategy("push", __name__, "a constant push of the action")


def main(steps: int = 3000, out: str = "runs/push") -> None:
    """Train two runs with pushes of different sizes, side by side."""
    sizes: dict[str, Any] = {"strategy.size": [0.1, 0.3]}
    for result in discover_rl.train(
        "Pendulum-v1", strategy="push", steps=steps, out=out, hidden=(32, 32), **sizes
    ):
        print(result)


if __name__ == "__main__":
    main()
