"""Scores over all tasks: of all lines together, and of each line with the baseline.

Each line is compared with the baseline on the tasks that both have, and the report names these. So
a line that lacks runs does not affect the comparisons of others.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import NamedTuple

import numpy as np

from discover_rl.report import formatting, statistics
from discover_rl.report.data import FEWEST_RUNS, Data, Measure
from discover_rl.report.groups import Group, Panel
from discover_rl.report.resampling import Interval

LOW_SOURCE = (
    "measured: actions uniform in the box, 100 episodes from seeds 0 to 99, Gymnasium 1.4 and "
    "MuJoCo 3.6"
)
"""The source of the lower references in `references.csv`, unless a row names another."""
OWN_SOURCE = "no reference: 0 and 1 are the least and the largest score of a run of this study"
"""The source that is stated for a task without a reference."""


class Scale(NamedTuple):
    """The scores that are normalised to 0 (`low`) and to 1 (`high`), and where they are from.

    `luck` is the most that policies scored that had learned nothing, where that is not next to
    nothing: some sparse tasks pay in episodes that happen to start at the goal.
    """

    low: float
    high: float
    source: str
    luck: float = 0.0

    @property
    def is_reference(self) -> bool:
        """Whether these are references, in contrast to the extreme scores of a study's runs."""
        return self.source != OWN_SOURCE


class Overall(NamedTuple):
    """Normalised scores of several lines, over the panels in which all of them have runs.

    Attributes:
        panels: Titles of these panels.
        tasks: How many different tasks they are of.
        left_out: Titles of the other panels, and labels of lines that are left out, with reasons.
        all_panels: How many panels there are in the group.
        scores: By label and panel, (runs,).
        areas: The same of areas under the curve.
    """

    panels: Sequence[str]
    tasks: int
    left_out: Mapping[str, str]
    all_panels: int
    scores: Mapping[str, Mapping[str, np.ndarray]]
    areas: Mapping[str, Mapping[str, np.ndarray]]

    @property
    def several(self) -> bool:
        """Whether there are several tasks, without which nothing can be said over all tasks."""
        return self.tasks > 1 and bool(self.scores)

    @property
    def over(self) -> str:
        """Say what the scores cover: '12 tasks', '11 of 12 tasks', '8 panels of 4 tasks'."""
        kept = len(self.panels)
        count = f"{kept}" if kept == self.all_panels else f"{kept} of {self.all_panels}"
        return f"{count} tasks" if kept == self.tasks else f"{count} panels of {self.tasks} tasks"

    @property
    def name(self) -> str:
        """The text that figures and sentences use in place of a task's name."""
        return f"all ({self.over})"


class Pair(NamedTuple):
    """A line and the baseline, over the panels in which both have enough runs for claims.

    Attributes:
        label: Of the line.
        common: Scores of both, over those panels.
        runs: Finished runs of the line and of the baseline, in the panel that has fewest.
        failed: Failed runs of both, in these panels.
        difference: Of the IQMs of normalised scores. None where there are not several tasks.
        improvement: Probability that a run of the line scores above one of the baseline; or None.
        area: Difference of the IQMs of areas under the curve, normalised as scores are; or None.
    """

    label: str
    common: Overall
    runs: tuple[int, int]
    failed: int
    difference: Interval | None
    improvement: Interval | None
    area: Interval | None


def scales(group: Group, everything: Data) -> dict[str, Scale]:
    """The scale of each panel, by title. A panel that has none is missing."""
    found = {panel.title: scale(panel.task, everything) for panel in group.panels}
    return {title: known for title, known in found.items() if known is not None}


