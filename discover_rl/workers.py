"""Several cohorts at once, a process each, with one observer.

A worker trains one cohort, writes its records and checkpoints itself and tells what happens through
a pipe. It stops when it is asked to, and when whoever started it is gone. Nothing of what it
computes depends on the others.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from discover_rl import checkpoint, store
from discover_rl.cohort import Cohort, Observer
from discover_rl.config import Run
from discover_rl.store import Record
from discover_rl.types import Stopped, UserError

PATIENCE = 10.0
"""Seconds to wait for a worker of a killed process to notice that it is alone."""


class Job(NamedTuple):
    """A cohort to train."""

    runs: Sequence[Run]
    desk: Path  # where its checkpoints are
    resume: Path | None = None  # the one to go on from

    @property
    def step(self) -> int:
        return checkpoint.step_of(self.desk) if self.resume else 0


def run(
    jobs: Sequence[Job],
    out: Path,
    observer: Observer,
    stopping: Callable[[], bool],
    checkpoint_seconds: float,
    processes: int,
) -> None:
    """Train these cohorts, so many at a time. Raises as `Cohort.run` does, once all have ended."""
    everyone = [run for job in jobs for run in job.runs]
    steps = [job.step for job in jobs]
    observer.started(everyone, min(steps))
    spawn = multiprocessing.get_context("spawn")
    stop, waiting, errors = spawn.Event(), list(range(len(jobs))), []
    working: dict[Connection, tuple[int, Any]] = {}
    try:
        while waiting or working:
            if stopping() or errors:
                stop.set()
                waiting.clear()
            while waiting and len(working) < processes:
                number = waiting.pop(0)
                mine, theirs = spawn.Pipe(duplex=False)
                arguments = theirs, stop, jobs[number], out, checkpoint_seconds, os.getpid()
                process = spawn.Process(target=_work, args=arguments, daemon=True)
                process.start()
                theirs.close()
                working[mine] = number, process
            for pipe in wait(list(working), timeout=0.1):
                assert isinstance(pipe, Connection)
                number, process = working[pipe]
                try:
                    event, *details = pipe.recv()
                except EOFError:
                    process.join()
                    del working[pipe]
                    if process.exitcode:
                        errors.append(ChildProcessError(_obituary(process.exitcode)))
                    continue
                if event == "raised":
                    errors += details
                elif event == "stepped":
                    steps[number] = details[0]
                    observer.stepped(min(steps))
                else:
                    getattr(observer, event)(*details)
    finally:
        for _, process in working.values():
            process.kill()
    # What went wrong comes before what was asked for.
    for error in sorted(errors, key=lambda error: isinstance(error, Stopped)):
        raise error
    observer.finished(everyone)


def _obituary(code: int) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"A worker {how}; the same command again goes on from its last checkpoint."


class Messenger(Observer):
    """Passes on what it hears; ends the process once nobody listens."""

    def __init__(self, pipe: Connection, parent: int):
        self._pipe, self._parent = pipe, parent

    def _tell(self, *message: Any) -> None:
        if os.getppid() != self._parent:
            os._exit(1)
        self._pipe.send(message)

    def stepped(self, step: int) -> None:
        self._tell("stepped", step)

    def evaluated(self, run: Run, step: int, returns: Sequence[float]) -> None:
        self._tell("evaluated", run, step, returns)

    def noted(self, run: Run, step: int, note: str) -> None:
        self._tell("noted", run, step, note)


def _work(
    pipe: Connection, stop: Any, job: Job, out: Path, checkpoint_seconds: float, parent: int
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # reach all of us; whoever started us answers
        signal.signal(number, signal.SIG_IGN)
    messenger = Messenger(pipe, parent)
    records = {run.name: Record(out / run.name / "record.jsonl") for run in job.runs}
    try:
        with store.locked(job.desk, PATIENCE):
            cohort = Cohort(job.runs, records, out, job.desk, messenger, job.resume)
            cohort.run(stop.is_set, checkpoint_seconds)
    except (Stopped, UserError, OSError) as error:
        messenger._tell("raised", error)
