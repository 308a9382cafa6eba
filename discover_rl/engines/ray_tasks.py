"""What a Ray task does: train one cohort, tell of it by post, and stop when it is asked to."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from discover_rl import jobs as desks
from discover_rl import machine
from discover_rl.engines import Outcome, local
from discover_rl.jobs import Job
from discover_rl.types import Stopped, UserError

PULSE = 0.3
"""Seconds after which a task tells how far it is, and asks whether to stop."""


def needed() -> Any:
    """Ray, or a UserError where it is not installed."""
    try:
        import ray
    except ImportError as error:
        raise UserError("--engine ray needs a package: pip install 'discover_rl[ray]'.") from error
    return ray


def accelerated() -> bool:
    """Of the node that is asked."""
    return machine.accelerated()


class Post:
    """The actor between tasks and who started them."""

    def __init__(self) -> None:
        self._letters: list[tuple[int, str, tuple[Any, ...]]] = []
        self._begun: set[int] = set()
        self._stopped = False

    def tell(self, ticket: int, messages: Sequence[tuple[str, tuple[Any, ...]]]) -> bool:
        """From a task; whether it is to stop."""
        self._begun.add(ticket)
        self._letters += [(ticket, *message) for message in messages]
        return self._stopped

    def collect(self) -> list[tuple[int, str, tuple[Any, ...]]]:
        letters, self._letters = self._letters, []
        return letters

    def stop(self) -> set[int]:
        """Stop all tasks; which have begun. No other will."""
        self._stopped = True
        return self._begun


class Line:
    """A task's line to the post. Every call waits for the answer, so nothing is lost if the worker
    dies; steps wait for the next call."""

    def __init__(self, post: Any, ticket: int):
        self._post, self._ticket = post, ticket
        self._step: list[tuple[str, tuple[Any, ...]]] = []
        self._stop, self._asked = False, -PULSE

    def tell(self, event: str, *details: Any) -> None:
        if event == "stepped":
            self._step = [(event, details)]
        else:
            self._call((event, details))

    def stopping(self) -> bool:
        if time.monotonic() - self._asked >= PULSE:
            self._call()
        return self._stop

    def _call(self, *messages: tuple[str, tuple[Any, ...]]) -> None:
        ray = needed()
        try:
            told = self._post.tell.remote(self._ticket, [*self._step, *messages])
            # Not ray.get: whoever waits by that gives its place away for so long.
            self._stop = told.future().result()
        except ray.exceptions.RayError:  # nobody listens any more
            os._exit(1)
        self._step, self._asked = [], time.monotonic()


def work(
    post: Any,
    ticket: int,
    job: Job,
    paths: Sequence[str],
    checkpoint_seconds: float,
    patience: float,
) -> Outcome:
    line = Line(post, ticket)
    if line.stopping():
        return Stopped(job.step)
    if not job.desk.is_dir():
        return UserError(
            f"{job.desk} is not there on {socket.gethostname()}; --out must be a folder that all "
            "nodes of the cluster share."
        )
    sys.path += [path for path in paths if path not in sys.path]  # for tasks as module:id
    local.settle(job.place if machine.accelerated() else "cpu")
    try:
        desks.do(job, local.Messenger(line.tell), line.stopping, checkpoint_seconds, patience)
    except Exception as error:
        return local.told(error)
    return None
