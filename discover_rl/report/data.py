"""Records as arrays, the data of every report.

`load` reads each record once. Unfinished and failed runs are part of the curves, up to their last
evaluation, and of no final score. Every number knows how many runs it comes from, and why others
are missing. With `until`, only the steps up to that one count, as if runs had ended there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from discover_rl.core.types import UserError
from discover_rl.report import bands, formatting, statistics
from discover_rl.report.bands import POINTS, WINDOW, Curve, window_of
from discover_rl.report.resampling import Resampling
from discover_rl.storage import scores
from discover_rl.storage.records import Contents, sources_in
from discover_rl.studies import status
from discover_rl.studies.status import RunStatus
from discover_rl.studies.study import Cell, Study

FEWEST_RUNS = 5
"""With fewer runs nothing is claimed or set in bold: with 2 runs a side, a bootstrap's interval of
the difference of equals leaves 0 out in a third of all cases; with 5, in about one of 16."""
FINE = Resampling(20_000)
"""The bootstrap for intervals of final scores. With a tenth of these resamples, as for curves,
bounds are off by some hundredths of the interval, and chance decides whether it contains 0."""
Measure: TypeAlias = Literal["final", "area"]
"""The measures by which runs are compared: final scores, or areas under curves."""


class RunInfo(NamedTuple):
    """How far a run is, and the code that made it."""

    name: str
    seed: int
    state: str  # one of status.STATES
    step: int
    reason: str  # why it failed or ended early; '' if it did neither
    header: Mapping[str, Any] | None  # its record's first line
    own_code: Sequence[tuple[str, str]] = ()  # of the user: ("task_source", its hash), …


@dataclass(frozen=True)
class Results:
    """The runs of one cell of a study, and their scores."""

    cell: Cell
    runs: Sequence[RunInfo]
    steps: np.ndarray  # (points,) at which any run was evaluated
    scores: np.ndarray  # (runs, points) mean return of each evaluation; NaN where there is none
    episodes: Sequence[int] = ()  # per evaluation; several numbers only where runs differ
    full_steps: int = 0  # of its runs, where only the first steps are looked at; else 0
    first_step: int = 1  # at which something has been learned, see `scores.first_step`

    @property
    def is_partial(self) -> bool:
        """Whether these are the first steps of longer runs."""
        return self.cell.steps < self.full_steps

    @cached_property
    def done(self) -> np.ndarray:
        """Whether each run came to its end, (runs,)."""
        return np.array([run.state == "done" for run in self.runs], bool)

    @property
    def failed(self) -> int:
        """How many runs failed."""
        return sum(run.state == "failed" for run in self.runs)

    @cached_property
    def final(self) -> np.ndarray:
        """The final score of each run that is done, (runs that are done,)."""
        rows = self.scores[self.done]
        last = self._last_evaluations
        return np.array([row[points].mean() for row, points in zip(rows, last, strict=True)])

    @cached_property
    def area(self) -> np.ndarray:
        """The mean return over each run that is done, (runs that are done,): the area under its
        curve, divided by its steps. It begins at step 0, so that arms which start to learn at
        different steps are compared over the same ones."""
        found = []
        for row in self.scores[self.done]:
            own = np.isfinite(row)
            found.append(statistics.mean_over(self.steps[own], row[own]))
        return np.array(found)

    def measured(self, measure: Measure) -> np.ndarray:
        """The final scores, or the areas, of the runs that are done, (runs that are done,)."""
        return self.final if measure == "final" else self.area

    @property
    def spans(self) -> list[tuple[int, int]]:
        """How many evaluations a final score is the mean of, and how many steps lie between the
        first and the last of them. Several pairs only where runs were evaluated at other steps."""
        return sorted(
            {(len(points), int(np.ptp(self.steps[points]))) for points in self._last_evaluations}
        )

    @property
    def _last_evaluations(self) -> list[np.ndarray]:
        """Indices of the evaluations that count for the final score, per run that is done."""
        found = []
        for row in self.scores[self.done]:
            own = np.flatnonzero(np.isfinite(row))
            last = scores.counted(self.steps[own].tolist(), self.first_step, self._score_last)
            found.append(own[last])
        return found

    @property
    def _score_last(self) -> int:
        """The setting score.last, as the study's file has it; 0: by the rule."""
        given = self.cell.settings.get("score.last", 0)
        return max(0, given) if isinstance(given, int) else 0

    @property
    def averaged(self) -> int:
        """How many evaluations a final score is the mean of: fewer than 10 in short runs."""
        return len(scores.counted(self.steps.tolist(), self.first_step, self._score_last))

    @property
    def window(self) -> int:
        """How many evaluations its curves are smoothed over."""
        return window_of(len(self.steps))

    @property
    def count(self) -> str:
        """How many runs are in the curve: '10 runs', '9 of 10 runs, 8 done'."""
        begun, total = int(np.isfinite(self.scores).any(axis=1).sum()), len(self.runs)
        if not begun:
            return f"{self.failed} failed" if self.failed else "not begun"
        some = formatting.runs(total)
        if begun < total:
            some = f"{begun} of {some}"
        done = "" if self.done.all() else f", {self.done.sum() or 'none'} done"
        return some + done

    @cached_property
    def finished(self) -> np.ndarray:
        """Smoothed curves of the runs that are done, (runs that are done, points)."""
        return self._smooth(self.scores[self.done], WINDOW)

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """The curves that figures show, by kind (see `bands.BANDS`)."""
        return self.smoothed(WINDOW)

    def smoothed(self, window: int, points: int = POINTS) -> dict[str, Curve]:
        """Curves by kind, smoothed over `window` evaluations, at no more than `points` points.

        The window is shorter where there are few evaluations, see `window_of`.
        """
        steps, rows = bands.thin(self.steps, self._smooth(self.scores, window), points)
        return {kind: bands.curve_of(steps, rows, band) for kind, band in bands.BANDS.items()}

    def _smooth(self, rows: np.ndarray, window: int) -> np.ndarray:
        """Smooth rows of scores; evaluations before learning starts are smoothed separately."""
        window, start = window_of(len(self.steps), window), self.steps >= self.first_step
        parts = [bands.smooth_runs(rows[:, part], window) for part in (~start, start)]
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class Data:
    """The records of a study."""

    study: Study
    cells: Sequence[Results]

    @property
    def full_steps(self) -> int:
        """The steps of its longest runs, where only the first steps are looked at; else 0."""
        return max(results.full_steps for results in self.cells)

    @property
    def runs(self) -> list[RunInfo]:
        """All runs, in the study's order."""
        return [run for results in self.cells for run in results.runs]

    @property
    def failed(self) -> list[RunInfo]:
        """The runs that failed."""
        return [run for run in self.runs if run.state == "failed"]

    @property
    def origins(self) -> dict[str, Counter[str]]:
        """The code that made the runs: versions that can move a result → commit → how many."""
        found: dict[str, Counter[str]] = {}
        for run in self.runs:
            if run.header is not None:
                code = run.header.get("code", {})
                known = {name: version for name, version in code.items() if version != "absent"}
                versions = [f"{name} {version}" for name, version in known.items()]
                commits = found.setdefault(", ".join(versions) or "versions unknown", Counter())
                commits[run.header.get("commit") or "unknown"] += 1
        return found

    @property
    def changed_code(self) -> dict[str, int]:
        """The user's own tasks, strategies and algorithms whose code is not the same in all runs,
        or changed within one: how many states of it there are, by name."""
        states: dict[tuple[str, str], set[str]] = {}
        for run in self.runs:
            about = run.header["run"] if run.header else {}
            for kind, state in run.own_code:
                name = about.get(kind.removesuffix("_source"), kind)
                states.setdefault((kind, name), set()).add(state)
        return {name: len(found) for (_, name), found in states.items() if len(found) > 1}

    @property
    def progress(self) -> str:
        """How far its runs are, in words: '40 runs: 38 done, 1 running, 1 failed'."""
        counted = Counter(run.state for run in self.runs)
        states = [f"{counted[state]:,} {state}" for state in status.STATES if counted[state]]
        part = f", looked at up to step {self.study.steps:,} of {self.full_steps:,}"
        part = part if self.full_steps else ""
        early = sum(run.state == "done" and bool(run.reason) for run in self.runs)
        stopped = f" ({early:,} of them ended early, as asked)" if early else ""
        return f"{formatting.runs(len(self.runs))}{part}: {', '.join(states)}{stopped}"


