"""The bootstrap: runs drawn with replacement, and the intervals that follow.

`statistics` says what scores are and what is computed of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from discover_rl.core.types import UserError

Scores: TypeAlias = Any
"""An array of scores, (runs, …), or a mapping from tasks to such arrays."""
Statistic: TypeAlias = Callable[..., Any]
"""`statistic(x, axis=…)`; for several tasks `weights=…` too, one per run, as in `np.average`."""
BLOCK = 2**19
"""How many numbers are gathered at a time: 4 MB, whatever the number of points."""


class Resampling(NamedTuple):
    """How the bootstrap draws.

    Attributes:
        resamples: How many times the runs are drawn.
        level: The share of resamples inside an interval.
        seed: Of the draws.
    """

    resamples: int = 2000
    level: float = 0.95
    seed: int = 0


class Interval(NamedTuple):
    """A statistic and the bounds of its interval, which are None where a task has one run only."""

    value: Any
    low: Any
    high: Any


DEFAULT = Resampling()
"""How intervals of curves and of normalised scores are found."""


def check_scores(x: Any, task: str = "", flat: bool = False) -> np.ndarray:
    """Scores of one task as an array, or a UserError if they are not scores.

    Args:
        x: (runs,) or, unless `flat`, (runs, points).
        task: Its name, for the error's message.
        flat: Whether there must be one number per run.
    """
    of = f" of {task}" if task else ""
    x = np.asarray(x, float)
    if x.ndim == 0 or not x.size or (flat and x.ndim > 1):
        raise UserError(f"Give scores{of}: one number per run, and one run at least.")
    if not np.isfinite(x).all():
        raise UserError(f"Scores{of} must be finite: leave a failed run out, or give it a score.")
    return x


def by_task(scores: Scores, flat: bool = False) -> dict[str, np.ndarray]:
    """Scores as arrays by task, checked; a single array gets the name ''.

    Args:
        scores: of one task or of several.
        flat: refuse curves: each run must have one score.
    """
    if not isinstance(scores, Mapping):
        return {"": check_scores(scores, flat=flat)}
    if not scores:
        raise UserError("Give scores of one task at least.")
    return {task: check_scores(x, task, flat) for task, x in scores.items()}


def same_tasks(first: Scores, second: Scores, flat: bool = False) -> list[dict[str, np.ndarray]]:
    """Both sides as arrays by task, in the same order; a UserError if their tasks differ.

    Args:
        first: the scores of one side.
        second: those of the other.
        flat: as for `by_task`.
    """
    a, b = by_task(first, flat), by_task(second, flat)
    if a.keys() != b.keys():
        odd = ", ".join(sorted(a.keys() ^ b.keys()))
        raise UserError(f"Only scores of the same tasks can be compared; only one side has {odd}.")
    return [a, {task: b[task] for task in a}]


def evaluate(strata: dict[str, np.ndarray], statistic: Statistic) -> Any:
    """The statistic over the runs of all tasks, each task with the same weight."""
    return plain(statistic(np.concatenate([*strata.values()]), axis=0, **_weights(strata)))


def _weights(strata: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Weights that make all tasks count the same; none for one task, so that a statistic without
    weights will do."""
    if len(strata) == 1:
        return {}
    return {"weights": np.concatenate([np.full(len(x), 1 / len(x)) for x in strata.values()])}


def resampled_statistic(
    strata: dict[str, np.ndarray], statistic: Statistic, resampling: Resampling, stream: int = 0
) -> np.ndarray:
    """The statistic of each resample.

    Args:
        strata: Scores by task. Runs are drawn within their task, as many as it has.
        statistic: What is computed of each resample.
        resampling: How many resamples there are, and their seed.
        stream: Different streams of a seed draw independently of each other.

    Returns:
        (resamples, …), with the scores' axes after that of the runs.
    """
    rng = np.random.default_rng([resampling.seed, stream])
    x = np.concatenate([*strata.values()])
    ends = np.cumsum([0, *map(len, strata.values())])
    drawn = [rng.integers(a, b, (resampling.resamples, b - a)) for a, b in itertools.pairwise(ends)]
    picks = np.concatenate(drawn, axis=1)
    points = x.reshape(len(x), -1).T  # runs last: what is sorted lies side by side
    width = max(1, BLOCK // picks.size)
    blocks = (points[i : i + width][:, picks] for i in range(0, len(points), width))
    each = [statistic(block, axis=-1, **_weights(strata)) for block in blocks]
    return np.concatenate(each).T.reshape(resampling.resamples, *x.shape[1:])


def interval_of(
    value: Any, samples: Callable[[], np.ndarray], sides: Sequence[dict], resampling: Resampling
) -> Interval:
    """A value with the bounds that the bootstrap gives it.

    Args:
        value: The statistic itself.
        samples: Computes the statistic of each resample, (resamples, …). Not called if a task has
            one run only: then the bounds are None.
        sides: The scores by task, of each side.
        resampling: Its level is that of the interval.
    """
    if has_single_run(sides):
        return Interval(plain(value), None, None)
    low, high = np.quantile(samples(), tails(resampling), axis=0)
    return Interval(plain(value), plain(low), plain(high))


def tails(resampling: Resampling) -> tuple[float, float]:
    """The quantiles that an interval lies between."""
    return (1 - resampling.level) / 2, (1 + resampling.level) / 2


def has_single_run(sides: Sequence[dict[str, np.ndarray]]) -> bool:
    """Whether a task has one run only, on any side: then nothing is known of its spread."""
    return any(len(x) < 2 for strata in sides for x in strata.values())


def plain(x: Any) -> Any:
    """A Python number in place of an array without axes; other arrays as they are."""
    return float(x) if np.ndim(x) == 0 else x
