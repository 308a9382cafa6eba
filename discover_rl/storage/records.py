"""Records: one file of JSON lines per run, from which everything else is read.

Line 1 is the run with all its settings and the versions of the code. Every further line is an
evaluation ("returns"), an event ("event") or a measurement of training ("metrics"). Lines are only
appended, and synced. A torn last line is dropped on reading. Whether a run is done is read from its
record: there is no flag that could be wrong.

Every command reads records by `read_record`, so all agree on which ones are valid: every line has
its shape, steps never decrease, and there is one evaluation at every step where one is due, with
all its episodes. A record that is not valid counts for nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

from msgspec import Meta

from discover_rl.core.types import UserError
from discover_rl.storage import files, schemas
from discover_rl.storage.schemas import Backend, Count, Name, RunShape, Text

RECORD_FILE = "record.jsonl"
"""The file with a run's record."""
REPLAY_FILE = "replay.safetensors"
"""The file with a run's `ReplayExport`, if compute.keep_replay is set."""
FATAL = ("diverged", "crashed")
"""Events of failures, which end a run; nothing follows them in a record."""
STOPPED = "stopped"
"""The event that ends a run early on request; nothing follows it either."""

MOST_RETURN = 1e38
"""The largest size of a return: rewards are learned from in single precision, which ends there."""
Return = Annotated[float, Meta(ge=-MOST_RETURN, le=MOST_RETURN)]
"""The return of an episode."""
Numbers = dict[Name, Annotated[int, Meta(ge=-(2**53), le=2**53)] | float | None]
"""Numbers by name; None where one is not finite."""
_Dotted = TypedDict("_Dotted", {"score.last": Count}, total=False)


class Sources(TypedDict, total=False):
    """Hashes of the user's own code that a run uses, if it uses any."""

    task_source: Text
    strategy_source: Text
    algorithm_source: Text


class Header(_Dotted, Sources):
    """Line 1 of a record."""

    run: RunShape
    code: NotRequired[dict[Name, Text]]
    commit: NotRequired[Text | None]
    device: NotRequired[Text | None]
    backend: NotRequired[Backend]


class Line(Sources):
    """A line after the first: an evaluation (returns, lengths), an event or a measurement."""

    step: Count
    returns: NotRequired[Annotated[list[Return], Meta(min_length=1)]]
    lengths: NotRequired[list[Count]]
    report: NotRequired[Numbers]
    metrics: NotRequired[Numbers]
    event: NotRequired[Name]
    quantity: NotRequired[Text]
    reason: NotRequired[Text]


class Contents(NamedTuple):
    """The content of a record; empty if there is no record or if it is not valid."""

    header: Any = None  # a Header; None if nothing is recorded yet
    lines: Sequence[Mapping[str, Any]] = ()  # Line, all but the header
    damage: str = ""  # where and why it is not whole, in words; '' if it is
    torn: bool = False  # whether the file ends with a part of a line, which was left out

    @property
    def last(self) -> Mapping[str, Any]:
        """The last line; an empty one if there is none."""
        return self.lines[-1] if self.lines else {}

    @property
    def evaluations(self) -> list[Mapping[str, Any]]:
        """The lines of evaluations, in order."""
        return [line for line in self.lines if "returns" in line]

    @property
    def failure(self) -> Mapping[str, Any] | None:
        """The event by which the run failed, if it did."""
        return self.last if self.last.get("event") in FATAL else None

    @property
    def stopped(self) -> bool:
        """Whether the run ended early because that was asked for."""
        return self.last.get("event") == STOPPED

    @property
    def reason(self) -> str:
        """Why the run failed or ended early, or its record's damage, in words; else ''."""
        if self.failure is None and not self.stopped:
            return self.damage
        what = self.last.get("reason") or f"{self.last.get('quantity', 'a number')} is not finite"
        return f"{what} (step {self.last['step']:,})"

    @property
    def done(self) -> bool:
        """Whether the run was evaluated at its last step, or ended early on request."""
        if self.stopped:
            return True
        return "returns" in self.last and self.last["step"] == self.header["run"]["steps"]

    @property
    def over(self) -> bool:
        """Whether nothing can be trained: the run is done, it failed, or its record is damaged."""
        return self.done or self.failure is not None or bool(self.damage)


def sources_in(*lines: Mapping[str, Any]) -> dict[str, str]:
    """Return the hashes of the user's own code in lines of a record; later lines win.

    >>> sources_in({"run": {}, "task_source": "12"}, {"step": 5, "task_source": "34"})
    {'task_source': '34'}
    """
    return {name: line[name] for line in lines for name in Sources.__annotations__ if name in line}


