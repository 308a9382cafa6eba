"""The score of a suite of tasks, and whether and when runs found a sparse reward.

The suite's score of a line is the IQM of normalised scores over its tasks and runs: on a sparse
task, the return divided by what solves the task (`references.csv`).

A run has found the reward at the first evaluation that scores more than a hundredth of the score
that solves the task, and more than luck. On some tasks an episode may start at the goal or drift to
it, so that a policy is paid for nothing. Luck is the best score of 24 policies that have learned
nothing, over 20 episodes each: 16 untrained networks, 4 constant corners, 4 times uniform actions.
Where luck reaches half of the score that solves the task, as on SparseSwimmer, no reward is said to
be found (`sparse_tasks`).
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
from discover_rl.report.formatting import fixed
from discover_rl.report.tables import Entry, Table

SHARE = 0.01
"""The reward counts as found above this share of the score that solves the task."""
MOST_LUCK = 0.5
"""Luck above this share of the score that solves a task cannot be told from finding its reward."""
SUFFIXES = ("-found.md", "-found.csv")
"""How the names of a group's files end."""


class Discovery(NamedTuple):
    """How many runs of one line found the reward of one task, and when.

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
    """The tasks on which a run that finds nothing scores 0, but for some luck."""
    known = references().items()
    return {task for task, it in known if not it.low and it.luck < MOST_LUCK * it.high}


def discoveries(analysis: Analysis) -> list[Discovery]:
    """Return the discoveries of every line on every sparse task of a group."""
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
    scale = references()[line.cell.task]
    level = max(SHARE * scale.high, scale.luck)
    evaluated = ~np.isnan(line.scores[:, line.steps > 0]).all(axis=1)
    with np.errstate(invalid="ignore"):
        above = line.scores[evaluated] > level
    return np.where(above.any(axis=1), line.steps[above.argmax(axis=1)], np.inf)


def first_found_anywhere(analysis: Analysis, label: str) -> np.ndarray:
    """`first_found` of a line on all sparse tasks of a group together."""
    lines = [panel.lines[label] for panel in analysis.group.panels if label in panel.lines]
    sparse = [line for line in lines if line.cell.task in sparse_tasks()]
    return np.concatenate([*map(first_found, sparse), np.zeros(0)])


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
        interval = "–" if low is None else f"[{fixed(low, 3)}, {fixed(high, 3)}]"
        share = f"{found} of {runs}"
        rows.append([Entry(text) for text in (label, fixed(value, 3), interval, share)])
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
        "task, and above luck"
    )
    return Table(head, rows, caption, words=2)


def as_csv(analysis: Analysis) -> str:
    """Return the discoveries in full precision, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["task", "line", "runs", "found", "median_step"])
    for it in discoveries(analysis):
        writer.writerow([*it[:4], it.steps if it.found else ""])
    return text.getvalue()
