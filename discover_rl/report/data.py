"""From records to arrays: what a report, of whatever form, is made of.

`load` reads each record once. Runs that are not over, or failed, are in the curves as far as they
came and in no final score; how many runs a number is made of is known everywhere, and why others
are missing. With `until`, runs are looked at up to that step, as if they had been that long.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discover_rl import stats, store
from discover_rl.report import writing
from discover_rl.store import Record
from discover_rl.studies import Cell, Study, progress
from discover_rl.types import UserError

LAST = 10
"""Evaluations whose mean is a run's final score, as in the paper."""
WINDOW = 5
"""Evaluations of the window that smooths curves, as in the paper."""
FEWEST = 5
"""Runs below which nothing is claimed or set in bold: with 2 runs a side, a bootstrap's interval of
the difference of equals leaves 0 out in a third of all cases; with 5, in about one of 16."""
FINE = stats.Resampling(20_000)
"""How intervals of final scores are found: with a tenth of these resamples, as for curves, bounds
are off by some hundredths of the interval, and whether it leaves 0 out hangs on chance."""
POINTS = 250
"""Curves are drawn, and reached levels sought, at no more points than that, after smoothing."""
BANDS: dict[str, Callable[[Any], stats.Interval]] = {
    "paper": stats.half_sd_band,
    "iqm": stats.bootstrap,
}
"""Mean and half a standard deviation to either side; IQM and its 95 % interval."""


class RunInfo(NamedTuple):
    """How a run stands, and what made it."""

    name: str
    seed: int
    state: str  # one of progress.STATES
    step: int
    reason: str  # of a failure
    header: Mapping[str, Any] | None  # its record's first line


class Curve(NamedTuple):
    """Of a cell: at each step, of the runs that were evaluated there. Bounds of one run are NaN."""

    steps: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    runs: np.ndarray  # how many

    @property
    def ends(self) -> list[int]:
        """Points after which fewer runs go on."""
        return [int(i) for i in np.flatnonzero(np.diff(self.runs) < 0)]


@dataclass(frozen=True)
class Results:
    """What came of a cell."""

    cell: Cell
    runs: Sequence[RunInfo]
    steps: np.ndarray  # (points,) at which any run was evaluated
    scores: np.ndarray  # (runs, points) mean return of each evaluation; NaN where there is none
    episodes: Sequence[int] = ()  # of an evaluation; several only where runs differ
    whole: int = 0  # the steps of its runs, where these are looked at in part

    @property
    def part(self) -> bool:
        """Whether these are the first steps of runs that are longer."""
        return self.cell.steps < self.whole

    @cached_property
    def done(self) -> np.ndarray:
        """Which runs came to their end, (runs,)."""
        return np.array([run.state == "done" for run in self.runs], bool)

    @property
    def failed(self) -> int:
        """How many runs ended early, for good."""
        return sum(run.state == "failed" for run in self.runs)

    @cached_property
    def final(self) -> np.ndarray:
        """Mean of the last evaluations of each run that is done, (runs that are done,)."""
        rows = self.scores[self.done]
        return np.array([row[last].mean() for row, last in zip(rows, self._last, strict=True)])

    @property
    def spans(self) -> list[tuple[int, int]]:
        """How many evaluations a final score is the mean of, and how many steps lie between the
        first and the last of these; several only where runs were evaluated at different steps."""
        return sorted({(len(it), int(np.ptp(self.steps[it]))) for it in self._last})

    @property
    def _last(self) -> list[np.ndarray]:
        """Which evaluations count, of each run that is done."""
        return [np.flatnonzero(np.isfinite(row))[-LAST:] for row in self.scores[self.done]]

    @property
    def averaged(self) -> int:
        """How many evaluations a final score is the mean of: fewer than LAST in short runs."""
        return min(LAST, len(self.steps))

    @property
    def count(self) -> str:
        """Of runs in the curve: '10 runs', '10 runs, none done', '9 of 10 runs, 8 done'."""
        begun, all_ = int(np.isfinite(self.scores).any(axis=1).sum()), len(self.runs)
        if not begun:
            return f"{self.failed} failed" if self.failed else "not begun"
        some = writing.runs(all_) if begun == all_ else f"{begun} of {writing.runs(all_)}"
        done = "" if self.done.all() else f", {self.done.sum() or 'none'} done"
        return some + done

    @cached_property
    def finished(self) -> np.ndarray:
        """Curves of the runs that are done, smoothed, (runs that are done, points)."""
        return _smooth(self.scores[self.done], WINDOW)

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """As the paper draws them, and as practice demands."""
        return self.smoothed(WINDOW)

    def smoothed(self, window: int, most: int = POINTS) -> dict[str, Curve]:
        """The same with another window, at so many points at most."""
        steps, smoothed = thinned(self.steps, _smooth(self.scores, window), most)
        return {kind: curve(steps, smoothed, band) for kind, band in BANDS.items()}


