"""A cohort that is to be trained, and how it is taken up: from its last checkpoint, or its start.

A job has a desk: a folder with its checkpoints and a lock, so that no two processes ever work at
it, wherever they run. The lock dies with its process, and what was begun is found at the desk.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from discover_rl import checkpoint, provenance, store
from discover_rl.cohort import Cohort
from discover_rl.config import SHARED, Run
from discover_rl.observers import Observer
from discover_rl.store import Record
from discover_rl.types import UserError

CHECKPOINT_SECONDS = 60.0
PATIENCE = 30.0
"""Seconds to wait for a worker of a killed process to notice that it is alone."""


class Job(NamedTuple):
    """Runs that train in lockstep, and where."""

    runs: Sequence[Run]
    out: Path  # records and policies go below it
    desk: Path  # checkpoints and the lock
    place: str = "cpu"  # or "gpu"

    @property
    def step(self) -> int:
        return checkpoint.step_of(self.desk)


def do(
    job: Job,
    observer: Observer,
    stopping: Callable[[], bool],
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    patience: float = PATIENCE,
) -> None:
    """Do what is missing of a cohort. Raises Taken if somebody else is at it, and as `Cohort.run`
    does."""
    with store.locked(job.desk, patience, stopping):
        go_on(job, observer, stopping, checkpoint_seconds)


def go_on(
    job: Job, observer: Observer, stopping: Callable[[], bool], checkpoint_seconds: float
) -> None:
    """`do`, for who has the desk already."""
    records = {run.name: opened(run, job.out) for run in job.runs}
    path = checkpoint.find(job.desk)
    lanes = [run for run in job.runs if not records[run.name].over]
    if path is not None:
        begun = resumable(path, {run.name: run for run in job.runs})
        if all(records[run.name].over for run in begun):  # killed after the last record
            failed = [run.name for run in begun if records[run.name].failure]
            checkpoint.clear(job.desk, failed, job.out)
            path = None
        else:
            lanes = begun
            _refuse_gaps(job, records, path)
    if path is None:
        checkpoint.clear(job.desk)  # as above, or of what was left by who was killed clearing
    if lanes:
        cohort = Cohort(lanes, records, job.out, job.desk, observer, path)
        cohort.run(stopping, checkpoint_seconds)


def _refuse_gaps(job: Job, records: Mapping[str, Record], path: Path) -> None:
    """A record that is gone cannot be gone on with."""
    living = [lane["name"] for lane in checkpoint.manifest(path)["lanes"] if lane["alive"]]
    if lost := [name for name in living if records[name].header is None]:
        raise UserError(
            f"{records[lost[0]].path} is gone, though its run was begun; put it back, or remove "
            f"{path} to start all runs of its cohort over."
        )


def opened(run: Run, out: Path) -> Record:
    """The run's record; a UserError if the folder holds another run's."""
    record = Record(store.record_of(out, run.name))
    if unlike := record.header and difference(record.header["run"], run.to_json()):
        raise UserError(f"{out} holds another run: {unlike}; choose another --out.")
    return record


def difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """In what two runs differ, in words; nothing if they are the same.

    A record that is older than a setting of `config.SHARED` was made as its default has it.
    """
    there, here = ({**_defaults(), **it, **it.get("settings", {})} for it in (there, here))
    for name in sorted((there.keys() | here.keys()) - {"settings"}):
        if there.get(name) != here.get(name):
            return f"{name} is {there.get(name)} there and {here.get(name)} here"
    return ""


def _defaults() -> dict[str, Any]:
    return {
        prefix + field.name: field.default
        for prefix, group in SHARED.items()
        for field in dataclasses.fields(group)
    }


def resumable(path: Path, runs: Mapping[str, Run]) -> list[Run]:
    """The runs whose lanes a checkpoint holds, in its order; a UserError if it cannot be used."""
    content = checkpoint.manifest(path)
    ours = provenance.code()
    changed = [name for name in ours if content["code"].get(name) != ours[name]]
    if changed:
        name = changed[0]
        raise UserError(
            f"{path} was written by other code ({name} {content['code'].get(name)}, now "
            f"{ours[name]}), so going on would not be exact; go back to that code, or remove "
            f"{path} to start these runs over."
        )
    lanes = content["lanes"]
    if absent := [lane["name"] for lane in lanes if lane["name"] not in runs]:
        raise UserError(
            f"{path.parent} has unfinished runs that were not asked for ({', '.join(absent)}); "
            "ask for the same ones, or choose another --out."
        )
    for lane in lanes:
        if unlike := difference(lane["run"], runs[lane["name"]].to_json()):
            raise UserError(f"{path} is of another run: {unlike}; choose another --out.")
    return [runs[lane["name"]] for lane in lanes]
