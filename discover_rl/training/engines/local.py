"""Train several cohorts at once on this machine, a process each.

A worker trains one cohort, writes its records and checkpoints itself and sends events through a
pipe. It stops when it is asked to, and ends when the process that started it is gone. Nothing that
it computes depends on the others.
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

from discover_rl import algorithms, strategies
from discover_rl.core.types import Stopped, UserError
from discover_rl.system import compilation, hardware, modules
from discover_rl.system.hardware import ONE_THREAD, ONE_THREAD_AT_IMPORT
from discover_rl.training.engines import Hear, Outcome
from discover_rl.training.events import Ended, Evaluated, Event
from discover_rl.training.job import CHECKPOINT_SECONDS, PATIENCE, Job
from discover_rl.training.job import train as train_job
from discover_rl.training.observers.base import Answer, Observer


def run(
    jobs: Sequence[Job],
    hear: Hear,
    stopping: Callable[[], bool],
    patience: float = PATIENCE,
    *,
    places: Mapping[str, int],
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    halt: bool = False,
) -> list[Outcome]:
    """Train these cohorts.

    Args:
        jobs: the cohorts.
        hear: is given the events of each.
        stopping: if true, all stop after a checkpoint.
        patience: seconds that a worker waits for the lock of its work folder.
        places: how many are trained at once, by "cpu" and "gpu".
        checkpoint_seconds: time between checkpoints.
        halt: whether one that fails stops all.

    Returns:
        What became of each.
    """
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
                mine, theirs = spawn.Pipe()
                share = seat, seats[place]
                given = jobs[number], share, checkpoint_seconds, patience, os.getpid()
                process = spawn.Process(target=_work, args=(theirs, stop, *given), daemon=True)
                variables = ONE_THREAD_AT_IMPORT if place == "cpu" else {}
                with _signals_blocked(), _environment(variables), _own_code(jobs[number]):
                    process.start()
                theirs.close()
                working[mine] = number, seat, process
            for pipe in wait(list(working), timeout=0.1):
                assert isinstance(pipe, Connection)
                number, seat, process = working[pipe]
                try:
                    message = pipe.recv()
                except (EOFError, OSError):  # an OSError if it was killed while it sent
                    process.join()
                    del working[pipe]
                    free[jobs[number].place].add(seat)
                    if process.exitcode and outcomes[number] is None:
                        outcomes[number] = ChildProcessError(_how_it_ended(process.exitcode))
                    hear(number, Ended(outcomes[number]))
                    continue
                if isinstance(message, Ended):
                    outcomes[number] = message.outcome
                    continue
                answer = hear(number, message)
                if isinstance(message, Evaluated):  # the worker waits for what is to become of it
                    with contextlib.suppress(OSError):  # it was killed
                        pipe.send(answer)
    finally:
        for *_, process in working.values():
            process.kill()
            process.join()
    return outcomes


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """A process started in this context never gets Ctrl-C, which reaches all: one of us
    answers it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """A process started in this context finds these variables set, unless the user has set them."""
    missing = variables.keys() - os.environ.keys()
    os.environ |= {name: variables[name] for name in missing}
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def _own_code(job: Job) -> contextlib.AbstractContextManager[None]:
    """A process started in this context finds a strategy or algorithm of the user's own, which may
    lie in the working directory; for any other job that is not searched."""
    run = job.runs[0]
    members = (algorithms.registry, run.algorithm), (strategies.registry, run.strategy)
    if any(registry.outside(name) is not None for registry, name in members):
        return modules.findable()
    return contextlib.nullcontext()


def _how_it_ended(code: int) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"A worker {how}; the same command again goes on from its last checkpoint."


class Forwarder(Observer):
    """Passes every event on to a function."""

    def __init__(self, send: Callable[[Event], Answer]):
        self._send = send

    def on_event(self, event: Event) -> Answer:
        """Pass the event on."""
        return self._send(event)


def portable(error: Exception) -> Exception:
    """An error that can be sent to another process: what users can correct as it is, others by
    name."""
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

    def send(event: Event) -> Answer:
        try:
            pipe.send(event)
            return pipe.recv() if isinstance(event, Evaluated) else None
        except (EOFError, OSError):  # nobody is there any more
            os._exit(1)

    prepare_process(job.place, share)
    try:
        train_job(job, Forwarder(send), stopping, checkpoint_seconds, patience)
    except Exception as error:
        send(Ended(portable(error)))


def prepare_process(place: str, share: tuple[int, int] = (0, 1)) -> None:
    """Prepare this process to train, before anything is computed.

    Args:
        place: "cpu" or "gpu".
        share: (i, n): this is the i-th of n processes there.
    """
    if place == "cpu":
        # Several processes cannot share a GPU's memory unasked, and would gain nothing by it. Each
        # has one thread, however many there are: how many multiply a matrix shows in its last bits.
        jax.config.update("jax_platforms", "cpu")
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ |= ONE_THREAD | {"XLA_FLAGS": f"{flags} {ONE_THREAD['XLA_FLAGS']}"}
    else:
        # Those who share a GPU share its memory; each steps its environments on cores of its own.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        hardware.use_share_of_cores(*share)
    compilation.use_cache()
