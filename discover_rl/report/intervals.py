"""Figures of a group's comparisons: over all tasks, profile, improvement, sample efficiency."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from discover_rl import stats
from discover_rl.report import comparisons, data, style, writing
from discover_rl.report.comparisons import Analysis
from discover_rl.report.style import Look

STATISTICS: dict[str, stats.Statistic] = {
    "IQM": stats.iqm,
    "mean": np.average,
    "optimality gap (less is better)": stats.optimality_gap,
}


MOST_COLUMNS = 3


class Mark(NamedTuple):
    """A value with its bounds, in a row."""

    row: str
    value: float | None  # None: beyond the right edge
    low: float | None
    high: float | None
    look: Look
    sure: bool = True
    """Whether anything may be claimed of it; it is grey and hollow otherwise."""


UNSURE = f"grey, hollow: nothing can be claimed, as runs failed or are fewer than {data.FEWEST}"


def aggregate(analysis: Analysis) -> dict[str, bytes] | None:
    """IQM, mean and optimality gap of normalised scores, where there are several tasks. The gap
    says nothing where most scores are beyond it."""
    scores = analysis.overall.scores
    if not analysis.overall.several:
        return None
    look = style.looks(analysis.group)
    values = np.concatenate([x for of in scores.values() for x in of.values()])
    facets = {
        name: [
            Mark(label, *stats.bootstrap(of, statistic), look[label])
            for label, of in scores.items()
        ]
        for name, statistic in STATISTICS.items()
        if statistic is not stats.optimality_gap or np.median(values) <= 1
    }
    title = (
        f"{analysis.group.title}: normalised scores of {analysis.overall.over}\n"
        "bars: 95 % bootstrap intervals; 1 is the reference's score, not a ceiling"
    )
    return _forest(facets, title, "normalised score")


def profile(analysis: Analysis) -> dict[str, bytes] | None:
    """The fraction of runs above each normalised score."""
    scores = analysis.overall.scores
    if not analysis.overall.several:
        return None
    look = style.looks(analysis.group)
    values = np.concatenate([x for of in scores.values() for x in of.values()])
    thresholds = np.linspace(min(0.0, values.min()), values.max() + 0.05, 101)
    with style.figure(5.4, 4.2) as drawn:
        axes = drawn.subplots()
        for label, of in scores.items():
            curve, it = stats.profile(of, thresholds), look[label]
            style_of = {"color": it.colour, "linestyle": it.dashes, "marker": it.marker}
            axes.plot(thresholds, curve.value, **style_of, markersize=3.5, markevery=12)
            if curve.low is not None:
                axes.fill_between(
                    thresholds, curve.low, curve.high, color=it.colour, alpha=0.16, lw=0
                )
        axes.set(xlabel="normalised score τ", ylabel="fraction of runs above τ", ylim=(-0.02, 1.02))
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        style.legend(drawn, list(scores), look)
        _title(drawn, f"{analysis.group.title}: performance profile, {analysis.overall.over}")
        return style.rendered(drawn)


def improvement(analysis: Analysis) -> dict[str, bytes] | None:
    """P(a run of the line scores above one of the baseline), by task and over all."""
    group, look = analysis.group, style.looks(analysis.group)
    rows: dict[str, list[Mark]] = {}
    for it in analysis.comparisons:
        if it.improvement is not None:
            mark = Mark(it.panel, *it.improvement, look[it.label], it.claimable)
            rows.setdefault(it.label, []).append(mark)
    if not rows:
        return None
    for pair in analysis.pairs:
        if pair.improvement is not None:
            sure = comparisons.claimable(pair.difference, pair.runs, pair.failed)
            mark = Mark(pair.common.name, *pair.improvement, look[pair.label], sure)
            rows[pair.label].append(mark)
    base = writing.quoted(group.base)
    title = (
        f"{group.title}: probability that a run scores above one of {base}\n"
        "bars: 95 % bootstrap intervals; dashed line: as often above as below"
    )
    facets = _faceted(group.panels, rows)
    return _forest(facets, title, "probability", (-0.04, 1.04), lambda axes: _line(axes, 0.5))


def efficiency(analysis: Analysis) -> dict[str, bytes] | None:
    """Steps until a line first reaches the baseline's final score, by task."""
    group, look = analysis.group, style.looks(analysis.group)
    rows: dict[str, list[Mark]] = {}
    for panel in group.panels:
        if panel.title in analysis.own:
            found, sure = analysis.own[panel.title], not panel.lines[group.base].failed
            mark = Mark(panel.title, *found[:3], look[group.base], sure)
            rows.setdefault(group.base, []).append(mark)
    for it in analysis.comparisons:
        if it.reached is not None:
            mark = Mark(it.panel, *it.reached[:3], look[it.label], it.claimable)
            rows.setdefault(it.label, []).append(mark)
    if not rows.keys() - {group.base}:
        return None
    steps = max(line.cell.steps for panel in group.panels for line in panel.lines.values())
    title = (
        f"{group.title}: steps until the IQM reaches that of the final scores of "
        f"{writing.quoted(group.base)}\n"
        "bars: 95 % intervals; dashed line: the end of training\n"
        "▷ not reached by then; ▶ at a bar's end: its upper bound is not reached by then"
    )

    def ended(axes: Any) -> None:
        _line(axes, steps)
        axes.set_xlim(-0.02 * steps, 1.1 * steps)
        style.steps_axis(axes.xaxis)

    return _forest(_faceted(group.panels, rows), title, "steps", (0, steps), ended)


