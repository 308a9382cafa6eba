"""The figure: medians against the number of states for each task, and what TD errors add."""

from __future__ import annotations

from typing import Any

import numpy as np

from discover_rl.analysis.theory.measurement import (
    IRREGULAR,
    PAIRS,
    Cell,
    Measured,
    growth,
    ratio,
)
from discover_rl.analysis.theory.report import BOUNDED, SURE

STYLES = {
    "random": ("random", "#D55E00", "o", "--"),
    "local": ("TD error, this state only", "#009E73", "^", ":"),
    "errors": ("value of TD errors, no optimism", "#E69F00", "s", "-."),
    "optimism": ("value of TD errors, optimism", "#CC79A7", "v", "-"),
    "novelty": ("value of novelty", "#56B4E9", "P", "--"),
    "planner": ("planner, TD error anywhere", "#0072B2", "D", "-"),
}
"""Agents that are drawn: label, colour (of Okabe and Ito's palette, made for all kinds of colour
vision), marker and line."""
RATIOS = {
    "optimism": ("value, until tried", "#CC79A7", "v"),
    "both": ("value, by visits", "#666666", "X"),
    "planner": ("planner, until tried", "#0072B2", "D"),
    "planner-both": ("planner, by visits", "#56B4E9", "o"),
}
"""Agents of which the ratio is drawn: label, colour and marker."""
TITLES = {
    "chain": "Chain with resets",
    "drift": "Drift away from the goal",
    "room": "Chain with a side room",
    "noisy": "Chain with a noisy state",
    "moving": "Goal that moves once",
}
"""Titles of the tasks' panels."""
DPI = 130
"""Resolution of the PNG file."""


def draw(measured: Measured, cap: int) -> dict[str, bytes]:
    """Draw a panel per task, and one for the ratio of actions with TD errors and without.

    Args:
        measured: Cells by task and agent.
        cap: The number of actions after which runs were given up.

    Returns:
        Files by name.
    """
    from discover_rl.report import style

    with style.figure(11, 7.4, {"font.size": 11}) as figure:
        panels = figure.subplots(2, 3).ravel()
        for axes, (task, agents) in zip(panels, measured.items(), strict=False):
            _panel(axes, task, agents, cap)
        for axes in panels[:5]:
            axes.set_xlabel("states n")
        for axes in (panels[0], panels[3]):
            axes.set_ylabel("actions until the policy is optimal")
        _ratios(panels[5], measured)
        handles = [_handle(*look) for look in STYLES.values()]
        handles.append(_handle("Theorem 1's bound", "black", "", "-"))
        handles.append(_handle("hollow: over the cap", "grey", "o", "", fillstyle="none"))
        place: dict[str, Any] = {"loc": "outside upper center", "ncols": 4}
        figure.legend(handles=handles, **place, fontsize=10, frameon=False)
        files = style.figure_files(figure, DPI)
    return {f"theory.{suffix}": content for suffix, content in files.items()}


def _panel(axes: Any, task: str, agents: dict[str, list[Cell]], cap: int) -> None:
    """Draw the curves of a task, Theorem 1's bound where it holds, and the cap."""
    for agent in STYLES:
        _curve(axes, agent, agents[agent], cap)
    bounded = [cell for cell in agents["planner"] if task in BOUNDED]
    bounds = [cell.bound for cell in bounded]
    axes.plot([cell.states for cell in bounded], bounds, color="black", linewidth=1)
    axes.axhline(cap, color="grey", linewidth=0.8, linestyle=(0, (1, 3)))
    axes.set(xscale="log", yscale="log", ylim=(5, cap * 100), title=TITLES[task])
    n = [cell.states for cell in agents["novelty"]]
    axes.set_xticks(n, [str(size) if size not in (14, 48) else "" for size in n], fontsize=9)
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)
    axes.legend(
        fontsize=9, loc="upper left", ncols=2, handletextpad=0.2, columnspacing=1, framealpha=1
    )


def _curve(axes: Any, agent: str, cells: list[Cell], cap: int) -> None:
    """Medians with quartiles, the closer fit, and the first size that is over the cap, hollow."""
    _, colour, marker, line = STYLES[agent]
    known = [cell for cell in cells if cell.median is not None]
    n = np.array([cell.states for cell in known])
    low, middle, high = (
        np.array([cell.quantile(share) or cap for cell in known], float)
        for share in (0.25, 0.5, 0.75)
    )
    label, grown = "none", growth(cells, cap)
    if grown is not None and grown.closer.distance <= IRREGULAR:
        slope = grown.closer.slope
        label = f"$2^{{{slope:.2f}n}}$" if grown.is_exponential else f"$n^{{{slope:.1f}}}$"
        label += "" if grown.share >= SURE else " ?"
        scale = np.asarray if grown.is_exponential else np.log2
        x = np.linspace(n[0], n[-1], 200)
        start = np.mean(np.log2(middle) - slope * scale(n))
        axes.plot(x, 2 ** (slope * scale(x) + start), line, color=colour, linewidth=1.3)
    style = {"color": colour, "markersize": 5, "capsize": 2, "linestyle": "none", "label": label}
    axes.errorbar(n, middle, yerr=np.stack([middle - low, high - middle]), marker=marker, **style)
    over = [cell.states for cell in cells if cell.median is None]
    axes.plot(over, [cap] * len(over), marker, color=colour, fillstyle="none", markersize=8)


def _ratios(axes: Any, measured: Measured) -> None:
    """Ratios with their intervals, a row per task."""
    for shift, (agent, look) in zip((-0.3, -0.1, 0.1, 0.3), RATIOS.items(), strict=True):
        label, colour, marker = look
        rows, points, below, above = [], [], [], []
        for row, agents in enumerate(measured.values()):
            found = ratio(agents[agent], agents[PAIRS[agent]])
            if found is not None:
                rows.append(row + shift)
                points.append(found.ratio)
                below.append(found.ratio - found.interval[0])
                above.append(min(found.interval[1], 100.0) - found.ratio)
        style = {"color": colour, "marker": marker, "markersize": 6, "capsize": 3}
        axes.errorbar(points, rows, xerr=[below, above], linestyle="none", label=label, **style)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set(xscale="log", xlim=(0.002, 9.0), title="TD errors beside novelty")
    axes.set_xlabel("actions with TD errors / without")
    axes.set_xticks([0.01, 0.1, 1, 4], ["0.01", "0.1", "1", "4"])
    axes.set_xticks([], minor=True)
    axes.set_yticks(range(len(measured)), list(measured))
    axes.set_ylim(len(measured) + 1.7, -0.5)  # room for the legend
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9, loc="lower left")


def _handle(label: str, colour: str, marker: str, line: Any, **style: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, marker=marker, linestyle=line, label=label, **style)
