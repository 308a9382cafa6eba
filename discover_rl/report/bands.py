"""Learning curves of several runs: smoothing, thinning, and the bands around them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from discover_rl.report import statistics
from discover_rl.report.resampling import Interval

WINDOW = 5
"""How many evaluations curves are smoothed over, as in the paper; fewer where there are few."""
POINTS = 250
"""Curves are drawn, and reached levels sought, at no more points than this, after smoothing."""
BANDS: dict[str, Callable[[Any], Interval]] = {
    "paper": statistics.half_sd_band,
    "iqm": statistics.bootstrap,
}
"""The two kinds of curves: mean and half a standard deviation to either side, as in the paper; IQM
and its 95 % interval."""


class Curve(NamedTuple):
    """A cell's learning curve, at each step over the runs that were evaluated there.

    All are arrays, (points,). Where there is one run only, the bounds are NaN.
    """

    steps: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    runs: np.ndarray  # how many there are

    @property
    def ends(self) -> list[int]:
        """Indices of the points after which there are fewer runs."""
        return [int(i) for i in np.flatnonzero(np.diff(self.runs) < 0)]


def window_of(evaluations: int, window: int = WINDOW) -> int:
    """How many evaluations a curve is smoothed over: at most `window`, and a tenth of all.

    >>> window_of(1001), window_of(51), window_of(30), window_of(9)
    (5, 5, 3, 1)
    """
    return min(window, max(1, evaluations // 10))


def thin(
    steps: np.ndarray, curves: np.ndarray, points: int = POINTS
) -> tuple[np.ndarray, np.ndarray]:
    """Keep every k-th point, counted from the last one, with the smallest k that leaves few enough.

    Args:
        steps: (all points,)
        curves: (runs, all points)
        points: How many may be left.

    Returns:
        Steps and curves at the points that are left.

    >>> thin(np.arange(5), np.arange(5)[None], points=3)[0].tolist()
    [0, 2, 4]
    """
    stride = max(1, -(-len(steps) // points))
    keep = np.arange(len(steps) - 1, -1, -stride)[::-1]
    return steps[keep], curves[:, keep]


def curve_of(steps: np.ndarray, curves: np.ndarray, band: Callable[[Any], Interval]) -> Curve:
    """The curve of several runs.

    Args:
        steps: (points,)
        curves: (runs, points); NaN where a run was not evaluated.
        band: Takes the curves of the runs that are there and returns value and bounds. Stretches
            in which other runs are there are computed by themselves.
    """
    there = np.isfinite(curves)
    value, low, high = np.full((3, len(steps)), np.nan)
    changes = np.flatnonzero((there[:, 1:] != there[:, :-1]).any(axis=0)) + 1
    for a, b in itertools.pairwise([0, *changes, len(steps)]):
        rows = there[:, a : a + 1].any(axis=1)
        if a < b and rows.any():
            interval = band(curves[rows, a:b])
            value[a:b] = interval.value
            if interval.low is not None:
                low[a:b], high[a:b] = interval.low, interval.high
    return Curve(steps, value, low, high, there.sum(axis=0))


def smooth_runs(scores: np.ndarray, window: int) -> np.ndarray:
    """Smooth each run over its own evaluations; between them it keeps the last value.

    Takes and returns (runs, points); NaN where a run was not evaluated.
    """
    if np.isfinite(scores).all():
        return statistics.smooth(scores, window)
    smoothed = np.full(scores.shape, np.nan)
    for row, run in zip(smoothed, scores, strict=True):
        (own,) = np.isfinite(run).nonzero()
        if own.size:
            until = slice(own[0], own[-1] + 1)
            latest = np.searchsorted(own, np.arange(len(run))[until], side="right") - 1
            row[until] = statistics.smooth(run[own][None], window)[0][latest]
    return smoothed
