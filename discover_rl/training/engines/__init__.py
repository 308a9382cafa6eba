"""Engines: where cohorts are trained. `local` uses processes of this machine, `ray` a cluster.

An engine has one function, `run(jobs, hear, stopping, patience, …)`. It trains the cohorts, as many
at once as there are places for, passes on the events of each, and returns what became of each:
None, or why it did not come to its end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from discover_rl.core.types import UserError
from discover_rl.system import hardware
from discover_rl.training.events import Event
from discover_rl.training.job import CHECKPOINT_SECONDS, Job
from discover_rl.training.observers.base import Answer

Hear = Callable[[int, Event], Answer]
"""Is given a job's number and an event, at last `Ended`; answers as an observer does."""
Outcome = Exception | None


def choose(
    name: str,
    address: str | None = None,
    processes: int = 0,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    on_gpu: int = 1,
) -> Callable[[Sequence[Job], Hear, Callable[[], bool], float], list[Outcome]]:
    """The engine of this name.

    Args:
        name: "local" or "ray".
        address: of a Ray cluster.
        processes: how many cohorts are trained at once; 0: as many as are faster.
        checkpoint_seconds: time between checkpoints.
        on_gpu: how many are trained at once on a GPU of this machine, if `processes` is 0.
    """
    check(name, address)
    if name == "ray":
        from discover_rl.training.engines import ray

        return functools.partial(
            ray.run, address=address, processes=processes, checkpoint_seconds=checkpoint_seconds
        )
    from discover_rl.training.engines import local

    return functools.partial(
        local.run, places=places(processes, on_gpu), checkpoint_seconds=checkpoint_seconds
    )


def check(name: str, address: str | None) -> None:
    """Raise a UserError unless there is an engine of this name, which takes this address."""
    if name not in ("local", "ray"):
        raise UserError(f"There is no engine {name}. There are local and ray.")
    if address and name == "local":
        raise UserError("--address is for --engine ray.")


def places(processes: int = 0, on_gpu: int = 1) -> dict[str, int]:
    """How many cohorts are trained at once on this machine, on the CPU and on the GPU.

    Beside those of a GPU, whose environments take cores too, half of the cores are left to others.

    Args:
        processes: how many on either; 0: as many as are faster.
        on_gpu: how many are faster on the GPU.
    """
    others = hardware.cores() // (2 if hardware.accelerated() else 1)
    return {"cpu": processes or max(1, others), "gpu": processes or on_gpu}
