"""Train the unfinished runs of a study, cohort after cohort, until all have ended or time is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from discover_rl.core.types import Spec, Stopped, UserError
from discover_rl.envs.backends import spaces
from discover_rl.envs.settings import Env
from discover_rl.envs.tasks import Unmakeable
from discover_rl.envs.versions import full_id
from discover_rl.storage import checkpoints, files
from discover_rl.storage.files import FolderInUse
from discover_rl.storage.records import read_record, record_path, sources_in
from discover_rl.studies import plan, status
from discover_rl.studies.study import Cell, Study
from discover_rl.training import job as jobs
from discover_rl.training import memory
from discover_rl.training.engines import Engine, Outcome
from discover_rl.training.events import Ended, Event, Started
from discover_rl.training.job import Job
from discover_rl.training.observers import Observer


class Board:
    """Shows the progress of a campaign. A subclass overrides what it wants to show.

    The board gets the same events as the observers, each together with its cohort.
    """

    def planned(self, jobs: Sequence[Job], runs: int, over: int) -> None:
        """Training is about to begin.

        Args:
            jobs: the cohorts that are going to be trained.
            runs: how many runs the study, or the part of it, has.
            over: how many of these are done or failed already.
        """

    def on_event(self, job: Job, event: Event) -> None:
        """Something happened to a cohort. Its last event is `Ended`."""


class Prepared(NamedTuple):
    """A campaign that can begin. Its records were read once, to make this."""

    cohorts: list[Job]
    """The cohorts of the study, or of the part, finished ones included."""
    over: set[str]
    """The names of runs with nothing left to train: they are done or failed."""


def prepare(
    study: Study,
    out: Path,
    shard: tuple[int, int] = (1, 1),
    retry: bool = False,
    anyway: bool = False,
    here: bool = True,
) -> Prepared:
    """Check everything that can be checked before training, and divide the study into cohorts.

    Args:
        study: the study.
        out: the folder of its results.
        shard: (i, n): only the i-th of n parts.
        retry: whether runs that failed are trained again.
        anyway: whether to go on though the code of a task of the user's own has changed since.
        here: whether it is trained on this machine, into whose memory every run must fit.

    Raises:
        UserError: a task does not exist, or the folder holds something else.
    """
    specs: dict[tuple[str, Env], Spec] = {}
    for key, cell in {(cell.task, cell.runs[0].env): cell for cell in study.cells}.items():
        try:
            specs[key] = spaces(*key, plan.place_of(cell.runs[0]))
        except Unmakeable:
            continue  # its own runs will fail, and no others
        except UserError as error:
            raise UserError(f"{cell.where}, task: {error}") from error
        if (whole := full_id(cell.task)) != cell.task:
            raise UserError(f"{cell.where}, task: a study has whole ids, here {whole}.")
    over = set()
    for run in study.runs:
        found = read_record(record_path(out, run.name))
        header = found.header
        over |= {run.name} if found.over else set()
        if unlike := header and jobs.difference(header["run"], run.to_json()):
            raise UserError(
                f"{out} holds another study: in {run.name}, {unlike}; choose another --out."
            )
        if header and not anyway:
            jobs.refuse_changed_code(run, sources_in(header), out)
    if here:
        _check_memory([cell for cell in study.cells if not over.issuperset(cell.names)], specs)
    cohorts = plan.agreed(study, out, shard, retry)
    if retry:  # the records of failed runs may be gone now
        over = {name for name in over if record_path(out, name).exists()}
    for job in cohorts:
        path = checkpoints.find(job.workdir)
        if path is not None and not files.in_use(job.workdir):
            jobs.resumable(path, {run.name: run for run in job.runs})
    return Prepared([job._replace(anyway=anyway) for job in cohorts], over)


def _check_memory(cells: Sequence[Cell], specs: Mapping[tuple[str, Env], Spec]) -> None:
    """A UserError if this machine has too little memory for one run of any of these cells; `specs`
    are the spaces of those that can be made."""
    for cell in cells:
        first = cell.runs[0]
        spec = specs.get((first.task, first.env))
        try:
            if spec is not None:
                memory.check([first], spec)
        except UserError as error:
            raise UserError(f"{cell.where}, {cell.name}: {error}") from error


def carry_out(
    prepared: Prepared,
    engine: Engine,
    board: Board,
    observer: Observer,
    stopping: Callable[[], bool],
) -> bool:
    """Train the unfinished runs of a campaign.

    If a cohort fails, the reason is written into its work folder and the others are still trained.
    A cohort that another process is training is left to that process, after a second attempt: a
    worker whose parent was killed needs a while to notice and to end.

    Args:
        prepared: the cohorts, as `prepare` returns them.
        engine: trains them.
        board: gets all events.
        observer: gets the same events.
        stopping: asked every few steps; if true, training stops after a checkpoint.

    Returns:
        Whether every run is done or has failed, so that nothing is left to train.
    """
    cohorts, over = prepared
    mine = plan.left(cohorts, over)
    unfinished = sum(run.name not in over for job in mine for run in job.runs)
    mine.sort(key=lambda job: checkpoints.find(job.workdir) is None)  # those that began come first
    runs = sum(len(job.runs) for job in cohorts)
    board.planned(mine, runs, runs - unfinished)
    first = _attempt(mine, engine, board, observer, stopping)
    taken = [
        job for job, outcome in zip(mine, first, strict=True) if isinstance(outcome, FolderInUse)
    ]
    freed = _freed(taken, stopping)
    second = _attempt(freed, engine, board, observer, stopping) if freed else []
    trained = [
        job.workdir
        for job, outcome in zip(freed, second, strict=True)
        if not isinstance(outcome, FolderInUse)
    ]
    for job in taken:
        if job.workdir not in trained:
            ended = Ended(FolderInUse("another process is training it"))
            board.on_event(job, ended)
            observer.on_event(ended)
    stopped = any(isinstance(outcome, Stopped) for outcome in (*first, *second))
    return not stopped and not any(plan.missing(job) for job in taken)


def _attempt(
    cohorts: Sequence[Job],
    engine: Engine,
    board: Board,
    observer: Observer,
    stopping: Callable[[], bool],
) -> list[Outcome]:
    """Train these cohorts once; return the outcome of each."""

    def on_event(number: int, event: Event) -> None:
        job = cohorts[number]
        if isinstance(event, Started):
            status.clear_trouble(job.workdir)
        if isinstance(event, Ended):
            if isinstance(event.outcome, FolderInUse):
                return  # the caller tries again, or reports it
            if event.outcome is not None and not isinstance(event.outcome, Stopped):
                status.write_trouble(job.workdir, event.outcome)
        board.on_event(job, event)
        observer.on_event(event)

    return engine(cohorts, on_event, stopping, 0.0)


def _freed(taken: Sequence[Job], stopping: Callable[[], bool]) -> list[Job]:
    """Wait, for a limited time, until no process trains these cohorts; return the free ones."""
    until = time.monotonic() + jobs.PATIENCE
    while any(files.in_use(job.workdir) for job in taken):
        if stopping() or time.monotonic() >= until:
            break
        time.sleep(0.2)
    return [job for job in taken if not files.in_use(job.workdir)]
