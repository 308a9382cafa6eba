"""Records and files on disk. All results are written here and in `checkpoint.py`.

    <out>/
      <run>/record.jsonl         line 1: the run, fully resolved, with versions; then a line per
                                 evaluation or event
      <run>/policy.{safetensors,json}
      <run>/replay.safetensors   with compute.keep_replay: `types.Visits`
      checkpoint-<step>/         all it takes to go on, until the cohort is done (checkpoint.py)
      replay/<run>/              the replay buffers' rows, in segments
      <run>/last-good/           of a run that diverged: its part of the last checkpoint before

A record is only ever appended to, and synced; a torn last line is dropped when it is read.
Whatever consists of several files is written under another name and renamed when it is whole.
Whether a run is done is read off its record.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from discover_rl.types import UserError


class Taken(UserError):
    """Somebody else is working in a folder."""


REPLAY = "replay.safetensors"
FATAL = ("diverged", "crashed")
"""Events that end a run early; nothing follows them in a record."""


class Glance(NamedTuple):
    """A record's first and last line, which say how a run stands."""

    header: dict[str, Any] | None = None
    last: dict[str, Any] = {}  # noqa: RUF012

    @property
    def failure(self) -> dict[str, Any] | None:
        return self.last if self.last.get("event") in FATAL else None

    @property
    def reason(self) -> str:
        """Of the failure, in words."""
        if self.failure is None:
            return ""
        what = self.failure.get("reason") or f"{self.failure['quantity']} is not finite"
        return f"{what} (step {self.failure['step']:,})"

    @property
    def done(self) -> bool:
        if self.header is None or "returns" not in self.last:
            return False
        return self.last["step"] == self.header["run"]["steps"]

    @property
    def over(self) -> bool:
        """Nothing is left to do: it came to its end, or failed."""
        return self.done or self.failure is not None


def record_of(out: Path, name: str) -> Path:
    """Where the record of the run of this name is."""
    return out / name / "record.jsonl"


def glance(path: Path) -> Glance:
    """How a run stands, without reading all of its record."""
    try:
        with path.open("rb") as file:
            first = file.readline()
            end, tail = file.seek(0, os.SEEK_END), b""
            while tail.rstrip(b"\n").count(b"\n") < 2 and len(tail) < end:
                file.seek(max(0, end - 4 * max(len(tail), 1024)))
                tail = file.read(end - file.tell())
        whole = tail[: tail.rfind(b"\n") + 1].splitlines()
        if not whole:
            return Glance()
        header, last = json.loads(first), json.loads(whole[-1])
        if not isinstance(last, dict) or not isinstance(header, dict) or "run" not in header:
            raise ValueError("line 1 is not that of a run")
        return Glance(header, last)
    except FileNotFoundError:
        return Glance()
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); move it away to start over.") from error


def lines(path: Path) -> list[dict[str, Any]]:
    """A file's JSON lines, a torn last one left out; none if there is no file."""
    raw = path.read_bytes() if path.exists() else b""
    try:
        found = [json.loads(line) for line in raw[: raw.rfind(b"\n") + 1].splitlines()]
        if not all(isinstance(line, dict) for line in found):
            raise ValueError("a line is no object")
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); move it away to start over.") from error
    return found


class Record:
    """One run's record."""

    def __init__(self, path: Path):
        self.path = path
        self.lines = lines(path)
        if self.lines and "run" not in self.lines[0]:
            raise UserError(f"{path} is damaged (no run in line 1); move it away to start over.")

    @property
    def header(self) -> dict[str, Any] | None:
        return self.lines[0] if self.lines else None

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        return [line for line in self.lines[1:] if "returns" in line]

    @property
    def glance(self) -> Glance:
        return Glance(*([self.lines[0], self.lines[-1]] if self.lines else []))

    @property
    def failure(self) -> dict[str, Any] | None:
        """The event that ended the run early, if one did."""
        return self.glance.failure

    @property
    def done(self) -> bool:
        return self.glance.done

    @property
    def over(self) -> bool:
        return self.glance.over

    def evaluated(self, step: int) -> bool:
        return any(line["step"] == step for line in self.evaluations)

    def begin(self, header: Mapping[str, Any]) -> None:
        """Start over with this header."""
        self.lines = [dict(header)]
        self.cut(-1)

    def append(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, allow_nan=False, ensure_ascii=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(dict(line))

    def cut(self, step: int) -> None:
        """Keep the header and what happened up to `step`. What is dropped is gone for good, so this
        is only for what a resumed run is about to do again."""
        self.lines = self.lines[:1] + [line for line in self.lines[1:] if line["step"] <= step]
        text = "".join(
            json.dumps(line, allow_nan=False, ensure_ascii=False) + "\n" for line in self.lines
        )
        write(self.path, text.encode())


@contextlib.contextmanager
def locked(out: Path, patience: float = 0.0, stopping: Callable[[], bool] = bool) -> Iterator[None]:
    """Only one process at a time works in a folder. The lock dies with its process. Raises Taken
    when patience is at an end, or who waits is asked to stop."""
    until = time.monotonic() + patience
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = (out / ".lock").open("w")
    except OSError as error:
        raise UserError(f"{out} cannot be written to ({error.strerror}).") from error
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= until or stopping():
                    raise Taken(
                        f"Another process is training in {out}; choose another --out."
                    ) from error
            time.sleep(0.05)
        yield


def taken(out: Path) -> bool:
    """Whether somebody works in a folder right now."""
    try:
        with (out / ".lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def write(path: Path, content: bytes) -> dict[str, int]:
    """Write a file so that it is whole or not there, and return what proves it whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".tmp")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync(path.parent)
    return {"bytes": len(content), "crc32": zlib.crc32(content)}


def read(path: Path, proof: Mapping[str, int]) -> bytes:
    """The file's content; a UserError if it is not what was written."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from error
    if len(content) != proof["bytes"] or zlib.crc32(content) != proof["crc32"]:
        raise UserError(f"{path} is damaged; restore it, or move {path.parent} away to start over.")
    return content


def sync(folder: Path) -> None:
    """Make renames in this folder last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
