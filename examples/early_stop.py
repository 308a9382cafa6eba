"""Listen to training, and end each run when it is good enough.

python examples/early_stop.py
"""

from collections.abc import Sequence
from typing import Any, Literal

import discover_rl


class Enough(discover_rl.Observer):
    """Ends a run when the mean return of an evaluation is above a limit."""

    def __init__(self, limit: float):
        self.limit = limit
        self.ended: dict[str, int] = {}

    def evaluated(
        self, run: Any, step: int, returns: Sequence[float], report: Any
    ) -> Literal["stop"] | None:
        """Called after every evaluation, with a return for each of its episodes."""
        if step and sum(returns) / len(returns) > self.limit:
            self.ended[run.name] = step
            return "stop"
        return None


def main(limit: float = -300.0, steps: int = 8000, out: str = "runs/early") -> dict[str, int]:
    """Train two seeds, with progress on the terminal, and say when each was good enough."""
    enough = Enough(limit)
    discover_rl.train(
        "Pendulum-v1",
        steps=steps,
        seeds=2,
        out=out,
        observer=[None, enough],  # None is the progress on the terminal
        hidden=(32, 32),
        actor_lr=1e-3,
        critic_lr=1e-3,
        tau=0.02,
    )
    for name, step in enough.ended.items():
        print(f"{name} was good enough after {step:,} steps.")
    return enough.ended


if __name__ == "__main__":
    main()
