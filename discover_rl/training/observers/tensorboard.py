"""Curves for TensorBoard, written by tensorboardX."""

from __future__ import annotations

import contextlib
import importlib
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from discover_rl.config import Run
from discover_rl.core.types import UserError
from discover_rl.system import extras
from discover_rl.training.events import Report
from discover_rl.training.observers.base import Observer, scalars, training_scalars


class TensorBoard(Observer):
    """Writes event files into the folders of the runs in `out`, while training goes on.

    A run that continues from a checkpoint repeats some evaluations. So each file says at which step
    it starts, and TensorBoard drops the later steps of earlier files.
    """

    def __init__(self, out: str | Path):
        self.out = Path(out)
        # Not SummaryWriter, which writes in a thread of its own: numbers would be late, or lost if
        # the process is killed, and errors of the disk would not be raised.
        try:
            self._files = importlib.import_module("tensorboardX.event_file_writer")
            self._events = importlib.import_module("tensorboardX.proto.event_pb2")
            self._summaries = importlib.import_module("tensorboardX.summary")
        except ModuleNotFoundError as error:
            raise UserError(extras.hint("TensorBoard", "tensorboard")) from error
        self._writers: dict[str, Any] = {}
        weakref.finalize(self, _close, self._writers)  # those of runs that did not finish

    def started(self, runs: Sequence[Run], step: int) -> None:
        """Prepare new files for runs that start or continue."""
        del step
        self.finished(runs)

    def evaluated(self, run: Run, step: int, returns: Sequence[float], report: Report) -> None:
        """Write an evaluation's numbers."""
        self._write_scalars(run, step, scalars(returns, report))

    def measured(self, run: Run, step: int, metrics: Report, steps_per_second: float) -> None:
        """Write metrics of training."""
        self._write_scalars(run, step, training_scalars(metrics, steps_per_second))

    def noted(self, run: Run, step: int, note: str) -> None:
        """Write a note, as text."""
        # An evaluation at this very step may have been written before.
        self._write(run, step, self._summaries.text("note", note), start=step + 1)

    def finished(self, runs: Sequence[Run]) -> None:
        """Close the files of these runs."""
        for run in runs:
            if writer := self._writers.pop(run.name, None):
                writer.close()

    def _write_scalars(self, run: Run, step: int, numbers: Mapping[str, float]) -> None:
        summary = self._summaries.Summary()
        for name, number in numbers.items():
            summary.value.add(tag=name, simple_value=number)
        self._write(run, step, summary, start=step)

    def _write(self, run: Run, step: int, summary: Any, start: int) -> None:
        """Write a summary at once. The first one of a run opens its file, because only then its
        step is known: runs may continue later than at the step that `started` is given."""
        events = [self._events.Event(wall_time=time.time(), step=step, summary=summary)]
        if run.name not in self._writers:
            folder = self.out / run.name
            folder.mkdir(parents=True, exist_ok=True)
            # TensorBoard reads files in the order of their names.
            suffix = f".{time.time_ns()}"
            self._writers[run.name] = self._files.EventsWriter(str(folder / "events"), suffix)
            log = self._events.SessionLog(status=self._events.SessionLog.START)
            first = self._events.Event(wall_time=time.time(), step=start, session_log=log)
            events.insert(0, first)
        for event in events:
            self._writers[run.name].write_event(event)
        self._writers[run.name].flush()


def _close(writers: dict[str, Any]) -> None:
    """Close files that are still open."""
    for writer in writers.values():
        with contextlib.suppress(OSError):  # it was raised before, when the event was written
            writer.close()
