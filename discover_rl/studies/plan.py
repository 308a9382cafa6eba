"""Which runs of a study train together: decided once, and written down.

A run's last bits depend on how many lanes share its program. So a study is divided into cohorts
when it is first run, the division is kept in its folder and no cohort of it ever changes; runs that
are added to the study later form cohorts of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from discover_rl import checkpoint, config, machine, replay, store, tasks
from discover_rl.algorithms import ON_POLICY
from discover_rl.config import Run
from discover_rl.jobs import PATIENCE, Job
from discover_rl.studies import Study
from discover_rl.tasks import Unmakeable
from discover_rl.types import UserError

FILE, DESKS = "cohorts.json", "cohorts"
LANES = {"cpu": 5, "gpu": 256}
"""At most so many in a cohort. On CPUs more are hardly faster, and fewer are lost together."""
MEMORY_SHARE = 0.75
"""Of what there is: programs need room too."""

Division = dict[str, list[str]]
"""Names of runs by number of cohort."""


def agreed(
    study: Study, out: Path, shard: tuple[int, int] = (1, 1), retry: bool = False
) -> list[Job]:
    """The cohorts of a study, or of the i-th of n parts of it, decided now if they were not before.
    With `retry`, runs that failed are forgotten and form new cohorts."""
    with store.locked(out, PATIENCE):
        before = _read(out)
        division = _without_failed(before, out) if retry else before
        division = _extended(_fitting(division, study, out), study, shard)
        if division != before:
            store.write(out / FILE, json.dumps(division, indent=1).encode())
    return _jobs(division, study, out, shard)


def proposed(study: Study, out: Path) -> list[Job]:
    """The same, of all of it, without deciding anything."""
    return _jobs(_extended(_fitting(_read(out), study, out), study), study, out)


def part_of(study: Study, shard: tuple[int, int]) -> list[Run]:
    """The runs of the i-th of n parts: whole groups that can train together, or, where there are
    fewer of these than parts, a part of each. Every machine comes to the same."""
    i, n = shard
    groups = config.cohorts(study.runs)
    mine = groups[i - 1 :: n] if len(groups) >= n else [lanes[i - 1 :: n] for lanes in groups]
    return [run for lanes in mine for run in lanes]


def missing(job: Job) -> list[Run]:
    """Those of its runs that are not over."""
    return [it for it in job.runs if not store.glance(store.record_of(job.out, it.name)).over]


def left(cohorts: Sequence[Job]) -> list[Job]:
    """Of each that is not over, what would be trained: all its lanes if it was begun, else those
    that are missing."""
    found = []
    for job in cohorts:
        if lanes := missing(job):
            begun = checkpoint.find(job.desk) is not None
            found.append(job if begun else job._replace(runs=lanes))
    return found


def numbered(out: Path) -> dict[str, Path]:
    """The desks of runs that have a cohort, by the runs' names."""
    return {name: out / DESKS / number for number, names in _read(out).items() for name in names}


def place_of(run: Run) -> str:
    return machine.place(off_policy=run.algorithm not in ON_POLICY)


def lane_bytes(run: Run) -> int:
    """About what a lane takes: its replay, or its rollout, and its networks with their moments."""
    env = tasks.make(run.task)
    spec = tasks.spec_of(env)
    env.close()
    inputs, wide = spec.observation_size + spec.action_size, (*run.hyper.hidden, spec.action_size)
    weights = sum(i * o for i, o in zip((inputs, *wide), wide, strict=False))
    if run.algorithm in ON_POLICY:
        held = run.hyper.horizon * run.env.count * (2 * inputs + 8) * 4
    else:
        held = replay.nbytes(run.hyper.replay_size, spec.observation_size, spec.action_size)
    return held + 40 * weights * 4


def divided(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs as cohorts for this machine: none larger than pays or fits, and enough for its cores."""
    groups, parts, fitting = config.cohorts(runs), [], {}
    for lanes in groups:
        place = place_of(lanes[0])
        kind = lanes[0].task, place, getattr(lanes[0].hyper, "replay_size", 0)
        if kind not in fitting:
            there = machine.gpu_memory() if place == "gpu" else machine.memory() / machine.cores()
            try:
                fitting[kind] = int(MEMORY_SHARE * there / lane_bytes(lanes[0]))
            except Unmakeable:  # told when it is tried; once it can be made, it is to be fast
                fitting[kind] = LANES[place]
        shares = math.ceil(len(lanes) / max(1, min(LANES[place], fitting[kind])))
        if place == "cpu":
            shares = max(shares, math.ceil(machine.cores() / len(groups)))
        shares = min(shares, len(lanes))
        parts += [lanes[i::shares] for i in range(shares)]
    return parts


def _read(out: Path) -> Division:
    path = out / FILE
    try:
        content = json.loads(path.read_text()) if path.exists() else {}
        if not isinstance(content, dict):
            raise ValueError("no table")
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); choose another --out.") from error
    return content


def _fitting(division: Division, study: Study, out: Path) -> Division:
    """Without cohorts whose runs can no longer train together, for the study has changed."""
    runs = {run.name: run for run in study.runs}
    kept = {}
    for number, names in division.items():
        lanes = [runs[name] for name in names if name in runs]
        if len(config.cohorts(lanes)) < 2:
            kept[number] = names
        elif checkpoint.find(out / DESKS / number) or any((out / it).exists() for it in names):
            raise UserError(
                f"{out} holds another study, in which {names[0]} and {names[-1]} were of one kind; "
                "choose another --out."
            )
    return kept


def _extended(division: Division, study: Study, shard: tuple[int, int] = (1, 1)) -> Division:
    """With cohorts for runs that have none."""
    there = {name for names in division.values() for name in names}
    added = [run for run in part_of(study, shard) if run.name not in there]
    first = max((int(number) for number in division), default=-1) + 1
    new = {f"{first + i:04}": [run.name for run in it] for i, it in enumerate(divided(added))}
    return division | new


def _without_failed(division: Division, out: Path) -> Division:
    """Forget runs that failed, unless others of their cohort are still to be trained."""
    kept = {}
    for number, names in division.items():
        failed = [it for it in names if store.glance(store.record_of(out, it)).failure]
        if failed and checkpoint.find(out / DESKS / number) is None:
            for name in failed:
                store.remove(out / name)
            names = [name for name in names if name not in failed]
        kept[number] = names
    return kept


def _jobs(
    division: Division, study: Study, out: Path, shard: tuple[int, int] = (1, 1)
) -> list[Job]:
    runs, mine = {run.name: run for run in study.runs}, {run.name for run in part_of(study, shard)}
    jobs = []
    for number, names in division.items():
        lanes = [runs[name] for name in names if name in runs]
        if lanes and lanes[0].name in mine:
            jobs.append(Job(lanes, out, out / DESKS / number, place_of(lanes[0])))
    return jobs
