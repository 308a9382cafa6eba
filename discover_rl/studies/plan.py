"""Which runs of a study train together: decided once, and kept in a file.

The last bits of a run depend on how many lanes share its program. So a study is divided into
cohorts when it is first run, the division is kept in its folder, and no cohort ever changes. Runs
that are added to the study later form new cohorts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from discover_rl import config
from discover_rl.config import Run
from discover_rl.core.types import Spec, UserError
from discover_rl.envs.backends import spaces
from discover_rl.envs.settings import Env
from discover_rl.envs.tasks import Unmakeable
from discover_rl.storage import checkpoints, files, schemas
from discover_rl.storage.records import read_record, record_path
from discover_rl.studies.study import Study
from discover_rl.system import hardware
from discover_rl.training import memory
from discover_rl.training.job import PATIENCE, Job

FILE = "cohorts.json"
"""The file in a study's folder that holds the division."""
WORKDIRS = "cohorts"
"""The folder in a study's folder that holds the work folders, one for each cohort."""
LANES = {"cpu": 5, "gpu": 256}
"""The largest number of lanes in a cohort. On a CPU, more lanes are hardly faster, and fewer runs
are affected if a cohort fails."""
MEMORY_SHARE = 0.75
"""The share of the memory that lanes may take; programs need the rest."""

Number = Annotated[str, Meta(pattern=r"^[0-9]{4,9}\Z")]
"""The number of a cohort, as in a file's name."""
Division = dict[str, list[str]]
"""The names of the runs of each cohort, by the cohort's number ("0000", …)."""


def agreed(
    study: Study, out: Path, shard: tuple[int, int] = (1, 1), retry: bool = False
) -> list[Job]:
    """The cohorts of a study. Runs that have none yet are divided now, and the division is kept.

    Args:
        study: the study.
        out: the folder of its results.
        shard: (i, n): only the cohorts of the i-th of n parts.
        retry: whether the results of failed runs are removed, so that these form new cohorts.

    Raises:
        UserError: the folder holds another study, or a link where it keeps a run.
    """
    with files.locked(out, PATIENCE):
        before = _read(out)
        _refuse_links(before, out)
        division = _without_failed(before, out) if retry else before
        division = _extended(_fitting(division, study, out), study, shard)
        _refuse_links(division, out)
        if division != before:
            files.write(out / FILE, json.dumps(division, indent=1).encode())
    return _jobs(division, study, out, shard)


def proposed(study: Study, out: Path) -> list[Job]:
    """The cohorts that a study has or would have. Nothing is written.

    Args:
        study: the study.
        out: the folder of its results.
    """
    return _jobs(_extended(_fitting(_read(out), study, out), study), study, out)


def kept(study: Study, out: Path) -> list[Job]:
    """The cohorts that are kept in a study's folder; none if it was never run there."""
    return _jobs(_read(out), study, out)


def part_of(study: Study, shard: tuple[int, int]) -> list[Run]:
    """The runs of one part of a study. It is the same on every machine.

    Args:
        study: the study.
        shard: (i, n): the i-th of n parts.

    Returns:
        Complete groups of runs that can train together, or, if there are fewer groups than parts,
        a part of each group.
    """
    i, n = shard
    groups = config.cohorts(study.runs)
    mine = groups[i - 1 :: n] if len(groups) >= n else [group[i - 1 :: n] for group in groups]
    return [run for group in mine for run in group]


def missing(job: Job) -> list[Run]:
    """The runs of a cohort that are neither done nor failed, and whose records are not damaged."""
    return [run for run in job.runs if not read_record(record_path(job.out, run.name)).over]


def left(cohorts: Sequence[Job], over: Container[str] | None = None) -> list[Job]:
    """What is left to train of these cohorts.

    Args:
        cohorts: finished ones included.
        over: the names of runs with nothing left to train; None: read their records to know.

    Returns:
        Every cohort that has unfinished runs: with all its lanes if it has a checkpoint, which it
        continues as it is; otherwise with the unfinished runs alone.
    """
    found = []
    for job in cohorts:
        runs = missing(job) if over is None else [it for it in job.runs if it.name not in over]
        if runs:
            begun = checkpoints.find(job.workdir) is not None
            found.append(job if begun else job._replace(runs=runs))
    return found


def workdirs(out: Path) -> dict[str, Path]:
    """The work folders in a study's folder, by the names of the runs of their cohorts."""
    return {name: out / WORKDIRS / number for number, names in _read(out).items() for name in names}


