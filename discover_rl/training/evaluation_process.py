"""Evaluation in a process of its own, while training goes on in this one."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection

import numpy as np

from discover_rl.config import Run
from discover_rl.core.types import Net, PolicyHead
from discover_rl.system import hardware
from discover_rl.training.evaluation import (
    BackgroundEvaluator,
    EvaluationSetup,
    Evaluator,
    Scores,
    most_steps,
)


def make_evaluator(
    run: Run, seeds: Sequence[int], backend: str, time_limit: int | None
) -> BackgroundEvaluator:
    """The evaluator of a cohort.

    Args:
        run: one of its runs.
        seeds: of all of them.
        backend: what steps the environments.
        time_limit: of the task's episodes, if they have one.
    """
    setup = EvaluationSetup(
        task=run.task,
        seeds=seeds,
        episodes=run.eval.episodes,
        max_steps=run.eval.max_steps,
        backend=backend,
        making=run.env.making,
    )
    # With a GPU for learning, the threads that step environments are idle most of the time. So
    # there are cores left to evaluate beside training.
    if backend == "envpool" and hardware.accelerated():
        steps = most_steps(run, time_limit)
        return EvaluationProcess(steps / (steps + run.eval.every), setup)
    return Evaluator(setup)


class EvaluationProcess:
    """An evaluator in another process (`evaluation.BackgroundEvaluator`)."""

    def __init__(self, share: float, setup: EvaluationSetup):
        """Start the process.

        Args:
            share: of the cores that it may use; at least a quarter and at most half are taken.
            setup: what it evaluates.
        """
        self._pipe, theirs = multiprocessing.Pipe()
        # Not by multiprocessing, which would run the user's script again. The process has its own
        # session, so Ctrl-C does not reach it.
        # It finds modules where this process does, and not in the working directory.
        code = f"import sys; sys.path[:] = sys.argv[2:]; from {__name__} import serve; serve()"
        end = theirs.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, str(end), *sys.path],
            pass_fds=[end],
            start_new_session=True,
            # NumPy's idle threads would keep cores busy.
            env=os.environ | hardware.ONE_THREAD_AT_IMPORT,
        )
        theirs.close()
        with self._noticed():
            self._pipe.send((min(max(share, 1 / 4), 1 / 2), setup))
        self._crashes: list[str] = []

    def begin(
        self,
        nets: Net,
        head: PolicyHead,
        alive: np.ndarray,
        interrupted: Callable[[], bool] = bool,
    ) -> None:
        """Begin to evaluate the living lanes; it cannot be interrupted."""
        del interrupted
        with self._noticed():
            self._pipe.send((nets, head, alive))

    def ready(self) -> bool:
        """Whether the evaluation that was begun last has ended."""
        return self._pipe.poll()

    def scores(self) -> Scores:
        """Wait for the evaluation that was begun last; return its result."""
        with self._noticed():
            scores, self._crashes = self._pipe.recv()
        return scores

    def crash(self, lane: int) -> str:
        """The first error that one of a lane's environments raised; '' if none did."""
        return self._crashes[lane] if self._crashes else ""

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    @contextlib.contextmanager
    def _noticed(self) -> Iterator[None]:
        """A context in which a broken pipe raises a ChildProcessError: a BrokenPipeError would be
        taken for one of the standard output."""
        try:
            yield
        except (EOFError, OSError) as error:
            raise ChildProcessError("The process that evaluates is gone.") from error


def serve() -> None:
    """Evaluate in this process on request, until the other end of the pipe is closed."""
    pipe = Connection(int(sys.argv[1]))
    share, setup = pipe.recv()
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[-max(2, round(len(cores) * share)) :])
    evaluator = Evaluator(setup)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            scores = evaluator(*pipe.recv())
            pipe.send((scores, [evaluator.crash(lane) for lane in range(len(setup.seeds))]))
