"""A plane on which states of two runs lie, alike ones near each other, and how dense they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from discover_rl.types import UserError
from discover_rl.visitation import MEASURED, Visited, evenly, principal

ITERATIONS = 1500


class Map(NamedTuple):
    """States of both runs in a plane, where alike is near."""

    places: list[np.ndarray]  # per run, (points, 2)
    picks: list[np.ndarray]  # which of a run's transitions these are
    explained: list[float]  # per run, by the principal axes it was put on
    perplexity: float


def embed(runs: Sequence[Visited], points: int, seed: int, common: bool) -> Map:
    """So many states of each run, evenly over time, by t-SNE of their principal components.

    The paper's perplexity is the root of its number of points, 1,396 of 1,950,000; so is ours.
    """
    tsne = needed()
    everything = [it.visits.obs[evenly(len(it.visits.obs), MEASURED)].astype(float) for it in runs]
    joint = principal(np.concatenate(everything))
    axes = [joint if common else principal(it) for it in everything]
    picks = [evenly(len(it.visits.obs), points) for it in runs]
    places = [
        onto(it.visits.obs[pick].astype(float))
        for it, onto, pick in zip(runs, axes, picks, strict=True)
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
    return Map(split, picks, [it.explained for it in axes], perplexity)


def needed() -> Any:
    """openTSNE's class, or a UserError where it is not installed."""
    try:
        from openTSNE import TSNE
    except ImportError as error:
        raise UserError(
            "Visitation needs a package: pip install 'discover_rl[visitation]'."
        ) from error
    return TSNE


class Density(NamedTuple):
    """Of points in a plane, by Gaussian kernels, at every place of a grid."""

    density: np.ndarray  # (y, x)
    mean: np.ndarray  # (y, x) of what each point weighs


def bandwidth(places: np.ndarray) -> float:
    """Scott's, one for both directions."""
    return float(places.std(axis=0).mean() * len(places) ** (-1 / 6))


def density(
    places: np.ndarray, weights: np.ndarray, grid: tuple[np.ndarray, np.ndarray], width: float
) -> Density:
    x, y = (
        np.exp(-0.5 * ((line[:, None] - places[:, i]) / width) ** 2) for i, line in enumerate(grid)
    )
    total = y @ x.T
    mean = (y * weights) @ x.T / np.maximum(total, np.finfo(float).tiny)
    return Density(total / (2 * np.pi * width**2 * len(places)), mean)


def enclosing(field: np.ndarray, shares: Sequence[float]) -> list[float]:
    """The levels above which a density has these shares of its mass; rising where shares fall."""
    ordered = np.sort(field, axis=None)[::-1]
    mass = np.cumsum(ordered) / ordered.sum()
    return [float(ordered[np.searchsorted(mass, share)]) for share in shares]