def overall(group: Group, panel_scales: Mapping[str, Scale]) -> Overall:
    """Scores of all lines together.

    Lines that have finished runs in fewer than half of the panels are left out, and then panels in
    which one of the other lines has none.
    """
    total = len(group.panels)
    count = {
        label: sum(_finished_runs(panel, label) > 0 for panel in group.panels)
        for label in group.labels
    }
    labels = [label for label in group.labels if count[label] and 2 * count[label] >= total]
    few = {
        formatting.quoted(label): f"finished runs in {count[label]} of {total} only"
        for label in group.labels
        if label not in labels
    }
    found = _common(group, labels, panel_scales, fewest=1)
    return found._replace(left_out=few | dict(found.left_out)) if labels else found


def pairs(group: Group, panel_scales: Mapping[str, Scale]) -> list[Pair]:
    """Compare every other line with the baseline."""
    return [_pair(group, label, panel_scales) for label in group.rivals]


def scale(task: str, everything: Data) -> Scale | None:
    """The reference scores of a task, or the least and the largest final score in the study.

    None if there is no reference and the study has fewer than two different scores.
    """
    if task in references():
        return references()[task]
    finals = [results.final for results in everything.cells if results.cell.task == task]
    values = np.concatenate([*finals, np.zeros(0)])
    if not values.size or values.min() == values.max():
        return None
    return Scale(float(values.min()), float(values.max()), OWN_SOURCE)


@functools.cache
def references() -> dict[str, Scale]:
    """The reference scores that come with the package, by task."""
    text = resources.files("discover_rl.report").joinpath("references.csv").read_text("utf-8")
    return {
        row["task"]: Scale(
            float(row["low"]),
            float(row["high"]),
            f"0: {row['low_source'] or LOW_SOURCE}; 1: {row['high_source']}",
            float(row["luck"] or 0),
        )
        for row in csv.DictReader(text.splitlines())
    }


def _pair(group: Group, label: str, panel_scales: Mapping[str, Scale]) -> Pair:
    labels = label, group.base
    common = _common(group, labels, panel_scales, FEWEST_RUNS)
    if not common.several:
        return Pair(label, common, (0, 0), 0, None, None, None)
    sides = common.scores[label], common.scores[group.base]
    runs = [min(map(len, side.values())) for side in sides]
    kept = [panel for panel in group.panels if panel.title in common.panels]
    return Pair(
        label=label,
        common=common,
        runs=(runs[0], runs[1]),
        failed=sum(panel.lines[one].failed for panel in kept for one in labels),
        difference=statistics.difference(*sides),
        improvement=statistics.improvement(*sides),
        area=statistics.difference(common.areas[label], common.areas[group.base]),
    )


def _common(
    group: Group, labels: Sequence[str], panel_scales: Mapping[str, Scale], fewest: int
) -> Overall:
    """Scores of these lines, over the panels in which each has at least `fewest` finished runs."""
    left_out, kept = {}, []
    too_few = "no finished run" if fewest == 1 else f"fewer than {fewest} finished runs"
    for panel in group.panels:
        lacking = [label for label in labels if _finished_runs(panel, label) < fewest]
        if lacking or not labels:
            failed = sum(panel.lines[label].failed for label in lacking if label in panel.lines)
            names = ", ".join(map(formatting.quoted, lacking))
            why = f", {failed} failed" if failed else ""
            left_out[panel.title] = f"{too_few} of {names or 'any line'}{why}"
        elif panel.title not in panel_scales:
            left_out[panel.title] = "all its scores are the same, and there is no reference"
        else:
            kept.append(panel)

    def normalised(measure: Measure) -> dict[str, dict[str, np.ndarray]]:
        return {
            label: {
                panel.title: statistics.normalise(
                    panel.lines[label].measured(measure), *panel_scales[panel.title][:2]
                )
                for panel in kept
            }
            for label in (labels if kept else ())
        }

    return Overall(
        panels=[panel.title for panel in kept],
        tasks=len({panel.task for panel in kept}),
        left_out=left_out,
        all_panels=len(group.panels),
        scores=normalised("final"),
        areas=normalised("area"),
    )


def _finished_runs(panel: Panel, label: str) -> int:
    return len(panel.lines[label].final) if label in panel.lines else 0
