"""Show studies on a terminal: a live table of cohorts, a table of statuses, estimated costs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.table import Table

from discover_rl.core.types import Stopped
from discover_rl.storage.files import FolderInUse
from discover_rl.studies.campaign import Board
from discover_rl.studies.estimate import Cost, hours, peak
from discover_rl.studies.status import STATES, RunStatus, counts
from discover_rl.studies.study import Study
from discover_rl.training.engines import Outcome, places
from discover_rl.training.events import (
    Compiling,
    Ended,
    Evaluated,
    Event,
    Noted,
    Started,
    Stepped,
)
from discover_rl.training.job import Job
from discover_rl.training.observers.terminal import COMPILING, Pace, console, say, shown

ROWS = 40
"""The largest number of rows in a table."""
WIDEST = 30
"""The longest title of a cohort, so that a row fits into 80 columns."""


class Lines(Board):
    """Prints a line when a cohort starts, makes another tenth of its steps, or ends; for logs."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self.jobs: Sequence[Job] = ()
        # By work folder of a cohort: its speed, why it ended, and its last return.
        self.paces: dict[Path, Pace] = {}
        self.over: dict[Path, str] = {}
        self.last: dict[Path, str] = {}
        self.compiling: set[Path] = set()

    def planned(self, jobs: Sequence[Job], runs: int, over: int) -> None:
        """Print how many runs there are and how many are going to be trained."""
        self.jobs = jobs
        lanes = sum(len(job.runs) for job in jobs)
        say(f"{runs:,} runs: {over:,} have ended, {lanes:,} train now, in {len(jobs):,} cohorts.")

    def on_event(self, job: Job, event: Event) -> None:
        """Keep what the event changes, and print a line if it is worth one."""
        match event:
            case Started(_, step):
                self.paces[job.workdir] = Pace(step)
                self.say(f"{title(job)}: {_start(step)}")
            case Compiling():
                self.compiling.add(job.workdir)
            case Stepped(step):
                self.compiling.discard(job.workdir)
                before, total = self.paces[job.workdir].step, job.runs[0].steps
                self.paces[job.workdir].at(step)
                if 10 * before // total < 10 * step // total < 10:
                    self.say(f"{title(job)}: step {step:,} of {total:,}{self.latest(job)}")
            case Evaluated(_, step, returns):
                self.last[job.workdir] = f"{sum(returns) / len(returns):.1f} at {step:,}"
            case Noted(run, step, note):
                say(f"{run.name}: step {step:,}, {note}")
            case Ended(outcome):
                self.over[job.workdir] = _outcome(outcome)
                say(f"{title(job)}: {self.over[job.workdir]}{self.latest(job)}")
            case _:
                pass

    def latest(self, job: Job) -> str:
        """The last return of a cohort, as the end of a line; '' if it has none yet."""
        return f", last return {self.last[job.workdir]}" if job.workdir in self.last else ""

    def say(self, line: str) -> None:
        """Print a line that is not needed where a live table shows the same."""
        say(line)


