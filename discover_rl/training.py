"""What is missing of some runs, and where it is done: in this process, or in several at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from discover_rl import checkpoint, machine, programs, provenance, store, workers
from discover_rl.algorithms import ON_POLICY
from discover_rl.cohort import Cohort
from discover_rl.config import Run, cohorts
from discover_rl.observers import Observer
from discover_rl.store import Record
from discover_rl.types import UserError
from discover_rl.workers import Job

CHECKPOINT_SECONDS = 60.0
DESKS = "workers"
"""Below the output folder: where processes that train side by side keep their checkpoints."""


def train(
    runs: Sequence[Run],
    out: Path,
    observer: Observer | None = None,
    stopping: Callable[[], bool] = bool,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    processes: int = 1,
) -> dict[str, Record]:
    """Do what is missing of these runs in `out`; the records by run name.

    `processes` is how many share the work at most; 0: as many as pay. Raises Stopped, after
    writing a checkpoint, once `stopping()` is true.
    """
    observer, processes = observer or Observer(), processes or fitting(runs)
    programs.keep()
    with store.locked(out):
        for desk in _desks(out):  # until no worker of a process that was killed is left
            with store.locked(desk, workers.PATIENCE):
                pass
        _refuse_strangers(runs[0], out)
        records = {run.name: _opened(run, out) for run in runs}
        begun = _begun({run.name: run for run in runs}, records, out)
        taken = {run.name for job in begun for run in job.runs}
        missing = [run for run in runs if run.name not in taken and not _over(records[run.name])]
        jobs = begun + _shared(missing, out, processes, {job.desk for job in begun})
        # What was begun here ends here and what was begun by a worker is ended by one: they have
        # not as many threads, and that shows in the last bits.
        for job in [job for job in jobs if job.desk == out]:
            cohort = Cohort(job.runs, records, out, job.desk, observer, job.resume)
            cohort.run(stopping, checkpoint_seconds)
        if apart := [job for job in jobs if job.desk != out]:
            workers.run(apart, out, observer, stopping, checkpoint_seconds, processes)
            records = {run.name: _opened(run, out) for run in runs}
        store.remove(out / DESKS)
    return records


def fitting(runs: Sequence[Run]) -> int:
    """How many processes pay for these runs: one per core, with one thread, on CPUs. Two threads on
    matrices this small do less than two processes, by about a quarter with ten lanes of TD3."""
    return min(len(runs), machine.cores()) if _apart(runs[0]) else 1


def _apart(run: Run) -> bool:
    """Whether runs of this kind may go to several processes; a GPU is for one."""
    return run.algorithm in ON_POLICY or jax.default_backend() == "cpu"


def _begun(runs: Mapping[str, Run], records: Mapping[str, Record], out: Path) -> list[Job]:
    """The cohorts that left a checkpoint: they go on together, as they were."""
    jobs = []
    for desk in (out, *_desks(out)):
        path = checkpoint.find(desk)
        if path is None:
            checkpoint.clear(desk)  # of what a process left that was killed while clearing
            continue
        lanes = _unfinished(path, runs)
        if all(_over(records[run.name]) for run in lanes):  # killed after the last record
            checkpoint.clear(desk, [it.name for it in lanes if records[it.name].failure], out)
        else:
            jobs.append(Job(lanes, desk, path))
    return jobs


def _shared(missing: Sequence[Run], out: Path, processes: int, taken: set[Path]) -> list[Job]:
    """Runs that have not begun, as cohorts; on CPUs, a share for each process."""
    parts = []
    for lanes in cohorts(missing):
        shares = min(processes, len(lanes)) if _apart(lanes[0]) else 1
        parts += [lanes[i::shares] for i in range(shares)]
    if processes == 1 or (len(parts) == 1 and not taken):
        return [Job(lanes, out) for lanes in parts]
    desks = (out / DESKS / str(i) for i in range(len(parts) + len(taken)))
    free = (desk for desk in desks if desk not in taken)
    return [Job(lanes, desk) for lanes, desk in zip(parts, free, strict=False)]


def _desks(out: Path) -> list[Path]:
    return sorted((out / DESKS).glob("*"))


def _over(record: Record) -> bool:
    return record.done or record.failure is not None


def _refuse_strangers(run: Run, out: Path) -> None:
    """A folder is for runs of one kind, whatever they are called."""
    for path in out.rglob("record.jsonl"):
        header = Record(path).header
        kinds = [
            {name: described[name] for name in ("task", "algorithm", "strategy", "steps")}
            for described in (header["run"] if header else run.to_json(), run.to_json())
        ]
        if difference := _difference(*kinds):
            raise UserError(f"{out} holds another run: {difference}; choose another --out.")


def _opened(run: Run, out: Path) -> Record:
    """The run's record; a UserError if the folder holds another run's."""
    record = Record(out / run.name / "record.jsonl")
    difference = _difference(record.header["run"], run.to_json()) if record.header else ""
    if difference:
        raise UserError(f"{out} holds another run: {difference}; choose another --out.")
    return record


def _difference(there: dict[str, Any], here: dict[str, Any]) -> str:
    there, here = {**there, **there.get("settings", {})}, {**here, **here.get("settings", {})}
    for name in sorted((there.keys() | here.keys()) - {"settings"}):
        if there.get(name) != here.get(name):
            return f"{name} is {there.get(name)} there and {here.get(name)} here"
    return ""


def _unfinished(path: Path, runs: Mapping[str, Run]) -> list[Run]:
    """The runs whose lanes a checkpoint holds, in its order; a UserError if it cannot be used."""
    content = checkpoint.manifest(path)
    ours = provenance.code()
    changed = [name for name in ours if content["code"].get(name) != ours[name]]
    if changed:
        name = changed[0]
        raise UserError(
            f"{path} was written by other code ({name} {content['code'].get(name)}, now "
            f"{ours[name]}), so going on would not be exact; go back to that code, or start over "
            "with another --out."
        )
    lanes = content["lanes"]
    if absent := [lane["name"] for lane in lanes if lane["name"] not in runs]:
        raise UserError(
            f"{path.parent} has unfinished runs that were not asked for ({', '.join(absent)}); "
            "ask for the same ones, or choose another --out."
        )
    for lane in lanes:
        if difference := _difference(lane["run"], runs[lane["name"]].to_json()):
            raise UserError(f"{path} is of another run: {difference}; choose another --out.")
    return [runs[lane["name"]] for lane in lanes]
