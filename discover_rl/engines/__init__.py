"""Where cohorts are trained: `local`, in processes of this machine; `ray`, on a cluster.

An engine has one function, `run(jobs, hear, stopping, patience, …)`: it trains the cohorts, as many
at once as there are places for, tells of what happens in which of them, and returns what became of
each: None, or why it did not come to its end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from discover_rl import machine
from discover_rl.jobs import CHECKPOINT_SECONDS, Job
from discover_rl.types import UserError

Hear = Callable[[int, str, tuple[Any, ...]], None]
"""Is told the job's number, an observer's method and what to call it with; at last "ended", with
what became of it."""
Outcome = Exception | None


def choose(
    name: str,
    address: str | None = None,
    processes: int = 0,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Callable[[Sequence[Job], Hear, Callable[[], bool], float], list[Outcome]]:
    """The engine of this name; it trains so many cohorts at once; 0: as many as pay."""
    if name == "ray":
        from discover_rl.engines import ray

        return functools.partial(
            ray.run, address=address, processes=processes, checkpoint_seconds=checkpoint_seconds
        )
    if name != "local":
        raise UserError(f"There is no engine {name}. There are local and ray.")
    if address:
        raise UserError("--address is for --engine ray.")
    from discover_rl.engines import local

    return functools.partial(
        local.run, places=places(processes), checkpoint_seconds=checkpoint_seconds
    )


def places(processes: int = 0) -> dict[str, int]:
    """How many cohorts pay at once on this machine. Beside a GPU's, whose environments take their
    cores too, half of the cores are left to others."""
    others = machine.cores() // (2 if machine.accelerated() else 1)
    return {"cpu": processes or max(1, others), "gpu": processes or 1}
