"""What a person sees of a study: a live table of its cohorts, and how it stands."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from discover_rl.display import Pace, console, say
from discover_rl.engines import Outcome, places
from discover_rl.jobs import Job
from discover_rl.store import Taken
from discover_rl.studies import Study
from discover_rl.studies.campaign import Board
from discover_rl.studies.estimate import Cost, hours, peak
from discover_rl.studies.progress import STATES, Standing, counts
from discover_rl.types import Stopped

ROWS = 40
"""No table is longer than that."""
WIDEST = 30
"""Of a cohort's title, so that 80 columns hold its row."""


class Lines(Board):
    """A line whenever a cohort starts, has done another tenth, or ends; for logs."""

    def __init__(self) -> None:
        self.jobs: Sequence[Job] = ()
        # By the cohorts' desks:
        self.paces: dict[Path, Pace] = {}
        self.over: dict[Path, str] = {}
        self.last: dict[Path, str] = {}

    def planned(self, jobs: Sequence[Job], runs: int, over: int) -> None:
        self.jobs = jobs
        lanes = sum(len(job.runs) for job in jobs)
        say(f"{runs:,} runs, {over:,} of them over; now {lanes:,} in {len(jobs):,} cohorts.")

    def heard(self, job: Job, event: str, details: tuple[Any, ...]) -> None:
        if event == "started":
            self.paces[job.desk] = Pace(details[1])
            self.say(f"{title(job)}: {_from(details[1])}")
        elif event == "stepped":
            before, total = self.paces[job.desk].step, job.runs[0].steps
            self.paces[job.desk].at(details[0])
            if 10 * before // total < 10 * details[0] // total < 10:
                self.say(f"{title(job)}: step {details[0]:,} of {total:,}{self.latest(job)}")
        elif event == "evaluated":
            _, step, returns, _ = details
            self.last[job.desk] = f"{sum(returns) / len(returns):.1f} at {step:,}"
        elif event == "noted":
            run, step, note = details
            say(f"{run.name}: step {step:,}, {note}")

    def ended(self, job: Job, outcome: Outcome) -> None:
        self.over[job.desk] = _verdict(outcome)
        say(f"{title(job)}: {self.over[job.desk]}{self.latest(job)}")

    def latest(self, job: Job) -> str:
        return f", last return {self.last[job.desk]}" if job.desk in self.last else ""

    def say(self, line: str) -> None:
        say(line)


class Screen(Lines):
    """A table: progress of every cohort that is at work, its rate, the time left."""

    def say(self, line: str) -> None:
        """What the table shows needs no line."""

    def render(self) -> Group:
        working = [it for it in self.jobs if it.desk in self.paces and it.desk not in self.over]
        if not working:
            return Group(Text(self._summary(working)))
        table = Table(box=None, padding=(0, 1))
        for name in ("cohort", "runs", "step", "", "steps/s", "left", "last return"):
            left = name == "cohort"
            table.add_column(name, justify="left" if left else "right", no_wrap=True)
        for job in working[:ROWS]:
            pace, steps, lanes = self.paces[job.desk], job.runs[0].steps, len(job.runs)
            left = duration((steps - pace.step) / pace.rate) if pace.rate else "–"
            done, rate = f"{pace.step / steps:.0%}", f"{pace.rate * lanes:,.0f}"
            row = (Text(self._short(job)), f"{lanes}", f"{pace.step:,}", done, rate, left)
            table.add_row(*row, self.last.get(job.desk, "–").partition(" at ")[0])
        return Group(table, Text(self._summary(working)))

    def _short(self, job: Job) -> str:
        """A cohort's title without what all have in common, from its end."""
        parts = title(job).split("/")
        common = os.path.commonpath([title(it) for it in self.jobs])
        same = len(common.split("/")) if common else 0
        text = "/".join(parts[min(same, len(parts) - 1) :])
        return text if len(text) <= WIDEST else f"…{text[1 - WIDEST :]}"

    def _summary(self, working: Sequence[Job]) -> str:
        waiting = len(self.jobs) - len(working) - len(self.over)
        rate = sum(self.paces[job.desk].rate * len(job.runs) for job in working)
        steps = {desk: pace.step for desk, pace in self.paces.items()}
        steps_left = sum(
            (job.runs[0].steps - steps.get(job.desk, 0)) * len(job.runs)
            for job in self.jobs
            if job.desk not in self.over
        )
        time_left = duration(steps_left / rate) if rate else ""
        left = f" · about {time_left} left at {rate:,.0f} steps/s" if rate else ""
        todo = f"{waiting} waiting or starting" if waiting else "none waiting"
        return f"{len(self.over)} of {len(self.jobs)} cohorts ended, {todo}{left}"


