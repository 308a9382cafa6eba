"""Several cohorts at once on this machine, a process each.

A worker trains one cohort, writes its records and checkpoints itself and tells what happens through
a pipe. It stops when it is asked to, and dies when whoever started it is gone. Nothing of what it
computes depends on the others.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import jax

from discover_rl import jobs as desks
from discover_rl import machine, programs
from discover_rl.config import Run
from discover_rl.engines import Hear, Outcome
from discover_rl.jobs import Job
from discover_rl.machine import ALONE, ALONE_FROM_START
from discover_rl.observers import Observer, Report
from discover_rl.types import Stopped, UserError


def run(
    jobs: Sequence[Job],
    hear: Hear,
    stopping: Callable[[], bool],
    patience: float = desks.PATIENCE,
    *,
    places: Mapping[str, int],
    checkpoint_seconds: float = desks.CHECKPOINT_SECONDS,
    halt: bool = False,
) -> list[Outcome]:
    """Train these cohorts; so many at a time as there are places, "cpu" and "gpu". With `halt`, one
    that fails stops all."""
    spawn = multiprocessing.get_context("spawn")
    stop, waiting = spawn.Event(), list(range(len(jobs)))
    outcomes: list[Outcome] = [None] * len(jobs)
    working: dict[Connection, tuple[int, int, Any]] = {}  # a job's number, its seat, its process
    asked = Counter(job.place for job in jobs)
    seats = {place: min(most, asked[place]) for place, most in places.items()}
    free = {place: set(range(most)) for place, most in seats.items()}
    try:
        while waiting or working:
            if stopping() or (halt and any(outcomes)):
                stop.set()
                for number in waiting:
                    outcomes[number] = Stopped(jobs[number].step)
                waiting.clear()
            for number in [*waiting]:
                place = jobs[number].place
                if not free[place]:
                    continue
                waiting.remove(number)
                seat = min(free[place])
                free[place].remove(seat)
                mine, theirs = spawn.Pipe(duplex=False)
                share = seat, seats[place]
                told = jobs[number], share, checkpoint_seconds, patience, os.getpid()
                process = spawn.Process(target=_work, args=(theirs, stop, *told), daemon=True)
                with _undisturbed(), _environment(ALONE_FROM_START if place == "cpu" else {}):
                    process.start()
                theirs.close()
                working[mine] = number, seat, process
            for pipe in wait(list(working), timeout=0.1):
                assert isinstance(pipe, Connection)
                number, seat, process = working[pipe]
                try:
                    event, *details = pipe.recv()
                except (EOFError, OSError):  # an OSError if it was killed while it told
                    process.join()
                    del working[pipe]
                    free[jobs[number].place].add(seat)
                    if process.exitcode and outcomes[number] is None:
                        outcomes[number] = ChildProcessError(_obituary(process.exitcode))
                    hear(number, "ended", (outcomes[number],))
                    continue
                if event == "raised":
                    outcomes[number] = details[0]
                else:
                    hear(number, event, tuple(details))
    finally:
        for *_, process in working.values():
            process.kill()
            process.join()
    return outcomes


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """What is started here never hears of Ctrl-C, which reaches all of us: one of us answers it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """What is started here finds these set; what the user has set stays."""
    missing = variables.keys() - os.environ.keys()
    os.environ |= {name: variables[name] for name in missing}
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def _obituary(code: int) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"A worker {how}; the same command again goes on from its last checkpoint."


class Messenger(Observer):
    """Passes on what it hears."""

    def __init__(self, tell: Callable[..., None]):
        self._tell = tell

    def started(self, runs: Sequence[Run], step: int) -> None:
        self._tell("started", runs, step)

    def stepped(self, step: int) -> None:
        self._tell("stepped", step)

    def evaluated(self, run: Run, step: int, returns: Sequence[float], report: Report) -> None:
        self._tell("evaluated", run, step, returns, report)

    def shared(self, step: int, evaluating: float) -> None:
        self._tell("shared", step, evaluating)

    def noted(self, run: Run, step: int, note: str) -> None:
        self._tell("noted", run, step, note)

    def finished(self, runs: Sequence[Run]) -> None:
        self._tell("finished", runs)


def told(error: Exception) -> Exception:
    """An error as it may travel from a worker: what users can mend as it is, all else by name."""
    if isinstance(error, (Stopped, UserError, OSError)):
        return error
    crash = ChildProcessError(f"A worker failed: {type(error).__name__}: {error}")
    crash.add_note(traceback.format_exc())
    return crash


def _work(
    pipe: Connection,
    stop: Any,
    job: Job,
    share: tuple[int, int],
    checkpoint_seconds: float,
    patience: float,
    parent: int,
) -> None:
    def stopping() -> bool:
        if os.getppid() != parent:  # it was killed; whoever goes on must not find us writing
            os._exit(1)
        return stop.is_set()

    def tell(*message: Any) -> None:
        try:
            pipe.send(message)
        except BrokenPipeError:  # nobody listens any more
            os._exit(1)

    settle(job.place, share)
    try:
        desks.do(job, Messenger(tell), stopping, checkpoint_seconds, patience)
    except Exception as error:
        tell("raised", told(error))


def settle(place: str, share: tuple[int, int] = (0, 1)) -> None:
    """Take a place, before anything is computed: by `share`, the i-th of n of its kind."""
    if place == "cpu":
        # Several processes cannot share a GPU's memory unasked, and would gain nothing by it. Each
        # has one thread, however many there are: how many multiply a matrix shows in its last bits.
        jax.config.update("jax_platforms", "cpu")
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ |= ALONE | {"XLA_FLAGS": f"{flags} {ALONE['XLA_FLAGS']}"}
    else:
        # Those who share a GPU share its memory; each steps its environments on cores of its own.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        machine.keep_to(*share)
    programs.keep()
