"""How much of the state space two runs cover, and how much of it they share.

States of both runs are standardised together and put on the first principal axes of both, and this
space is divided into cubes of half a standard deviation. With p and q the shares of two samples in
each cube,

    coverage = cubes that a sample is in / cubes that either run is in at any time
    overlap  = Σ min(p, q)

Even two samples of the same distribution do not overlap completely. So a sample is a random half of
a run's episodes. The overlap within a run is that of its two halves, the overlap between runs that
of one half of each: all samples have the same size. A run with fewer than four episodes is not
split, because a half would be a single episode, and its overlap is not given.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from discover_rl.analysis.visitation.states import STAGES, VisitedStates, evenly, stage_of

AXES = 4
"""How many principal axes there are, as in the paper."""
CUBE = 0.5
"""Side of a cube, in standard deviations of a state's numbers."""
MEASURED = 100_000
"""How many states of a run are measured, at most."""
FEWEST_EPISODES = 4
"""The smallest number of episodes of a run that is split. Two single episodes may have nothing in
common even if the policy stayed the same."""
SPLITS = 50
"""How many times a run's episodes are divided into halves."""


class Axes(NamedTuple):
    """Principal axes of some states; called with states, it returns their coordinates.

    Attributes:
        mean: (observation,) the origin.
        directions: (observation, axes)
        explained: The share of the variance along these axes.
    """

    mean: np.ndarray
    directions: np.ndarray
    explained: float

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """Coordinates, (n, axes), of states, (n, observation)."""
        return (states - self.mean) @ self.directions


def principal_axes(states: np.ndarray) -> Axes:
    """The first principal axes of states, (n, observation)."""
    mean = states.mean(axis=0)
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(states - mean, rowvar=False)))
    variances, directions = variances[::-1], directions[:, ::-1][:, :AXES]
    # A direction may have either sign. Its largest number is made positive, so that the same
    # states always have the same axes.
    largest = np.abs(directions).argmax(axis=0)
    directions = directions * np.sign(directions[largest, np.arange(directions.shape[1])])
    total = variances.sum()
    return Axes(mean, directions, float(variances[:AXES].sum() / total) if total else 1.0)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Σ min(p, q) of two samples, given as counts per cube, (cubes,) each.

    >>> overlap(np.array([2, 2]), np.array([0, 5]))
    0.5
    """
    return float(np.minimum(a / a.sum(), b / b.sum()).sum())


class Sample(NamedTuple):
    """Some states of a run: the number of the cube and of the episode of each, (n,)."""

    cubes: np.ndarray
    episode: np.ndarray


def measure(runs: Sequence[VisitedStates], seed: int) -> dict[str, Any]:
    """Coverage and overlap of two runs, in every stage and as a whole.

    Args:
        runs: Two of them, of one task.
        seed: Of the division into halves.

    Returns:
        How many states and cubes there are, the variance that the common axes explain, coverage
        and overlap by stage (None where a run has too few episodes to split), and, for comparison,
        the overlap of runs that are each on their own
        principal axes; ready for JSON.
    """
    count = min(MEASURED, *(len(run.replay.obs) for run in runs))
    picks = [evenly(len(run.replay.obs), count) for run in runs]
    states = [run.replay.obs[pick].astype(float) for run, pick in zip(runs, picks, strict=True)]
    deviation = np.concatenate(states).std(axis=0)
    states = [own / np.where(deviation > 0, deviation, 1.0) for own in states]
    common = principal_axes(np.concatenate(states))
    episodes = [run.episodes[pick] for run, pick in zip(runs, picks, strict=True)]
    on_common = _samples([common(own) for own in states], episodes)
    on_own = _samples([principal_axes(own)(own) for own in states], episodes)
    cubes = _cube_count(on_common)
    parts = {name: stage_of(count) == i for i, name in enumerate(STAGES)}
    parts["whole"] = np.ones(count, bool)
    stages = {
        name: _compare([Sample(*(x[part] for x in sample)) for sample in on_common], cubes, seed)
        for name, part in parts.items()
    }
    return {
        "states": count,
        "cubes": cubes,
        "explained_by_common_axes": common.explained,
        "stages": stages,
        "whole_on_axes_of_their_own": _compare(on_own, _cube_count(on_own), seed)["overlap"],
    }


def _samples(places: Sequence[np.ndarray], episodes: Sequence[np.ndarray]) -> list[Sample]:
    """The cubes of both runs, numbered together."""
    corners = np.floor(np.concatenate(places) / CUBE).astype(np.int64)
    _, cubes = np.unique(corners, axis=0, return_inverse=True)
    of_runs = np.split(cubes.ravel(), [len(places[0])])
    return [Sample(*pair) for pair in zip(of_runs, episodes, strict=True)]


def _cube_count(samples: Sequence[Sample]) -> int:
    return 1 + max(int(sample.cubes.max()) for sample in samples)


def _compare(samples: Sequence[Sample], cubes: int, seed: int) -> dict[str, Any]:
    """Coverage of two samples, and their overlap within and between runs."""
    rngs = [np.random.default_rng([seed, i]) for i in range(len(samples))]
    within, between = ([], []), []
    for _ in range(SPLITS):
        halves = [_halves(sample, cubes, rng) for sample, rng in zip(samples, rngs, strict=True)]
        for overlaps, pair in zip(within, halves, strict=True):
            if pair is not None:
                overlaps.append(overlap(*pair))
        split = [pair for pair in halves if pair is not None]
        if len(split) == len(halves):
            pairs = itertools.product(*split)
            between.append(np.mean([overlap(x, y) for x, y in pairs]))
    return {
        "coverage": [len(np.unique(sample.cubes)) / cubes for sample in samples],
        "effective_cubes": [_effective_cubes(sample, cubes) for sample in samples],
        "episodes": [len(np.unique(sample.episode)) for sample in samples],
        "overlap": {
            "between": _spread(between),
            "within": [_spread(overlaps) for overlaps in within],
        },
    }


def _halves(
    sample: Sample, cubes: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Counts per cube of two random halves of the episodes; None if they are too few."""
    _, episode, sizes = np.unique(sample.episode, return_inverse=True, return_counts=True)
    if len(sizes) < FEWEST_EPISODES:
        return None
    order = rng.permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order]
    first = np.zeros(len(sizes), bool)
    first[order] = before + sizes[order] / 2 < len(sample.cubes) / 2
    first[order[0]], first[order[-1]] = True, False
    chosen = first[episode]
    a, b = (np.bincount(sample.cubes[part], minlength=cubes) for part in (chosen, ~chosen))
    return a, b


def _effective_cubes(sample: Sample, cubes: int) -> float:
    """exp(entropy): the number of cubes that, visited equally, have the same entropy."""
    counts = np.bincount(sample.cubes, minlength=cubes)
    shares = counts[counts > 0] / len(sample.cubes)
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _spread(numbers: Sequence[float]) -> dict[str, float] | None:
    """Mean, and the range of the middle 90 %; None if there are no numbers."""
    if not numbers:
        return None
    low, high = np.quantile(numbers, (0.05, 0.95))
    return {"mean": float(np.mean(numbers)), "low": float(low), "high": float(high)}
