"""Which states two runs visited: how many, whether the same ones, and a map of them.

The map is the paper's: principal components of each run's states, then one t-SNE of both runs. It
is for looking at. Numbers come from elsewhere, because t-SNE keeps neither distances nor densities,
and because a run on axes of its own cannot be compared with another on other axes. States of both
runs are standardised together and put on the first principal axes of both, and space is divided
into cubes of half a standard deviation. With p and q the shares of two samples in each cube,

    coverage = cubes that a sample is in / cubes that any of both runs is in at any time
    overlap  = Σ min(p, q)

Two samples of one distribution do not overlap wholly either. So samples are halves of a run's
episodes, drawn at random: overlap within a run is that of its halves, between runs that of a half
of each, so both are of samples of the same size.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from discover_rl import store
from discover_rl.algorithms import ON_POLICY
from discover_rl.types import UserError, Visits

STAGES = ("early", "intermediate", "late")
AXES = 4
CUBE = 0.5
"""Side of a cube, in standard deviations of a state's numbers."""
MEASURED = 100_000
"""States of a run that numbers are taken from, at most."""
SPLITS = 50


class Visited(NamedTuple):
    """What a run visited once its warm-up was over."""

    run: dict[str, Any]  # as its record has it
    first: int  # the step of the first transition
    visits: Visits

    @property
    def label(self) -> str:
        return f"{self.run['algorithm']} + {self.run['strategy']}, seed {self.run['seed']}"


def load(path: Path) -> Visited:
    """The only run at or below a folder that kept its replay."""
    found = sorted(path.rglob(store.REPLAY))
    if len(found) > 1:
        names = ", ".join(str(file.parent) for file in found)
        raise UserError(f"{path} holds several runs; name one of {names}.")
    file = found[0] if found else path / store.REPLAY
    standing = store.glance(file.with_name("record.jsonl"))
    if standing.header and standing.header["run"]["algorithm"] in ON_POLICY:
        name = standing.header["run"]["algorithm"]
        raise UserError(f"{path} has no replay: {name} is on-policy, and drops what it learned.")
    if not found:
        raise UserError(
            f"There is no replay in {path}; train with --set compute.keep_replay=true to have one."
        )
    if not standing.header or not standing.done:
        raise UserError(f"The run in {file.parent} is not done; let it come to its end.")
    run = standing.header["run"]
    try:
        visits = Visits(**load_file(file))
    except (OSError, TypeError, SafetensorError) as error:
        raise UserError(f"{file} cannot be read: {error}.") from error
    first = run["steps"] - len(visits.obs)  # the oldest may have been overwritten
    skipped = max(0, run["settings"]["warmup"] - first)
    if len(visits.obs) - skipped < 10 * len(STAGES):
        raise UserError(f"Nothing is left of {file.parent} without its warm-up.")
    return Visited(run, first + skipped, Visits(*(part[skipped:] for part in visits)))


def refuse_strangers(runs: Sequence[Visited]) -> None:
    a, b = (it.run["task"] for it in runs)
    if a != b:
        raise UserError(f"Only runs of one task compare; these are of {a} and {b}.")


def evenly(length: int, count: int) -> np.ndarray:
    """So many indices, or all, spread evenly."""
    count = min(length, count)
    return np.arange(count) * length // count


def stage_of(length: int) -> np.ndarray:
    """Which third each of so many transitions belongs to."""
    return np.arange(length) * len(STAGES) // length


class Axes(NamedTuple):
    """Principal axes of some states."""

    mean: np.ndarray  # (observation,)
    directions: np.ndarray  # (observation, axes)
    explained: float  # share of the variance that lies along them

    def __call__(self, states: np.ndarray) -> np.ndarray:
        return (states - self.mean) @ self.directions


def principal(states: np.ndarray) -> Axes:
    mean = states.mean(axis=0)
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(states - mean, rowvar=False)))
    variances, directions = variances[::-1], directions[:, ::-1][:, :AXES]
    # Either sign is right; the largest number of each is made positive, so that it is always one.
    largest = np.abs(directions).argmax(axis=0)
    directions = directions * np.sign(directions[largest, np.arange(directions.shape[1])])
    total = variances.sum()
    return Axes(mean, directions, float(variances[:AXES].sum() / total) if total else 1.0)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Σ min(p, q) of two counts per cube."""
    return float(np.minimum(a / a.sum(), b / b.sum()).sum())


class Sample(NamedTuple):
    """Some of a run's states."""

    cubes: np.ndarray  # (n,) which cube each is in
    episode: np.ndarray  # (n,)


