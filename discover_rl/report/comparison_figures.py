"""Figures of a group's comparisons: scores over all tasks, performance profile, probability of
improvement, sample efficiency, and sparse rewards found.

Each of the public functions draws one figure and returns its files by suffix, or None where there
are no numbers for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from discover_rl.report import comparisons, discovery, formatting, statistics, style
from discover_rl.report.colours import LineStyle
from discover_rl.report.comparisons import Analysis
from discover_rl.report.data import FEWEST_RUNS
from discover_rl.report.groups import Panel
from discover_rl.report.resampling import Statistic

STATISTICS: dict[str, Statistic] = {
    "IQM": statistics.iqm,
    "mean": np.average,
    "optimality gap (less is better)": statistics.optimality_gap,
}
"""The statistics of normalised scores that `aggregate` shows."""
MOST_COLUMNS = 3
"""The largest number of panels in a row."""
UNSURE = f"grey, hollow: nothing can be claimed, as runs failed or are fewer than {FEWEST_RUNS}"
"""The note about grey marks, for which nothing can be claimed."""


class Mark(NamedTuple):
    """A value with its bounds, in a row of a forest plot.

    Attributes:
        row: Its name.
        value: None: beyond the right edge.
        low: Lower bound; None: there is no interval.
        high: Upper bound; None: beyond the right edge.
        look: Colour and marker.
        sure: Whether anything may be claimed of it; if not, it is grey and hollow.
    """

    row: str
    value: float | None
    low: float | None
    high: float | None
    look: LineStyle
    sure: bool = True


def aggregate(analysis: Analysis) -> dict[str, bytes] | None:
    """IQM, mean and optimality gap of normalised scores, over several tasks.

    The gap is left out where most scores are beyond its target: it says nothing there.
    """
    scores = analysis.overall.scores
    if not analysis.overall.several:
        return None
    styles = style.line_styles(analysis.group)
    values = np.concatenate([x for by_task in scores.values() for x in by_task.values()])
    panels = {
        name: [
            Mark(label, *statistics.bootstrap(by_task, statistic), styles[label])
            for label, by_task in scores.items()
        ]
        for name, statistic in STATISTICS.items()
        if statistic is not statistics.optimality_gap or np.median(values) <= 1
    }
    title = (
        f"{analysis.group.title}: normalised scores of {analysis.overall.over}\n"
        f"bars: 95 % bootstrap intervals; {_meaning_of_one(analysis)}"
    )
    return forest(panels, title, "normalised score")


def _meaning_of_one(analysis: Analysis) -> str:
    """Explain what a normalised score of 1 means in the panels that are drawn."""
    known = [analysis.scales[panel].is_reference for panel in analysis.overall.panels]
    if all(known):
        return "1 is the reference's score, not a ceiling"
    if not any(known):
        return "1 is the best run of this study, 0 the worst, task by task"
    return "1 is the reference's score or, without a reference, the best run of this study"


def profile(analysis: Analysis) -> dict[str, bytes] | None:
    """The fraction of runs above each normalised score, over several tasks."""
    scores = analysis.overall.scores
    if not analysis.overall.several:
        return None
    styles = style.line_styles(analysis.group)
    values = np.concatenate([x for by_task in scores.values() for x in by_task.values()])
    thresholds = np.linspace(min(0.0, values.min()), values.max() + 0.05, 101)
    with style.figure(5.4, 4.2) as figure:
        axes = figure.subplots()
        for label, by_task in scores.items():
            curve, look = statistics.profile(by_task, thresholds), styles[label]
            options = {"color": look.colour, "linestyle": look.dashes, "marker": look.marker}
            axes.plot(thresholds, curve.value, **options, markersize=3.5, markevery=12)
            if curve.low is not None:
                axes.fill_between(
                    thresholds, curve.low, curve.high, color=look.colour, alpha=0.16, lw=0
                )
        axes.set(xlabel="normalised score τ", ylabel="fraction of runs above τ", ylim=(-0.02, 1.02))
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        style.legend(figure, {label: styles[label] for label in scores})
        _title(figure, f"{analysis.group.title}: performance profile, {analysis.overall.over}")
        return style.figure_files(figure)


def improvement(analysis: Analysis) -> dict[str, bytes] | None:
    """Probability that a run of a line scores above one of the baseline, by task and over all."""
    group, styles = analysis.group, style.line_styles(analysis.group)
    rows: dict[str, list[Mark]] = {}
    for compared in analysis.comparisons:
        if compared.improvement is not None:
            look = styles[compared.label]
            mark = Mark(compared.panel, *compared.improvement, look, compared.claimable)
            rows.setdefault(compared.label, []).append(mark)
    if not rows:
        return None
    for pair in analysis.pairs:
        if pair.improvement is not None:
            sure = comparisons.claimable(pair.difference, pair.runs, pair.failed)
            mark = Mark(pair.common.name, *pair.improvement, styles[pair.label], sure)
            rows[pair.label].append(mark)
    base = formatting.quoted(group.base)
    title = (
        f"{group.title}: probability that a run scores above one of {base}\n"
        "bars: 95 % bootstrap intervals; dashed line: as often above as below"
    )
    panels = _by_line(group.panels, rows)
    return forest(panels, title, "probability", (-0.04, 1.04), lambda axes: _line(axes, 0.5))


def efficiency(analysis: Analysis) -> dict[str, bytes] | None:
    """Steps until a line first reaches the baseline's final score, by task."""
    group, styles = analysis.group, style.line_styles(analysis.group)
    rows: dict[str, list[Mark]] = {}
    for panel in group.panels:
        if panel.title in analysis.own:
            found, sure = analysis.own[panel.title], not panel.lines[group.base].failed
            mark = Mark(panel.title, *found[:3], styles[group.base], sure)
            rows.setdefault(group.base, []).append(mark)
    for compared in analysis.comparisons:
        if compared.reached is not None:
            look = styles[compared.label]
            mark = Mark(compared.panel, *compared.reached[:3], look, compared.claimable)
            rows.setdefault(compared.label, []).append(mark)
    if not rows.keys() - {group.base}:
        return None
    steps = max(line.cell.steps for panel in group.panels for line in panel.lines.values())
    title = (
        f"{group.title}: steps until the IQM reaches that of the final scores of "
        f"{formatting.quoted(group.base)}\n"
        "bars: 95 % intervals; dashed line: the end of training\n"
        "▷ not reached by then; ▶ at a bar's end: its upper bound is not reached by then"
    )

    def mark_end(axes: Any) -> None:
        _line(axes, steps)
        axes.set_xlim(-0.02 * steps, 1.1 * steps)
        style.steps_axis(axes.xaxis)

    return forest(_by_line(group.panels, rows), title, "steps", (0, steps), mark_end)


