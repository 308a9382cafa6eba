"""Kill training again and again, cheaply: `python -m tests.helpers.killer REQUEST.json OUT KILLS`.

Importing is what takes longest, so it is done once: every attempt is a fork of this process, which
itself computes nothing. It is killed at a random moment after it has written a new checkpoint.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from discover_rl.api import launch
from discover_rl.config import Request
from discover_rl.storage import checkpoints
from discover_rl.training import cohort, observers  # noqa: F401


def attempt(request: Request, out: Path) -> int:
    """Start a process that trains, and return its number."""
    child = os.fork()
    if child:
        return child
    try:
        launch(request, out, observers.Observer(), checkpoint_seconds=0.05)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def main(path: str, folder: str, kills: str) -> None:
    """Kill so many attempts, each after a checkpoint of its own, and let the last one finish."""
    request, out = Request(**json.loads(Path(path).read_text())), Path(folder)
    chance, steps = random.Random(path), [-1]
    for _ in range(int(kills)):
        child = attempt(request, out)
        while checkpoints.step_of(out) <= max(steps[-1], 0):
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "it ended before it could be killed"
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, "it ended before it could be killed"
        steps.append(checkpoints.step_of(out))
    assert os.waitpid(attempt(request, out), 0)[1] == 0
    print(steps[1:])


if __name__ == "__main__":
    main(*sys.argv[1:])
