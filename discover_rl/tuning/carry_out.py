"""Carry a tuning out in batches of trials, each trained as one cohort.

Optuna proposes a batch of trials, all of them are trained together, and Optuna gets their scores.
The parameters of a batch depend on the batches before it, on the seed and on its number, and on
nothing else: neither on the process, nor on how far a batch was when it was stopped. So a tuning
that was killed and continued has the same trials as one that was not.

    <out>/request.json            the request, with all settings
    <out>/journal.log             Optuna's journal: every trial, its parameters, its scores
    <out>/batch-000/trial-0/…     the runs of a trial, a folder per seed
    <out>/trials.csv              a line per trial

With pruning a batch is trained from rung to rung, which depends on nothing else either (`pruning`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from discover_rl.config import Run, check_processes, check_seconds, check_whole, current_names
from discover_rl.core.types import Stopped, UserError
from discover_rl.storage import files, results, schemas
from discover_rl.storage.records import Record, record_paths
from discover_rl.system import hardware
from discover_rl.training.signals import stop_on_signal
from discover_rl.tuning import pruning
from discover_rl.tuning.databases import needed, without_password
from discover_rl.tuning.journal import Journal, open_storage
from discover_rl.tuning.plan import MOST, Plan
from discover_rl.tuning.pruning import Train, train_and_prune
from discover_rl.tuning.trials import Tuning, write_table

if TYPE_CHECKING:
    from discover_rl.training.events import Event
    from discover_rl.training.observers.base import Answer, Observer


def carry_out(
    plan: Plan,
    out: Path,
    count: int,
    observer: Observer | Iterable[Observer | None] | None = None,
    checkpoint_seconds: float = 60.0,
    processes: int = 1,
    storage: str | None = None,
) -> Tuning:
    """Train the unfinished trials of a tuning.

    Args:
        plan: what is tuned.
        out: the folder for everything.
        count: how many trials, including those in the folder; these are finished in any case.
        observer: receives the events of training, one or several; None stands for the terminal.
        checkpoint_seconds: time between checkpoints.
        processes: how many processes share the runs; 0: as many as are faster.
        storage: where Optuna keeps trials: a URL or a journal file; None: in the folder.

    Returns:
        All trials.

    Raises:
        Stopped: the user has interrupted it.
        UserError: the folder holds something else, or Optuna is not installed.
    """
    from discover_rl.envs.backends import spaces
    from discover_rl.training import launch as training
    from discover_rl.training.observers import listed, terminal

    asked, processes = listed(observer), check_processes(processes)
    seconds = check_seconds("checkpoint_seconds", checkpoint_seconds)
    if (count := check_whole("trials", count)) < 1:
        raise UserError(f"trials must be at least 1, not {count}.")
    if count > MOST:
        raise UserError(f"trials must be {MOST:,} at most, not {count:,}.")
    needed()
    first = plan.first
    spaces(first.task, first.env, hardware.place(first.on_policy))  # before anything is written
    with files.locked(out):
        if storage is not None:
            open_storage(out, storage)  # before the folder is claimed for it
        _claim(plan, out, storage)
        journal = Journal(out, plan.ranges, len(plan.seeds), storage)
        count = max(count, len(journal.trials))
        with terminal.together(asked, out) as listener, stop_on_signal() as stopping:

            def train(
                runs: Sequence[Run], folder: Path, until: int | None = None
            ) -> dict[str, Record]:
                if stopping():
                    raise Stopped(0)
                options = listener, stopping, seconds, processes
                return training.train(runs, folder, *options, until=until)

            for start in range(0, count, plan.batch):
                journal.propose(start, min(plan.batch, count - start), plan.seed)
                done = _finish_batch(plan, journal, start, out, train, listener.on_event)
                if done and None in asked:
                    terminal.say(_progress(Tuning(out, journal.trials), count))
                write_table(out / "trials.csv", journal.trials, plan.seeds)
        return Tuning(out, journal.trials, journal.importances(plan.seed))


def _progress(tuning: Tuning, count: int) -> str:
    """How many trials are over, and which is the best, in words."""
    over = sum(trial.over for trial in tuning.trials)
    best = next(
        (f"trial {trial.number} with {trial.score:.1f}" for trial in tuning.ranking), "none"
    )
    pruned = f", {len(tuning.pruned)} of them pruned" if tuning.pruned else ""
    return f"{over} of {count} trials{pruned}; the best is {best}."


class Claim(TypedDict):
    """The parts of request.json that are compared entry by entry."""

    settings: dict[str, schemas.Value]
    ranges: dict[str, str]


def _claim(plan: Plan, out: Path, storage: str | None) -> None:
    """Write the request into the folder; a UserError if the folder holds something else."""
    from discover_rl.training import headers  # here, because it imports Gymnasium

    path, ours = out / "request.json", plan.to_json()
    for name, found in headers.sources(plan.first).items():
        ours[f"{name.removesuffix('_source')}'s source"] = found
    if storage is not None:
        ours["--storage"] = without_password(storage)
    if not path.exists():
        if record_paths(out):
            raise UserError(f"{out} holds runs that are no tuning's; choose another --out.")
        files.write(path, json.dumps(ours, indent=1, ensure_ascii=False).encode())
        return
    there = schemas.read_json(path, dict[str, Any])
    schemas.check(there, Claim, str(path))
    there, here = (
        request
        | {"settings": None, "ranges": None}
        | current_names(request["settings"])
        | request["ranges"]
        for request in (there, ours)
    )
    for name in sorted(there.keys() | here.keys()):
        old, new = (request.get(name, "nothing") for request in (there, here))
        if old != new:
            raise UserError(
                f"{out} holds another tuning: {name} is {old} there and {new} here; "
                "choose another --out."
            )


def _finish_batch(
    plan: Plan,
    journal: Journal,
    start: int,
    out: Path,
    train: Train,
    on_event: Callable[[Event], Answer],
) -> bool:
    """Train the unfinished trials of a batch and give Optuna their scores.

    Args:
        plan: what is tuned.
        journal: the trials.
        start: the number of the batch's first trial.
        out: the folder of the tuning.
        train: trains runs in a folder and returns their records by the runs' names.
        on_event: receives the events of runs that are pruned.

    Returns:
        Whether there was an unfinished trial.
    """
    batch = journal.trials[start : start + plan.batch]
    if all(trial.over for trial in batch):
        return False
    first: dict[str, int] = {}  # parameters may be proposed again, above all choices
    for trial in journal.trials:
        first.setdefault(str(trial.parameters), trial.number)
    runs: dict[int, list[Run]] = {}
    refused: dict[int, str] = {}
    for trial in batch:
        if first[str(trial.parameters)] == trial.number:
            try:
                runs[trial.number] = plan.runs(trial.number, trial.parameters)
            except UserError as error:  # each value is possible, but not all of them together
                refused[trial.number] = str(error)
    folder = out / f"batch-{start // plan.batch:03}"
    files.refuse_links(out, [folder.name])
    if plan.prune:
        records = train_and_prune(runs, journal, start, folder, train, on_event)
    else:
        everyone = [run for own in runs.values() for run in own]
        records = train(everyone, folder) if everyone else {}
    for trial in journal.trials[start : start + plan.batch]:
        twin = journal.trials[first[str(trial.parameters)]]
        if trial.over:
            continue
        if twin.number < trial.number:
            pruned = twin.pruned is not None
            journal.tell(trial.number, twin.scores, twin.failure, twin.values, pruned)
        elif trial.number in refused:
            journal.tell(trial.number, failure=refused[trial.number])
        else:
            own = runs[trial.number]
            ended = [results.read(records[run.name], run.score.last) for run in own]
            scores = [result.score() for result in ended]
            values = pruning.values(own, records, own[0].steps) if plan.prune else {}
            journal.tell(trial.number, scores, _failure(ended), values)
    return True


def _failure(ended: Sequence[results.Result]) -> str | None:
    """The reason why one of a trial's runs failed, with its seed; None if none did."""
    for result in ended:
        if result.failure:
            return f"{result.reason}, seed {result.run['seed']}"
    return None