def load(study: Study, out: Path, until: int | None = None) -> Data:
    """Read the records of a study.

    Args:
        study: What is declared.
        out: The study's folder. Records may be missing, and so may the folder.
        until: Look at runs up to this step, as if they ended there.
    """
    runs = status.survey(study, out)
    found = [_results(cell, runs, until) for cell in study.cells]
    if until is None:
        return Data(study, found)
    most = max(cell.steps for cell in study.cells) - 1
    if not 1 <= until <= most:
        raise UserError(f"--until must be between 1 and {most:,}, not {until:,}.")
    for results in found:
        if any(run.state == "done" for run in results.runs) and not results.steps.any():
            name = results.cell.name
            raise UserError(
                f"--until is {until:,}, where {name} has no evaluation but that at step 0; let it "
                "be larger."
            )
    cells = [results.cell for results in found]
    return Data(replace(study, steps=until, cells=cells), found)


def _results(
    cell: Cell, survey: Iterator[tuple[RunStatus, Contents]], until: int | None
) -> Results:
    """The results of a cell; `survey` goes on to those of its runs."""
    full_steps = 0 if until is None else cell.steps
    cell = cell if until is None else replace(cell, steps=min(cell.steps, until))
    runs, means, episodes = [], [], set()
    for seed, name in zip(cell.seeds, cell.names, strict=True):
        run_status, record = next(survey)
        evaluations = record.evaluations
        reached = max((line["step"] for line in evaluations), default=0) >= cell.steps
        evaluations = [line for line in evaluations if line["step"] <= cell.steps]
        means.append({line["step"]: _mean(line["returns"]) for line in evaluations})
        episodes |= {len(line["returns"]) for line in evaluations}
        state = "done" if reached else run_status.state
        failure = record.reason or (run_status.reason if state == "failed" else "")
        reason = "" if reached else failure
        if state == "done" and not any(means[-1]) and until is None:
            state, reason = "failed", "it ended at step 0, with nothing learned"
        # The last evaluation may be past the last checkpoint.
        step = min(max(run_status.step, *means[-1], 0), cell.steps)
        noted = (record.header or {}, *(line for line in record.lines if "event" in line))
        own_code = [source for line in noted for source in sources_in(line).items()]
        runs.append(RunInfo(name, seed, state, step, reason, record.header, own_code))
    steps = sorted(set().union(*means))
    table = np.array([[run.get(step, np.nan) for step in steps] for run in means], float)
    table = table.reshape(len(runs), len(steps))
    first = max((scores.first_step(run.header["run"]) for run in runs if run.header), default=1)
    return Results(cell, runs, np.array(steps, int), table, sorted(episodes), full_steps, first)


def _mean(returns: Sequence[float]) -> float:
    return sum(returns) / len(returns)
