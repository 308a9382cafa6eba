"""Train runs that have ended for more steps, from the checkpoints that they kept.

The longer run must equal, bit for bit, a run that had this many steps from the start. So its first
steps must not depend on the number of steps: no setting changes over the run, and the replay buffer
has lost no transition that a larger one would still hold. Other runs are refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from discover_rl.config import Run
from discover_rl.core.replay_buffer import capacity_of
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
    """Find the cohorts whose runs get more steps.

    Args:
        runs: all runs of the request.
        records: of these, by their names.
        out: the folder that they are in.

    Returns:
        For each cohort its work folder, as a path below `out`, and its runs in order.

    Raises:
        UserError: the longer run would not be exact.
    """
    named = {run.name: run for run in runs}
    shorter = [run for run in runs if is_shorter(records[run.name], run)]
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for run in shorter:
        record = records[run.name]
        if record.failure or record.stopped:
            continue  # with more steps it would have ended at the same step
        kept = kept_checkpoints.kept(out / run.name)
        refuse_another(kept, run.name, record, out)
        if why := _hindrance(run, record, kept, out, named):
            there = record.header["run"]["steps"] if record.header else 0
            folder = out / run.name
            way_out = f"; --from {folder} starts a new run with what this one has learned"
            raise UserError(
                f"{folder} has ended after {there:,} steps, and {why}{way_out if kept else ''}."
            )
        assert kept is not None
        found[run.name] = kept["workdir"], tuple(kept["cohort"])
    for name, part in found.items():
        if strange := [it for it in part[1] if found.get(it, part) != part]:
            raise UserError(
                f"The checkpoint in {out / name} was kept beside {strange[0]}, whose own is of "
                "another cohort; put back what was there, or choose another --out."
            )
    parts = dict.fromkeys(found.values())
    cohorts = [(workdir, [named[name] for name in cohort]) for workdir, cohort in parts]
    alone = {run.name for run in shorter} - {run.name for _, group in cohorts for run in group}
    for run in (named[name] for name in alone):  # nothing to train; its record gets the new length
        _lengthen(run, records[run.name], out)
    return cohorts


def go_on(runs: Sequence[Run], records: Mapping[str, Record], out: Path, workdir: Path) -> None:
    """Make a checkpoint from which runs continue, and write the new length into their records.

    Args:
        runs: of one cohort, in its order.
        records: of these, by their names.
        out: the folder that they are in.
        workdir: the folder for the checkpoint.
    """
    # The checkpoint comes first. Without one, a run whose record has more steps would start over.
    ended = {run.name for run in runs if records[run.name].failure or records[run.name].stopped}
    kept_checkpoints.put_back(workdir, out, runs, ended)
    for run in runs:
        _lengthen(run, records[run.name], out)


def _lengthen(run: Run, record: Record, out: Path) -> None:
    """Write a run's new number of steps into its files."""
    assert record.header is not None
    before = record.header["run"]["steps"]
    if before % run.eval.every:  # the longer run has no evaluation at this step
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


def refuse_another(kept: Kept | None, name: str, record: Record, out: Path) -> None:
    """Raise a UserError if the checkpoint kept in a run's folder belongs to another run.

    Args:
        kept: the checkpoint, if there is one.
        name: of the run.
        record: of the run.
        out: the folder that its folder is in.
    """
    if kept and record.header and (kept["name"], kept["run"]) != (name, record.header["run"]):
        folder = out / name
        raise UserError(
            f"The checkpoint in {folder} is of another run than the record there; put back what "
            "was there, or choose another --out."
        )


def _hindrance(
    run: Run, record: Record, kept: Kept | None, out: Path, named: Mapping[str, Run]
) -> str:
    """Say why a run cannot be continued exactly; '' if it can."""
    if changing := changing_settings(run):
        return f"{changing} changes over the length of a run, so going on would not be exact"
    if kept is None:
        return "its last checkpoint is gone, so it cannot go on"
    if kept.get("bare"):
        return (
            "its replay was not kept (compute.keep_checkpoint=true keeps it), so going on would "
            "not be exact"
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


def changing_settings(run: Run) -> str:
    """Return the first setting whose effect depends on the run's length; '' if there is none."""
    for prefix, group in (("", run.hyper), ("strategy.", run.strategy_hyper)):
        for field in dataclasses.fields(group):
            value = getattr(group, field.name)
            if isinstance(value, Amplitude) and value.start != value.end:
                return prefix + field.name
    return "lr_decay" if run.hyper.lr_decay else ""


def _outgrown(run: Run, steps: int, out: Path) -> bool:
    """Whether the replay buffer dropped transitions that a longer run's would still hold."""
    size, first = run.hyper.replay_size, run.start.transitions
    room, more = (capacity_of(size, it + first, run.env.count) for it in (steps, run.steps))
    if room == more:
        return False
    counted = kept_checkpoints.counters(out / run.name)
    # With more room it might have started with more transitions of another run.
    started = np.sum(counted["inserted"]) - steps < min(size, first)
    return bool(np.any(counted["oldest"]) or started)
