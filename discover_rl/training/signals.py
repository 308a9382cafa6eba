"""Ctrl-C and SIGTERM: training stops after a checkpoint, and at once if asked again.

Python handles signals between two bytecodes, so not while a program is compiled or a library hangs.
Therefore a thread watches them, too, and ends a process that does not react to the second.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask to stop."""
STOPPING = "Stopping after a checkpoint; again: at once."
"""The message at the first signal."""
AT_ONCE = "Stopped at once; the last checkpoint is kept."
"""The message at the second signal."""
HUNG = "Ended at once."
"""The message where a command that does not train hangs at the second signal."""
TOGETHER = 0.5
"""Seconds in which a SIGTERM that follows another is the same request: `timeout` and some
schedulers send it to a process and, at once, to the group that it is in."""
GRACE = 2.0
"""Seconds that a process has to end by itself after a second signal, before it is killed."""


@contextlib.contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """A context in which a first Ctrl-C or SIGTERM only asks to stop and a second one interrupts.

    A message is printed at the first one at once, also where Python does not get to handle it.

    Yields:
        A function that says whether stopping was asked for.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # signals belong to the main thread
        return
    asked, requests = threading.Event(), _Requests()

    def ask(number: int, frame: Any) -> None:
        del frame
        if requests.add(number) and requests.count > 1:
            raise KeyboardInterrupt
        asked.set()

    def first() -> None:
        asked.set()
        print(STOPPING, file=sys.stderr, flush=True)

    before = {number: signal.signal(number, ask) for number in SIGNALS}
    try:
        with _watched(first, AT_ONCE):
            yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if requests.count > 1:
            print(AT_ONCE, file=sys.stderr)


@contextlib.contextmanager
def end_where_it_hangs() -> Iterator[None]:
    """A context in which signals do what they did before, and a second Ctrl-C ends the process even
    where that cannot be interrupted: in a library that hangs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _watched(lambda: None, HUNG):
        yield


@contextlib.contextmanager
def _watched(first: Callable[[], None], said: str) -> Iterator[None]:
    """A context in which a thread sees the signals as they arrive.

    Args:
        first: called at the first one.
        said: printed if the process is ended after the second.
    """
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(ours, first, said), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        theirs.close()  # this ends the thread
        watcher.join()
        ours.close()


class _Requests:
    """Counts the signals that ask to stop."""

    def __init__(self) -> None:
        self.count = 0
        self._terminated = -TOGETHER

    def add(self, number: int) -> bool:
        """Count a signal, and return True; False if it is not counted."""
        if number == signal.SIGTERM:
            before, self._terminated = self._terminated, time.monotonic()
            if self._terminated - before < TOGETHER:
                return False
        self.count += number in SIGNALS
        return number in SIGNALS


def _watch(signals: socket.socket, first: Callable[[], None], said: str) -> None:
    """Count signals as they arrive; after the second one, end a process that does not end."""
    requests = _Requests()
    while numbers := signals.recv(64):
        for number in numbers:
            if requests.add(number) and requests.count == 1:
                first()
        if requests.count > 1:
            signals.settimeout(GRACE)
            try:
                while signals.recv(64):
                    pass
            except TimeoutError:
                print(said, file=sys.stderr, flush=True)
                _leave_terminal()
                for child in multiprocessing.active_children():
                    child.kill()
                os._exit(128 + signal.SIGINT)
            return


def _leave_terminal() -> None:
    """End the line of a progress bar on the terminal, and show the cursor, which bars hide."""
    with contextlib.suppress(OSError, ValueError):  # closed, or no file
        if sys.stdout.isatty():
            os.write(sys.stdout.fileno(), b"\n\x1b[?25h")
