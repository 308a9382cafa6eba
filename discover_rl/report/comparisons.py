"""Comparisons within a group: differences from the baseline in final scores and in areas under the
curve, the probability of improvement, and steps until the baseline's final score.

Each of these is None where there are too few runs for it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from discover_rl.report import across, statistics
from discover_rl.report.across import Overall, Pair, Scale
from discover_rl.report.bands import thin
from discover_rl.report.data import FEWEST_RUNS, FINE, Data, Measure, Results
from discover_rl.report.groups import Group, Panel, groups
from discover_rl.report.resampling import Interval
from discover_rl.report.statistics import Reached


class Comparison(NamedTuple):
    """A line compared with the baseline of its group, in one panel.

    Attributes:
        panel: Its title.
        label: Of the line.
        runs: Finished runs of the line and of the baseline.
        failed: Failed runs of both.
        difference: Of the IQMs of final scores.
        means: Difference of the means of final scores.
        improvement: Probability that a run of the line scores above one of the baseline.
        reached: When the line reached the baseline's final score.
        area: Difference of the IQMs of areas under the curve, see `Results.area`.
    """

    panel: str
    label: str
    runs: tuple[int, int]
    failed: int
    difference: Interval | None
    means: Interval | None
    improvement: Interval | None
    reached: Reached | None
    area: Interval | None

    @property
    def claim(self) -> int:
        """1 if the line's final scores are better, −1 if worse, 0 if neither can be claimed."""
        return claim(self.difference, self.runs, self.failed)

    @property
    def area_claim(self) -> int:
        """Like `claim`, for areas under the curve."""
        return claim(self.area, self.runs, self.failed)

    @property
    def claimable(self) -> bool:
        """Whether there are enough runs to claim anything, whatever their scores."""
        return claimable(self.difference, self.runs, self.failed)


class Analysis(NamedTuple):
    """All results of the comparisons within a group.

    Attributes:
        group: What is compared.
        comparisons: Of each other line with the baseline, panel by panel.
        own: By panel, when the baseline itself reached its final score.
        scales: By panel, what scores over all tasks are normalised by.
        overall: Scores of all lines over all tasks.
        pairs: Each other line with the baseline, over all tasks.
        best: By panel, the label whose final score is set in bold, or None.
        best_area: The same of areas under the curve.
    """

    group: Group
    comparisons: Sequence[Comparison]
    own: Mapping[str, Reached]
    scales: Mapping[str, Scale]
    overall: Overall
    pairs: Sequence[Pair]
    best: Mapping[str, str | None]
    best_area: Mapping[str, str | None]


SIDES = ("task", "algorithm", "line", "baseline", "runs", "baseline_runs", "failed")
"""Columns that say what is compared."""
MEASURES = ("iqm_difference", "mean_difference", "probability", "steps", "baseline_steps")
"""Columns of numbers that have an interval, each with one for either bound."""
COLUMNS = (
    *SIDES,
    *(f"{name}{bound}" for name in MEASURES for bound in ("", "_low", "_high")),
    *("steps_reached", "verdict"),
    *("area_difference", "area_difference_low", "area_difference_high", "area_verdict"),
)
"""Columns of the CSV: what is compared, each measure with its bounds, and the verdict. Steps that
are not reached within a run are inf; `steps_reached` is the share of resamples that reach them."""
VERDICTS = {1: "better", -1: "worse", 0: "undecided"}
"""What the CSV says, by `Comparison.claim`."""


def analyse(everything: Data) -> list[Analysis]:
    """Analyse each group of a study."""
    return [_analysis(group, everything) for group in groups(everything)]


def claim(difference: Interval | None, runs: Sequence[int], failed: int = 0) -> int:
    """Return the claim that a difference supports: 1 for better, −1 for worse, 0 for neither.

    Args:
        difference: Value and bounds; a claim needs an interval that leaves 0 out.
        runs: Finished runs of both sides.
        failed: Failed runs of both sides. If there are any, nothing is claimed: the scores of
            finished runs say nothing about failed ones.
    """
    if difference is None or difference.low is None or not claimable(difference, runs, failed):
        return 0
    return int(difference.low > 0) - int(difference.high < 0)