MAKERS: dict[str, Callable[[Analysis], dict[str, bytes] | None]] = {
    "aggregate": aggregate,
    "profile": profile,
    "improvement": improvement,
    "efficiency": efficiency,
}


def figures(analysis: Analysis) -> dict[str, dict[str, bytes]]:
    """Those there are numbers for, by name."""
    made = {name: maker(analysis) for name, maker in MAKERS.items()}
    return {name: files for name, files in made.items() if files is not None}


def _faceted(panels: Sequence[Any], rows: Mapping[str, Sequence[Mark]]) -> dict[str, list[Mark]]:
    """A facet for each line; where there is one panel only, one facet with a row for each line."""
    if len(panels) > 1:
        return {label: list(marks) for label, marks in rows.items()}
    return {panels[0].title: [marks[0]._replace(row=label) for label, marks in rows.items()]}


def _forest(
    facets: Mapping[str, Sequence[Mark]],
    title: str,
    measure: str,
    limits: tuple[float, float] | None = None,
    more: Callable[[Any], None] = lambda axes: None,
) -> dict[str, bytes]:
    """Values with bars, in rows that all facets share."""
    names = list(dict.fromkeys(mark.row for marks in facets.values() for mark in marks))
    if not all(mark.sure for marks in facets.values() for mark in marks):
        title += f"\n{UNSURE}"
    columns = min(MOST_COLUMNS, len(facets))
    down = math.ceil(len(facets) / columns)
    longest = max(map(len, title.split("\n")))
    width = max(2.6 * columns + 0.085 * max(map(len, names)), 0.062 * longest + 0.3)
    height = down * (0.26 * len(names) + 0.6) + 0.5 + 0.14 * title.count("\n")
    with style.figure(width, height) as drawn:
        every = drawn.subplots(down, columns, squeeze=False, sharey=True).ravel()
        for i, (axes, (name, marks)) in enumerate(zip(every, facets.items(), strict=False)):
            for mark in marks:
                _mark(axes, names.index(mark.row), mark, limits)
            axes.set_title(style.plain(name))
            axes.set_yticks(range(len(names)), [style.plain(it) for it in names])
            axes.set_ylim(len(names) - 0.5, -0.5)
            axes.grid(axis="x", alpha=0.3, linewidth=0.5)
            axes.spines[["top", "right"]].set_visible(False)
            if limits is not None:
                axes.set_xlim(*limits)
            if i + columns >= len(facets):
                axes.set_xlabel(measure)
            more(axes)
        for axes in every[len(facets) :]:
            axes.set_axis_off()
        _title(drawn, title)
        return style.rendered(drawn)


def _mark(axes: Any, row: int, mark: Mark, limits: tuple[float, float] | None) -> None:
    colour = mark.look.colour if mark.sure else "grey"
    edge = 1.06 * (limits or (0, 0))[1]  # past the end is never
    if mark.low is not None:
        high = edge if mark.high is None else mark.high
        axes.plot([mark.low, high], [row, row], color=colour, linewidth=2.2, alpha=0.45)
        if mark.high is None and mark.value is not None:
            axes.plot(edge, row, ">", color=colour, markersize=3)
    inside = {"markerfacecolor": colour if mark.sure else "white"}
    if mark.value is None:
        axes.plot(edge, row, ">", color=colour, fillstyle="none", markersize=6)
    else:
        axes.plot(mark.value, row, mark.look.marker, color=colour, markersize=5, **inside)


def _line(axes: Any, x: float) -> None:
    axes.axvline(x, color="grey", linewidth=0.8, linestyle="--", zorder=0)


def _title(drawn: Any, title: str) -> None:
    drawn.suptitle(style.plain(title), fontsize=8, color="dimgrey")
