"""`discover theory`: Theorem 1 and Corollary 1 of the paper, measured in tables and drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from discover_rl.theory import Cell

# Label, colour (of Okabe and Ito's palette, made for all kinds of colour vision), marker, line.
LOOKS = {
    "random": ("random", "#D55E00", "o", "--"),
    "epsilon": ("ε-greedy", "#E69F00", "s", "-."),
    "local": ("max. TD error, this state only", "#009E73", "^", ":"),
    "directed": ("max. TD error, anywhere", "#0072B2", "D", "-"),
}
TITLES = {"chain": "Chain with resets", "drift": "Drift away from the goal"}
Measured = dict[str, dict[str, list["Cell"]]]


def theory(
    out: Annotated[Path, typer.Option(help="Folder for figure and numbers.")] = Path("runs/theory"),
    states: Annotated[int, typer.Option(min=8, help="Largest number of states.")] = 64,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds: 0, 1, …")] = 15,
    cap: Annotated[int, typer.Option(min=1, help="Actions after which a run is given up.")] = (
        100_000
    ),
) -> None:
    """Actions until the policy is optimal, against the number of states: undirected exploration
    and exploration by maximum TD error, in tables."""
    from discover_rl import theory as room
    from discover_rl.display import console, say

    sizes = [size for size in room.SIZES if size <= states]
    measured: Measured = {
        task: {name: room.measure(task, name, sizes, seeds, cap) for name in room.STRATEGIES}
        for task in room.TASKS
    }
    out.mkdir(parents=True, exist_ok=True)
    numbers = _numbers(measured, sizes, seeds, cap)
    (out / "theory.json").write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")
    _draw(measured, cap, out)
    for task, strategies in measured.items():
        console.print(_table(task, strategies))
    say(
        "n: the largest with a median. ±: root mean square of what the fit leaves, in doublings. "
        f"capped: n: how many of {seeds} seeds were over {cap:,} actions; once there is no median, "
        "larger n are not tried.\n"
    )
    for sentence in sentences(measured):
        say(sentence)
    say(f"Figure and numbers: {out / 'theory.png'}, theory.svg, theory.json")


def sentences(measured: Measured) -> list[str]:
    """What was seen, and what that does not say."""
    said, sizes, below, under, share = [], 0, 0, 0, 0.0
    for task, cells in measured.items():
        said.append("")
        # Sizes rise, so what one of them has no median for, nobody is asked about.
        for each in zip(cells["random"], cells["local"], cells["directed"], strict=False):
            random, local, directed = (cell.median for cell in each)
            if random is None or local is None or directed is None:
                break
            sizes, bound = sizes + 1, each[0].bound
            below, under = below + (directed <= random), under + (random <= bound)
            share = max(share, directed / bound)
            said[-1] = (
                f"{TITLES[task]}, {each[0].states} states, medians: random {random:,}, largest TD "
                f"error of the present state {local:,}, anywhere {directed:,}."
            )
    said.append(
        f"Going to the largest TD error took no more actions than random ones in {below} of "
        f"{sizes} sizes that have all medians, and at most {share:.1%} of the bound with 1 for its "
        f"constant. Random actions were under that bound, too, in {under} of them: at such sizes "
        f"it is growth that tells them apart, not the bound."
    )
    return [
        *filter(None, said),
        "Where all errors of a state are 0, looking at them alone is choosing at random: the bound "
        "is for an agent that knows its way to the largest error.",
        "Fits describe these two tasks and sizes. They prove no growth beyond, and say nothing of "
        "other tasks, of noise or of function approximation.",
    ]


def _table(task: str, strategies: dict[str, list[Cell]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from discover_rl.theory import fit

    title = f"{TITLES[task]}: actions until every value is true"
    slim: dict[str, Any] = {"padding": (0, 1, 0, 0), "pad_edge": False}  # 80 columns hold it
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, **slim)
    names = ("strategy", "n", "median", "quartiles", "a, 2^(an)", "b, n^b", "capped")
    for i, name in enumerate(names):
        table.add_column(name, justify="left" if i in (0, 6) else "right", overflow="fold")
    for strategy, cells in strategies.items():
        last = next((cell for cell in reversed(cells) if cell.median is not None), cells[-1])
        fitted = fit(cells)
        growth = ("–", "–")
        if fitted is not None:
            growth = (
                f"{fitted.doublings:.2f} ±{fitted.exponential_error:.2f}",
                f"{fitted.exponent:.2f} ±{fitted.power_error:.2f}",
            )
        spread = "–".join(_number(last.quantile(share)) for share in (0.25, 0.75))
        over = ", ".join(f"{cell.states}: {cell.censored}" for cell in cells if cell.censored)
        table.add_row(
            *(strategy, str(last.states), _number(last.median), spread, *growth, over or "none")
        )
    return table


def _number(actions: int | None) -> str:
    return ">cap" if actions is None else f"{actions:,}"


def _numbers(measured: Measured, sizes: list[int], seeds: int, cap: int) -> dict[str, Any]:
    """All of it, for a file. None is beyond the cap."""
    from discover_rl import theory as room

    results = []
    for task, strategies in measured.items():
        for strategy, cells in strategies.items():
            fitted = room.fit(cells)
            results.append(
                {
                    "task": task,
                    "strategy": strategy,
                    "cells": [
                        {
                            "states": cell.states,
                            "actions": cell.actions,
                            "quartiles": [cell.quantile(share) for share in (0.25, 0.5, 0.75)],
                            "censored": cell.censored,
                            "bound": cell.bound,
                        }
                        for cell in cells
                    ],
                    "not_tried": sizes[len(cells) :],
                    "fit": fitted and fitted._asdict(),
                }
            )
    settings = {"gamma": room.GAMMA, "epsilon": room.EPSILON, "sizes": sizes}
    return {"settings": settings | {"seeds": seeds, "cap": cap}, "results": results}


def _draw(measured: Measured, cap: int, out: Path) -> None:
    """Medians with quartiles against states, the closer fit, the bound, and what met the cap."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Figure, not pyplot, which would keep it; a fixed salt and no date, so that the same numbers
    # give the same file.
    with mpl.rc_context({"svg.hashsalt": "discover_rl", "font.size": 11}):
        figure = Figure(figsize=(10, 5.6), layout="constrained")
        panels = figure.subplots(1, len(measured), sharey=True)
        for axes, (task, strategies) in zip(panels, measured.items(), strict=True):
            _panel(axes, strategies, cap)
            axes.set(xlabel="states n", title=TITLES[task])
        panels[0].set_ylabel("actions until every value is true")
        figure.savefig(out / "theory.png", dpi=150, metadata={"Software": None})
        figure.savefig(out / "theory.svg", metadata={"Date": None})