@contextlib.contextmanager
def on_terminal() -> Iterator[Lines]:
    """A live table on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield Lines()
        return
    screen = Screen()
    with Live(get_renderable=screen.render, console=console, refresh_per_second=4):
        yield screen


def show_standings(study: Study, found: Sequence[Standing]) -> None:
    """A table of cells and the reasons of failures."""
    say(f"{study.name}: {study.about}" if study.about else study.name)
    by_cell = {cell.name: [] for cell in study.cells}
    for it in found:
        by_cell[it.name.rpartition("/")[0]].append(it)
    table = Table(box=None, padding=(0, 1))
    for name in ("cell", *STATES, "steps"):
        left = name == "cell"
        table.add_column(name, justify="left" if left else "right", no_wrap=not left)
    # Where not all can be shown, those that are done are what matters least.
    order = sorted(by_cell, key=lambda name: all(it.state == "done" for it in by_cell[name]))
    shown = [name for name in by_cell if name in set(order[:ROWS])]
    for name in shown:
        states, share = counts(by_cell[name]), _share(study, by_cell[name])
        cells = [str(states.get(state, "")) for state in STATES]
        table.add_row(Text(name), *cells, f"{share:.0%}")
    console.print(table)
    if len(by_cell) > len(shown):
        say(f"  … and {len(by_cell) - len(shown):,} cells more")
    failed = [it for it in found if it.state == "failed"]
    for it in failed[:ROWS]:
        say(f"failed: {it.name}: {it.reason}")
    if len(failed) > ROWS:
        say(f"  … and {len(failed) - ROWS:,} more that failed")
    if len(sources := {it.made_by for it in found if it.made_by}) > 1:
        say(f"Runs of {len(sources)} different versions of the code are among them.")
    words = ", ".join(f"{number:,} {state}" for state, number in counts(found).items())
    say(f"{_many(len(found), 'run')}: {words}; {_share(study, found):.1%} of all steps.")


def show_plan(
    study: Study, cohorts: Sequence[Job], left: Sequence[Job], found: Sequence[Cost]
) -> None:
    """What a study comes to; `left` are the cohorts to be trained, `found` what they cost."""
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
        seconds = [it.seconds for it in costs]
        known = None if None in seconds else sum(it or 0.0 for it in seconds) / 3600
        table.add_row(
            kind,
            str(len({job.runs[0].task for job in jobs})),
            str(len(jobs)),
            "–".join(map(str, dict.fromkeys((lanes[0], lanes[-1])))),
            size(max(it.memory for it in costs)),
            "?" if known is None else f"{known:,.2f}",
        )
    if left:
        console.print(table)
    runs, todo = (sum(len(job.runs) for job in it) for it in (cohorts, left))
    memory, disk = peak(left, found)
    say(
        f"{_many(runs, 'run')} of {study.steps:,} steps in {_many(len(cohorts), 'cohort')}; "
        f"{todo:,} of them to be trained."
    )
    say(f"At most {size(memory)} of memory and {size(disk)} of disk at a time.")
    total = hours(left, found)
    if total is None:
        say("How long it takes is not known; without --no-measure it is measured.")
    else:
        kinds = {job.place for job in left}
        many = min(len(left), sum(most for place, most in places().items() if place in kinds))
        say(f"About {duration(3600 * total)} on this machine, {_many(many, 'cohort')} at once.")


def size(number: float) -> str:
    for unit in ("B", "KB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def _share(study: Study, found: Sequence[Standing]) -> float:
    return sum(min(it.step, study.steps) for it in found) / (study.steps * len(found))


def title(job: Job) -> str:
    """What a cohort is called: what its runs have in common."""
    cells = dict.fromkeys(run.name.rpartition("/")[0] for run in job.runs)
    first = next(iter(cells))
    return first if len(cells) == 1 else f"{first} and {len(cells) - 1} more"


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("s" if number != 1 else "")


def duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"


def _from(step: int) -> str:
    return f"going on at step {step:,}" if step else "started"


def _verdict(outcome: Outcome) -> str:
    if outcome is None:
        return "done"
    if isinstance(outcome, Taken):
        return "somebody else is training it"
    if isinstance(outcome, Stopped):
        return f"stopped at step {outcome.step:,}"
    return f"failed: {outcome}"
