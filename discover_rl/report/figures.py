"""Learning curves: one panel, or all panels of a group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from discover_rl import stats
from discover_rl.report import data, published, style, writing
from discover_rl.report.groups import Group, Panel
from discover_rl.report.style import Look

CAPTIONS = {
    "paper": f"mean of runs, half a standard deviation to either side, window {data.WINDOW}",
    "iqm": f"interquartile mean of runs, 95 % bootstrap interval, window {data.WINDOW}",
}
THIN: dict[str, Any] = {"linewidth": 0.7, "alpha": 0.75}
"""Published curves, in the colour and dashes of the line they belong to."""
Curves = Mapping[published.Key, np.ndarray]


def single(group: Group, panel: Panel, kind: str, theirs: Curves) -> dict[str, bytes]:
    """One panel as a figure of its own."""
    look = style.looks(group)
    with style.figure(5, 4) as drawn:
        axes = drawn.subplots()
        shown = _panel(axes, panel, look, kind, theirs, counted=True)
        axes.set_title(style.plain(f"{panel.title}, {group.title}"))
        axes.set(xlabel="steps", ylabel="return")
        lines = panel.lines.items()
        counted = {label: f"{label} ({it.count})" for label, it in lines}
        named = {counted[label]: look[label] if len(it.steps) else None for label, it in lines}
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
        for i, (axes, panel) in enumerate(zip(every, group.panels, strict=False)):
            shown |= _panel(axes, panel, look, kind, theirs)
            lacking = _lacking(panel)
            axes.set_title(style.plain(panel.title), pad=13 if lacking else 5)
            small = {"fontsize": 6.5, "ha": "center", "va": "bottom", "color": "dimgrey"}
            axes.text(0.5, 1.01, style.plain(lacking), transform=axes.transAxes, **small)
            if i + columns >= len(group.panels):
                axes.set_xlabel("steps")
            if i % columns == 0:
                axes.set_ylabel("return")
        for axes in every[len(group.panels) :]:
            axes.set_axis_off()
        named: dict[str, Look | None] = {}
        for label in group.labels:
            if group.begun(label):
                named[label] = look[label]
            else:
                named[f"{label} (not begun)"] = None
        style.legend(drawn, list(named), named, _more(shown))
        _caption(drawn, kind, f"{group.title}: ")
        return style.rendered(drawn)


def _panel(
    axes: Any,
    panel: Panel,
    look: Mapping[str, Look],
    kind: str,
    theirs: Curves,
    counted: bool = False,
) -> bool:
    """Draw it; whether published curves are in it."""
    shown = False
    for label, line in panel.lines.items():
        _line(axes, line.curves[kind], look[label], counted)
        key = published.key(line.cell)
        if key is not None and key in theirs:
            steps = np.arange(theirs[key].shape[1]) * published.EVERY
            inside = steps <= line.cell.steps
            smoothed = stats.smooth(theirs[key], data.WINDOW)[:, inside]
            mean = data.curve(*data.thinned(steps[inside], smoothed), data.BANDS[kind])
            it = look[label]
            axes.plot(mean.steps, mean.value, color=it.colour, linestyle=it.dashes, **THIN)
            shown = True
    if not any(len(line.steps) for line in panel.lines.values()):
        axes.text(0.5, 0.5, "no evaluations yet", ha="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
        return shown
    style.steps_axis(axes.xaxis)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    return shown


def _line(axes: Any, curve: data.Curve, it: Look, counted: bool) -> None:
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
        point = (curve.steps[end], curve.value[end])
        axes.plot(*point, "|", color=it.colour, markersize=9)
        if counted:
            above: dict[str, Any] = {
                "xytext": (0, 6),
                "textcoords": "offset points",
                "ha": "center",
            }
            above["bbox"] = {"facecolor": "white", "alpha": 0.7, "pad": 0.4, "linewidth": 0}
            axes.annotate(f"{curve.runs[end + 1]} left", point, fontsize=6, **above)


def _lacking(panel: Panel) -> str:
    """Of which lines some runs are not done."""
    found = [
        f"{writing.quoted(label)}: {it.count}"
        for label, it in panel.lines.items()
        if not it.done.all()
    ]
    return f"{len(found)} lines lack runs" if len(found) > 2 else "; ".join(found)


def _more(shown: bool) -> list[tuple[str, dict[str, Any]]]:
    name = "thin: authors' curves, older tasks"
    return [(name, {"color": "dimgrey", **THIN})] if shown else []


def _caption(drawn: Any, kind: str, before: str = "") -> None:
    drawn.suptitle(style.plain(before) + CAPTIONS[kind], fontsize=8, color="dimgrey")
