"""Learning curves: of one panel, or of all panels of a group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from discover_rl.report import bands, formatting, published, statistics, style
from discover_rl.report.colours import LineStyle
from discover_rl.report.groups import Group, Panel

CAPTIONS = {
    "paper": "mean of runs, half a standard deviation to either side",
    "iqm": "interquartile mean of runs, 95 % bootstrap interval",
}
"""A description of each kind of curve."""
THIN: dict[str, Any] = {"linewidth": 0.7, "alpha": 0.75}
"""How published curves are drawn, in the colour and dashes of the line they belong to."""
PublishedCurves: TypeAlias = Mapping[published.Key, np.ndarray]
"""The authors' curves, (runs, points) each; empty if there is no copy of them."""


def single(
    group: Group, panel: Panel, kind: str, published_curves: PublishedCurves
) -> dict[str, bytes]:
    """One panel as a figure of its own.

    Args:
        group: Of the panel; it decides how lines look.
        panel: What is drawn.
        kind: 'paper' or 'iqm'.
        published_curves: Drawn as thin lines where they belong to a line.

    Returns:
        Files by suffix.
    """
    styles = style.line_styles(group)
    with style.figure(5, 4) as figure:
        axes = figure.subplots()
        shown = _panel(axes, panel, styles, kind, published_curves, with_counts=True)
        axes.set_title(style.plain(f"{panel.title}, {group.title}"))
        axes.set(xlabel="steps", ylabel="return")
        labels = {
            f"{label} ({line.count})": styles[label] if len(line.steps) else None
            for label, line in panel.lines.items()
        }
        style.legend(figure, labels, _published_label(shown))
        _caption(figure, kind, [panel])
        return style.figure_files(figure)


def grid(group: Group, kind: str, published_curves: PublishedCurves) -> dict[str, bytes]:
    """All panels of a group as one figure; arguments and result as those of `single`."""
    styles = style.line_styles(group)
    columns = min(len(group.panels), 4 if len(group.panels) in (4, 7, 8) else 3)
    rows = math.ceil(len(group.panels) / columns)
    with style.figure(3.1 * columns + 0.4, 2.4 * rows + 1.1) as figure:
        every = figure.subplots(rows, columns, squeeze=False).ravel()
        shown = False
        for i, (axes, panel) in enumerate(zip(every, group.panels, strict=False)):
            shown |= _panel(axes, panel, styles, kind, published_curves)
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
        labels: dict[str, LineStyle | None] = {}
        for label in group.labels:
            if group.begun(label):
                labels[label] = styles[label]
            else:
                labels[f"{label} (not begun)"] = None
        style.legend(figure, labels, _published_label(shown))
        _caption(figure, kind, group.panels, f"{group.title}: ")
        return style.figure_files(figure)


def _panel(
    axes: Any,
    panel: Panel,
    styles: Mapping[str, LineStyle],
    kind: str,
    published_curves: PublishedCurves,
    with_counts: bool = False,
) -> bool:
    """Draw a panel, and say whether published curves are in it."""
    shown = False
    for label, line in panel.lines.items():
        look = styles[label]
        _line(axes, line.curves[kind], look, with_counts)
        key = published.key(line.cell)
        if key is not None and key in published_curves:
            curves = published_curves[key]
            steps = np.arange(curves.shape[1]) * published.EVERY
            inside = steps <= line.cell.steps
            smoothed = statistics.smooth(curves, bands.WINDOW)[:, inside]
            curve = bands.curve_of(*bands.thin(steps[inside], smoothed), bands.BANDS[kind])
            axes.plot(curve.steps, curve.value, color=look.colour, linestyle=look.dashes, **THIN)
            shown = True
    if not any(len(line.steps) for line in panel.lines.values()):
        axes.text(0.5, 0.5, "no evaluations yet", ha="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
        return shown
    style.steps_axis(axes.xaxis)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    return shown


def _line(axes: Any, curve: bands.Curve, look: LineStyle, with_counts: bool) -> None:
    """Draw a curve with its band, and a tick wherever runs end."""
    sparse = max(1, len(curve.steps) // 8)
    axes.plot(
        *(curve.steps, curve.value),
        color=look.colour,
        linestyle=look.dashes,
        linewidth=1.4,
        marker=look.marker,
        markersize=3.2,
        markevery=(sparse // 2, sparse),
    )
    axes.fill_between(curve.steps, curve.low, curve.high, color=look.colour, alpha=0.16, lw=0)
    for end in curve.ends:
        point = (curve.steps[end], curve.value[end])
        axes.plot(*point, "|", color=look.colour, markersize=9)
        if with_counts:
            above: dict[str, Any] = {
                "xytext": (0, 6),
                "textcoords": "offset points",
                "ha": "center",
            }
            above["bbox"] = {"facecolor": "white", "alpha": 0.7, "pad": 0.4, "linewidth": 0}
            axes.annotate(f"{curve.runs[end + 1]} left", point, fontsize=6, **above)


def _lacking(panel: Panel) -> str:
    """Which lines have runs that are not done, in words."""
    found = [
        f"{formatting.quoted(label)}: {line.count}"
        for label, line in panel.lines.items()
        if not line.done.all()
    ]
    return f"{len(found)} lines lack runs" if len(found) > 2 else "; ".join(found)


def _published_label(shown: bool) -> list[tuple[str, dict[str, Any]]]:
    """The legend's entry for published curves, if there are any in the figure."""
    name = "thin: authors' curves, older tasks"
    return [(name, {"color": "dimgrey", **THIN})] if shown else []


def _caption(figure: Any, kind: str, panels: Sequence[Panel], before: str = "") -> None:
    lines = [line for panel in panels for line in panel.lines.values() if len(line.steps)]
    windows = sorted({line.window for line in lines}) or [bands.WINDOW]
    text = f"{CAPTIONS[kind]}, window {' or '.join(map(str, windows))}"
    figure.suptitle(style.plain(before) + text, fontsize=8, color="dimgrey")
