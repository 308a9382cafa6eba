"""Find the runs that are not finished and train them, in this process or in several at once."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from discover_rl.config import Request, Run, cohorts, resolve
from discover_rl.core.types import Stopped, UserError
from discover_rl.envs.backends import spaces
from discover_rl.storage import checkpoints, files, kept_checkpoints
from discover_rl.storage.records import Record, read_record, record_paths, sources_in
from discover_rl.system import compilation, hardware
from discover_rl.training import continuation, memory
from discover_rl.training import job as jobs
from discover_rl.training.engines import local
from discover_rl.training.events import Ended, Event, Finished, Started, Stepped
from discover_rl.training.job import CHECKPOINT_SECONDS, Job
from discover_rl.training.observers.base import Answer, HeldObserver, Observer

WORKERS = "workers"
"""The folder in the output folder that holds the work folders of parallel processes."""


def train(
    runs: Sequence[Run],
    out: Path,
    observer: Observer | None = None,
    stopping: Callable[[], bool] = bool,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    processes: int = 1,
    anyway: bool = False,
    until: int | None = None,
) -> dict[str, Record]:
    """Train the unfinished ones of these runs.

    Args:
        runs: all runs of the request, finished ones included.
        out: the folder for records and policies.
        observer: receives the events of training.
        stopping: asked every few steps; if true, training stops after a checkpoint.
        checkpoint_seconds: time between checkpoints.
        processes: the largest number of processes; 0: as many as are faster.
        anyway: whether to continue if the task's own code has changed since.
        until: the step of an evaluation at which runs are left, each with its checkpoint, so that
            any of them can continue later, in other cohorts; None: they are trained to their end.

    Returns:
        The records, by the runs' names.

    Raises:
        Stopped: `stopping()` was true.
    """
    observer, processes = observer or Observer(), processes or best_processes(runs)
    compilation.use_cache()
    with files.locked(out):
        files.refuse_links(out, [run.name for run in runs])
        for workdir in _workdirs(out):  # wait for workers of a process that was killed
            with files.locked(workdir, jobs.PATIENCE):
                pass
        records = {run.name: jobs.open_record(run, out, anyway, longer=True) for run in runs}
        _refuse_strangers(runs[0], out, {record.path for record in records.values()}, anyway)
        begun = [job._replace(anyway=anyway) for job in _begun(runs, out)]
        # A process may have been killed before all records had the new length.
        begun = [job._replace(longer=_any_shorter(job.runs, records)) for job in begun]
        begun += [job._replace(anyway=anyway) for job in _longer(runs, records, out, begun)]
        taken = {run.name for job in begun for run in job.runs}
        missing = {run.name for run in runs if not records[run.name].over} - taken
        left = 0
        if until is not None:
            begun = [job._replace(until=until) for job in begun if job.step <= until]
            missing, left = _left_before(until, {name: records[name] for name in missing}, out)
        fresh = _divided(runs, missing, out, processes, {job.workdir for job in begun})
        parts = begun + [job._replace(anyway=anyway, until=until, left=left > 0) for job in fresh]
        _check_memory(parts, out, processes)
        # This process continues the jobs that it began, and workers continue those of workers:
        # workers have fewer threads, and that changes the last bits.
        for job in [job for job in parts if job.workdir == out]:
            jobs.train_locked(job, records, observer, stopping, checkpoint_seconds)
        if apart := [job for job in parts if job.workdir != out]:
            _train_side_by_side(apart, observer, stopping, checkpoint_seconds, processes)
            for run in (run for job in apart for run in job.runs):  # workers have written these
                records[run.name] = jobs.open_record(run, out, anyway)
        files.remove(out / WORKERS)
    return records


def spaced_as_before(request: Request, out: Path) -> Request:
    """Keep the spacing of evaluations that the runs in a folder have.

    The default of eval.every grows with the number of steps. If the request does not set it, and
    the folder has shorter runs, their spacing is used: it must not change when steps are added.
    """
    if request.settings.get("eval.every") not in (None, 0, "0"):
        return request
    headers = (read_record(path).header for path in record_paths(out))
    header = next((found for found in headers if found), {})
    there = header.get("run", {}).get("settings", {}).get("eval.every", 0)
    asked = resolve(request)[0].eval.every
    if not 1000 <= there < asked:
        return request
    return dataclasses.replace(request, settings={**request.settings, "eval.every": there})


def best_processes(runs: Sequence[Run]) -> int:
    """Return how many processes are fastest: on CPUs, one per core with one thread each.

    The matrices are small: with ten lanes of TD3, two processes are about a quarter faster than two
    threads.
    """
    return min(len(runs), hardware.cores()) if _may_part(runs[0]) else 1


def _may_part(run: Run) -> bool:
    """Whether several processes may train runs of this kind; a GPU is for one process."""
    return hardware.place(run.on_policy) == "cpu"


def _train_side_by_side(
    parts: Sequence[Job],
    observer: Observer,
    stopping: Callable[[], bool],
    checkpoint_seconds: float,
    processes: int,
) -> None:
    """Train several cohorts at once. The observer sees them as one; an error of any is raised."""
    everyone = [run for job in parts for run in job.runs]
    held = HeldObserver(observer)
    steps = [job.step for job in parts]

    def on_event(number: int, event: Event) -> Answer:
        if isinstance(event, Started | Finished | Ended):
            return None
        if isinstance(event, Stepped):
            steps[number] = event.step
            event = Stepped(min(steps))
        return held.on_event(event)

    observer.on_event(Started(everyone, min(steps)))
    outcomes = local.run(
        parts,
        on_event,
        lambda: stopping() or held.failed(),
        places={"cpu": processes},
        checkpoint_seconds=checkpoint_seconds,
        halt=True,
    )
    held.release()
    errors = [error for error in outcomes if error is not None]
    for error in errors:  # a failure is more important than a requested stop
        if not isinstance(error, Stopped):
            raise error
    if errors:
        raise Stopped(min(error.step for error in errors if isinstance(error, Stopped)))
    if parts[0].until in (None, everyone[0].steps):
        observer.on_event(Finished(everyone))


def _check_memory(parts: Sequence[Job], out: Path, processes: int) -> None:
    """Raise a UserError if the cohorts that train at once do not fit into memory."""
    alone = [job.runs for job in parts if job.workdir == out]
    apart = sorted((job.runs for job in parts if job.workdir != out), key=len)[-processes:]
    together = [run for runs in apart for run in runs]
    groups = [(runs, 1) for runs in alone] + ([(together, len(apart))] if together else [])
    for runs, share in groups:
        first = runs[0]
        memory.check(runs, spaces(first.task, first.env, hardware.place(first.on_policy)), share)


def _begun(runs: Sequence[Run], out: Path) -> list[Job]:
    """Find the cohorts that left a checkpoint; each continues with the same lanes."""
    begun, named = [], {run.name: run for run in runs}
    for workdir in (out, *_workdirs(out)):
        if path := checkpoints.find(workdir):
            begun.append(Job(jobs.resumable(path, named), out, workdir))
        else:
            checkpoints.clear(workdir)  # a killed process may have left parts of one
    return begun


def _longer(
    runs: Sequence[Run], records: Mapping[str, Record], out: Path, begun: Sequence[Job]
) -> list[Job]:
    """Find the cohorts that ended with fewer steps. Each continues where it was trained, in this
    process or in a worker: the two differ in their number of threads."""
    groups = continuation.groups(runs, records, out)
    taken = {job.workdir for job in begun}
    names = {run.name for job in begun for run in job.runs}
    workers = (out / WORKERS / str(i) for i in itertools.count())
    free = (workdir for workdir in workers if workdir not in taken)
    return [
        Job(group, out, out if workdir == "." else next(free), longer=True)
        for workdir, group in groups
        if group[0].name not in names
    ]


def _left_before(until: int, missing: Mapping[str, Record], out: Path) -> tuple[set[str], int]:
    """Find the runs that have not reached a step, and the step at which they were left; 0: none.

    Args:
        until: the step.
        missing: the records of unfinished runs that have not begun, or were left, by their names.
        out: the folder that their folders are in.

    Raises:
        UserError: what one of them had there is gone, or is of another step or run.
    """
    found = {name: kept_checkpoints.kept(out / name) for name in missing}
    for name, entry in found.items():
        continuation.refuse_another(entry, name, missing[name], out)
    steps = {name: entry.get("step", 0) if entry else 0 for name, entry in found.items()}
    before = {name: step for name, step in steps.items() if step < until}
    if before and min(before.values()) < (last := max(before.values())):
        name = min(before, key=before.__getitem__)
        raise UserError(
            f"{out / name / kept_checkpoints.KEPT} is gone or too old, though its run was left at "
            f"step {last:,}; put it back, or remove {out} to start its runs over."
        )
    return set(before), max(before.values(), default=0)


def _any_shorter(runs: Sequence[Run], records: Mapping[str, Record]) -> bool:
    return any(continuation.is_shorter(records[run.name], run) for run in runs)


def _divided(
    runs: Sequence[Run], missing: set[str], out: Path, processes: int, taken: set[Path]
) -> list[Job]:
    """Divide the runs that have not begun into cohorts, on CPUs into one or more per process.

    The division is made over all runs and then restricted to the missing ones. So it does not
    depend on which runs were finished when a process was killed.
    """
    parts = []
    for group in cohorts(runs):
        shares = min(processes, len(group)) if _may_part(group[0]) else 1
        parts += [group[i::shares] for i in range(shares)]
    alone = processes == 1 or len(parts) == 1
    unfinished = [[run for run in part if run.name in missing] for part in parts]
    unfinished = [part for part in unfinished if part]
    if alone:
        return [Job(part, out, out) for part in unfinished]
    workdirs = (out / WORKERS / str(i) for i in range(len(unfinished) + len(taken)))
    free = (workdir for workdir in workdirs if workdir not in taken)
    return [Job(part, out, workdir) for part, workdir in zip(unfinished, free, strict=False)]


def _workdirs(out: Path) -> list[Path]:
    """The work folders that processes have left; a UserError if one is a link."""
    found = sorted((out / WORKERS).glob("*"))
    files.refuse_links(out, [f"{WORKERS}/{path.name}" for path in found])
    return found


def _refuse_strangers(run: Run, out: Path, known: set[Path], anyway: bool) -> None:
    """Raise a UserError if the folder has records of another kind of run, under any name."""
    for path in set(record_paths(out)) - known:
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