def found(analysis: Analysis) -> dict[str, bytes] | None:
    """The share of runs that have found the reward, against steps, over all sparse tasks."""
    known = dict.fromkeys(it.label for it in discovery.discoveries(analysis))
    if not known:
        return None
    panels, styles = analysis.group.panels, style.line_styles(analysis.group)
    sparse = [panel for panel in panels if panel.task in discovery.sparse_tasks()]
    end = max(line.cell.steps for panel in sparse for line in panel.lines.values())
    with style.figure(5.4, 4.2) as figure:
        axes = figure.subplots()
        for label in known:
            first, look = discovery.first_found_anywhere(analysis, label), styles[label]
            steps = np.sort(first[np.isfinite(first)])
            share = np.arange(len(steps) + 1) / max(1, len(first))
            options = {"color": look.colour, "linestyle": look.dashes, "marker": look.marker}
            axes.step([0, *steps, end], [*share, share[-1]], where="post", **options, markersize=3)
        axes.set(xlabel="steps", ylabel="share of runs that found the reward", ylim=(-0.02, 1.02))
        axes.set_xlim(-0.02 * end, 1.02 * end)
        style.steps_axis(axes.xaxis)
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        style.legend(figure, {label: styles[label] for label in known})
        count = f"{len(sparse)} sparse task{'s' * (len(sparse) > 1)}"
        _title(figure, f"{analysis.group.title}: reward found, {count}")
        return style.figure_files(figure)