def record_path(out: Path, name: str) -> Path:
    """Where the record of the run with this name is."""
    return out / name / RECORD_FILE


def record_paths(folder: Path) -> list[Path]:
    """Where all records at or below a folder are, in order."""
    return sorted(folder.rglob(RECORD_FILE))


def read_record(path: Path) -> Contents:
    """Read a record and check all of it; a torn last line is left out."""
    try:
        raw = schemas.content(path)
        end = raw.rfind(b"\n") + 1
        header, _, rest = raw[:end].partition(b"\n")
        if not header and not rest:
            return Contents(torn=end < len(raw))
        found = Contents(
            schemas.decode(header, Header, f"{path}, line 1,"),
            schemas.decode_lines(rest, Line, path, first=2),
            torn=end < len(raw),
        )
        _check(path, found)
    except FileNotFoundError:
        return Contents()
    except OSError as error:
        return Contents(damage=f"{path} cannot be read ({error.strerror}).")
    except schemas.Malformed as error:
        return Contents(damage=str(error))
    return found


def _check(path: Path, record: Contents) -> None:
    """Raise Malformed if lines that are valid by themselves do not fit together."""
    run = record.header["run"]
    known = schemas.check(run["settings"], schemas.KnownSettings, f"{path}, line 1,")
    every, steps = known.get("eval.every"), run["steps"]
    episodes, latest, due, over = known.get("eval.episodes"), 0, 0, False
    for number, line in enumerate(record.lines, 2):
        step, why = line["step"], ""
        if over:
            why = "something follows the run's end"
        elif not latest <= step <= steps:
            why = f"step {step:,} comes after step {latest:,}, in a run of {steps:,} steps"
        elif "returns" in line:
            count = len(line["returns"])
            if step != due if every else step < due:
                why = f"an evaluation at step {step:,}, where the next is due at step {due:,}"
            elif count != len(line.get("lengths", ())) or count != (episodes or count):
                why = "an evaluation in which episodes are missing or too many"
            due = min(step + every, steps) if every else step + 1
            over = step == steps
        elif "event" in line:
            over = line["event"] in (*FATAL, STOPPED)
        elif "metrics" not in line:
            why = "neither an evaluation nor an event nor a measurement"
        if why:
            raise schemas.malformed(f"{path}, line {number},", why)
        latest = step


class Record:
    """One run's record, to be read and appended to. A damaged one raises a UserError."""

    def __init__(self, path: Path):
        self.path = path
        found = read_record(path)
        if found.damage:
            raise UserError(found.damage)
        self.lines = [found.header, *found.lines] if found.header else []
        self._torn = found.torn

    @property
    def contents(self) -> Contents:
        """The content of the record."""
        return Contents(self.lines[0], self.lines[1:]) if self.lines else Contents()

    @property
    def header(self) -> dict[str, Any] | None:
        """Line 1; None if nothing is recorded yet."""
        return self.lines[0] if self.lines else None

    @property
    def evaluations(self) -> list[Mapping[str, Any]]:
        """The lines of evaluations, in order."""
        return self.contents.evaluations

    @property
    def failure(self) -> Mapping[str, Any] | None:
        """The event by which the run failed, if it did."""
        return self.contents.failure

    @property
    def stopped(self) -> bool:
        """Whether the run ended early because that was asked for."""
        return self.contents.stopped

    @property
    def done(self) -> bool:
        """Whether the run was evaluated at its last step, or ended early on request."""
        return self.contents.done

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self.contents.over

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
        assert header.keys() <= Header.__annotations__.keys(), "Header says what it may have"
        self.lines = [dict(header)]
        self.cut(-1)

    def append(self, line: Mapping[str, Any], sync: bool = True) -> None:
        """Append a line.

        Args:
            line: its content.
            sync: whether to make sure that it is on disk, with all lines before it.
        """
        assert line.keys() <= Line.__annotations__.keys(), "Line says what it may have"
        encoded = _encoded(line)
        if self._torn:  # what is appended to a part of a line would belong to that line
            self._write()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            self._torn = True  # until all of it is written
            file.write(encoded)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        self._torn = False
        self.lines.append(dict(line))

    def cut(self, step: int) -> None:
        """Drop the lines after `step`: a resumed run is going to write them again."""
        self.lines = self.lines[:1] + [line for line in self.lines[1:] if line["step"] <= step]
        self._write()

    def _write(self) -> None:
        """Write the whole file anew."""
        files.write(self.path, b"".join(map(_encoded, self.lines)))
        self._torn = False


def _encoded(line: Mapping[str, Any]) -> bytes:
    return (json.dumps(line, allow_nan=False, ensure_ascii=False) + "\n").encode()