def claimable(difference: Interval | None, runs: Sequence[int], failed: int = 0) -> bool:
    """Whether both sides have enough runs, and no failed ones, to claim anything."""
    return difference is not None and min(runs) >= FEWEST_RUNS and not failed


def compare(group: Group) -> list[Comparison]:
    """Compare every other line with the baseline, panel by panel."""
    found = []
    for panel in group.panels:
        base = panel.lines.get(group.base)
        for label, line in panel.lines.items():
            if base is not None and label != group.base:
                found.append(_comparison(panel, label, line, base))
    return found


def reached(line: Results, base: Results) -> Reached | None:
    """When the IQM of a line's runs first reached that of the baseline's final scores.

    The runs of both are resampled. None where either has too few runs.
    """
    if min(len(line.final), len(base.final)) < FEWEST_RUNS:
        return None
    curves = line.finished
    known = np.isfinite(curves).all(axis=0)
    steps, curves = thin(line.steps[known], curves[:, known])
    return statistics.reach(steps.tolist(), curves, base.final, window=1, paired=line is base)


def best(panel: Panel, measure: Measure = "final") -> str | None:
    """Return the label to set in bold: that of the line that is better than all others.

    It is None if no line is, if a line has too few runs, or if runs failed.

    Args:
        panel: Whose lines are compared.
        measure: What they are compared by.
    """
    if any(len(line.final) < FEWEST_RUNS or line.failed for line in panel.lines.values()):
        return None
    entries = {label: line.measured(measure) for label, line in panel.lines.items()}
    return statistics.bold(entries, resampling=FINE)


def as_csv(analysis: Analysis) -> str:
    """Return every comparison in full precision, as CSV; unknown values are empty."""
    text, group = io.StringIO(), analysis.group
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    for compared in analysis.comparisons:
        sides = group.algorithm, compared.label, group.base, *compared.runs, compared.failed
        row: dict[str, Any] = dict(zip(SIDES, (compared.panel, *sides), strict=True))
        intervals = compared.difference, compared.means, compared.improvement
        steps = (_steps(found) for found in (compared.reached, analysis.own.get(compared.panel)))
        for name, values in zip(MEASURES, (*intervals, *steps), strict=True):
            if values is not None:
                row |= zip((name, f"{name}_low", f"{name}_high"), values, strict=True)
        if compared.reached is not None:
            row["steps_reached"] = compared.reached.share
        if compared.area is not None:
            names = (f"area_difference{bound}" for bound in ("", "_low", "_high"))
            row |= zip(names, compared.area, strict=True)
        if compared.claimable:
            row["verdict"] = VERDICTS[compared.claim]
            row["area_verdict"] = VERDICTS[compared.area_claim]
        table.writerow(row)
    return text.getvalue()


def _analysis(group: Group, everything: Data) -> Analysis:
    scales = across.scales(group, everything)
    return Analysis(
        group=group,
        comparisons=compare(group),
        own=_own(group),
        scales=scales,
        overall=across.overall(group, scales),
        pairs=across.pairs(group, scales),
        best={panel.title: best(panel) for panel in group.panels},
        best_area={panel.title: best(panel, "area") for panel in group.panels},
    )


def _steps(reached: Reached | None) -> list[float] | None:
    """Return step and bounds as numbers; a level that is never reached has an infinite step."""
    return reached and [math.inf if step is None else step for step in reached[:3]]


def _own(group: Group) -> dict[str, Reached]:
    found = {}
    for panel in group.panels:
        base = panel.lines.get(group.base)
        if base is not None and (step := reached(base, base)) is not None:
            found[panel.title] = step
    return found


def _comparison(panel: Panel, label: str, line: Results, base: Results) -> Comparison:
    runs, failed = (len(line.final), len(base.final)), line.failed + base.failed
    if not all(runs):
        return Comparison(panel.title, label, runs, failed, *[None] * 5)
    sides = line.final, base.final
    return Comparison(
        panel=panel.title,
        label=label,
        runs=runs,
        failed=failed,
        difference=statistics.difference(*sides, resampling=FINE),
        means=statistics.difference(*sides, np.average, FINE),
        improvement=statistics.improvement(*sides, FINE),
        reached=reached(line, base),
        area=statistics.difference(line.area, base.area, resampling=FINE),
    )
