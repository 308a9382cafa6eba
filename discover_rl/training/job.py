"""A job: one cohort to be trained, from its last checkpoint or from its start.

A job has a work folder with its checkpoints and a lock, so no two processes train it at once,
wherever they run. The lock is released when its process ends. A later process finds the checkpoint
in the work folder and continues from it.
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
from discover_rl.storage import checkpoints, files, kept_checkpoints, schemas
from discover_rl.storage.records import Record, record_path
from discover_rl.system import provenance
from discover_rl.training import continuation, headers
from discover_rl.training.cohort import Cohort
from discover_rl.training.observers.base import Observer

CHECKPOINT_SECONDS = 60.0
"""Time between checkpoints, unless another is asked for."""
IRRELEVANT = {"settings", "compute.keep_checkpoint", "start.run"}
"""Settings in which a record may differ from a request for the same run."""
PATIENCE = 30.0
"""Seconds in which a worker notices that its parent was killed, and ends."""


class Job(NamedTuple):
    """Runs that train in lockstep, and where."""

    runs: Sequence[Run]
    out: Path  # the folder for records and policies
    workdir: Path  # the folder for checkpoints and the lock
    place: str = "cpu"  # or "gpu"
    longer: bool = False  # whether its runs ended with fewer steps and continue from there
    anyway: bool = False  # whether to continue if the task's code has changed
    until: int | None = None  # the step at which its runs are left; None: at their end
    left: bool = False  # whether its runs were left at an earlier step and continue from there

    @property
    def step(self) -> int:
        """The step that it goes on from; 0 if it has not begun."""
        if (step := checkpoints.step_of(self.workdir)) or not (self.longer or self.left):
            return step
        kept = [kept_checkpoints.kept(self.out / run.name) for run in self.runs]
        return max((entry.get("step", 0) for entry in kept if entry), default=0)


def train(
    job: Job,
    observer: Observer,
    stopping: Callable[[], bool],
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    patience: float = PATIENCE,
) -> None:
    """Train the unfinished runs of a job.

    Args:
        job: the cohort to train.
        observer: receives the events of training.
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
    if job.left:
        kept_checkpoints.put_back(job.workdir, job.out, job.runs, ())
    path = checkpoints.find(job.workdir)
    unfinished = [run for run in job.runs if not records[run.name].over]
    if path is not None:
        begun = resumable(path, {run.name: run for run in job.runs})
        if all(records[run.name].over for run in begun):  # it was killed after its last record
            failed = [run.name for run in begun if records[run.name].failure]
            checkpoints.clear(job.workdir, failed, job.out)
            path = None
        else:
            unfinished = begun
            _refuse_missing_records(records, path)
    if path is None:
        checkpoints.clear(job.workdir)  # a killed process may have left parts of one
    if unfinished:
        if job.until is not None:  # they have the checkpoint of the cohort now
            kept_checkpoints.drop(unfinished, job.out)
        cohort = Cohort(unfinished, records, job.out, job.workdir, observer, path)
        cohort.run(stopping, checkpoint_seconds, job.until)


def _refuse_missing_records(records: Mapping[str, Record], path: Path) -> None:
    """Raise a UserError if a run has a checkpoint and its record is gone or contradicts it."""
    lanes = checkpoints.manifest(path)["lanes"]
    living = [lane["name"] for lane in lanes if lane["alive"]]
    if dead := [it["name"] for it in lanes if not it["alive"] and not records[it["name"]].over]:
        raise schemas.malformed(path, f"by its record, {dead[0]} has not ended")
    if lost := [name for name in living if records[name].header is None]:
        raise UserError(
            f"{records[lost[0]].path} is gone, though its run was begun; put it back, or remove "
            f"{path} to start all runs of its cohort over."
        )


def open_record(run: Run, out: Path, anyway: bool = False, longer: bool = False) -> Record:
    """Open a run's record; a UserError if the folder holds the record of another run.

    Args:
        run: whose record it is.
        out: the folder for records and policies.
        anyway: whether to accept a record that was made with other code of the user's task.
        longer: whether to accept a record of a run that ended with fewer steps.
    """
    record = Record(record_path(out, run.name))
    if not anyway:
        refuse_changed_code(run, record.sources, out)
    if record.header is None:
        return record
    there = record.header["run"]
    if longer and continuation.is_shorter(record, run):
        there = there | {"steps": run.steps}
    if unlike := difference(there, run.to_json()):
        steps = there["steps"]
        if steps < run.steps and not difference(there | {"steps": run.steps}, run.to_json()):
            raise UserError(
                f"{run.name} in {out} is on its way to {steps:,} steps; train it to its end with "
                "these first, then with more."
            )
        raise UserError(f"{out} holds another run: {unlike}; choose another --out.")
    return record


def refuse_changed_code(run: Run, there: Mapping[str, str], out: Path) -> None:
    """Raise a UserError if the user's own code has changed since a run in this folder was trained.

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
    """Say in what two runs differ; '' if they are the same.

    A record that is older than a setting counts as made with its default. `env.backend=auto` here
    accepts any backend there. Settings in `IRRELEVANT` do not count.
    """
    there, here = (
        {**_defaults(run), **run, **current_names(run.get("settings", {}))} for run in (there, here)
    )
    # A difference of algorithms comes first: their settings differ, too.
    names = sorted(
        (there.keys() | here.keys()) - IRRELEVANT, key=lambda it: (it != "algorithm", it)
    )
    for name in names:
        if name == "env.backend" and here.get(name) == "auto":
            continue
        if there.get(name) != here.get(name):
            return f"{name} is {there.get(name)} there and {here.get(name)} here"
    return ""


def _defaults(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of settings that a record may lack."""
    shared = {
        prefix + field.name: field.default
        for prefix, group in SHARED.items()
        for field in dataclasses.fields(group)
    }
    if run.get("algorithm") not in algorithms.ALGORITHMS:
        return shared
    return shared | omitted_defaults(algorithms.load(run["algorithm"]).Hyper)


def resumable(path: Path, runs: Mapping[str, Run]) -> list[Run]:
    """Return the runs of a checkpoint, in its order; a UserError if it cannot be continued.

    Args:
        path: the checkpoint.
        runs: the runs of the request, by their names.
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
        if lane["alive"] and len(lane.get("episodes", ())) != runs[lane["name"]].env.count:
            raise schemas.malformed(path, f"the running episodes of {lane['name']}")
    return [runs[lane["name"]] for lane in lanes]
