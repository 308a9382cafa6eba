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
from discover_rl.types import UserError

FILE, DESKS = "cohorts.json", "cohorts"
LANES = {"cpu": 5, "gpu": 256}
"""At most so many in a cohort. On CPUs more are hardly faster, and fewer are lost together."""
MEMORY_SHARE = 0.75
"""Of what there is: programs need room too."""

Division = dict[str, list[str]]
"""Names of runs by number of cohort."""


def agreed(study: Study, out: Path, retry: bool = False) -> list[Job]:
    """The study's cohorts, decided now if they were not before. With `retry`, runs that failed are
    forgotten and form new cohorts."""
    with store.locked(out, PATIENCE):
        before = _read(out)
        division = _without_failed(before, out) if retry else before
        division = _extended(division, study, out)
        if division != before:
            store.write(out / FILE, json.dumps(division, indent=1).encode())
    return _jobs(division, study, out)


def proposed(study: Study, out: Path) -> list[Job]:
    """The same, without deciding anything."""
    return _jobs(_extended(_read(out), study, out), study, out)


def numbered(out: Path) -> dict[str, Path]:
    """The desks of runs that have a cohort, by the runs' names."""
    return {name: out / DESKS / number for number, names in _read(out).items() for name in names}


def place_of(run: Run) -> str:
    return "gpu" if machine.accelerated() and run.algorithm not in ON_POLICY else "cpu"


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
            fitting[kind] = int(MEMORY_SHARE * there / lane_bytes(lanes[0]))
        shares = math.ceil(len(lanes) / max(1, min(LANES[place], fitting[kind])))
        if place == "cpu":
            shares = max(shares, math.ceil(machine.cores() / len(groups)))
        shares = min(shares, len(lanes))
        parts += [lanes[i::shares] for i in range(shares)]
    return parts


def _read(out: Path) -> Division:
    path = out / FILE
    try:
        return json.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        raise UserError(
            f"{path} is damaged ({error}); restore it, or choose another --out."
        ) from error


def _extended(division: Division, study: Study, out: Path) -> Division:
    """With cohorts for runs that have none."""
    there = {name for names in division.values() for name in names}
    missing = [run for run in study.runs if run.name not in there]
    first = max((int(number) for number in division), default=-1) + 1
    new = {f"{first + i:04}": [run.name for run in it] for i, it in enumerate(divided(missing))}
    return division | new


def _without_failed(division: Division, out: Path) -> Division:
    """Forget runs that failed, unless others of their cohort are still to be trained."""
    kept = {}
    for number, names in division.items():
        failed = [it for it in names if store.glance(out / it / "record.jsonl").failure]
        if failed and checkpoint.find(out / DESKS / number) is None:
            for name in failed:
                store.remove(out / name)
            names = [name for name in names if name not in failed]
        kept[number] = names
    return kept


def _jobs(division: Division, study: Study, out: Path) -> list[Job]:
    runs = {run.name: run for run in study.runs}
    jobs = []
    for number, names in division.items():
        lanes = [runs[name] for name in names if name in runs]
        if lanes:
            jobs.append(Job(lanes, out, out / DESKS / number, place_of(lanes[0])))
    return jobs
