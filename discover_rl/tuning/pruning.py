"""Pruning: trials that are worse than the median of earlier ones are stopped on the way.

A rung is an evaluation at which trials are compared: after an eighth, a quarter and a half of the
steps. A trial's value there is the mean over its seeds of the mean return. Optuna's MedianPruner
compares the best of a trial's values so far with the median of those that the completed trials of
earlier batches had at the same rung; if it is below, all runs of the trial end there.

    train all runs of a batch to the next rung, and leave them there with their checkpoints
    end the runs of the trials that are pruned, in their records
    train the others on, in cohorts of their own: fewer lanes take less time

What is pruned depends on records and on the trials of earlier batches alone. So a tuning that was
killed prunes the same trials as one that was not: all of this is done again, and finds the same.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from discover_rl.config import Run
from discover_rl.core.types import UserError
from discover_rl.storage import scores
from discover_rl.storage.records import STOPPED, Record
from discover_rl.training.events import Event, Finished, Noted

if TYPE_CHECKING:
    from discover_rl.training.observers.base import Answer
    from discover_rl.tuning.journal import Journal

PRUNERS = ("median",)
"""What `--prune` may be."""
SHARES = (8, 4, 2)
"""Trials are compared at the first evaluation after 1/8, 1/4 and 1/2 of the steps."""
REASON = "pruned"
"""What the reason of a pruned run begins with."""


class Train(Protocol):
    """Trains runs in a folder, and returns their records by the runs' names."""

    def __call__(
        self, runs: Sequence[Run], folder: Path, until: int | None = None
    ) -> Mapping[str, Record]:
        """To their end; with `until`, to this step, where they are left (`launch.train`)."""
        ...


def check(prune: str | None, run: Run) -> None:
    """Raise a UserError if trials cannot be pruned that way.

    Args:
        prune: the name of a pruner; None: there is none.
        run: of some trial.
    """
    if prune is None:
        return
    if prune not in PRUNERS:
        raise UserError(f"There is no pruner {prune}. There is {PRUNERS[0]}.")
    if not any(rung >= scores.first_step(run.to_json()) for rung in rungs(run)):
        raise UserError(
            "--prune has no evaluation to compare trials at, after learning starts and up to half "
            f"of the {run.steps:,} steps; train for longer, or evaluate more often (eval.every)."
        )


def rungs(run: Run) -> list[int]:
    """Return the steps at which trials are compared, if they have begun to learn by then.

    Args:
        run: of any of them; they share steps and evaluations.
    """
    every = run.eval.every
    steps = [-(-run.steps // (share * every)) * every for share in SHARES]
    return [step for step in dict.fromkeys(steps) if step < run.steps]


def values(runs: Sequence[Run], records: Mapping[str, Record], until: int) -> dict[int, float]:
    """Return the values of a trial at the rungs up to a step, by the rungs' steps.

    A run that has ended early because it has learned enough counts with its last evaluation. Before
    learning starts, and after one of its runs has failed, a trial has no value.

    Args:
        runs: of the trial.
        records: by the names of runs.
        until: the last step that counts.
    """
    first, found = scores.first_step(runs[0].to_json()), {}
    for rung in (rung for rung in rungs(runs[0]) if first <= rung <= until):
        returns = [_return_at(records[run.name], rung) for run in runs]
        known = [one for one in returns if one is not None]
        if len(known) == len(runs):
            found[rung] = statistics.fmean(known)
    return found


def _return_at(record: Record, step: int) -> float | None:
    """Return the mean return of a run's last evaluation up to a step; None if it ended before."""
    before = [line for line in record.evaluations if line["step"] <= step]
    if not before or (record.failure and record.lines[-1]["step"] <= step):
        return None
    if before[-1]["step"] < step and not record.stopped:
        return None
    return scores.mean(before[-1]["returns"])


def train_and_prune(
    trials: Mapping[int, Sequence[Run]],
    journal: Journal,
    start: int,
    folder: Path,
    train: Train,
    on_event: Callable[[Event], Answer],
) -> Mapping[str, Record]:
    """Train the trials of a batch, and prune some of them on the way.

    Args:
        trials: the runs of each, by the trials' numbers.
        journal: gets the values of trials, and which are pruned.
        start: the number of the batch's first trial.
        folder: of the batch.
        train: trains runs.
        on_event: receives the events of runs that were pruned.

    Returns:
        The records, by the runs' names.
    """
    living = [run for own in trials.values() for run in own]
    if not living or not journal.may_prune(start):
        return train(living, folder) if living else {}
    records: dict[str, Record] = {}
    first = min(scores.first_step(run.to_json()) for run in living)
    for rung in (rung for rung in rungs(living[0]) if rung >= first):
        records |= train(living, folder, rung)
        for number, own in trials.items():
            if any(_pruned_before(records[run.name], rung) for run in own):
                continue
            found = values(own, records, rung)
            journal.report(number, found)
            if rung in found and journal.is_worse(start, found):
                reason = f"{REASON}: with {max(found.values()):.1f}, its trial is worse than the "
                reason += "median of earlier trials"
                if _end([(run, records[run.name]) for run in own], rung, reason, folder, on_event):
                    journal.tell(number, values=found, pruned=True)
        living = [run for run in living if not _over_by(records[run.name], rung)]
        if not living:
            return records
    return {**records, **train(living, folder, living[0].steps)}


def _end(
    runs: Sequence[tuple[Run, Record]],
    step: int,
    reason: str,
    folder: Path,
    on_event: Callable[[Event], Answer],
) -> bool:
    """End the runs of a trial that have not ended by themselves; whether there are such."""
    from discover_rl.storage import kept_checkpoints  # here, because it imports JAX

    ours = [
        (run, record)
        for run, record in runs
        if not record.over or (_is_pruned(record) and record.lines[-1]["step"] == step)
    ]
    for run, record in ours:
        if not record.over:
            record.append({"step": step, "event": STOPPED, "reason": reason})
            on_event(Noted(run, step, f"stopped early: {reason}"))
    kept_checkpoints.drop([run for run, _ in ours], folder)
    if ours:
        on_event(Finished([run for run, _ in ours]))
    return bool(ours)


def _is_pruned(record: Record) -> bool:
    """Whether a run was ended here."""
    return record.stopped and record.lines[-1].get("reason", "").startswith(REASON)


def _pruned_before(record: Record, step: int) -> bool:
    """Whether a run was ended here at an earlier rung."""
    return _is_pruned(record) and record.lines[-1]["step"] < step


def _over_by(record: Record, step: int) -> bool:
    """Whether a run was over at a step, whatever has become of it since."""
    return record.over and record.lines[-1]["step"] <= step
