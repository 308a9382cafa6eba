"""The score of a suite of tasks, and whether and when runs found a sparse reward.

The suite's score of a line is the IQM of normalised scores over its tasks and runs: on a sparse
task, the return divided by what solves the task (`references.csv`).

A run has found it at the first evaluation that scores more than a hundredth of what solves the
task. That can be said of tasks on which a run that finds nothing scores 0 (`sparse_tasks`).
"""

from __future__ import annotations

import csv
import io
from typing import NamedTuple

import numpy as np

from discover_rl.report import statistics
from discover_rl.report.across import references
from discover_rl.report.comparisons import Analysis
from discover_rl.report.data import FINE, Results
from discover_rl.report.tables import Entry, Table

SHARE = 0.01
"""The share of what solves a task, above which its reward counts as found."""
SUFFIXES = ("-found.md", "-found.csv")
"""How the names of a group's files end."""


class Discovery(NamedTuple):
    """What runs of one line found on one task.

    Attributes:
        panel: Title of the task's panel.
        label: Of the line.
        runs: How many were evaluated after their start.
        found: How many of them found the reward.
        steps: The median step at which those did; NaN if none did.
    """

    panel: str
    label: str
    runs: int
    found: int
    steps: float


def sparse_tasks() -> set[str]:
    """The tasks on which a run that finds nothing scores 0, and never more."""
    return {task for task, scale in references().items() if not scale.low}


def discoveries(analysis: Analysis) -> list[Discovery]:
    """Of every line on every sparse task of a group."""
    return [
        _discovery(panel.title, label, line)
        for panel in analysis.group.panels
        if panel.task in sparse_tasks()
        for label, line in panel.lines.items()
        if len(line.steps)
    ]


def _discovery(panel: str, label: str, line: Results) -> Discovery:
    first = first_found(line)
    found = first[np.isfinite(first)]
    median = float(np.median(found)) if len(found) else float("nan")
    return Discovery(panel, label, len(first), len(found), median)


def first_found(line: Results) -> np.ndarray:
    """The step at which each run of a line on a sparse task found the reward; infinite: never.

    Returns:
        (runs that were evaluated after their start,)
    """
    level = SHARE * references()[line.cell.task].high
    evaluated = ~np.isnan(line.scores[:, line.steps > 0]).all(axis=1)
    with np.errstate(invalid="ignore"):
        above = line.scores[evaluated] > level
    return np.where(above.any(axis=1), line.steps[above.argmax(axis=1)], np.inf)


def suite(analysis: Analysis) -> Table | None:
    """Each line's score over all tasks and what it found; None unless several tasks are sparse."""
    known, scores = discoveries(analysis), analysis.overall.scores
    if len({it.panel for it in known}) < 2 or not analysis.overall.several:
        return None
    rows = []
    for label, by_task in scores.items():
        value, low, high = statistics.bootstrap(by_task, resampling=FINE)
        mine = [it for it in known if it.label == label]
        found, runs = sum(it.found for it in mine), sum(it.runs for it in mine)
        interval = "–" if low is None else f"[{low:.3f}, {high:.3f}]"
        share = f"{found} of {runs}"
        rows.append([Entry(text) for text in (label, f"{value:.3f}", interval, share)])
    head = [analysis.group.kind, "suite score", "95 % interval", "runs that found the reward"]
    caption = (
        f"{analysis.group.title}: IQM of normalised scores over {analysis.overall.over} and their "
        "runs; stratified bootstrap; found on the sparse tasks among them"
    )
    return Table(head, rows, caption)


def table(analysis: Analysis) -> Table | None:
    """How many runs found the reward, and when; None if no task is sparse."""
    rows = [
        [
            Entry(it.panel),
            Entry(it.label),
            Entry(f"{it.found} of {it.runs}"),
            Entry(f"{it.steps:,.0f}" if it.found else "–"),
        ]
        for it in discoveries(analysis)
    ]
    if not rows:
        return None
    head = ["task", analysis.group.kind, "runs that found the reward", "median step of it"]
    caption = (
        f"{analysis.group.title}: found is a first evaluation above {SHARE:.0%} of what solves the "
        "task"
    )
    return Table(head, rows, caption, words=2)


def as_csv(analysis: Analysis) -> str:
    """The same in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["task", "line", "runs", "found", "median_step"])
    for it in discoveries(analysis):
        writer.writerow([*it[:4], it.steps if it.found else ""])
    return text.getvalue()
