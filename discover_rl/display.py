"""What a person sees: live progress, and tables."""

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
from discover_rl.observers import Observer, Report
from discover_rl.results import Result

console = Console()
REFRESH_SECONDS = 0.2
RATE_SECONDS = 20.0


def say(text: str) -> None:
    """Print as it is: no markup in a folder's name, no line broken in a log."""
    console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


@contextlib.contextmanager
def on_terminal(out: Path) -> Iterator[Observer]:
    """An observer that shows progress live on a terminal, and as plain lines elsewhere."""
    if console.is_terminal:
        observer = Screen(out)
        live = Live(get_renderable=observer.render, console=console, refresh_per_second=5)
    else:
        observer, live = Lines(out), contextlib.nullcontext()
    with live:
        yield observer
    if not observer.began:
        say(f"Nothing left to do: {out} holds all of it.")


class Pace:
    """How fast one cohort is, over the last moments."""

    def __init__(self, step: int):
        self.step = step
        self._marks = deque([(time.monotonic(), step)])

    def at(self, step: int) -> None:
        now, self.step = time.monotonic(), step
        self._marks.append((now, step))
        while len(self._marks) > 2 and now - self._marks[0][0] > RATE_SECONDS:
            self._marks.popleft()

    @property
    def rate(self) -> float:
        (began, first), (now, last) = self._marks[0], self._marks[-1]
        return (last - first) / (now - began) if now > began else 0.0


class Lines(Observer):
    """One line per evaluation, for logs."""

    def __init__(self, out: Path):
        self.out = out
        self.began = False
        self.share, self.settled, self.told = 0.0, 0, False

    def started(self, runs: Sequence[Run], step: int) -> None:
        self.began = True
        # Before there is much learning, evaluation takes most of the time.
        self.settled = getattr(runs[0].hyper, "warmup", 0) + runs[0].steps // 10
        say(_headline(runs, step, self.out))

    def evaluated(self, run: Run, step: int, returns: Sequence[float], report: Report) -> None:
        say(f"{run.name}  step {step:,}  return {sum(returns) / len(returns):.1f}")

    def shared(self, step: int, evaluating: float) -> None:
        self.share = evaluating
        if step >= self.settled and not self.told:
            say(f"Evaluation takes about {evaluating:.0%} of the time (eval.every, eval.episodes).")
            self.told = True

    def noted(self, run: Run, step: int, note: str) -> None:
        say(f"{run.name}  step {step:,}  {note}")

    def finished(self, runs: Sequence[Run]) -> None:
        say(f"Evaluation took {self.share:.0%} of the time.")
        self.told = False


class Screen(Lines):
    """A progress bar – steps, steps/s, time left – and the last return of every run."""

    def __init__(self, out: Path):
        super().__init__(out)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("steps · {task.fields[rate]} steps/s ·"),
            TimeRemainingColumn(),
            TextColumn("left"),
        )
        self.task: TaskID | None = None
        self.last: dict[str, str] = {}
        self._pace, self._shown = Pace(0), 0.0

    def started(self, runs: Sequence[Run], step: int) -> None:
        super().started(runs, step)
        first = runs[0]
        if self.task is not None:
            self.progress.remove_task(self.task)
        name = f"{first.algorithm} + {first.strategy}"
        self.task = self.progress.add_task(name, total=first.steps, completed=step, rate="–")
        self.last = {run.name: "–" for run in runs}
        self._pace = Pace(step)

    def stepped(self, step: int) -> None:
        now = time.monotonic()
        if self.task is None or now - self._shown < REFRESH_SECONDS:
            return
        self._shown = now
        self._pace.at(step)
        rate = self._pace.rate
        label = f"{rate:,.0f} × {len(self.last)}" if len(self.last) > 1 else f"{rate:,.0f}"
        self.progress.update(self.task, completed=step, rate=label)

    def evaluated(self, run: Run, step: int, returns: Sequence[float], report: Report) -> None:
        self.last[run.name] = f"{sum(returns) / len(returns):.1f} at {step:,}"

    def finished(self, runs: Sequence[Run]) -> None:
        super().finished(runs)
        if self.task is not None:
            self.progress.update(self.task, completed=runs[0].steps)

    def render(self) -> Group:
        table = Table.grid(padding=(0, 2))
        for name, text in self.last.items():
            table.add_row(f"  {name}", f"last return {text}")
        return Group(self.progress, table)


def _headline(runs: Sequence[Run], step: int, out: Path) -> str:
    first = runs[0]
    lanes = f"{len(runs)} runs" if len(runs) > 1 else "1 run"
    start = f"going on at step {step:,}" if step else "from the start"
    line = (
        f"{first.task}: {first.algorithm} + {first.strategy}, {lanes}, {first.steps:,} steps each, "
        f"evaluated every {first.eval.every:,} (together {_evaluated(first)} episodes); {start}; "
        f"in {out}"
    )
    warmup = getattr(first.hyper, "warmup", 0)
    if warmup >= first.steps:
        line += (
            f"\nNote: warm-up takes {warmup:,} of {first.steps:,} steps, so nothing will be "
            f"learned; --set warmup={max(1, first.steps // 10)} would change that."
        )
    return line


def _evaluated(run: Run) -> str:
    """How many episodes a run is evaluated by."""
    return f"{(1 - -run.steps // run.eval.every) * run.eval.episodes:,}"


def show_results(results: Sequence[Result], folder: Path) -> None:
    """A table of runs: where they are, what they scored."""
    table = Table(title=Text(str(folder)), title_justify="left")
    counted = min((len(result.returns) for result in results if result.returns), default=0)
    last = min(10, counted)
    for i, name in enumerate(("run", "steps", "last return", f"mean of last {last}")):
        table.add_column(name, justify="left" if i == 0 else "right", overflow="fold")
    for result in results:
        name = Text(str(result.path.relative_to(folder)))
        if result.failure:
            table.add_row(name, f"{result.failure['step']:,}", "failed", Text(result.reason))
        else:
            scores = f"{result.score(last=1):.1f}", f"{result.score(last):.1f}"
            table.add_row(name, f"{result.steps[-1]:,}", *scores)
    console.print(table)