FIGURES: dict[str, Callable[[Analysis], dict[str, bytes] | None]] = {
    "aggregate": aggregate,
    "profile": profile,
    "improvement": improvement,
    "efficiency": efficiency,
    "found": found,
}
"""The functions that draw, by the name of their figure."""


def figures(analysis: Analysis) -> dict[str, dict[str, bytes]]:
    """The figures that there are numbers for: by name, their files by suffix."""
    drawn = {name: draw(analysis) for name, draw in FIGURES.items()}
    return {name: files for name, files in drawn.items() if files is not None}


def _by_line(panels: Sequence[Panel], rows: Mapping[str, Sequence[Mark]]) -> dict[str, list[Mark]]:
    """A panel for each line, a row for each task; with one task, one panel with a row per line."""
    if len(panels) > 1:
        return {label: list(marks) for label, marks in rows.items()}
    return {panels[0].title: [marks[0]._replace(row=label) for label, marks in rows.items()]}


def forest(
    panels: Mapping[str, Sequence[Mark]],
    title: str,
    measure: str,
    limits: tuple[float, float] | None = None,
    finish: Callable[[Any], None] = lambda axes: None,
) -> dict[str, bytes]:
    """A forest plot: values with bars, in rows that all panels share.

    Args:
        panels: Marks by the panel's title.
        title: Of the figure.
        measure: What the values are.
        limits: Of the horizontal axis.
        finish: Called with the axes of each panel at the end.
    """
    names = list(dict.fromkeys(mark.row for marks in panels.values() for mark in marks))
    if not all(mark.sure for marks in panels.values() for mark in marks):
        title += f"\n{UNSURE}"
    columns = min(MOST_COLUMNS, len(panels))
    down = math.ceil(len(panels) / columns)
    longest = max(map(len, title.split("\n")))
    width = max(2.6 * columns + 0.085 * max(map(len, names)), 0.062 * longest + 0.3)
    height = down * (0.26 * len(names) + 0.6) + 0.5 + 0.14 * title.count("\n")
    with style.figure(width, height) as figure:
        every = figure.subplots(down, columns, squeeze=False, sharey=True).ravel()
        for i, (axes, (name, marks)) in enumerate(zip(every, panels.items(), strict=False)):
            for mark in marks:
                _mark(axes, names.index(mark.row), mark, limits)
            axes.set_title(style.plain(name))
            axes.set_yticks(range(len(names)), [style.plain(row) for row in names])
            axes.set_ylim(len(names) - 0.5, -0.5)
            axes.grid(axis="x", alpha=0.3, linewidth=0.5)
            axes.spines[["top", "right"]].set_visible(False)
            if limits is not None:
                axes.set_xlim(*limits)
            if i + columns >= len(panels):
                axes.set_xlabel(measure)
            finish(axes)
        for axes in every[len(panels) :]:
            axes.set_axis_off()
        _title(figure, title)
        return style.figure_files(figure)


def _mark(axes: Any, row: int, mark: Mark, limits: tuple[float, float] | None) -> None:
    """Draw a mark in a row; a value or bound that is None is drawn past the right limit."""
    colour = mark.look.colour if mark.sure else "grey"
    edge = 1.06 * (limits or (0, 0))[1]
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


def _title(figure: Any, title: str) -> None:
    figure.suptitle(style.plain(title), fontsize=8, color="dimgrey")