class Screen(Lines):
    """Shows a table with the progress, the speed and the time left of every cohort in training."""

    def say(self, line: str) -> None:
        """Print nothing: the table shows it."""

    def render(self) -> Group:
        """The table, and a line about all cohorts."""
        working = [
            job for job in self.jobs if job.workdir in self.paces and job.workdir not in self.over
        ]
        if not working:
            return Group(shown(self._summary(working)))
        table = Table(box=None, padding=(0, 1))
        for name in ("cohort", "runs", "step", "", "steps/s", "left", "last return"):
            left = name == "cohort"
            table.add_column(name, justify="left" if left else "right", no_wrap=True)
        for job in working[:ROWS]:
            pace, steps, lanes = self.paces[job.workdir], job.runs[0].steps, len(job.runs)
            left = duration((steps - pace.step) / pace.rate) if pace.rate else "–"
            done, rate = f"{pace.step / steps:.0%}", f"{pace.rate * lanes:,.0f}"
            rate = COMPILING if job.workdir in self.compiling else rate
            row = (shown(self._short(job)), f"{lanes}", f"{pace.step:,}", done, rate, left)
            table.add_row(*row, self.last.get(job.workdir, "–").partition(" at ")[0])
        return Group(table, shown(self._summary(working)))

    def _short(self, job: Job) -> str:
        """The title of a cohort without the beginning that all titles share, cut from the left."""
        parts = title(job).split("/")
        common = os.path.commonpath([title(other) for other in self.jobs])
        shared = len(common.split("/")) if common else 0
        text = "/".join(parts[min(shared, len(parts) - 1) :])
        return text if len(text) <= WIDEST else f"…{text[1 - WIDEST :]}"

    def _summary(self, working: Sequence[Job]) -> str:
        """How many cohorts have ended and wait, and the time that is left for all."""
        waiting = len(self.jobs) - len(working) - len(self.over)
        rate = sum(self.paces[job.workdir].rate * len(job.runs) for job in working)
        steps = {workdir: pace.step for workdir, pace in self.paces.items()}
        steps_left = sum(
            (job.runs[0].steps - steps.get(job.workdir, 0)) * len(job.runs)
            for job in self.jobs
            if job.workdir not in self.over
        )
        time_left = duration(steps_left / rate) if rate else ""
        left = f" · about {time_left} left at {rate:,.0f} steps/s" if rate else ""
        todo = f"{waiting} waiting or starting" if waiting else "none waiting"
        return f"{len(self.over)} of {len(self.jobs)} cohorts ended, {todo}{left}"


@contextlib.contextmanager
def on_terminal() -> Iterator[Lines]:
    """In this context, show a campaign: a live table on a terminal, plain lines elsewhere.

    Yields:
        The board that shows it.
    """
    if not console.is_terminal:
        yield Lines()
        return
    screen = Screen()
    with Live(get_renderable=screen.render, console=console, refresh_per_second=4):
        yield screen


def show_status(study: Study, found: Sequence[RunStatus]) -> None:
    """Print how far a study is: a table of cells, and the reasons of failures.

    Args:
        study: the study.
        found: the status of each run.
    """
    say(f"{study.name}: {study.about}" if study.about else study.name)
    by_cell: dict[str, list[RunStatus]] = {cell.name: [] for cell in study.cells}
    for run in found:
        by_cell[run.name.rpartition("/")[0]].append(run)
    table = Table(box=None, padding=(0, 1))
    for name in ("cell", *STATES, "steps"):
        left = name == "cell"
        # The ends of long names are what tells cells apart, so they are broken and not cut.
        justify = "left" if left else "right"
        table.add_column(name, justify=justify, no_wrap=not left, overflow="fold")
    # If there are too many cells for the table, those that are done are left out first.
    order = sorted(by_cell, key=lambda name: all(run.state == "done" for run in by_cell[name]))
    listed = [name for name in by_cell if name in set(order[:ROWS])]
    for name in listed:
        states, share = counts(by_cell[name]), _share(study, by_cell[name])
        cells = [str(states.get(state, "")) for state in STATES]
        table.add_row(shown(name), *cells, f"{share:.0%}")
    console.print(table)
    if len(by_cell) > len(listed):
        say(f"  … and {len(by_cell) - len(listed):,} cells more")
    failed = [run for run in found if run.state == "failed"]
    for run in failed[:ROWS]:
        say(f"failed: {run.name}: {run.reason}")
    if len(failed) > ROWS:
        say(f"  … and {len(failed) - ROWS:,} more that failed")
    if len(sources := {run.made_by for run in found if run.made_by}) > 1:
        say(f"The runs were made by {len(sources)} different versions of the code.")
    words = ", ".join(f"{number:,} {state}" for state, number in counts(found).items())
    say(f"{_many(len(found), 'run')}: {words}; {_share(study, found):.1%} of all steps.")