def measure(runs: Sequence[Visited], seed: int) -> dict[str, Any]:
    """Coverage and overlap in every stage and in the whole."""
    count = min(MEASURED, *(len(it.visits.obs) for it in runs))
    picks = [evenly(len(it.visits.obs), count) for it in runs]
    states = [it.visits.obs[pick].astype(float) for it, pick in zip(runs, picks, strict=True)]
    both = np.concatenate(states)
    deviation = both.std(axis=0)
    states = [it / np.where(deviation > 0, deviation, 1.0) for it in states]
    common = principal(np.concatenate(states))
    episodes = [
        np.cumsum(it.visits.ended)[pick] - it.visits.ended[pick]
        for it, pick in zip(runs, picks, strict=True)
    ]
    shared = _samples([common(it) for it in states], episodes)
    apart = _samples([principal(it)(it) for it in states], episodes)
    number = _number(shared)
    parts = {name: stage_of(count) == i for i, name in enumerate(STAGES)}
    parts["whole"] = np.ones(count, bool)
    stages = {
        name: _compared([Sample(*(x[part] for x in it)) for it in shared], number, seed)
        for name, part in parts.items()
    }
    return {
        "states": count,
        "cubes": number,
        "explained_by_common_axes": common.explained,
        "stages": stages,
        "whole_on_axes_of_their_own": _compared(apart, _number(apart), seed)["overlap"],
    }


def _samples(places: Sequence[np.ndarray], episodes: Sequence[np.ndarray]) -> list[Sample]:
    """Cubes of both runs, numbered together."""
    corners = np.floor(np.concatenate(places) / CUBE).astype(np.int64)
    _, cubes = np.unique(corners, axis=0, return_inverse=True)
    halves = np.split(cubes.ravel(), [len(places[0])])
    return [Sample(*it) for it in zip(halves, episodes, strict=True)]


def _number(samples: Sequence[Sample]) -> int:
    return 1 + max(int(it.cubes.max()) for it in samples)


def _compared(samples: Sequence[Sample], number: int, seed: int) -> dict[str, Any]:
    rngs = [np.random.default_rng([seed, i]) for i in range(len(samples))]
    within, between = ([], []), []
    for _ in range(SPLITS):
        halves = [_halves(it, number, rng) for it, rng in zip(samples, rngs, strict=True)]
        for overlaps, parts in zip(within, halves, strict=True):
            if parts is not None:
                overlaps.append(overlap(*parts))
        a, b = (
            [np.bincount(s.cubes, minlength=number)] if h is None else h
            for s, h in zip(samples, halves, strict=True)
        )
        between.append(np.mean([overlap(x, y) for x, y in itertools.product(a, b)]))
    return {
        "coverage": [len(np.unique(it.cubes)) / number for it in samples],
        "effective_cubes": [_effective(it, number) for it in samples],
        "episodes": [len(np.unique(it.episode)) for it in samples],
        "overlap": {
            "between": _spread(between),
            "within": [_spread(it) if it else None for it in within],
        },
    }


def _halves(
    sample: Sample, number: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Counts per cube of two halves of the episodes; None where there is one episode only."""
    _, episode, sizes = np.unique(sample.episode, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        return None
    order = rng.permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order]
    first = np.zeros(len(sizes), bool)
    first[order] = before + sizes[order] / 2 < len(sample.cubes) / 2
    first[order[0]], first[order[-1]] = True, False
    chosen = first[episode]
    a, b = (np.bincount(sample.cubes[it], minlength=number) for it in (chosen, ~chosen))
    return a, b


def _effective(sample: Sample, number: int) -> float:
    """e to the entropy: how many cubes, visited equally, would be as spread."""
    counts = np.bincount(sample.cubes, minlength=number)
    shares = counts[counts > 0] / len(sample.cubes)
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _spread(numbers: Sequence[float]) -> dict[str, float]:
    low, high = np.quantile(numbers, (0.05, 0.95))
    return {"mean": float(np.mean(numbers)), "low": float(low), "high": float(high)}
