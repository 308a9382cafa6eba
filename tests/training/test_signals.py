"""Signals: the first asks, the second ends, even a process that hangs."""

import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from discover_rl.training.signals import STOPPING, TOGETHER, stop_on_signal

SAID = (
    "Stopping after a checkpoint; again: at once.\nStopped at once; the last checkpoint is kept.\n"
)
HANGS = """
import ctypes
import sys
import threading
from discover_rl.training import signals

library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
with getattr(signals, sys.argv[1])():
    library.pthread_mutex_lock(mutex)
    # Said while the main thread hangs already: before, Python would answer the first signal.
    threading.Timer(0.3, print, ["ready"], {"flush": True}).start()
    library.pthread_mutex_lock(mutex)  # for ever, and Python answers no signal meanwhile
"""


def test_the_first_asks_and_the_second_interrupts(capfd):
    def work():
        with stop_on_signal() as stopping:
            assert not stopping()
            os.kill(os.getpid(), signal.SIGINT)
            assert stopping()
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert capfd.readouterr().err == SAID


def test_a_sigterm_to_a_process_and_at_once_to_its_group_is_one(capfd):
    """So does `timeout`, and training would not have the time to write its checkpoint."""
    with stop_on_signal() as stopping:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            assert stopping()
        for _ in range(100):
            assert capfd.readouterr().err in ("", STOPPING + "\n")
            time.sleep(0.001)


def test_afterwards_signals_are_as_before():
    before = signal.getsignal(signal.SIGINT)
    with stop_on_signal():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.parametrize(
    ("number", "context", "all_said"),
    [
        (signal.SIGINT, "stop_on_signal", SAID),
        pytest.param(signal.SIGTERM, "stop_on_signal", SAID, marks=pytest.mark.slow),
        pytest.param(
            *(signal.SIGINT, "end_where_it_hangs", "Ended at once.\n"), marks=pytest.mark.slow
        ),
    ],
)
def test_a_process_that_hangs_ends_at_the_second(number, context, all_said):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HANGS, context], **options) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            assert process.stderr is not None
            # At once, though it hangs.
            said = process.stderr.readline() if all_said == SAID else ""
            assert process.poll() is None
            time.sleep(TOGETHER)
            process.send_signal(number)
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, said + err) == (130, all_said)


def test_a_terminal_gets_its_cursor_back():
    """The progress bar has hidden it."""
    here, there = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", HANGS, "stop_on_signal"], stdout=there, stderr=there
    ) as process:
        os.close(there)
        seen = b""
        try:
            for awaited in (b"ready", b"Stopping"):
                while awaited not in seen:
                    seen += os.read(here, 1024)
                time.sleep(TOGETHER)  # by then it hangs
                process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            seen += os.read(here, 1024)
        finally:
            process.kill()
            os.close(here)
    assert seen.endswith(b"\n\x1b[?25h")