def place_of(run: Run) -> str:
    """Where a run learns on this machine: "cpu" or "gpu"."""
    return hardware.place(run.on_policy)


def divided(runs: Sequence[Run]) -> list[list[Run]]:
    """Divide runs into cohorts for this machine.

    No cohort is larger than `LANES` or than the memory allows. On a CPU there are enough cohorts
    to occupy all cores.
    """
    groups, parts = config.cohorts(runs), []
    specs: dict[tuple[str, Env, str], Spec | None] = {}
    for group in groups:
        first, place = group[0], place_of(group[0])
        kind = first.task, first.env, place
        if kind not in specs:
            try:
                specs[kind] = spaces(*kind)
            except Unmakeable:  # its runs fail now; the division is kept for later
                specs[kind] = None
        most = LANES[place]
        if spec := specs[kind]:
            on_cpu = hardware.memory() / hardware.cores()
            there = hardware.gpu_memory() if place == "gpu" else on_cpu
            most = min(most, int(MEMORY_SHARE * there / memory.need(first, spec).total))
        shares = math.ceil(len(group) / max(1, most))
        if place == "cpu":
            shares = max(shares, math.ceil(hardware.cores() / len(groups)))
        shares = min(shares, len(group))
        parts += [group[i::shares] for i in range(shares)]
    return parts


def _read(out: Path) -> Division:
    """The division in a study's folder; empty if there is none yet."""
    path = out / FILE
    try:
        division = schemas.read_json(path, dict[Number, list[schemas.Below]])
    except FileNotFoundError:
        return {}
    names = [name for names in division.values() for name in names]
    if len(set(names)) < len(names):
        raise schemas.malformed(path, "a run is in it twice")
    return division


def _refuse_links(division: Division, out: Path) -> None:
    """Raise a UserError if a run's folder or a work folder is a link."""
    files.refuse_links(out, (name for names in division.values() for name in names))
    files.refuse_links(out, (f"{WORKDIRS}/{number}" for number in division))


def _fitting(division: Division, study: Study, out: Path) -> Division:
    """A division without the cohorts whose runs can no longer train together, because the study
    or the program has changed. Those whose runs have all ended stay."""
    runs = {run.name: run for run in study.runs}
    kept = {}
    for number, names in division.items():
        present = [runs[name] for name in names if name in runs]
        if len(config.cohorts(present)) < 2 or _all_over(present, out):
            kept[number] = names
        elif checkpoints.find(out / WORKDIRS / number) or any(
            (out / name).exists() for name in names
        ):
            raise UserError(
                f"{out} holds another study, in which {names[0]} and {names[-1]} train together; "
                "choose another --out."
            )
    return kept


def _all_over(runs: Sequence[Run], out: Path) -> bool:
    """Whether every one of these runs is done or has failed."""
    return all(read_record(record_path(out, run.name)).over for run in runs)


def _extended(division: Division, study: Study, shard: tuple[int, int] = (1, 1)) -> Division:
    """A division with new cohorts for the runs that have none."""
    known = {name for names in division.values() for name in names}
    added = [run for run in part_of(study, shard) if run.name not in known]
    first = max((int(number) for number in division), default=-1) + 1
    for number, together in enumerate(divided(added), first):
        division = division | {f"{number:04}": [run.name for run in together]}
    return division


def _without_failed(division: Division, out: Path) -> Division:
    """Remove failed runs and their results, unless their cohort has a checkpoint to continue.

    Those with damaged records are moved aside, to NAME.old-1.
    """
    kept = {}
    for number, names in division.items():
        records = {name: read_record(record_path(out, name)) for name in names}
        failed = [name for name in names if records[name].over and not records[name].done]
        if failed and checkpoints.find(out / WORKDIRS / number) is None:
            for name in failed:
                (files.move_aside if records[name].damage else files.remove)(out / name)
            names = [name for name in names if name not in failed]
        kept[number] = names
    return kept


def _jobs(
    division: Division, study: Study, out: Path, shard: tuple[int, int] = (1, 1)
) -> list[Job]:
    """The cohorts of a division as jobs, those of one part of the study."""
    runs, mine = {run.name: run for run in study.runs}, {run.name for run in part_of(study, shard)}
    jobs = []
    for number, names in division.items():
        present = [runs[name] for name in names if name in runs]
        if present and present[0].name in mine:
            jobs.append(Job(present, out, out / WORKDIRS / number, place_of(present[0])))
    return jobs
