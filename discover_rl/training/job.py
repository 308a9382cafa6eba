"""One cohort that is to be trained, and how it is taken up: from its last checkpoint or its start.

A job has a work folder with its checkpoints and a lock, so that no two processes ever train it at
once, wherever they run. The lock is released when its process ends. What was begun is found in the
work folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from discover_rl import algorithms
from discover_rl.config import SHARED, Run, current_names
from discover_rl.core.hyperparameters import omitted_defaults
from discover_rl.core.types import UserError
from discover_rl.storage import checkpoints, files
from discover_rl.storage.records import Record, record_path
from discover_rl.system import provenance
from discover_rl.training import continuation, headers
from discover_rl.training.cohort import Cohort
from discover_rl.training.observers.base import Observer

CHECKPOINT_SECONDS = 60.0
"""Time between checkpoints, unless another is asked for."""
IRRELEVANT = {"settings", "compute.keep_checkpoint", "start.run"}
"""What a record says of a run that makes it no other one."""
PATIENCE = 30.0
"""Seconds to wait for a worker of a killed process to notice that it is alone."""


class Job(NamedTuple):
    """Runs that train in lockstep, and where."""

    runs: Sequence[Run]
    out: Path  # the folder for records and policies
    workdir: Path  # the folder for checkpoints and the lock
    place: str = "cpu"  # or "gpu"
    longer: bool = False  # whether its runs ended with fewer steps, and are to go on from there
    anyway: bool = False  # whether to go on though the task's code has changed

    @property
    def step(self) -> int:
        """The step of its last checkpoint; 0 if it has not begun."""
        return checkpoints.step_of(self.workdir)


def train(
    job: Job,
    observer: Observer,
    stopping: Callable[[], bool],
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    patience: float = PATIENCE,
) -> None:
    """Train what is missing of a job.

    Args:
        job: what to train.
        observer: hears of progress.
        stopping: asked every few steps; if true, training stops after a checkpoint.
        checkpoint_seconds: time between checkpoints.
        patience: seconds to wait for the lock of the work folder.

    Raises:
        FolderInUse: somebody else is training it.
        Stopped: `stopping()` was true.
    """
    with files.locked(job.workdir, patience, stopping):
        records = {run.name: open_record(run, job.out, job.anyway, job.longer) for run in job.runs}
        train_locked(job, records, observer, stopping, checkpoint_seconds)


def train_locked(
    job: Job,
    records: Mapping[str, Record],
    observer: Observer,
    stopping: Callable[[], bool],
    checkpoint_seconds: float,
) -> None:
    """Like `train`, when the caller already holds the lock and has read the records."""
    if job.longer:
        continuation.go_on(job.runs, records, job.out, job.workdir)
    path = checkpoints.find(job.workdir)
    lanes = [run for run in job.runs if not records[run.name].over]
    if path is not None:
        begun = resumable(path, {run.name: run for run in job.runs})
        if all(records[run.name].over for run in begun):  # killed after the last record
            failed = [run.name for run in begun if records[run.name].failure]
            checkpoints.clear(job.workdir, failed, job.out)
            path = None
        else:
            lanes = begun
            _refuse_missing_records(records, path)
    if path is None:
        checkpoints.clear(job.workdir)  # as above, or of a process that was killed while clearing
    if lanes:
        cohort = Cohort(lanes, records, job.out, job.workdir, observer, path)
        cohort.run(stopping, checkpoint_seconds)


def _refuse_missing_records(records: Mapping[str, Record], path: Path) -> None:
    """A UserError if the record of a run that was begun is gone."""
    living = [lane["name"] for lane in checkpoints.manifest(path)["lanes"] if lane["alive"]]
    if lost := [name for name in living if records[name].header is None]:
        raise UserError(
            f"{records[lost[0]].path} is gone, though its run was begun; put it back, or remove "
            f"{path} to start all runs of its cohort over."
        )


def open_record(run: Run, out: Path, anyway: bool = False, longer: bool = False) -> Record:
    """The run's record; a UserError if the folder holds another run's.

    Args:
        run: whose record it is.
        out: the folder for records and policies.
        anyway: whether a run on a task whose code has changed since is not another one.
        longer: whether a run that has ended with fewer steps is not another one.
    """
    record = Record(record_path(out, run.name))
    if not anyway:
        refuse_changed_code(run, record.sources, out)
    there = record.header["run"] if record.header else run.to_json()
    if longer and continuation.is_shorter(record, run):
        there = there | {"steps": run.steps}
    if unlike := difference(there, run.to_json()):
        raise UserError(f"{out} holds another run: {unlike}; choose another --out.")
    return record


def refuse_changed_code(run: Run, there: Mapping[str, str], out: Path) -> None:
    """A UserError if a run of this folder was trained with another state of the user's own code.

    Args:
        run: the run that is asked for.
        there: the hashes of that code in its record (`Record.sources`).
        out: the folder.
    """
    for kind, before, now in headers.changed_code(run, there):
        another = f"{'on' if kind == 'task' else 'by'} another {getattr(run, kind)}"
        raise UserError(
            f"{out} holds runs {another}: its code has changed since (source {before} there, "
            f"{now or 'none'} here); --fresh starts over and keeps the old folder aside, --anyway "
            "goes on and says so in the records."
        )


def difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """In what two runs differ, in words; '' if they are the same.

    A record that is older than a setting was made with its default. Where `env.backend` is left
    open here, any will do. Whether the last checkpoint is kept, and in which folder the run is that
    it started from, makes no other run.
    """
    there, here = (
        {**_defaults(run), **run, **current_names(run.get("settings", {}))} for run in (there, here)
    )
    for name in sorted((there.keys() | here.keys()) - IRRELEVANT):
        if name == "env.backend" and here.get(name) == "auto":
            continue
        if there.get(name) != here.get(name):
            return f"{name} is {there.get(name)} there and {here.get(name)} here"
    return ""


def _defaults(run: Mapping[str, Any]) -> dict[str, Any]:
    """What a recorded run has where its record says nothing."""
    shared = {
        prefix + field.name: field.default
        for prefix, group in SHARED.items()
        for field in dataclasses.fields(group)
    }
    if run.get("algorithm") not in algorithms.ALGORITHMS:
        return shared
    return shared | omitted_defaults(algorithms.load(run["algorithm"]).Hyper)


def resumable(path: Path, runs: Mapping[str, Run]) -> list[Run]:
    """The runs whose lanes a checkpoint holds, in its order; a UserError if it cannot be used.

    Args:
        path: the checkpoint.
        runs: those that are asked for, by their names.
    """
    content = checkpoints.manifest(path)
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
