"""Find the runs that are not finished and train them, in this process or in several at once."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from discover_rl.config import Request, Run, cohorts, resolve
from discover_rl.core.types import Stopped, UserError
from discover_rl.envs.spaces import spaces
from discover_rl.storage import checkpoints, files
from discover_rl.storage.records import Record, read_record, sources_in
from discover_rl.system import compilation, hardware
from discover_rl.training import continuation, memory
from discover_rl.training import job as jobs
from discover_rl.training.engines import local
from discover_rl.training.events import Ended, Event, Finished, Started, Stepped
from discover_rl.training.job import CHECKPOINT_SECONDS, Job
from discover_rl.training.observers.base import Answer, HeldObserver, Observer

WORKERS = "workers"
"""Below the output folder: the work folders of processes that train side by side."""


def train(
    runs: Sequence[Run],
    out: Path,
    observer: Observer | None = None,
    stopping: Callable[[], bool] = bool,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    processes: int = 1,
    anyway: bool = False,
) -> dict[str, Record]:
    """Train what is missing of these runs.

    Args:
        runs: all that are to be in the folder in the end.
        out: the folder for records and policies.
        observer: hears of progress.
        stopping: asked every few steps; if true, training stops after a checkpoint.
        checkpoint_seconds: time between checkpoints.
        processes: how many share the work at most; 0: as many as are faster.
        anyway: whether to go on though the task's own code has changed since.

    Returns:
        The records, by the runs' names.

    Raises:
        Stopped: `stopping()` was true.
    """
    observer, processes = observer or Observer(), processes or best_processes(runs)
    compilation.use_cache()
    with files.locked(out):
        for workdir in _workdirs(out):  # until no worker of a process that was killed is left
            with files.locked(workdir, jobs.PATIENCE):
                pass
        records = {run.name: jobs.open_record(run, out, anyway, longer=True) for run in runs}
        _refuse_strangers(runs[0], out, {record.path for record in records.values()}, anyway)
        begun = [job._replace(anyway=anyway) for job in _begun(runs, out)]
        # Killed before all of its records had the new length.
        begun = [job._replace(longer=_any_shorter(job.runs, records)) for job in begun]
        begun += [job._replace(anyway=anyway) for job in _longer(runs, records, out, begun)]
        taken = {run.name for job in begun for run in job.runs}
        missing = {run.name for run in runs if not records[run.name].over} - taken
        fresh = _divided(runs, missing, out, processes, {job.workdir for job in begun})
        parts = begun + [job._replace(anyway=anyway) for job in fresh]
        _check_memory(parts, out, processes)
        # What was begun here ends here and what was begun by a worker is ended by one: they have
        # not as many threads, and that shows in the last bits.
        for job in [job for job in parts if job.workdir == out]:
            jobs.train_locked(job, records, observer, stopping, checkpoint_seconds)
        if apart := [job for job in parts if job.workdir != out]:
            _train_side_by_side(apart, observer, stopping, checkpoint_seconds, processes)
            for run in (run for job in apart for run in job.runs):  # which others have written
                records[run.name] = jobs.open_record(run, out, anyway)
        files.remove(out / WORKERS)
    return records


def spaced_as_before(request: Request, out: Path) -> Request:
    """The request with the spacing of evaluations that runs in the folder have, if it leaves that
    open and a shorter run would have that spacing by itself: with more steps it stays as it is."""
    if request.settings.get("eval.every") not in (None, 0, "0"):
        return request
    headers = (read_record(path).header for path in sorted(out.rglob("record.jsonl")))
    header = next((found for found in headers if found), {})
    there = header.get("run", {}).get("settings", {}).get("eval.every", 0)
    asked = resolve(request)[0].eval.every
    if not 1000 <= there < asked:
        return request
    return dataclasses.replace(request, settings={**request.settings, "eval.every": there})


def best_processes(runs: Sequence[Run]) -> int:
    """How many processes are fastest for these runs: on CPUs, one per core with one thread each.

    Two threads on matrices this small do less than two processes, by about a quarter with ten lanes
    of TD3.
    """
    return min(len(runs), hardware.cores()) if _may_part(runs[0]) else 1


def _may_part(run: Run) -> bool:
    """Whether runs of this kind may go to several processes; a GPU is for one."""
    return hardware.place(run.on_policy) == "cpu"


def _train_side_by_side(
    parts: Sequence[Job],
    observer: Observer,
    stopping: Callable[[], bool],
    checkpoint_seconds: float,
    processes: int,
) -> None:
    """Train several cohorts at once, observed as if they were one. Raises what any of them did."""
    everyone = [run for job in parts for run in job.runs]
    held = HeldObserver(observer)
    steps = [job.step for job in parts]

    def hear(number: int, event: Event) -> Answer:
        if isinstance(event, Started | Finished | Ended):
            return None
        if isinstance(event, Stepped):
            steps[number] = event.step
            event = Stepped(min(steps))
        return held.on_event(event)

    observer.on_event(Started(everyone, min(steps)))
    outcomes = local.run(
        parts,
        hear,
        lambda: stopping() or held.failed(),
        places={"cpu": processes},
        checkpoint_seconds=checkpoint_seconds,
        halt=True,
    )
    held.release()
    errors = [error for error in outcomes if error is not None]
    for error in errors:  # what went wrong comes before what was asked for
        if not isinstance(error, Stopped):
            raise error
    if errors:
        raise Stopped(min(error.step for error in errors if isinstance(error, Stopped)))
    observer.on_event(Finished(everyone))


def _check_memory(parts: Sequence[Job], out: Path, processes: int) -> None:
    """A UserError if the cohorts that train at once do not fit into memory."""
    alone = [job.runs for job in parts if job.workdir == out]
    apart = sorted((job.runs for job in parts if job.workdir != out), key=len)[-processes:]
    together = [run for runs in apart for run in runs]
    groups = [(runs, 1) for runs in alone] + ([(together, len(apart))] if together else [])
    for runs, share in groups:
        first = runs[0]
        memory.check(runs, spaces(first.task, first.env, hardware.place(first.on_policy)), share)


def _begun(runs: Sequence[Run], out: Path) -> list[Job]:
    """The cohorts that left a checkpoint: they go on together, as they were."""
    begun, named = [], {run.name: run for run in runs}
    for workdir in (out, *_workdirs(out)):
        if path := checkpoints.find(workdir):
            begun.append(Job(jobs.resumable(path, named), out, workdir))
        else:
            checkpoints.clear(workdir)  # of a process that was killed while clearing
    return begun


def _longer(
    runs: Sequence[Run], records: Mapping[str, Record], out: Path, begun: Sequence[Job]
) -> list[Job]:
    """The cohorts that have ended with fewer steps, each to go on where it was trained: here, or
    in a process of its own, which has not as many threads."""
    groups = continuation.groups(runs, records, out)
    taken = {job.workdir for job in begun}
    names = {run.name for job in begun for run in job.runs}
    workers = (out / WORKERS / str(i) for i in itertools.count())
    free = (workdir for workdir in workers if workdir not in taken)
    return [
        Job(lanes, out, out if workdir == "." else next(free), longer=True)
        for workdir, lanes in groups
        if lanes[0].name not in names
    ]


def _any_shorter(runs: Sequence[Run], records: Mapping[str, Record]) -> bool:
    return any(continuation.is_shorter(records[run.name], run) for run in runs)


def _divided(
    runs: Sequence[Run], missing: set[str], out: Path, processes: int, taken: set[Path]
) -> list[Job]:
    """Runs that have not begun, as cohorts; on CPUs, a share for each process.

    All runs are divided, not those that are missing: so who trains with whom does not depend on
    what others had done when a process was killed.
    """
    parts = []
    for lanes in cohorts(runs):
        shares = min(processes, len(lanes)) if _may_part(lanes[0]) else 1
        parts += [lanes[i::shares] for i in range(shares)]
    alone = processes == 1 or len(parts) == 1
    unfinished = [[run for run in lanes if run.name in missing] for lanes in parts]
    unfinished = [lanes for lanes in unfinished if lanes]
    if alone:
        return [Job(lanes, out, out) for lanes in unfinished]
    workdirs = (out / WORKERS / str(i) for i in range(len(unfinished) + len(taken)))
    free = (workdir for workdir in workdirs if workdir not in taken)
    return [Job(lanes, out, workdir) for lanes, workdir in zip(unfinished, free, strict=False)]


def _workdirs(out: Path) -> list[Path]:
    return sorted((out / WORKERS).glob("*"))


def _refuse_strangers(run: Run, out: Path, known: set[Path], anyway: bool) -> None:
    """A UserError if the folder has records of another kind of run, whatever they are called."""
    for path in set(out.rglob("record.jsonl")) - known:
        header = (found := read_record(path)).header
        if found.damage:
            raise UserError(found.damage)
        kinds = [
            {name: described[name] for name in ("task", "algorithm", "strategy", "steps")}
            for described in (header["run"] if header else run.to_json(), run.to_json())
        ]
        if unlike := jobs.difference(*kinds):
            raise UserError(f"{out} holds another run: {unlike}; choose another --out.")
        if header and not anyway:
            jobs.refuse_changed_code(run, sources_in(header), out)