def show_plan(
    study: Study,
    cohorts: Sequence[Job],
    left: Sequence[Job],
    found: Sequence[Cost],
    on_gpu: int = 1,
) -> None:
    """Print what a study takes.

    Args:
        study: the study.
        cohorts: all its cohorts.
        left: the cohorts that are left to train.
        found: the cost of each of these.
        on_gpu: how many are trained at once on the GPU.
    """
    say(f"{study.name}: {study.about}" if study.about else study.name)
    table = Table(box=None, padding=(0, 1))
    for name in ("algorithm + strategy", "tasks", "cohorts", "lanes", "memory each", "hours"):
        table.add_column(name, justify="left" if name.startswith("algorithm") else "right")
    pairs: dict[str, list[int]] = {}
    for i, job in enumerate(left):
        run = job.runs[0]
        pairs.setdefault(f"{run.algorithm} + {run.strategy}", []).append(i)
    for kind, members in pairs.items():
        jobs, costs = [left[i] for i in members], [found[i] for i in members]
        lanes = sorted({len(job.runs) for job in jobs})
        seconds = [cost.seconds for cost in costs]
        known = None if None in seconds else sum(each or 0.0 for each in seconds) / 3600
        table.add_row(
            kind,
            str(len({job.runs[0].task for job in jobs})),
            str(len(jobs)),
            "–".join(map(str, dict.fromkeys((lanes[0], lanes[-1])))),
            size(max(cost.memory for cost in costs)),
            "?" if known is None else f"{known:,.2f}",
        )
    if left:
        console.print(table)
    runs, todo = (sum(len(job.runs) for job in jobs) for jobs in (cohorts, left))
    memory, disk = peak(left, found, on_gpu)
    say(
        f"{_many(runs, 'run')} of {_lengths(study)} steps in {_many(len(cohorts), 'cohort')}; "
        f"{todo:,} of them to be trained."
    )
    say(f"At most {size(memory)} of memory and {size(disk)} of disk at a time.")
    total = hours(left, found, on_gpu=on_gpu)
    if total is None:
        say("How long it takes is not known; without --no-measure it is measured.")
    else:
        kinds = {job.place for job in left}
        many = min(
            len(left), sum(most for place, most in places(on_gpu=on_gpu).items() if place in kinds)
        )
        say(f"About {duration(3600 * total)} on this machine, {_many(many, 'cohort')} at once.")


def size(number: float) -> str:
    """Bytes in words.

    >>> size(950), size(1_500_000), size(2.5e9)
    ('950 B', '2 MB', '2.5 GB')
    """
    for unit in ("B", "KB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def _lengths(study: Study) -> str:
    """How many steps the runs of a study have, in words."""
    most = "up to " if len({cell.steps for cell in study.cells}) > 1 else ""
    return f"{most}{study.steps:,}"


def _share(study: Study, found: Sequence[RunStatus]) -> float:
    """The share of all steps that these runs have made."""
    lengths = {name: cell.steps for cell in study.cells for name in cell.names}
    made = sum(min(run.step, lengths[run.name]) for run in found)
    return made / sum(lengths[run.name] for run in found)


def title(job: Job) -> str:
    """The title of a cohort: the name of its first cell, and how many others it has."""
    cells = dict.fromkeys(run.name.rpartition("/")[0] for run in job.runs)
    first = next(iter(cells))
    return first if len(cells) == 1 else f"{first} and {len(cells) - 1} more"


def _many(number: int, what: str) -> str:
    """A number of things: "1 run", "2 runs"."""
    return f"{number:,} {what}" + ("s" if number != 1 else "")


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(12.3), duration(600), duration(9000)
    ('12 s', '10 min', '2.5 h')
    """
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"


def _start(step: int) -> str:
    """How a cohort starts, in words."""
    return f"resumed at step {step:,}" if step else "started"


def _outcome(outcome: Outcome) -> str:
    """Return the outcome of a cohort, in words."""
    if outcome is None:
        return "done"
    if isinstance(outcome, FolderInUse):
        return "another process is training it"
    if isinstance(outcome, Stopped):
        return f"stopped at step {outcome.step:,}"
    return f"failed: {outcome}"
