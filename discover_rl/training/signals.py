"""Ctrl-C and SIGTERM: training stops after a checkpoint, and at once if asked again."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask to stop."""
STOPPING = "Stopping after a checkpoint; again: at once."
"""What is said at the first one."""
AT_ONCE = "Stopped at once; the last checkpoint is kept."
"""What is said at the second one."""
GRACE = 2.0
"""Seconds that a process has to end after a second signal, before it is ended."""


@contextlib.contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """In this context, a first Ctrl-C or SIGTERM only asks to stop, a second one interrupts.

    Python answers signals between two of its steps, and while a program is compiled, or hangs, it
    comes to none. So a thread hears of signals, too: it says at once that the first one was heard,
    and ends the process if the second one has not.

    Yields:
        A function that says whether stopping was asked for.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # signals belong to the main thread
        return
    asked, heard = threading.Event(), 0

    def ask(number: int, frame: Any) -> None:
        nonlocal heard
        del number, frame
        heard += 1
        asked.set()
        if heard > 1:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, ask) for number in SIGNALS}
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(ours, asked), daemon=True)
    watcher.start()
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        theirs.close()  # which ends the thread
        watcher.join()
        ours.close()
        if heard > 1:
            print(AT_ONCE, file=sys.stderr)


def _watch(signals: socket.socket, asked: threading.Event) -> None:
    """Count signals as they arrive; after the second one, end a process that does not end."""
    heard = 0
    while numbers := signals.recv(64):
        before, heard = heard, heard + sum(number in SIGNALS for number in numbers)
        if heard and not before:
            asked.set()
            print(STOPPING, file=sys.stderr, flush=True)
        if heard > 1:
            signals.settimeout(GRACE)
            try:
                while signals.recv(64):
                    pass
            except TimeoutError:
                print(AT_ONCE, file=sys.stderr, flush=True)
                for child in multiprocessing.active_children():
                    child.kill()
                os._exit(128 + signal.SIGINT)
            return
