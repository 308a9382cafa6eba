"""What the numbers of a group say of each other: differences to the baseline, the probability of
improvement, and steps until the baseline's final score.

Everything here is None where there are no runs to say it of.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from discover_rl import stats
from discover_rl.report import across, data
from discover_rl.report.across import Overall, Pair, Scale
from discover_rl.report.data import Data, Results
from discover_rl.report.groups import Group, Panel, groups
from discover_rl.stats import Interval, Reached


class Comparison(NamedTuple):
    """Of a line with the baseline of its group, in one panel."""

    panel: str
    label: str
    runs: tuple[int, int]  # that are done: of the line, of the baseline
    failed: int  # of both
    difference: Interval | None  # of IQMs
    means: Interval | None  # difference of these
    improvement: Interval | None
    reached: Reached | None  # when the line reached the baseline's final score

    @property
    def claim(self) -> int:
        """1: better; −1: worse; 0: neither can be claimed."""
        return claim(self.difference, self.runs, self.failed)

    @property
    def claimable(self) -> bool:
        """Whether anything could be claimed of so many runs, whatever they scored."""
        return claimable(self.difference, self.runs, self.failed)


class Analysis(NamedTuple):
    """All that is said of a group."""

    group: Group
    comparisons: Sequence[Comparison]
    own: Mapping[str, Reached]  # by panel: when the baseline itself reached its final score
    scales: Mapping[str, Scale]  # by panel, of what is said over all tasks
    overall: Overall
    pairs: Sequence[Pair]
    best: Mapping[str, str | None]  # panel → the label in bold


SIDES = ("task", "algorithm", "line", "baseline", "runs", "baseline_runs", "failed")
MEASURES = ("iqm_difference", "mean_difference", "probability", "steps", "baseline_steps")
COLUMNS = (
    *SIDES,
    *(f"{name}{bound}" for name in MEASURES for bound in ("", "_low", "_high")),
    *("steps_reached", "verdict"),
)
"""Of the CSV. Steps that are not reached within a run are inf; `steps_reached` is the share of
resamples that do."""


def analyse(everything: Data) -> list[Analysis]:
    return [_analysis(group, everything) for group in groups(everything)]


def claim(difference: Interval | None, runs: Sequence[int], failed: int = 0) -> int:
    """Those that came to their end say nothing of those that failed."""
    if difference is None or difference.low is None or not claimable(difference, runs, failed):
        return 0
    return int(difference.low > 0) - int(difference.high < 0)


def claimable(difference: Interval | None, runs: Sequence[int], failed: int = 0) -> bool:
    return difference is not None and min(runs) >= data.FEWEST and not failed


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
    """When the IQM of a line's runs first reached that of the baseline's final scores; both are
    uncertain. None where there are too few runs for an interval that means anything."""
    if min(len(line.final), len(base.final)) < data.FEWEST:
        return None
    curves = line.finished
    whole = np.isfinite(curves).all(axis=0)
    steps, curves = data.thinned(line.steps[whole], curves[:, whole])
    return stats.reach(steps.tolist(), curves, base.final, window=1, paired=line is base)


def best(panel: Panel) -> str | None:
    """The label that may be set in bold: of every line there are enough runs, none of which failed,
    and the best is better than all others."""
    if any(len(line.final) < data.FEWEST or line.failed for line in panel.lines.values()):
        return None
    return stats.bold({label: it.final for label, it in panel.lines.items()}, how=data.FINE)


def _analysis(group: Group, everything: Data) -> Analysis:
    scales = across.scales(group, everything)
    return Analysis(
        group,
        compare(group),
        _own(group),
        scales,
        across.overall(group, scales),
        across.pairs(group, scales),
        {panel.title: best(panel) for panel in group.panels},
    )


def as_csv(analysis: Analysis) -> str:
    """Every comparison in full precision; empty is what cannot be said."""
    text, group = io.StringIO(), analysis.group
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    for it in analysis.comparisons:
        known = it.panel, group.algorithm, it.label, group.base, *it.runs, it.failed
        row: dict[str, Any] = dict(zip(SIDES, known, strict=True))
        intervals = it.difference, it.means, it.improvement
        steps = (_steps(found) for found in (it.reached, analysis.own.get(it.panel)))
        for name, three in zip(MEASURES, (*intervals, *steps), strict=True):
            if three is not None:
                row |= zip((name, f"{name}_low", f"{name}_high"), three, strict=True)
        if it.reached is not None:
            row["steps_reached"] = it.reached.share
        if it.claimable:
            row["verdict"] = {1: "better", -1: "worse", 0: "undecided"}[it.claim]
        table.writerow(row)
    return text.getvalue()


def _steps(reached: Reached | None) -> list[float] | None:
    return reached and [math.inf if it is None else it for it in reached[:3]]


def _own(group: Group) -> dict[str, Reached]:
    found = {}
    for panel in group.panels:
        base = panel.lines.get(group.base)
        if base is not None and (step := reached(base, base)) is not None:
            found[panel.title] = step
    return found


def _compared(panel: Panel, label: str, line: Results, base: Results) -> Comparison:
    runs, failed = (len(line.final), len(base.final)), line.failed + base.failed
    if not all(runs):
        return Comparison(panel.title, label, runs, failed, *[None] * 4)
    sides = line.final, base.final
    return Comparison(
        panel.title,
        label,
        runs,
        failed,
        stats.difference(*sides, how=data.FINE),
        stats.difference(*sides, np.average, data.FINE),
        stats.improvement(*sides, data.FINE),
        reached(line, base),
    )
