"""Show the progress of training: a live bar on a terminal, plain lines in logs."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from discover_rl.config import Run
from discover_rl.system.text import printable
from discover_rl.training.events import Report
from discover_rl.training.observers.base import Observer, Observers

console = Console()
"""The console that everything is printed on."""
REFRESH_SECONDS = 0.2
"""The shortest time between two updates of the bar."""
RATE_SECONDS = 20.0
"""The time over which the rate of steps is measured."""
COMPILING = "compiling …"
"""What is shown in place of a rate while programs are compiled."""


def say(text: str) -> None:
    """Print a text as it is: brackets are no markup, and long lines are not broken.

    Control characters are written out as codes.
    """
    console.print(printable(text), highlight=False, markup=False, emoji=False, soft_wrap=True)


def shown(text: str) -> Text:
    """A text for a table, as `say` would print it."""
    return Text(printable(text))


@contextlib.contextmanager
def on_terminal(out: Path) -> Iterator[Observer]:
    """In this context, show progress: live on a terminal, as plain lines elsewhere.

    Args:
        out: the folder of the runs, for messages.

    Yields:
        The observer that shows it.
    """
    if console.is_terminal:
        observer = Screen(out)
        live = Live(get_renderable=observer.render, console=console, refresh_per_second=5)
    else:
        observer, live = Lines(out), contextlib.nullcontext()
    with live:
        yield observer
    if not observer.began:
        say(f"Nothing is left to train in {out}.")


@contextlib.contextmanager
def together(several: Sequence[Observer | None], out: Path) -> Iterator[Observer]:
    """In this context, several observers as one; None among them shows progress here.

    Args:
        several: the observers, in order.
        out: the folder of the runs, for messages.
    """
    with contextlib.ExitStack() as stack:
        yield Observers(
            [stack.enter_context(on_terminal(out)) if it is None else it for it in several]
        )


class Pace:
    """How many steps per second a cohort makes, over the last `RATE_SECONDS`."""

    def __init__(self, step: int):
        """Start to measure at this step."""
        self.step = step
        self._marks = deque([(time.monotonic(), step)])

    def at(self, step: int) -> None:
        """The cohort is at this step now."""
        now, self.step = time.monotonic(), step
        self._marks.append((now, step))
        while len(self._marks) > 2 and now - self._marks[0][0] > RATE_SECONDS:
            self._marks.popleft()

    @property
    def rate(self) -> float:
        """Steps per second; 0 as long as nothing is measured."""
        (began, first), (now, last) = self._marks[0], self._marks[-1]
        return (last - first) / (now - began) if now > began else 0.0


class Lines(Observer):
    """Prints a line for each evaluation, for logs."""

    def __init__(self, out: Path):
        """Show the runs in this folder."""
        self.out = out
        self.began = False
        self.share, self.settled, self.announced = 0.0, 0, False

    def started(self, runs: Sequence[Run], step: int) -> None:
        """Print what is going to be trained."""
        self.began = True
        # At first there is little learning, and evaluation takes most of the time.
        self.settled = getattr(runs[0].hyper, "warmup", 0) + runs[0].steps // 10
        say(_headline(runs, step, self.out))

    def evaluated(self, run: Run, step: int, returns: Sequence[float], report: Report) -> None:
        """Print the mean return of an evaluation."""
        say(f"{run.name}  step {step:,}  return {sum(returns) / len(returns):.1f}")

    def evaluation_time(self, step: int, share: float) -> None:
        """Print the share of time that evaluation has taken: once, after a tenth of the run."""
        self.share = share
        if step >= self.settled and not self.announced:
            say(
                f"Up to step {step:,}, evaluation has taken {share:.0%} of the time (eval.every, "
                "eval.episodes)."
            )
            self.announced = True

    def noted(self, run: Run, step: int, note: str) -> None:
        """Print a note about a run."""
        say(f"{run.name}  step {step:,}  {note}")

    def finished(self, runs: Sequence[Run]) -> None:
        """Print the share of time that evaluation took."""
        say(f"Evaluation took {self.share:.0%} of the time.")
        self.announced = False


class Screen(Lines):
    """Shows a progress bar – steps, steps/s, time left – and the last returns of every run."""

    def __init__(self, out: Path):
        """Show the runs in this folder."""
        super().__init__(out)
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("steps · {task.fields[rate]} ·"),
            TimeRemainingColumn(),
            TextColumn("left"),
            expand=True,
        )
        self.task: TaskID | None = None
        self.last: dict[str, str] = {}
        self.training: dict[str, str] = {}
        self._pace, self._shown = Pace(0), 0.0

    def started(self, runs: Sequence[Run], step: int) -> None:
        """Begin a new bar."""
        super().started(runs, step)
        first = runs[0]
        if self.task is not None:
            self.progress.remove_task(self.task)
        name = f"{first.algorithm} + {first.strategy}"
        self.task = self.progress.add_task(
            name, total=first.steps, completed=step, rate="– steps/s"
        )
        self.last = {run.name: "–" for run in runs}
        self.training = {}
        self._pace = Pace(step)

    def compiling(self) -> None:
        """Say so in place of the rate."""
        if self.task is not None:
            self.progress.update(self.task, rate=COMPILING)

    def stepped(self, step: int) -> None:
        """Move the bar on."""
        now = time.monotonic()
        if self.task is None or now - self._shown < REFRESH_SECONDS:
            return
        self._shown = now
        self._pace.at(step)
        rate = self._pace.rate
        label = f"{rate:,.0f} × {len(self.last)}" if len(self.last) > 1 else f"{rate:,.0f}"
        self.progress.update(self.task, completed=step, rate=f"{label} steps/s")

    def evaluated(self, run: Run, step: int, returns: Sequence[float], report: Report) -> None:
        """Show the mean return of an evaluation."""
        self.last[run.name] = f"{sum(returns) / len(returns):.1f} at {step:,}"

    def measured(self, run: Run, step: int, metrics: Report, steps_per_second: float) -> None:
        """Show the mean return of training episodes, if some have ended."""
        if (found := metrics.get("return")) is not None:
            self.training[run.name] = f"in training {found:.1f}"

    def finished(self, runs: Sequence[Run]) -> None:
        """Fill the bar."""
        super().finished(runs)
        if self.task is not None:
            self.progress.update(self.task, completed=runs[0].steps)

    def render(self) -> Group:
        """The bar and a table of the last returns."""
        table = Table.grid(padding=(0, 2))
        for name, text in self.last.items():
            table.add_row(shown(f"  {name}"), f"last return {text}", self.training.get(name, ""))
        return Group(self.progress, table)


def _headline(runs: Sequence[Run], step: int, out: Path) -> str:
    """What is going to be trained, in words."""
    first = runs[0]
    lanes = f"{len(runs)} runs" if len(runs) > 1 else "1 run"
    start = f"resumed at step {step:,}" if step else "from the start"
    line = (
        f"{first.task}: {first.algorithm} + {first.strategy}, {lanes}, {first.steps:,} steps each, "
        f"evaluated every {first.eval.every:,} ({_evaluated(first)} episodes in each run); "
        f"{start}; in {out}"
    )
    warmup = getattr(first.hyper, "warmup", 0)
    if warmup >= first.steps:
        line += (
            f"\nNote: warm-up takes {warmup:,} of {first.steps:,} steps, so nothing will be "
            f"learned; --set warmup={max(1, first.steps // 10)} would change that."
        )
    return line


def _evaluated(run: Run) -> str:
    """The number of a run's evaluation episodes, from its start to its end."""
    return f"{(1 - -run.steps // run.eval.every) * run.eval.episodes:,}"
