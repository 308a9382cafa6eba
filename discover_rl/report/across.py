"""What is said over all tasks: normalised scores of all lines, and each line with the baseline.

Who lacks runs takes nothing from the others: a pair is compared on the tasks that it has in common,
and says which these are.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import NamedTuple

import numpy as np

from discover_rl import stats
from discover_rl.report import data, writing
from discover_rl.report.data import Data
from discover_rl.report.groups import Group, Panel
from discover_rl.stats import Interval

LOW_SOURCE = (
    "measured: actions uniform in the box, 100 episodes from seeds 0 to 99, Gymnasium 1.4 and "
    "MuJoCo 3.6"
)


class Scale(NamedTuple):
    """Scores of 0 and of 1, and where they are from."""

    low: float
    high: float
    source: str


class Overall(NamedTuple):
    """Scores of several lines, over the panels that all of them have runs in."""

    panels: Sequence[str]
    tasks: int
    """How many different ones those panels are of."""
    left_out: Mapping[str, str]  # panel, or line → why
    whole: int
    """How many panels there are."""
    scores: Mapping[str, Mapping[str, np.ndarray]]  # normalised: label → panel → (runs,)

    @property
    def several(self) -> bool:
        """Whether there are several tasks to speak of as a whole."""
        return self.tasks > 1 and bool(self.scores)

    @property
    def over(self) -> str:
        """'12 tasks', '11 of 12 tasks', '8 panels of 4 tasks'."""
        kept = len(self.panels)
        count = f"{kept}" if kept == self.whole else f"{kept} of {self.whole}"
        return f"{count} tasks" if kept == self.tasks else f"{count} panels of {self.tasks} tasks"

    @property
    def name(self) -> str:
        """What stands where a task's name would."""
        return f"all ({self.over})"


class Pair(NamedTuple):
    """A line and the baseline, over the panels in which both have runs enough for claims."""

    label: str
    common: Overall
    runs: tuple[int, int]  # that are done in the panel that has fewest: of the line, the baseline
    failed: int  # of both, in these panels
    difference: Interval | None  # of normalised scores; None where there are not several tasks
    improvement: Interval | None


def scales(group: Group, everything: Data) -> dict[str, Scale]:
    """By panel; a panel without any is missing."""
    found = {panel.title: scale(panel.task, everything) for panel in group.panels}
    return {title: it for title, it in found.items() if it is not None}


def overall(group: Group, units: Mapping[str, Scale]) -> Overall:
    """All lines at once. Lines that lack a finished run in more than half of the panels are left
    out of it, and then panels that lack one of the other lines."""
    whole = len(group.panels)
    count = {label: sum(_runs(it, label) > 0 for it in group.panels) for label in group.labels}
    labels = [label for label in group.labels if count[label] and 2 * count[label] >= whole]
    few = {
        writing.quoted(label): f"finished runs in {count[label]} of {whole} only"
        for label in group.labels
        if label not in labels
    }
    found = _common(group, labels, units, 1)
    return found._replace(left_out=few | dict(found.left_out)) if labels else found


def pairs(group: Group, units: Mapping[str, Scale]) -> list[Pair]:
    """Every line but the baseline's with it."""
    return [_pair(group, label, units) for label in group.rivals]


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


def _pair(group: Group, label: str, units: Mapping[str, Scale]) -> Pair:
    both = label, group.base
    common = _common(group, both, units, data.FEWEST)
    if not common.several:
        return Pair(label, common, (0, 0), 0, None, None)
    sides = common.scores[label], common.scores[group.base]
    runs = [min(map(len, side.values())) for side in sides]
    failed = sum(
        panel.lines[it].failed
        for panel in group.panels
        if panel.title in common.panels
        for it in both
    )
    return Pair(
        *(label, common, (runs[0], runs[1]), failed),
        stats.difference(*sides),
        stats.improvement(*sides),
    )


def _common(
    group: Group, labels: Sequence[str], units: Mapping[str, Scale], fewest: int
) -> Overall:
    """Panels in which each of these lines has so many finished runs."""
    left_out, kept = {}, []
    too_few = "no finished run" if fewest == 1 else f"fewer than {fewest} finished runs"
    for panel in group.panels:
        lacking = [label for label in labels if _runs(panel, label) < fewest]
        if lacking or not labels:
            failed = sum(panel.lines[it].failed for it in lacking if it in panel.lines)
            names = ", ".join(map(writing.quoted, lacking))
            why = f", {failed} failed" if failed else ""
            left_out[panel.title] = f"{too_few} of {names or 'any line'}{why}"
        elif panel.title not in units:
            left_out[panel.title] = "all its scores are the same, and there is no reference"
        else:
            kept.append(panel)
    scores = {
        label: {
            panel.title: stats.normalise(panel.lines[label].final, *units[panel.title][:2])
            for panel in kept
        }
        for label in labels
    }
    return Overall(
        [panel.title for panel in kept],
        len({panel.task for panel in kept}),
        left_out,
        len(group.panels),
        scores if kept else {},
    )


def _runs(panel: Panel, label: str) -> int:
    """That are done."""
    return len(panel.lines[label].final) if label in panel.lines else 0
