"""What the numbers of a group say of each other: differences to the baseline, the probability of
improvement, steps until the baseline's final score, and scores over all tasks, normalised.

Everything here is None where there are no runs to say it of.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import NamedTuple

import numpy as np

from discover_rl import stats
from discover_rl.report import data
from discover_rl.report.data import Data, Results
from discover_rl.report.groups import Group, Panel, groups
from discover_rl.stats import Interval, Reached

LOW_SOURCE = (
    "measured: actions uniform in the box, 100 episodes from seeds 0 to 99, Gymnasium 1.4 and "
    "MuJoCo 3.6"
)


class Scale(NamedTuple):
    """Scores of 0 and of 1, and where they are from."""

    low: float
    high: float
    source: str


class Comparison(NamedTuple):
    """Of a line with the baseline of its group, in one panel."""

    panel: str
    label: str
    runs: tuple[int, int]  # that are done: of the line, of the baseline
    failed: int  # of both
    difference: Interval | None
    improvement: Interval | None
    reached: Reached | None  # when the line reached the baseline's final score

    @property
    def claim(self) -> int:
        """1: better; −1: worse; 0: neither can be claimed."""
        return claim(self.difference, self.runs, self.failed)

    @property
    def claimable(self) -> bool:
        """Whether anything could be claimed of so many runs, whatever they scored."""
        return self.difference is not None and min(self.runs) >= data.FEWEST and not self.failed


class Overall(NamedTuple):
    """Of a group, over all panels in which every line has a run that is done."""

    panels: Sequence[str]
    tasks: int
    """How many different ones those panels are of."""
    left_out: Mapping[str, str]  # panel → why
    scales: Mapping[str, Scale]  # by panel
    scores: Mapping[str, Mapping[str, np.ndarray]]  # normalised: label → panel → (runs,)

    @property
    def several(self) -> bool:
        """Whether there are several tasks to speak of as a whole."""
        return self.tasks > 1 and bool(self.scores)

    @property
    def over(self) -> str:
        """'12 tasks', '11 of 12 tasks', '8 panels of 4 tasks'."""
        kept, whole = len(self.panels), len(self.panels) + len(self.left_out)
        count = f"{kept}" if kept == whole else f"{kept} of {whole}"
        return f"{count} tasks" if kept == self.tasks else f"{count} panels of {self.tasks} tasks"


class Analysis(NamedTuple):
    """All that is said of a group."""

    group: Group
    comparisons: Sequence[Comparison]
    overall: Overall
    best: Mapping[str, str | None]  # panel → the label in bold


def analyse(everything: Data) -> list[Analysis]:
    return [
        Analysis(
            group,
            compare(group),
            overall(group, everything),
            {panel.title: best(panel) for panel in group.panels},
        )
        for group in groups(everything)
    ]


def claim(difference: Interval | None, runs: Sequence[int], failed: int = 0) -> int:
    """Those that came to their end say nothing of those that failed."""
    if difference is None or difference.low is None or min(runs) < data.FEWEST or failed:
        return 0
    return int(difference.low > 0) - int(difference.high < 0)


def compare(group: Group) -> list[Comparison]:
    """All lines but the baseline's with it, panel by panel."""
    found = []
    for panel in group.panels:
        base = panel.lines.get(group.base)
        for label, line in panel.lines.items():
            if base is not None and label != group.base:
                found.append(_compared(panel, label, line, base))
    return found


def reached(line: Results, base: Results) -> Reached | None:
    """When the IQM of a line's runs first reached that of the baseline's final scores."""
    if not (line.done.any() and base.done.any()):
        return None
    curves = line.finished
    whole = np.isfinite(curves).all(axis=0)
    if not whole.any():
        return None
    steps, curves = data.thinned(line.steps[whole], curves[:, whole])
    return stats.reach(steps.tolist(), curves, float(stats.iqm(base.final)), window=1)


def best(panel: Panel) -> str | None:
    """The label that may be set in bold: of every line there are enough runs, none of which failed,
    and the best is better than all others."""
    if any(len(line.final) < data.FEWEST or line.failed for line in panel.lines.values()):
        return None
    return stats.bold({label: line.final for label, line in panel.lines.items()})


def overall(group: Group, everything: Data) -> Overall:
    """Scores over all tasks. Lines without any finished run are left out of it, and then panels
    that lack one of the others."""
    labels = [
        label
        for label in group.labels
        if any(len(panel.lines[label].final) for panel in group.panels if label in panel.lines)
    ]
    left_out, scales, kept = {}, {}, []
    for panel in group.panels:
        lacking = [
            label
            for label in labels
            if label not in panel.lines or not len(panel.lines[label].final)
        ]
        found = scale(panel.task, everything)
        if lacking or not labels:
            left_out[panel.title] = f"no finished run of {', '.join(lacking) or 'any line'}"
        elif found is None:
            left_out[panel.title] = "all its scores are the same, and there is no reference"
        else:
            kept.append(panel)
            scales[panel.title] = found
    scores = {
        label: {
            panel.title: stats.normalise(panel.lines[label].final, *scales[panel.title][:2])
            for panel in kept
        }
        for label in labels
    }
    tasks = len({panel.task for panel in kept})
    titles = [panel.title for panel in kept]
    return Overall(titles, tasks, left_out, scales, scores if kept else {})


def scale(task: str, everything: Data) -> Scale | None:
    """References of the task, or the least and the largest final score of the study."""
    if task in references():
        return references()[task]
    finals = [it.final for it in everything.cells if it.cell.task == task]
    values = np.concatenate([*finals, np.zeros(0)])
    if not values.size or values.min() == values.max():
        return None
    source = "no reference: 0 and 1 are the least and the largest score of a run of this study"
    return Scale(float(values.min()), float(values.max()), source)


@functools.cache
def references() -> dict[str, Scale]:
    text = resources.files("discover_rl.report").joinpath("references.csv").read_text()
    return {
        row["task"]: Scale(
            float(row["low"]), float(row["high"]), f"0: {LOW_SOURCE}; 1: {row['high_source']}"
        )
        for row in csv.DictReader(text.splitlines())
    }


def _compared(panel: Panel, label: str, line: Results, base: Results) -> Comparison:
    runs, failed = (len(line.final), len(base.final)), line.failed + base.failed
    if not all(runs):
        return Comparison(panel.title, label, runs, failed, None, None, None)
    sides = line.final, base.final
    return Comparison(
        panel.title,
        label,
        runs,
        failed,
        stats.difference(*sides),
        stats.improvement(*sides),
        reached(line, base),
    )
