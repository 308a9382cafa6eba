"""More steps for runs that have ended: they go on from the checkpoints that they kept.

Going on is exact – the longer run is, bit for bit, the one that could have been asked for from the
start – where the first steps did not depend on how many would follow: no setting changes over the
run, and the replay buffer has lost nothing that a larger one would still hold. Elsewhere it is
refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from discover_rl.config import Run
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import UserError
from discover_rl.storage import files, kept_checkpoints
from discover_rl.storage.kept_checkpoints import Kept
from discover_rl.storage.policies import BEST, load_policy
from discover_rl.storage.records import Record
from discover_rl.system import provenance


def is_shorter(record: Record, run: Run) -> bool:
    """Whether a record is of a run that has ended, with fewer steps than are asked for now."""
    return record.header is not None and record.over and record.header["run"]["steps"] < run.steps


def groups(
    runs: Sequence[Run], records: Mapping[str, Record], out: Path
) -> list[tuple[str, list[Run]]]:
    """The cohorts of runs that are to go on with more steps.

    Args:
        runs: all that are asked for.
        records: of these, by their names.
        out: the folder that they are in.

    Returns:
        Where each was trained, as a path below `out`, and its runs, in its order.

    Raises:
        UserError: going on would not be exact.
    """
    named = {run.name: run for run in runs}
    shorter = [run for run in runs if is_shorter(records[run.name], run)]
    found: dict[tuple[str, ...], str] = {}
    for run in shorter:
        record = records[run.name]
        if record.failure or record.stopped:
            continue  # it would have ended there with more steps, too
        kept = kept_checkpoints.kept(out / run.name)
        if why := _hindrance(run, record, kept, out, named):
            there = record.header["run"]["steps"] if record.header else 0
            folder = out / run.name
            raise UserError(
                f"{folder} has ended after {there:,} steps, and {why}; {_way_out(folder, kept)}."
            )
        assert kept is not None
        found[tuple(kept["cohort"])] = kept["workdir"]
    cohorts = [(workdir, [named[name] for name in cohort]) for cohort, workdir in found.items()]
    alone = {run.name for run in shorter} - {run.name for _, lanes in cohorts for run in lanes}
    for run in (named[name] for name in alone):  # nothing is left to do but to say how long it is
        _lengthen(run, records[run.name], out)
    return cohorts


def go_on(runs: Sequence[Run], records: Mapping[str, Record], out: Path, workdir: Path) -> None:
    """Make a checkpoint that runs go on from with more steps, and write these into their records.

    Args:
        runs: of one cohort, in its order.
        records: of these, by their names.
        out: the folder that they are in.
        workdir: the folder for the checkpoint.
    """
    # First the checkpoint: without it, a record of more steps would be one to start over.
    ended = {run.name for run in runs if records[run.name].failure or records[run.name].stopped}
    kept_checkpoints.put_back(workdir, out, runs, ended)
    for run in runs:
        _lengthen(run, records[run.name], out)


def _lengthen(run: Run, record: Record, out: Path) -> None:
    """Write into a run's files that it has more steps than before."""
    assert record.header is not None
    before = record.header["run"]["steps"]
    if before % run.eval.every:  # a longer run is not evaluated there
        record.lines = [
            line for line in record.lines if "returns" not in line or line["step"] < before
        ]
    record.lines[0] = record.header | {"run": run.to_json()}
    record.cut(run.steps)
    if (out / run.name / BEST.description).exists():
        best = load_policy(out / run.name, best=True)
        best.about |= run.to_json()
        for name, content in best.to_bytes(best=True).items():
            files.write(out / run.name / name, content)


def _hindrance(
    run: Run, record: Record, kept: Kept | None, out: Path, named: Mapping[str, Run]
) -> str:
    """Why a run cannot go on exactly, in words; '' if it can."""
    if changing := changing_settings(run):
        return f"{changing} changes over the length of a run, so going on would not be exact"
    if kept is None:
        return (
            "its last checkpoint was not kept (compute.keep_checkpoint=true keeps it), so it "
            "cannot go on"
        )
    ours = provenance.code()
    if changed := [name for name in ours if kept["code"].get(name) != ours[name]]:
        name = changed[0]
        return (
            f"was trained by other code ({name} {kept['code'].get(name)}, now {ours[name]}), so "
            "going on would not be exact"
        )
    if absent := [name for name in kept["cohort"] if name not in named]:
        return f"was trained together with {', '.join(absent)}: ask for all of them"
    assert record.header is not None
    if not run.on_policy and _outgrown(run, record.header["run"]["steps"], out):
        return "its replay buffer has lost what that of a longer run would still hold"
    return ""


def _way_out(folder: Path, kept: Kept | None) -> str:
    """What can be done in place of going on, in words."""
    if kept is None:
        return "with that kept, --from would start a new run with what this one has learned"
    return f"--from {folder} starts a new run with what this one has learned"


def changing_settings(run: Run) -> str:
    """The first setting of a run whose effect depends on the run's length; '' if there is none."""
    for prefix, group in (("", run.hyper), ("strategy.", run.strategy_hyper)):
        for field in dataclasses.fields(group):
            value = getattr(group, field.name)
            if isinstance(value, Amplitude) and value.start != value.end:
                return prefix + field.name
    return "lr_decay" if run.hyper.lr_decay else ""


def _outgrown(run: Run, steps: int, out: Path) -> bool:
    """Whether transitions were lost that a replay buffer for more steps would still hold."""
    size, first = run.hyper.replay_size, run.start.transitions
    if min(size, steps + first) == min(size, run.steps + first):
        return False
    counted = kept_checkpoints.counters(out / run.name)
    # With more room it might have started with more transitions of another run.
    started = counted["inserted"] - steps < min(size, first)
    return bool(counted["oldest"]) or started
