"""Tables for a terminal and sentences about the measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discover_rl.analysis.theory.measurement import (
    IRREGULAR,
    Cell,
    Measured,
    Ratio,
    growth,
    pairs,
    ratio,
)

if TYPE_CHECKING:
    from rich.table import Table

SURE = 0.9
"""Share of the bootstrap's samples that must agree on the kind of growth."""
BOUNDED = ("chain", "drift", "room")
"""Tasks that Theorem 1 is about: no noise, and a goal that stays."""


def growth_table(measured: Measured, cap: int) -> Table:
    """A table of growth by agent and task: its interval, and the median at the largest size that
    has one below the cap."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = "Actions until the policy is optimal, against the number of states n"
    slim: dict[str, Any] = {"padding": (0, 1, 1, 0), "pad_edge": False}  # to fit 80 columns
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, **slim)
    table.add_column("agent")
    for task in measured:
        table.add_column(task)
    for agent in next(iter(measured.values())):
        cells = [growth_cell(agents[agent], cap) for agents in measured.values()]
        table.add_row(agent.replace("-", "\n-"), *("\n".join(lines) for lines in cells))
    return table


def growth_cell(cells: list[Cell], cap: int) -> tuple[str, str, str]:
    """One entry of the table: growth, its 95 % interval, and the last median with its size."""
    grown = growth(cells, cap)
    last = next((cell for cell in reversed(cells) if cell.median is not None), None)
    if last is None:
        return "never", "–", f"n = {cells[0].states}: > cap"
    median = f"{last.median:,} at {last.states}"
    if grown is None:
        return "no line", "–", median
    if grown.closer.distance > IRREGULAR:
        return "irregular", "–", median
    slope = f"{grown.closer.slope:.2f}"
    kind = f"2^{slope}n" if grown.is_exponential else f"n^{slope}"
    low, high = grown.closer.interval
    return kind + ("" if grown.share >= SURE else " ?"), f"{low:.2f}–{high:.2f}", median


def ratio_table(measured: Measured) -> Table:
    """A table of actions with TD errors over actions without, by pair of agents and by task."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = "What TD errors add to novelty: actions with them / without"
    slim: dict[str, Any] = {"padding": (0, 1, 1, 0), "pad_edge": False}
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, **slim)
    table.add_column("agents")
    for task in measured:
        table.add_column(task)
    for agent, other in pairs(next(iter(measured.values()))).items():
        found = [ratio(agents[agent], agents[other]) for agents in measured.values()]
        table.add_row(f"{agent} /\n{other}".replace("-", "\n-"), *map(_ratio, found))
    return table


def sentences(measured: Measured, seeds: int, cap: int) -> list[str]:
    """How to read the tables, and what follows from them.

    Args:
        measured: Cells by task and agent.
        seeds: How many seeds of each size.
        cap: The number of actions after which a run was given up.
    """
    return [
        f"First line: the closer one of 2^(an) and n^b, fitted to medians of {seeds} seeds; "
        "? if more than a tenth of the bootstrap's samples say the other one. Second line: 95 % "
        "interval of a or b, over seeds. Third: the median at the largest n that has one below "
        f"the cap of {cap:,} actions. never: not even the smallest. irregular: neither curve fits.",
        *_on_errors(measured),
        *_on_the_bound(measured),
        "Fits describe these tasks and sizes. They prove no growth beyond them, and say nothing of "
        "networks.",
    ]


def _on_errors(measured: Measured) -> list[str]:
    """How often TD errors helped agents that learn values one step at a time, and how often those
    that plan or replay."""
    lines = []
    for kind, planning in (
        ("values learned without a model", False),
        ("planners and replay", True),
    ):
        fewer = more = total = 0
        for agents in measured.values():
            for agent, other in pairs(agents).items():
                found = ratio(agents[agent], agents[other])
                if found is None or (agent not in ("optimism", "both")) != planning:
                    continue
                total += 1
                fewer += found.interval[1] < 1.0
                more += found.interval[0] > 1.0
        lines.append(
            f"TD errors beside novelty, {kind}: fewer actions in {fewer} of {total} comparisons, "
            f"more in {more}, by 95 % intervals of the ratio."
        )
    return lines


def _on_the_bound(measured: Measured) -> list[str]:
    """How far below Theorem 1's bound the planner is, and how far random actions are."""
    shares: dict[str, list[float]] = {}
    for agent in ("planner", "random"):
        cells = [cell for task in BOUNDED if task in measured for cell in measured[task][agent]]
        shares[agent] = [cell.median / cell.bound for cell in cells if cell.median is not None]
    planned, random = (max(shares[agent], default=0.0) for agent in ("planner", "random"))
    return [
        f"Theorem 1's bound with 1 for its constant, on {', '.join(BOUNDED)}: the planner's "
        f"medians are at most {planned:.1%} of it, those of random actions, where there are any, "
        f"at most {random:.1%}. What tells them apart at such sizes is growth, not the bound."
    ]


def _ratio(found: Ratio | None) -> str:
    """One entry of the table of ratios."""
    if found is None:
        return "–"
    low, high = found.interval
    return f"{_short(found.ratio)}\n{_short(low)}–{_short(high)}\nat {found.states}"


def _short(number: float) -> str:
    if number == float("inf"):
        return "∞"
    return f"{number:.3f}" if number < 0.1 else f"{number:.2f}"
