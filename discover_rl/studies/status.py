"""How far each run of a study is, read from the study's folder, whichever process trains it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict

from discover_rl.config import current_names
from discover_rl.storage import checkpoints, files, schemas
from discover_rl.storage.records import Contents, read_record, record_path
from discover_rl.studies import plan
from discover_rl.studies.study import Cell, Study

TROUBLE = "trouble.json"
"""A file in a work folder with the reason why its cohort failed. The cohort is trained again by the
next `discover run`."""
STATES = ("done", "running", "begun", "waiting", "failed")
"""The states of a run. A run that has "begun" has a checkpoint, and no process is training it."""


class Trouble(TypedDict):
    """The content of the file `TROUBLE`."""

    reason: schemas.Text
    traceback: NotRequired[schemas.Text]


class RunStatus(NamedTuple):
    """How far one run is."""

    name: str
    state: str  # one of STATES
    step: int = 0
    reason: str = ""  # why it failed, if it did
    made_by: str = ""  # a hash of the code that began it
    unreadable: bool = False  # whether its record is damaged, or of another study


def statuses(study: Study, out: Path) -> list[RunStatus]:
    """How far all runs of a study are, in its order.

    Args:
        study: the study.
        out: the folder of its results.
    """
    return [status for status, _ in survey(study, out)]


def survey(study: Study, out: Path) -> Iterator[tuple[RunStatus, Contents]]:
    """How far all runs of a study are, in its order, and what their records say.

    Args:
        study: the study.
        out: the folder of its results.

    Yields:
        For each run its status and its record, which says nothing if it is damaged or if it is of
        another study; the status tells the reason then.
    """
    workdirs = plan.workdirs(out)
    cohorts = {workdir: _cohort_status(workdir) for workdir in set(workdirs.values())}
    for cell in study.cells:
        for name in cell.names:
            record = read_record(record_path(out, name))
            made_by = record.header.get("code", {}).get("source", "") if record.header else ""
            waiting = ("waiting", 0, "")
            state, step, reason = cohorts[workdirs[name]] if name in workdirs else waiting
            unreadable = bool(record.damage)
            if unlike := _unlike(cell, record):
                state, reason = "failed", f"its record is of another study: {unlike}"
                record, unreadable = Contents(), True
            elif record.over:
                state, step = "done" if record.done else "failed", record.last.get("step", 0)
                reason = record.reason
            elif state == "running":
                step = max(step, record.last.get("step", 0))
            yield RunStatus(name, state, step, reason, made_by, unreadable), record


def _unlike(cell: Cell, record: Contents) -> str:
    """The first difference between a record and the study's file, in words; '' if there is none.

    Only what the file contains is compared, not the values of presets and defaults.
    """
    if record.header is None:
        return ""
    run = record.header["run"]
    here = {name: getattr(cell, name) for name in ("task", "algorithm", "strategy", "steps")}
    own = current_names(cell.settings)
    here |= {name: value for name, value in own.items() if isinstance(value, int | float | list)}
    there = {**current_names(run.get("settings", {})), **run}
    for name, value in here.items():
        # A list of one value may be written without brackets; eval.every = 0 is a default.
        alike = there.get(name) in (value, [value]) or (name, value) == ("eval.every", 0)
        if name in there and not alike:
            return f"{name} is {there[name]} there and {value} here"
    return ""


def counts(found: Sequence[RunStatus]) -> dict[str, int]:
    """How many runs are in each state, in the order of STATES; states without runs are left out.

    >>> counts([RunStatus("a", "failed"), RunStatus("b", "done"), RunStatus("c", "done")])
    {'done': 2, 'failed': 1}
    """
    counted = Counter(run.state for run in found)
    return {state: counted[state] for state in STATES if counted[state]}


def write_trouble(workdir: Path, error: Exception) -> None:
    """Write the reason why a cohort failed into its work folder, if that is possible.

    Args:
        workdir: the work folder of the cohort.
        error: what was raised.
    """
    reason = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        reason = f"reading or writing failed: {error.strerror}{where}"
    details = {"reason": reason, "traceback": "".join(getattr(error, "__notes__", []))}
    try:
        files.write(workdir / TROUBLE, json.dumps(details, indent=1).encode())
    except OSError:  # a full disk takes nothing; the terminal has shown the error
        return


def clear_trouble(workdir: Path) -> None:
    """Remove the reason why a cohort failed, because it is trained again."""
    files.remove(workdir / TROUBLE)


def _cohort_status(workdir: Path) -> tuple[str, int, str]:
    """State, step and reason of those runs of a cohort that have not ended."""
    step = checkpoints.step_of(workdir)
    if files.in_use(workdir):
        return "running", step, ""
    try:
        return "failed", step, schemas.read_json(workdir / TROUBLE, Trouble)["reason"]
    except FileNotFoundError:
        return "begun" if checkpoints.find(workdir) else "waiting", step, ""
    except OSError as error:
        return "failed", step, f"{workdir / TROUBLE} cannot be read ({error.strerror})."
    except schemas.Malformed as error:
        return "failed", step, str(error)
