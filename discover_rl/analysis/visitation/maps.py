"""Put states of two runs on a plane, similar states near each other, and compute their density."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from discover_rl.analysis.visitation.coverage import MEASURED, principal_axes
from discover_rl.analysis.visitation.states import VisitedStates, evenly
from discover_rl.core.types import UserError
from discover_rl.system import extras

ITERATIONS = 1500
"""Iterations of t-SNE, as in the paper."""


class Map(NamedTuple):
    """States of both runs in a plane.

    Attributes:
        places: Per run, (points, 2).
        picks: Per run, the indices of the transitions that these are.
        explained: Per run, the share of its variance along the principal axes that it was put on.
        perplexity: Of t-SNE.
    """

    places: list[np.ndarray]
    picks: list[np.ndarray]
    explained: list[float]
    perplexity: float


def embed(runs: Sequence[VisitedStates], points: int, seed: int, common: bool) -> Map:
    """Put states of two runs on a plane, by t-SNE of their principal components.

    The perplexity is the root of the number of points, as the paper's is: 1,396 of 1,950,000.

    Args:
        runs: Two of them, of one task.
        points: How many states of each run there are on the plane, evenly over time.
        seed: Of t-SNE.
        common: Whether both runs are put on the same principal axes, in place of each on its own.
    """
    tsne = tsne_class()
    states = [run.replay.obs[evenly(len(run.replay.obs), MEASURED)].astype(float) for run in runs]
    of_both = principal_axes(np.concatenate(states))
    axes = [of_both if common else principal_axes(own) for own in states]
    picks = [evenly(len(run.replay.obs), points) for run in runs]
    places = [
        onto(run.replay.obs[pick].astype(float))
        for run, onto, pick in zip(runs, axes, picks, strict=True)
    ]
    perplexity = sum(map(len, places)) ** 0.5
    fitted = tsne(
        perplexity=perplexity,
        metric="euclidean",
        n_iter=ITERATIONS,
        neighbors="exact",
        n_jobs=1,
        random_state=seed,
    ).fit(np.concatenate(places))
    split = np.split(np.asarray(fitted), [len(places[0])])
    return Map(split, picks, [own.explained for own in axes], perplexity)


def tsne_class() -> Any:
    """openTSNE's class, or a UserError if openTSNE is not installed."""
    try:
        from openTSNE import TSNE
    except ImportError as error:
        raise UserError(extras.hint("Visitation", "visitation")) from error
    return TSNE


class Density(NamedTuple):
    """Density of points by Gaussian kernels, and the mean of their weights, on a grid.

    Both are (y, x).
    """

    density: np.ndarray
    mean: np.ndarray


def bandwidth(places: np.ndarray) -> float:
    """Scott's bandwidth of points, (n, 2), the same in both directions."""
    return float(places.std(axis=0).mean() * len(places) ** (-1 / 6))


def density(
    places: np.ndarray, weights: np.ndarray, grid: tuple[np.ndarray, np.ndarray], width: float
) -> Density:
    """Density of points and mean of their weights on a grid.

    Args:
        places: (n, 2)
        weights: (n,)
        grid: x, (columns,), and y, (rows,).
        width: Standard deviation of the kernels.
    """
    x, y = (
        np.exp(-0.5 * ((line[:, None] - places[:, i]) / width) ** 2) for i, line in enumerate(grid)
    )
    total = y @ x.T
    mean = (y * weights) @ x.T / np.maximum(total, np.finfo(float).tiny)
    return Density(total / (2 * np.pi * width**2 * len(places)), mean)


def enclosing(field: np.ndarray, shares: Sequence[float]) -> list[float]:
    """The levels of a density above which these shares of its mass lie."""
    ordered = np.sort(field, axis=None)[::-1]
    mass = np.cumsum(ordered) / ordered.sum()
    return [float(ordered[np.searchsorted(mass, share)]) for share in shares]
