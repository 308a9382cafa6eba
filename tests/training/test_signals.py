"""Signals: the first asks, the second ends, even a process that hangs."""

import os
import signal
import subprocess
import sys

import pytest

from discover_rl.training.signals import stop_on_signal

SAID = (
    "Stopping after a checkpoint; again: at once.\nStopped at once; the last checkpoint is kept.\n"
)
HANGS = """
import ctypes
from discover_rl.training.signals import stop_on_signal

library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
with stop_on_signal():
    library.pthread_mutex_lock(mutex)
    print("ready", flush=True)
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


def test_afterwards_signals_are_as_before():
    before = signal.getsignal(signal.SIGINT)
    with stop_on_signal():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_hangs_ends_at_the_second(number):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HANGS], **options) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            assert process.stderr is not None
            said = process.stderr.readline()  # at once, though it hangs
            assert process.poll() is None
            process.send_signal(number)
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, said + err) == (130, SAID)
