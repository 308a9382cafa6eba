"""Learning curves: one panel, or all panels of a group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from discover_rl import stats
from discover_rl.report import data, published, style
from discover_rl.report.groups import Group, Panel
from discover_rl.report.style import Look

CAPTIONS = {
    "paper": f"mean of runs, half a standard deviation to either side, window {data.WINDOW}",
    "iqm": f"interquartile mean of runs, 95 % bootstrap interval, window {data.WINDOW}",
}
THEIRS: dict[str, Any] = {"color": "grey", "linewidth": 0.9, "linestyle": "-"}
Curves = Mapping[published.Key, np.ndarray]


def single(group: Group, panel: Panel, kind: str, theirs: Curves) -> dict[str, bytes]:
    """One panel as a figure of its own."""
    look = style.looks(group)
    with style.figure(5, 4) as drawn:
        axes = drawn.subplots()
        shown = _panel(axes, panel, look, kind, theirs)
        axes.set_title(style.plain(f"{panel.title}, {group.title}"))
        axes.set(xlabel="steps", ylabel="return")
        counted = {label: f"{label} ({it.count})" for label, it in panel.lines.items()}
        named = {counted[label]: look[label] for label in panel.lines}
        style.legend(drawn, list(named), named, _more(shown))
        _caption(drawn, kind)
        return style.rendered(drawn)


def grid(group: Group, kind: str, theirs: Curves) -> dict[str, bytes]:
    """All panels of a group."""
    look = style.looks(group)
    columns = min(len(group.panels), 4 if len(group.panels) in (4, 7, 8) else 3)
    rows = math.ceil(len(group.panels) / columns)
    with style.figure(3.1 * columns + 0.4, 2.4 * rows + 1.1) as drawn:
        every = drawn.subplots(rows, columns, squeeze=False).ravel()
        shown = False
        for axes, panel in zip(every, group.panels, strict=False):
            shown |= _panel(axes, panel, look, kind, theirs)
            axes.set_title(style.plain(_with_counts(panel)))
        for axes in every[len(group.panels) :]:
            axes.set_axis_off()
        drawn.supxlabel("steps", fontsize=10)
        drawn.supylabel("return", fontsize=10)
        style.legend(drawn, group.labels, look, _more(shown))
        _caption(drawn, kind, f"{group.title}: ")
        return style.rendered(drawn)


def _panel(axes: Any, panel: Panel, look: Mapping[str, Look], kind: str, theirs: Curves) -> bool:
    """Draw it; whether published curves are in it."""
    for label, line in panel.lines.items():
        curve, it = line.curves[kind], look[label]
        sparse = max(1, len(curve.steps) // 8)
        axes.plot(
            *(curve.steps, curve.value),
            color=it.colour,
            linestyle=it.dashes,
            linewidth=1.4,
            marker=it.marker,
            markersize=3.2,
            markevery=(sparse // 2, sparse),
        )
        axes.fill_between(curve.steps, curve.low, curve.high, color=it.colour, alpha=0.16, lw=0)
        for end in curve.ends:
            point, left = (curve.steps[end], curve.value[end]), curve.runs[end + 1]
            axes.plot(*point, "|", color=it.colour, markersize=9)
            text = f"{left} left"
            offset = {"xytext": (2, 4), "textcoords": "offset points"}
            axes.annotate(text, point, color=it.colour, fontsize=6, **offset)
    found = False
    for line in panel.lines.values():
        key = published.key(line.cell)
        if key in theirs:
            steps = np.arange(theirs[key].shape[1]) * published.EVERY
            inside = steps <= line.cell.steps
            smoothed = stats.smooth(theirs[key], data.WINDOW)[:, inside]
            mean = data.curve(*data.thinned(steps[inside], smoothed), stats.half_sd_band)
            axes.plot(mean.steps, mean.value, **THEIRS)
            name = f"published {key.strategy} {key.setting}".strip()
            offset = {"xytext": (-2, 3), "textcoords": "offset points"}
            point = (mean.steps[-1], mean.value[-1])
            axes.annotate(name, point, fontsize=6, color="grey", ha="right", **offset)
            found = True
    if not any(len(line.steps) for line in panel.lines.values()):
        axes.text(0.5, 0.5, "no evaluations yet", ha="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
        return found
    style.steps_axis(axes.xaxis)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    return found


def _with_counts(panel: Panel) -> str:
    """The title, and of which lines some runs are not done."""
    lacking = [f"{it.count} of {label}" for label, it in panel.lines.items() if not it.done.all()]
    title = panel.title
    if 0 < len(lacking) <= 2:
        return title + "\n" + "; ".join(lacking)
    return title + f"\n{len(lacking)} lines lack runs" * bool(lacking)


def _more(shown: bool) -> list[tuple[str, dict[str, Any]]]:
    name = "authors' released curves, -v2 tasks"
    return [(name, THEIRS)] if shown else []


def _caption(drawn: Any, kind: str, before: str = "") -> None:
    drawn.suptitle(style.plain(before) + CAPTIONS[kind], fontsize=8, color="dimgrey")