@dataclass(frozen=True)
class Data:
    """What came of a study."""

    study: Study
    cells: Sequence[Results]

    @property
    def whole(self) -> int:
        """The steps of its longest runs, where these are looked at in part; else 0."""
        return max(it.whole for it in self.cells)

    @property
    def runs(self) -> list[RunInfo]:
        return [run for cell in self.cells for run in cell.runs]

    @property
    def failed(self) -> list[RunInfo]:
        return [run for run in self.runs if run.state == "failed"]

    @property
    def origins(self) -> dict[str, Counter[str]]:
        """What made the runs: versions of all that can move a result → commit → how many runs."""
        found: dict[str, Counter[str]] = {}
        for run in self.runs:
            if run.header is not None:
                code = run.header.get("code", {})
                versions = [f"{name} {it}" for name, it in code.items() if it != "absent"]
                commits = found.setdefault(", ".join(versions) or "versions unknown", Counter())
                commits[run.header.get("commit") or "unknown"] += 1
        return found

    @property
    def standing(self) -> str:
        """In words: '40 runs: 38 done, 1 running, 1 failed'; of the first steps alone, if so."""
        counted = Counter(run.state for run in self.runs)
        states = [f"{counted[state]:,} {state}" for state in progress.STATES if counted[state]]
        part = f", looked at up to step {self.study.steps:,} of {self.whole:,}"
        return f"{writing.runs(len(self.runs))}{part * bool(self.whole)}: {', '.join(states)}"


def load(study: Study, out: Path, until: int | None = None) -> Data:
    """All there is of a study in its folder; nothing of it has to be there."""
    standings = iter(progress.standings(study, out))
    found = [_results(cell, out, standings, until) for cell in study.cells]
    if until is None:
        return Data(study, found)
    most = max(cell.steps for cell in study.cells) - 1
    if not 1 <= until <= most:
        raise UserError(f"--until is {until:,}; let it be between 1 and {most:,}.")
    return Data(replace(study, steps=until, cells=[it.cell for it in found]), found)


def thinned(
    steps: np.ndarray, curves: np.ndarray, most: int = POINTS
) -> tuple[np.ndarray, np.ndarray]:
    """Every so-manieth point, counted from the last, so that no more than so many are left."""
    stride = max(1, -(-len(steps) // most))
    keep = np.arange(len(steps) - 1, -1, -stride)[::-1]
    return steps[keep], curves[:, keep]


def _results(cell: Cell, out: Path, standings: Any, until: int | None) -> Results:
    whole = 0 if until is None else cell.steps
    cell = cell if until is None else replace(cell, steps=min(cell.steps, until))
    runs, found, episodes = [], [], set()
    for seed, name in zip(cell.seeds, cell.names, strict=True):
        record, standing = Record(store.record_of(out, name)), next(standings)
        foreign = standing.reason.startswith(progress.FOREIGN)
        evaluations = [] if foreign else record.evaluations
        reached = max((it["step"] for it in evaluations), default=0) >= cell.steps
        evaluations = [it for it in evaluations if it["step"] <= cell.steps]
        found.append({it["step"]: sum(it["returns"]) / len(it["returns"]) for it in evaluations})
        episodes |= {len(it["returns"]) for it in evaluations}
        # A run may have gone on since its standing was read; it counts as done if we have its end.
        state = "done" if reached else standing.state
        failed = record.glance.reason or (standing.reason if state == "failed" else "")
        reason = "" if reached else failed
        # What was evaluated may be past what is safe.
        seen = min(max(standing.step, *found[-1], 0), cell.steps)
        runs.append(RunInfo(name, seed, state, seen, reason, record.header))
    steps = sorted(set().union(*found))
    scores = np.array([[run.get(step, np.nan) for step in steps] for run in found], float)
    scores = scores.reshape(len(runs), len(steps))
    return Results(cell, runs, np.array(steps, int), scores, sorted(episodes), whole)


def _smooth(scores: np.ndarray, window: int) -> np.ndarray:
    """(runs, points), each run over its own evaluations; between these it stays as it was last."""
    if np.isfinite(scores).all():
        return stats.smooth(scores, window)
    smoothed = np.full(scores.shape, np.nan)
    for row, run in zip(smoothed, scores, strict=True):
        (own,) = np.isfinite(run).nonzero()
        if own.size:
            until = slice(own[0], own[-1] + 1)
            latest = np.searchsorted(own, np.arange(len(run))[until], side="right") - 1
            row[until] = stats.smooth(run[own][None], window)[0][latest]
    return smoothed


def curve(steps: np.ndarray, smoothed: np.ndarray, band: Callable[[Any], stats.Interval]) -> Curve:
    """The same runs are there over whole stretches; each is seen to by itself."""
    there = np.isfinite(smoothed)
    value, low, high = np.full((3, len(steps)), np.nan)
    changes = np.flatnonzero((there[:, 1:] != there[:, :-1]).any(axis=0)) + 1
    for a, b in itertools.pairwise([0, *changes, len(steps)]):
        rows = there[:, a : a + 1].any(axis=1)
        if a < b and rows.any():
            interval = band(smoothed[rows, a:b])
            value[a:b] = interval.value
            if interval.low is not None:
                low[a:b], high[a:b] = interval.low, interval.high
    return Curve(steps, value, low, high, there.sum(axis=0))
