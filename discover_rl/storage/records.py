"""Records: one file of JSON lines per run, from which everything else is read.

Line 1 is the run with all its settings and the versions of the code; then comes a line per
evaluation ("returns"), event ("event") or measurement of training ("metrics"). A record is only
ever appended to, and synced; a torn last line is dropped when it is read. Whether a run is done is
read from its record: there is no flag that could be wrong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from discover_rl.core.types import UserError
from discover_rl.storage import files

REPLAY_FILE = "replay.safetensors"
"""In a run's folder, with compute.keep_replay: a `ReplayExport`."""
FATAL = ("diverged", "crashed")
"""Events of failures, which end a run; nothing follows them in a record."""
STOPPED = "stopped"
"""The event that ends a run early because that was asked for; nothing follows it either."""
SOURCES = ("task_source", "strategy_source", "algorithm_source")
"""Hashes of the code of what is the user's own."""


class Summary(NamedTuple):
    """A record's first and last line, which say how far a run is."""

    header: dict[str, Any] | None = None
    last: dict[str, Any] = {}  # noqa: RUF012

    @property
    def failure(self) -> dict[str, Any] | None:
        """The event by which the run failed, if it did."""
        return self.last if self.last.get("event") in FATAL else None

    @property
    def stopped(self) -> bool:
        """Whether the run ended early because that was asked for."""
        return self.last.get("event") == STOPPED

    @property
    def reason(self) -> str:
        """Why the run failed or ended early, in words; '' if it did neither."""
        if self.failure is None and not self.stopped:
            return ""
        what = self.last.get("reason") or f"{self.last['quantity']} is not finite"
        return f"{what} (step {self.last['step']:,})"

    @property
    def done(self) -> bool:
        """Whether the run was evaluated at its last step, or ended early on request."""
        if self.header is None or self.stopped:
            return self.header is not None
        return "returns" in self.last and self.last["step"] == self.header["run"]["steps"]

    @property
    def over(self) -> bool:
        """Whether nothing is left to do: the run is done, or it failed."""
        return self.done or self.failure is not None


def sources_in(*lines: Mapping[str, Any]) -> dict[str, str]:
    """The hashes of the user's own code that lines of a record have; later ones count.

    >>> sources_in({"run": {}, "task_source": "12"}, {"step": 5, "task_source": "34"})
    {'task_source': '34'}
    """
    return {name: line[name] for line in lines for name in SOURCES if name in line}


def record_path(out: Path, name: str) -> Path:
    """Where the record of the run with this name is."""
    return out / name / "record.jsonl"


def summary(path: Path) -> Summary:
    """Read the first and last line of a record, and nothing else of it."""
    try:
        with path.open("rb") as file:
            first = file.readline()
            end, tail = file.seek(0, os.SEEK_END), b""
            while tail.rstrip(b"\n").count(b"\n") < 2 and len(tail) < end:
                file.seek(max(0, end - 4 * max(len(tail), 1024)))
                tail = file.read(end - file.tell())
        whole = tail[: tail.rfind(b"\n") + 1].splitlines()
        if not whole:
            return Summary()
        header, last = json.loads(first), json.loads(whole[-1])
        if not isinstance(last, dict) or not isinstance(header, dict) or "run" not in header:
            raise ValueError("line 1 is not that of a run")
        return Summary(header, last)
    except FileNotFoundError:
        return Summary()
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); move it away to start over.") from error


class Record:
    """One run's record."""

    def __init__(self, path: Path):
        self.path = path
        self.lines = files.json_lines(path)
        if self.lines and "run" not in self.lines[0]:
            raise UserError(f"{path} is damaged (no run in line 1); move it away to start over.")

    @property
    def header(self) -> dict[str, Any] | None:
        """Line 1; None if nothing is recorded yet."""
        return self.lines[0] if self.lines else None

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """The lines of evaluations, in order."""
        return [line for line in self.lines[1:] if "returns" in line]

    @property
    def summary(self) -> Summary:
        """How far the run is."""
        return Summary(*([self.lines[0], self.lines[-1]] if self.lines else []))

    @property
    def failure(self) -> dict[str, Any] | None:
        """The event by which the run failed, if it did."""
        return self.summary.failure

    @property
    def stopped(self) -> bool:
        """Whether the run ended early because that was asked for."""
        return self.summary.stopped

    @property
    def done(self) -> bool:
        """Whether the run was evaluated at its last step, or ended early on request."""
        return self.summary.done

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self.summary.over

    @property
    def task_source(self) -> str:
        """The hash of the task's own code that it was last trained on; '' if there is none."""
        return self.sources.get("task_source", "")

    @property
    def sources(self) -> dict[str, str]:
        """The hashes of the user's own code that it was last trained on, by what that code is."""
        return sources_in(*self.lines)

    def evaluated(self, step: int) -> bool:
        """Whether there is an evaluation at this step."""
        return any(line["step"] == step for line in self.evaluations)

    def begin(self, header: Mapping[str, Any]) -> None:
        """Start over with this header."""
        self.lines = [dict(header)]
        self.cut(-1)

    def append(self, line: Mapping[str, Any], sync: bool = True) -> None:
        """Append a line.

        Args:
            line: its content.
            sync: whether to make sure that it is on disk, with all lines before it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(_encoded(line))
            file.flush()
            if sync:
                os.fsync(file.fileno())
        self.lines.append(dict(line))

    def cut(self, step: int) -> None:
        """Drop everything after `step`, for a resumed run that is about to make it again."""
        self.lines = self.lines[:1] + [line for line in self.lines[1:] if line["step"] <= step]
        files.write(self.path, b"".join(map(_encoded, self.lines)))


def _encoded(line: Mapping[str, Any]) -> bytes:
    return (json.dumps(line, allow_nan=False, ensure_ascii=False) + "\n").encode()
