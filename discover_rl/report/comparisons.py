"""What the numbers of a group say of each other: differences to the baseline, the probability of
improvement, and steps until the baseline's final score.

Everything here is None where there are no runs to say it of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

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


class Analysis(NamedTuple):
    """All that is said of a group."""

    group: Group
    comparisons: Sequence[Comparison]
    scales: Mapping[str, Scale]  # by panel, of what is said over all tasks
    overall: Overall
    pairs: Sequence[Pair]
    best: Mapping[str, str | None]  # panel → the label in bold


def analyse(everything: Data) -> list[Analysis]:
    return [_analysis(group, everything) for group in groups(everything)]


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
    return stats.bold({label: line.final for label, line in panel.lines.items()})


def _analysis(group: Group, everything: Data) -> Analysis:
    scales = across.scales(group, everything)
    return Analysis(
        group,
        compare(group),
        scales,
        across.overall(group, scales),
        across.pairs(group, scales),
        {panel.title: best(panel) for panel in group.panels},
    )


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
