"""The code of a Ray task: train one cohort, send its events, and stop when asked to."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from discover_rl.core.types import Stopped, UserError
from discover_rl.system import extras, hardware, modules
from discover_rl.training.engines import Outcome, local
from discover_rl.training.events import Event, Stepped
from discover_rl.training.job import Job
from discover_rl.training.job import train as train_job

PULSE = 0.3
"""Seconds between two reports of a task's step, which also ask whether to stop."""


def needed() -> Any:
    """Import Ray; a UserError if it is not installed."""
    try:
        import ray
    except ImportError as error:
        raise UserError(extras.hint("--engine ray", "ray")) from error
    return ray


def accelerated() -> bool:
    """Whether JAX computes on a GPU, on the node that this runs on."""
    return hardware.accelerated()


class Mailbox:
    """A Ray actor between tasks and the process that started them."""

    def __init__(self) -> None:
        self._events: list[tuple[int, Event]] = []
        self._begun: set[int] = set()
        self._stopped = False

    def send(self, attempt: int, events: Sequence[Event]) -> bool:
        """Take events from a task. Return whether the task should stop."""
        self._begun.add(attempt)
        self._events += [(attempt, event) for event in events]
        return self._stopped

    def collect(self) -> list[tuple[int, Event]]:
        """Return the events since the last call, each with the number of its attempt."""
        events, self._events = self._events, []
        return events

    def stop(self) -> set[int]:
        """Stop all tasks. Return the attempts that have begun; no other one will begin."""
        self._stopped = True
        return self._begun


class Connection:
    """A task's connection to the mailbox.

    Every call waits for the answer, so nothing is lost if the worker dies. `Stepped` events are
    sent with the next call.
    """

    def __init__(self, mailbox: Any, attempt: int):
        self._mailbox, self._attempt = mailbox, attempt
        self._step: list[Event] = []
        self._stop, self._asked = False, -PULSE

    def send(self, event: Event) -> None:
        """Send an event."""
        if isinstance(event, Stepped):
            self._step = [event]
        else:
            self._call(event)

    def stopping(self) -> bool:
        """Whether the task is to stop."""
        if time.monotonic() - self._asked >= PULSE:
            self._call()
        return self._stop

    def _call(self, *events: Event) -> None:
        ray = needed()
        try:
            sent = self._mailbox.send.remote(self._attempt, [*self._step, *events])
            # Not ray.get: while a task waits in it, Ray gives its resources to another.
            self._stop = sent.future().result()
        except ray.exceptions.RayError:  # the process that started the tasks is gone
            os._exit(1)
        self._step, self._asked = [], time.monotonic()


def work(
    mailbox: Any,
    attempt: int,
    job: Job,
    paths: Sequence[str],
    checkpoint_seconds: float,
    patience: float,
) -> Outcome:
    """Train a cohort; return its outcome.

    Args:
        mailbox: receives its events.
        attempt: the number of this attempt.
        job: the cohort to train.
        paths: the module search path of the command; the last one is its working directory.
        checkpoint_seconds: time between checkpoints.
        patience: seconds to wait for the lock of the work folder.
    """
    connection = Connection(mailbox, attempt)
    if connection.stopping():
        return Stopped(job.step)
    if not job.workdir.is_dir():
        return UserError(
            f"{job.workdir} is not there on {socket.gethostname()}; --out must be a folder that "
            "all nodes of the cluster share."
        )
    sys.path += [path for path in paths[:-1] if path not in sys.path]  # for tasks as module:id
    modules.FOLDERS[:] = paths[-1:]
    with contextlib.suppress(OSError):  # other nodes may not have it
        os.chdir(paths[-1])  # where the user's own code may look for files
    local.prepare_process(job.place if hardware.accelerated() else "cpu")
    observer = local.Forwarder(connection.send)
    try:
        train_job(job, observer, connection.stopping, checkpoint_seconds, patience)
    except Exception as error:
        return local.portable(error)
    return None
