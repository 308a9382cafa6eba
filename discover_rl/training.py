"""What is missing of some runs, and where it is done: in this process, or in several at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from discover_rl import checkpoint, jobs, machine, programs, store
from discover_rl.algorithms import ON_POLICY
from discover_rl.config import Run, cohorts
from discover_rl.engines import local
from discover_rl.jobs import CHECKPOINT_SECONDS, Job
from discover_rl.observers import Observer
from discover_rl.store import Record
from discover_rl.types import Stopped, UserError

DESKS = "workers"
"""Below the output folder: where processes that train side by side keep their checkpoints."""


def train(
    runs: Sequence[Run],
    out: Path,
    observer: Observer | None = None,
    stopping: Callable[[], bool] = bool,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    processes: int = 1,
) -> dict[str, Record]:
    """Do what is missing of these runs in `out`; the records by run name.

    `processes` is how many share the work at most; 0: as many as pay. Raises Stopped, after
    writing a checkpoint, once `stopping()` is true.
    """
    observer, processes = observer or Observer(), processes or fitting(runs)
    programs.keep()
    with store.locked(out):
        for desk in _desks(out):  # until no worker of a process that was killed is left
            with store.locked(desk, jobs.PATIENCE):
                pass
        _refuse_strangers(runs[0], out)
        records = {run.name: jobs.opened(run, out) for run in runs}
        begun = _begun({run.name: run for run in runs}, out)
        taken = {run.name for job in begun for run in job.runs}
        missing = {run.name for run in runs if not records[run.name].over} - taken
        parts = begun + _shared(runs, missing, out, processes, {job.desk for job in begun})
        # What was begun here ends here and what was begun by a worker is ended by one: they have
        # not as many threads, and that shows in the last bits.
        for job in [job for job in parts if job.desk == out]:
            jobs.go_on(job, observer, stopping, checkpoint_seconds)
        if apart := [job for job in parts if job.desk != out]:
            _together(apart, observer, stopping, checkpoint_seconds, processes)
        store.remove(out / DESKS)
    return {run.name: jobs.opened(run, out) for run in runs}


def fitting(runs: Sequence[Run]) -> int:
    """How many processes pay for these runs: one per core, with one thread, on CPUs. Two threads on
    matrices this small do less than two processes, by about a quarter with ten lanes of TD3."""
    return min(len(runs), machine.cores()) if _apart(runs[0]) else 1


def _apart(run: Run) -> bool:
    """Whether runs of this kind may go to several processes; a GPU is for one."""
    return run.algorithm in ON_POLICY or jax.default_backend() == "cpu"


def _together(
    parts: Sequence[Job],
    observer: Observer,
    stopping: Callable[[], bool],
    checkpoint_seconds: float,
    processes: int,
) -> None:
    """Several cohorts at once, heard of as if they were one. Raises what any of them raised."""
    everyone = [run for job in parts for run in job.runs]
    steps = [job.step for job in parts]

    def hear(number: int, event: str, details: tuple[Any, ...]) -> None:
        if event == "stepped":
            steps[number] = details[0]
            observer.stepped(min(steps))
        elif event not in ("started", "finished", "ended"):
            getattr(observer, event)(*details)

    observer.started(everyone, min(steps))
    outcomes = local.run(
        parts,
        hear,
        stopping,
        places={"cpu": processes},
        checkpoint_seconds=checkpoint_seconds,
        halt=True,
    )
    errors = [error for error in outcomes if error is not None]
    for error in errors:  # what went wrong comes before what was asked for
        if not isinstance(error, Stopped):
            raise error
    if errors:
        raise Stopped(min(error.step for error in errors if isinstance(error, Stopped)))
    observer.finished(everyone)


def _begun(runs: Mapping[str, Run], out: Path) -> list[Job]:
    """The cohorts that left a checkpoint: they go on together, as they were."""
    begun = []
    for desk in (out, *_desks(out)):
        if path := checkpoint.find(desk):
            begun.append(Job(jobs.resumable(path, runs), out, desk))
        else:
            checkpoint.clear(desk)  # of what a process left that was killed while clearing
    return begun


def _shared(
    runs: Sequence[Run], missing: set[str], out: Path, processes: int, taken: set[Path]
) -> list[Job]:
    """Runs that have not begun, as cohorts; on CPUs, a share for each process.

    All runs are divided, not those that are missing: so who trains with whom does not depend on
    what others had done when a process was killed.
    """
    parts = []
    for lanes in cohorts(runs):
        shares = min(processes, len(lanes)) if _apart(lanes[0]) else 1
        parts += [lanes[i::shares] for i in range(shares)]
    alone = processes == 1 or len(parts) == 1
    wanting = [[run for run in lanes if run.name in missing] for lanes in parts]
    wanting = [lanes for lanes in wanting if lanes]
    if alone:
        return [Job(lanes, out, out) for lanes in wanting]
    desks = (out / DESKS / str(i) for i in range(len(wanting) + len(taken)))
    free = (desk for desk in desks if desk not in taken)
    return [Job(lanes, out, desk) for lanes, desk in zip(wanting, free, strict=False)]


def _desks(out: Path) -> list[Path]:
    return sorted((out / DESKS).glob("*"))


def _refuse_strangers(run: Run, out: Path) -> None:
    """A folder is for runs of one kind, whatever they are called."""
    for path in out.rglob("record.jsonl"):
        header = Record(path).header
        kinds = [
            {name: described[name] for name in ("task", "algorithm", "strategy", "steps")}
            for described in (header["run"] if header else run.to_json(), run.to_json())
        ]
        if unlike := jobs.difference(*kinds):
            raise UserError(f"{out} holds another run: {unlike}; choose another --out.")