def _panel(axes: Any, strategies: dict[str, list[Cell]], cap: int) -> None:
    import numpy as np

    from discover_rl.theory import fit

    for strategy, cells in strategies.items():
        label, colour, marker, line = LOOKS[strategy]
        known = [cell for cell in cells if cell.median is not None]
        n = np.array([cell.states for cell in known])
        low, middle, high = (
            np.array([cell.quantile(share) or cap for cell in known], float)
            for share in (0.25, 0.5, 0.75)
        )
        fitted = fit(cells)
        if fitted is not None:
            power = f"$n^{{{fitted.exponent:.1f}}}$"
            label += f": $2^{{{fitted.doublings:.2f}n}}$" if fitted.exponential else f": {power}"
            x = np.linspace(n[0], n[-1], 200)
            slope, scale = (
                (fitted.doublings, lambda v: v)
                if fitted.exponential
                else (fitted.exponent, np.log2)
            )
            start = np.mean(np.log2(middle) - slope * scale(n))
            axes.plot(x, 2 ** (slope * scale(x) + start), line, color=colour, linewidth=1.3)
        bars = np.stack([middle - low, high - middle])
        style = {"color": colour, "markersize": 6, "capsize": 3, "linestyle": "none"}
        axes.errorbar(n, middle, yerr=bars, marker=marker, label=label, **style)
        over = [cell.states for cell in cells if cell.median is None]
        axes.plot(over, [cap] * len(over), marker, color=colour, fillstyle="none", markersize=9)
    directed = strategies["directed"]
    n, bound = [c.states for c in directed], [c.bound for c in directed]
    axes.plot(n, bound, color="black", linewidth=1, label="bound: $(d^2m + m^2)\\,n^2$")
    axes.axhline(cap, color="grey", linewidth=0.8, linestyle=(0, (1, 3)))
    axes.annotate("hollow: over the cap", (n[-1], cap), ha="right", va="bottom", size=9)
    axes.set(xscale="log", yscale="log")
    axes.set_ylim(top=bound[-1] * 1000)  # room for the legend
    axes.set_xticks(n, [str(size) for size in n], fontsize=9)
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9, loc="upper left")
