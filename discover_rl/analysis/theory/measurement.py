"""Growth of the actions until the policy is optimal, with intervals.

A cell is a task, an agent and a number of states n, with one count of actions per seed. A count
over the cap is larger than every other, so the median of a cell is known as long as less than half
of its seeds are over the cap. Growth is a straight line, by least squares, through log₂ of the
medians:

    log₂ actions = a n + …         exponential, actions ~ 2^(an)
    log₂ actions = b log₂ n + …    power, actions ~ n^b

The line that is closer, by the root of its mean squared distance in doublings, is called the
growth. The first size whose median is over the cap counts in that distance, too: a line that stays
below the cap there is off by the difference. It does not change the lines.

Intervals are 95 % intervals of a bootstrap: seeds are drawn with replacement within each cell, and
medians and lines are computed anew. They say what other seeds would do, not what other sizes would.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from discover_rl.analysis.theory.agents import AGENTS, EPSILON, GAMMA_X, VARIANTS
from discover_rl.analysis.theory.learning import count
from discover_rl.analysis.theory.tasks import GAMMA, TASKS

SIZES = (4, 6, 8, 10, 12, 14, 16, 24, 32, 48, 64)
"""Numbers of states that are measured."""
RESAMPLES = 2000
"""Samples of the bootstrap."""
LEVELS = (0.025, 0.975)
"""The quantiles that an interval lies between."""
LINE_SIZES = 3
"""The least number of sizes for a line: two always lie on one."""
IRREGULAR = 1.0
"""If the closer line is off by more doublings than this, growth is called irregular."""
PAIRS = {
    "optimism": "novelty",
    "both": "counts",
    "planner": "planner-novelty",
    "planner-both": "planner-counts",
    "both-replay": "counts-replay",
}
"""Agents that differ in one thing: the first one follows TD errors, too."""


class Cell(NamedTuple):
    """Counts of one task, agent and number of states.

    Attributes:
        states: n.
        actions: One count per seed, the smallest first; None is over the cap.
        runs: How many seeds were run. Once half of them are over the cap there is no median; the
            other seeds are not run, and are None, too.
        bound: Theorem 1's bound, with 1 for its constant.
    """

    states: int
    actions: tuple[int | None, ...]
    runs: int
    bound: int

    def quantile(self, share: float) -> int | None:
        """The count below which this share of the counts lies; None if it is over the cap."""
        return self.actions[round(share * (len(self.actions) - 1))]

    @property
    def median(self) -> int | None:
        """The middle one of the counts."""
        return self.quantile(0.5)

    @property
    def capped(self) -> int:
        """How many seeds were over the cap."""
        return self.actions.count(None) - (len(self.actions) - self.runs)


class Line(NamedTuple):
    """A straight line through logarithms of medians: its slope with an interval, and its distance
    from them in doublings."""

    slope: float
    interval: tuple[float, float]
    distance: float


class Growth(NamedTuple):
    """How actions grow with the number of states.

    Attributes:
        sizes: How many sizes have a median.
        exponential: The line over n; its slope is a of 2^(an).
        power: The line over log₂ n; its slope is b of n^b.
        share: In which share of the bootstrap's samples the same line lies closer.
    """

    sizes: int
    exponential: Line
    power: Line
    share: float

    @property
    def is_exponential(self) -> bool:
        """Whether 2^(an) fits the counts better than n^b."""
        return self.exponential.distance < self.power.distance

    @property
    def closer(self) -> Line:
        """The line that fits better."""
        return self.exponential if self.is_exponential else self.power


class Ratio(NamedTuple):
    """Median actions of one agent over those of another, at one number of states."""

    states: int
    ratio: float
    interval: tuple[float, float]


Measured = dict[str, dict[str, list[Cell]]]
"""Cells by task and agent, in order of size."""


def measure(task: str, agent: str, sizes: Sequence[int], seeds: int, cap: int) -> list[Cell]:
    """Measure one task and agent.

    Args:
        task: A name in TASKS.
        agent: A name in AGENTS or VARIANTS.
        sizes: Numbers of states.
        seeds: How many seeds of each size: 0, 1, …
        cap: The number of actions after which a run is given up.

    Returns:
        One cell per size, smallest first, up to the first size without a median.
    """
    cells, explorer = [], (AGENTS | VARIANTS)[agent]
    for states in sorted(sizes):
        made, counts = TASKS[task](states), []
        for seed in range(seeds):
            rng = np.random.default_rng([0, states, seed])
            counts.append(count(made, explorer, rng, cap))
            if 2 * counts.count(None) > seeds:
                break
        known = sorted(actions for actions in counts if actions is not None)
        actions = (*known, *[None] * (seeds - len(known)))
        cells.append(Cell(states=states, actions=actions, runs=len(counts), bound=made.bound))
        if cells[-1].median is None:
            break
    return cells


def growth(cells: Sequence[Cell], cap: int) -> Growth | None:
    """Fit both lines to the cells of one task and agent, of which runs were given up after `cap`
    actions. None if fewer than three sizes have a median."""
    return _growth(tuple(cells), cap)


@functools.cache
def _growth(cells: tuple[Cell, ...], cap: int) -> Growth | None:
    known = [cell for cell in cells if cell.median is not None]
    if len(known) < LINE_SIZES:
        return None
    over = next((cell.states for cell in cells if cell.median is None), None)
    states = np.array([cell.states for cell in known], float)
    medians = np.array([[cell.median for cell in known]], float)
    samples = np.stack([_medians(cell) for cell in known], axis=1)
    lines, distances = [], []
    for scale in (np.asarray, np.log2):
        end = None if over is None else (float(scale(float(over))), float(np.log2(cap)))
        slope, distance = _fit(scale(states), medians, end)
        slopes, distant = _fit(scale(states), samples, end)
        low, high = np.nanquantile(slopes, LEVELS)
        lines.append(
            Line(slope=slope.item(), interval=(float(low), float(high)), distance=distance.item())
        )
        distances.append(distant)
    alike = (distances[0] < distances[1]) == (lines[0].distance < lines[1].distance)
    return Growth(
        sizes=len(known),
        exponential=lines[0],
        power=lines[1],
        share=float(alike[np.isfinite(distances[0])].mean()),
    )


def ratio(first: Sequence[Cell], second: Sequence[Cell]) -> Ratio | None:
    """Medians of the first cells over those of the second, at the largest size that both have.

    None if there is no such size.
    """
    pairs = [(a, b) for a, b in zip(first, second, strict=False) if a.median and b.median]
    if not pairs:
        return None
    above, below = pairs[-1]
    assert above.median is not None
    assert below.median is not None
    with np.errstate(invalid="ignore"):  # ∞ / ∞, over the cap in both, says nothing: NaN
        samples = _medians(above, 1) / _medians(below, 2)
    low, high = np.nanquantile(samples, LEVELS, method="inverted_cdf")
    return Ratio(
        states=above.states,
        ratio=above.median / below.median,
        interval=(float(low), float(high)),
    )


def pairs(agents: dict[str, list[Cell]]) -> dict[str, str]:
    """Return those of PAIRS that were measured."""
    return {agent: other for agent, other in PAIRS.items() if agent in agents}


def numbers(measured: Measured, sizes: Sequence[int], seeds: int, cap: int) -> dict[str, Any]:
    """Everything that was measured, ready for a JSON file; None is a count over the cap.

    Args:
        measured: Cells by task and agent.
        sizes: The numbers of states that were asked for.
        seeds: How many seeds of each size.
        cap: The number of actions after which a run was given up.
    """
    results, ratios = [], []
    for task, agents in measured.items():
        for agent, cells in agents.items():
            grown = growth(cells, cap)
            results.append(
                {
                    "task": task,
                    "agent": agent,
                    "cells": [
                        {
                            "states": cell.states,
                            "actions": cell.actions[: cell.runs],
                            "quartiles": [cell.quantile(share) for share in (0.25, 0.5, 0.75)],
                            "capped": cell.capped,
                            "not_run": seeds - cell.runs,
                            "bound": cell.bound,
                        }
                        for cell in cells
                    ],
                    "not_tried": list(sizes[len(cells) :]),
                    "growth": grown
                    and {
                        "kind": "exponential" if grown.is_exponential else "power",
                        "share": grown.share,
                        "exponential": grown.exponential._asdict(),
                        "power": grown.power._asdict(),
                    },
                }
            )
        for agent, other in pairs(agents).items():
            found = ratio(agents[agent], agents[other])
            names = {"task": task, "agent": agent, "other": other}
            ratios.append(names | (_finite(found._asdict()) if found else {"ratio": None}))
    settings = {"gamma": GAMMA, "gamma_x": GAMMA_X, "epsilon": EPSILON, "sizes": list(sizes)}
    settings |= {"seeds": seeds, "cap": cap, "resamples": RESAMPLES}
    return {"settings": settings, "results": results, "ratios": ratios}


def _finite(found: dict[str, Any]) -> dict[str, Any]:
    """A ratio whose interval has None for ends over the cap: JSON has no ∞."""
    low, high = (end if np.isfinite(end) else None for end in found["interval"])
    return found | {"interval": (low, high)}


def _medians(cell: Cell, stream: int = 0) -> np.ndarray:
    """Medians of the bootstrap's samples, (RESAMPLES,); ∞ is over the cap."""
    rng = np.random.default_rng([stream, cell.states])
    size = len(cell.actions)
    actions = np.array([np.inf if count is None else count for count in cell.actions])
    drawn = np.sort(actions[rng.integers(size, size=(RESAMPLES, size))], axis=1)
    return drawn[:, round(0.5 * (size - 1))]


def _fit(
    x: np.ndarray, medians: np.ndarray, end: tuple[float, float] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Least squares through log₂ of the medians, over each row.

    Args:
        x: (sizes,) what the line is over.
        medians: (rows, sizes) counts; ∞ is left out, and a row with fewer than three is NaN.
        end: Where the median is over the cap, and log₂ of the cap.

    Returns:
        Slopes, and the roots of the mean squared distances; (rows,) each.
    """
    known = np.isfinite(medians)
    y = np.log2(np.where(known, medians, 1.0))
    n = np.where(known.sum(axis=1) < LINE_SIZES, np.nan, known.sum(axis=1))
    middle_x, middle_y = ((known * values).sum(axis=1) / n for values in (x, y))
    dx, dy = known * (x - middle_x[:, None]), known * (y - middle_y[:, None])
    slope = (dx * dy).sum(axis=1) / (dx**2).sum(axis=1)
    squares = ((dy - slope[:, None] * dx) ** 2).sum(axis=1)
    if end is not None:
        short = np.maximum(end[1] - middle_y - slope * (end[0] - middle_x), 0.0)
        squares, n = squares + short**2, n + 1
    return slope, np.sqrt(squares / n)
