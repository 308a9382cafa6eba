"""Train several cohorts at once on this machine, a process each.

A worker trains one cohort, writes its records and checkpoints itself and sends events through a
pipe. It stops when it is asked to, and ends when the process that started it is gone. Nothing that
it computes depends on the others.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import traceback
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import jax

from discover_rl import algorithms, strategies
from discover_rl.core.types import Stopped, UserError
from discover_rl.storage import files
from discover_rl.system import compilation, hardware, modules
from discover_rl.system.hardware import ONE_THREAD, ONE_THREAD_AT_IMPORT
from discover_rl.training.engines import OnEvent, Outcome
from discover_rl.training.events import Ended, Evaluated, Event
from discover_rl.training.job import CHECKPOINT_SECONDS, PATIENCE, Job
from discover_rl.training.job import train as train_job
from discover_rl.training.observers.base import Answer, Observer


def run(
    jobs: Sequence[Job],
    on_event: OnEvent,
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
        on_event: receives the events of each.
        stopping: if true, all stop after a checkpoint.
        patience: seconds that a worker waits for the lock of its work folder.
        places: how many are trained at once, by "cpu" and "gpu".
        checkpoint_seconds: time between checkpoints.
        halt: whether a failure of one stops all.

    Returns:
        The outcome of each: None, or the error that ended it.
    """
    files.check_locks()  # before a process starts that would only say so
    spawn = multiprocessing.get_context("spawn")
    with _environment(modules.SAFE_PATH):  # multiprocessing starts a process for it
        stop = spawn.Event()
    waiting = list(range(len(jobs)))
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
                own = _own_modules(jobs[number])
                given = place, own, share, checkpoint_seconds, patience, os.getpid()
                process = spawn.Process(target=_work, args=(theirs, stop, *given), daemon=True)
                variables = modules.SAFE_PATH | (ONE_THREAD_AT_IMPORT if place == "cpu" else {})
                with _signals_blocked(), _environment(variables):
                    process.start()
                theirs.close()
                with contextlib.suppress(OSError):  # it was killed
                    mine.send(jobs[number])
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
                    on_event(number, Ended(outcomes[number]))
                    continue
                if isinstance(message, Ended):
                    outcomes[number] = message.outcome
                    continue
                answer = on_event(number, message)
                if isinstance(message, Evaluated):  # the worker waits for the answer
                    with contextlib.suppress(OSError):  # it was killed
                        pipe.send(answer)
    finally:
        for *_, process in working.values():
            process.kill()
            process.join()
    return outcomes


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """A context in which started processes ignore Ctrl-C: only their parent handles it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """A context in which started processes have these variables, unless the user has set them."""
    missing = variables.keys() - os.environ.keys()
    os.environ |= {name: variables[name] for name in missing}
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def _own_modules(job: Job) -> list[str]:
    """Name the modules of the user's own strategy and algorithm, if this job has any."""
    run = job.runs[0]
    named = (algorithms.registry, run.algorithm), (strategies.registry, run.strategy)
    members = (registry.outside(name) for registry, name in named)
    return [member.__name__ for member in members if isinstance(member, types.ModuleType)]


def _receive_job(pipe: Connection, own_modules: Sequence[str]) -> Job:
    """Receive the job of this worker. Only here, and only for the user's own strategy or algorithm,
    the working directory is searched: what else lies there is not imported."""
    if not own_modules:
        return pipe.recv()
    with modules.findable():
        for name in own_modules:
            if name not in sys.modules:
                importlib.import_module(name)
        return pipe.recv()


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
    """Return an error that can be sent to another process: the error itself if users can correct
    it, else one with its name."""
    if isinstance(error, (Stopped, UserError, OSError)):
        return error
    crash = ChildProcessError(f"A worker failed: {type(error).__name__}: {error}")
    crash.add_note(traceback.format_exc())
    return crash


def _work(
    pipe: Connection,
    stop: Any,
    place: str,
    own_modules: Sequence[str],
    share: tuple[int, int],
    checkpoint_seconds: float,
    patience: float,
    parent: int,
) -> None:
    def stopping() -> bool:
        if os.getppid() != parent:  # the parent was killed: another process may take over this job
            os._exit(1)
        return stop.is_set()

    def send(event: Event) -> Answer:
        try:
            pipe.send(event)
            return pipe.recv() if isinstance(event, Evaluated) else None
        except (EOFError, OSError):  # the parent is gone
            os._exit(1)

    prepare_process(place, share)
    try:
        job = _receive_job(pipe, own_modules)
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
        # JAX must not use a GPU here: by default a process reserves all of its memory. Each process
        # has one thread, however many cores there are: the number of threads that multiply a matrix
        # changes its last bits.
        jax.config.update("jax_platforms", "cpu")
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ |= ONE_THREAD | {"XLA_FLAGS": f"{flags} {ONE_THREAD['XLA_FLAGS']}"}
    else:
        # Processes that share a GPU share its memory. Each steps its environments on its own cores.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        hardware.use_share_of_cores(*share)
    compilation.use_cache()
