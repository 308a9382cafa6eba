"""Carrying a study out: what is missing of it, cohort after cohort, as long as there is time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from discover_rl import checkpoint, jobs, store, tasks
from discover_rl.engines import Hear, Outcome
from discover_rl.jobs import Job
from discover_rl.observers import Observer
from discover_rl.store import Taken
from discover_rl.studies import Study, plan, progress
from discover_rl.types import Stopped, UserError

Engine = Callable[[Sequence[Job], Hear, Callable[[], bool], float], list[Outcome]]
"""Trains cohorts, with so much patience, and says what became of each (see `engines`)."""


class Board:
    """Hears of every cohort of a campaign. Every method may be left as it is."""

    def planned(self, jobs: Sequence[Job], runs: int, over: int) -> None:
        """These cohorts are to be trained now; of so many runs so many are over."""

    def heard(self, job: Job, event: str, details: tuple[Any, ...]) -> None:
        """Of a cohort: an observer's method, and what to call it with."""

    def ended(self, job: Job, outcome: Outcome) -> None:
        """A cohort came to its end, or why it did not."""


def prepare(study: Study, out: Path, retry: bool = False) -> list[Job]:
    """The study's cohorts, after all was checked that can be before anything starts."""
    runs = study.runs
    for task in dict.fromkeys(cell.task for cell in study.cells):
        where = next(cell.where for cell in study.cells if cell.task == task)
        try:
            tasks.make(task).close()
        except UserError as error:
            raise UserError(f"{where}, task: {error}") from error
    for run in runs:
        header = store.glance(out / run.name / "record.jsonl").header
        if unlike := header and jobs.difference(header["run"], run.to_json()):
            raise UserError(
                f"{out} holds another study: in {run.name}, {unlike}; choose another --out."
            )
    return plan.agreed(study, out, retry)


def carry_out(
    cohorts: Sequence[Job],
    engine: Engine,
    board: Board,
    observer: Observer,
    stopping: Callable[[], bool],
    shard: tuple[int, int] = (1, 1),
) -> bool:
    """Train what is missing of these cohorts, or of the i-th of n parts of them; whether all of it
    came to its end or failed.

    A cohort that fails is noted at its desk and the rest goes on. One that somebody else is
    training is left to them, after a while in which a worker of a killed process would go.
    """
    i, n = shard
    left = [_left(job) for job in cohorts]
    parts = list(zip(cohorts, left, strict=True))[i - 1 :: n]
    mine = [job for job, missing in parts if missing]
    mine.sort(key=lambda job: checkpoint.find(job.desk) is None)  # what was begun comes first
    runs = sum(len(job.runs) for job in cohorts)
    board.planned(mine, runs, runs - sum(left))
    told = board, observer, stopping
    taken, stopped = _attempt(mine, engine, *told, patience=0.0)
    if taken and not stopped:
        taken, stopped = _attempt(taken, engine, *told, patience=jobs.PATIENCE)
    return not taken and not stopped


def _attempt(
    cohorts: Sequence[Job],
    engine: Engine,
    board: Board,
    observer: Observer,
    stopping: Callable[[], bool],
    patience: float,
) -> tuple[list[Job], bool]:
    """Train these; those that somebody else is training, and whether any was stopped."""

    def hear(number: int, event: str, details: tuple[Any, ...]) -> None:
        job = cohorts[number]
        if event == "ended":
            (outcome,) = details
            if outcome is not None and not isinstance(outcome, Taken | Stopped):
                progress.note_trouble(job.desk, outcome)
            if patience or not isinstance(outcome, Taken):  # else it will be tried once more
                board.ended(job, outcome)
            return
        if event == "started":
            progress.forget_trouble(job.desk)
        board.heard(job, event, details)
        getattr(observer, event)(*details)

    outcomes = engine(cohorts, hear, stopping, patience)
    taken = [job for job, it in zip(cohorts, outcomes, strict=True) if isinstance(it, Taken)]
    return taken, any(isinstance(it, Stopped) for it in outcomes)


def _left(job: Job) -> int:
    """How many of its runs are not over."""
    glances = [store.glance(job.out / run.name / "record.jsonl") for run in job.runs]
    return sum(not glance.over for glance in glances)
