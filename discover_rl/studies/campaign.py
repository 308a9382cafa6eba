"""Carrying a study out: what is missing of it, cohort after cohort, as long as there is time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from discover_rl import checkpoint, jobs, store, tasks
from discover_rl.engines import Hear, Outcome
from discover_rl.jobs import Job
from discover_rl.observers import Observer
from discover_rl.store import Taken
from discover_rl.studies import Study, plan, progress
from discover_rl.tasks import Unmakeable
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


def prepare(
    study: Study, out: Path, shard: tuple[int, int] = (1, 1), retry: bool = False
) -> list[Job]:
    """The cohorts of a study, or of a part, after all was checked that can be before it starts."""
    for cell in {cell.task: cell for cell in study.cells}.values():
        try:
            tasks.make(cell.task).close()
        except Unmakeable:
            continue  # fails its own runs, and no others
        except UserError as error:
            raise UserError(f"{cell.where}, task: {error}") from error
    for run in study.runs:
        header = store.glance(store.record_of(out, run.name)).header
        if unlike := header and jobs.difference(header["run"], run.to_json()):
            raise UserError(
                f"{out} holds another study: in {run.name}, {unlike}; choose another --out."
            )
    cohorts = plan.agreed(study, out, shard, retry)
    for job in cohorts:
        path = checkpoint.find(job.desk)
        if path is not None and not store.taken(job.desk):
            jobs.resumable(path, {run.name: run for run in job.runs})
    return cohorts


def carry_out(
    cohorts: Sequence[Job],
    engine: Engine,
    board: Board,
    observer: Observer,
    stopping: Callable[[], bool],
) -> bool:
    """Train what is missing of these cohorts; whether all of it came to its end or failed.

    A cohort that fails is noted at its desk and the rest goes on. One that somebody else is
    training is left to them, after a while in which a worker of a killed process would go.
    """
    left = [len(plan.missing(job)) for job in cohorts]
    mine = [job for job, lanes in zip(cohorts, left, strict=True) if lanes]
    mine.sort(key=lambda job: checkpoint.find(job.desk) is None)  # what was begun comes first
    runs = sum(len(job.runs) for job in cohorts)
    board.planned(mine, runs, runs - sum(left))
    outcomes = _attempt(mine, engine, board, observer, stopping)
    taken = [job for job, it in zip(mine, outcomes, strict=True) if isinstance(it, Taken)]
    freed = _freed(taken, stopping)
    outcomes += _attempt(freed, engine, board, observer, stopping) if freed else []
    for job in taken:
        if job not in freed:
            board.ended(job, Taken("somebody else is training it"))
    stopped = any(isinstance(it, Stopped) for it in outcomes)
    return not stopped and not any(plan.missing(job) for job in taken)


def _attempt(
    cohorts: Sequence[Job],
    engine: Engine,
    board: Board,
    observer: Observer,
    stopping: Callable[[], bool],
) -> list[Outcome]:
    """Train these; what became of each."""

    def hear(number: int, event: str, details: tuple[Any, ...]) -> None:
        job = cohorts[number]
        if event != "ended":
            if event == "started":
                progress.forget_trouble(job.desk)
            board.heard(job, event, details)
            getattr(observer, event)(*details)
        elif not isinstance(details[0], Taken):
            if details[0] is not None and not isinstance(details[0], Stopped):
                progress.note_trouble(job.desk, details[0])
            board.ended(job, details[0])

    return engine(cohorts, hear, stopping, 0.0)


def _freed(taken: Sequence[Job], stopping: Callable[[], bool]) -> list[Job]:
    """Those of whom nobody is at work any more, after a while."""
    until = time.monotonic() + jobs.PATIENCE
    while any(store.taken(job.desk) for job in taken):
        if stopping() or time.monotonic() >= until:
            break
        time.sleep(0.2)
    return [job for job in taken if not store.taken(job.desk)]
