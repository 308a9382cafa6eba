"""Several cohorts at once, a process each, with one observer.

A worker trains one cohort, writes its records and checkpoints itself and tells what happens through
a pipe. It stops when it is asked to, and dies when whoever started it is gone. Nothing of what it
computes depends on the others.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import jax

from discover_rl import checkpoint, programs, store
from discover_rl.cohort import Cohort
from discover_rl.config import Run
from discover_rl.machine import ALONE
from discover_rl.observers import Observer, Report
from discover_rl.store import Record
from discover_rl.types import Stopped, UserError

PATIENCE = 30.0
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
                errors += [Stopped(steps[number]) for number in waiting]
                waiting.clear()
            while waiting and len(working) < processes:
                number = waiting.pop(0)
                mine, theirs = spawn.Pipe(duplex=False)
                arguments = theirs, stop, jobs[number], out, checkpoint_seconds, os.getpid()
                process = spawn.Process(target=_work, args=arguments, daemon=True)
                with _undisturbed():
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
            process.join()
    broken = [error for error in errors if not isinstance(error, Stopped)]
    for error in broken:  # what went wrong comes before what was asked for
        raise error
    if errors:
        raise Stopped(min(error.step for error in errors))
    observer.finished(everyone)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """What is started here never hears of Ctrl-C, which reaches all of us: one of us answers it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _obituary(code: int) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"A worker {how}; the same command again goes on from its last checkpoint."


class Messenger(Observer):
    """Passes on what it hears."""

    def __init__(self, pipe: Connection):
        self._pipe = pipe

    def _tell(self, *message: Any) -> None:
        try:
            self._pipe.send(message)
        except BrokenPipeError:  # nobody listens any more
            os._exit(1)

    def stepped(self, step: int) -> None:
        self._tell("stepped", step)

    def evaluated(self, run: Run, step: int, returns: Sequence[float], report: Report) -> None:
        self._tell("evaluated", run, step, returns, report)

    def shared(self, step: int, evaluating: float) -> None:
        self._tell("shared", step, evaluating)

    def noted(self, run: Run, step: int, note: str) -> None:
        self._tell("noted", run, step, note)


def _work(
    pipe: Connection, stop: Any, job: Job, out: Path, checkpoint_seconds: float, parent: int
) -> None:
    def stopping() -> bool:
        if os.getppid() != parent:  # it was killed; whoever goes on must not find us writing
            os._exit(1)
        return stop.is_set()

    # Several processes cannot share a GPU's memory, and would gain nothing by it. Each has one
    # thread, however many there are: how many multiply a matrix shows in its last bits.
    jax.config.update("jax_platforms", "cpu")
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ |= ALONE | {"XLA_FLAGS": f"{flags} {ALONE['XLA_FLAGS']}"}
    programs.keep()
    messenger = Messenger(pipe)
    try:
        with store.locked(job.desk, PATIENCE):
            records = {run.name: Record(out / run.name / "record.jsonl") for run in job.runs}
            cohort = Cohort(job.runs, records, out, job.desk, messenger, job.resume)
            cohort.run(stopping, checkpoint_seconds)
    except (Stopped, UserError, OSError) as error:
        messenger._tell("raised", error)
