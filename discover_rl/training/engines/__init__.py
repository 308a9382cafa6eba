"""Engines: where cohorts are trained. `local` uses processes of this machine, `ray` a cluster, on
which `ray_tasks` runs.

An `Engine` is a function that trains cohorts, as many at once as there are places; `choose` returns
one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

from discover_rl.core.types import UserError
from discover_rl.system import hardware
from discover_rl.training.events import Event
from discover_rl.training.job import CHECKPOINT_SECONDS, Job
from discover_rl.training.observers.base import Answer

Outcome = Exception | None
"""How a job ended: with this error, or well."""


class OnEvent(Protocol):
    """Receives the events of jobs, and answers as an observer does."""

    def __call__(self, number: int, event: Event, /) -> Answer:
        """`number`: of the job, by its place in the list; its last event is `Ended`."""
        ...


class Engine(Protocol):
    """Trains cohorts and passes on the events of each."""

    def __call__(
        self,
        jobs: Sequence[Job],
        on_event: OnEvent,
        stopping: Callable[[], bool],
        patience: float,
        /,
    ) -> list[Outcome]:
        """Return the outcome of each.

        Args:
            jobs: the cohorts.
            on_event: receives their events.
            stopping: asked again and again; if true, all stop after a checkpoint.
            patience: seconds to wait for the lock of a work folder.
        """
        ...


def choose(
    name: str,
    address: str | None = None,
    processes: int = 0,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    on_gpu: int = 1,
) -> Engine:
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

    Where there is a GPU, half of the cores are left for the environments of its cohorts.

    Args:
        processes: how many on either; 0: as many as are faster.
        on_gpu: how many are faster on the GPU.
    """
    others = hardware.cores() // (2 if hardware.accelerated() else 1)
    return {"cpu": processes or max(1, others), "gpu": processes or on_gpu}
