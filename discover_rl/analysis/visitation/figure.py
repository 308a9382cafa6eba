"""The paper's figure: a row per stage, where each run was, and the TD errors of its critics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from discover_rl.analysis.visitation import maps
from discover_rl.analysis.visitation.maps import Density, Map, bandwidth, density, enclosing
from discover_rl.analysis.visitation.states import STAGES, VisitedStates, stage_of
from discover_rl.report import style

COLOURS = ("Blues", "Oranges", "Greens", "Purples")
"""Colour maps of the columns, as in the paper: visits of both runs, TD errors of both runs."""
SHARES = (0.95, 0.75, 0.5, 0.25)
"""The shares of the visits that contours enclose."""
BORDER = (0.99,)
"""The share of all visits that the grey outline encloses."""
GRID = 120
"""Points of the grid, in each direction."""
DPI = 110
"""Resolution of the PNG file."""
Grid: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Coordinates x and y, (GRID,) each."""


def draw(runs: Sequence[VisitedStates], made: Map, common: bool) -> dict[str, bytes]:
    """Draw the map of two runs.

    Args:
        runs: Two of them, of one task.
        made: Their map.
        common: Whether both are on the same principal axes; the caption says so.

    Returns:
        Files by name.
    """
    import matplotlib as mpl

    everywhere = np.concatenate(made.places)
    width = bandwidth(everywhere)  # the same for all panels, so that they are equally smooth
    grid = _grid(everywhere, 3 * width)
    outline = density(everywhere, np.ones(len(everywhere)), grid, width).density
    given = zip(runs, made.places, made.picks, strict=True)
    fields = [_fields(run, places, picks, grid, width) for run, places, picks in given]
    errors = np.linspace(*_error_range([field for stages in fields for field in stages]), 9)
    with style.figure(10, 8.6, {"font.size": 9}) as figure:
        panels = figure.subplots(len(STAGES), len(COLOURS), sharex=True, sharey=True)
        for (row, column), axes in np.ndenumerate(panels):
            axes.contour(*grid, outline, enclosing(outline, BORDER), colors="0.7", linewidths=0.8)
            shade, field = mpl.colormaps[COLOURS[column]], fields[column % 2][row]
            drawn = _fill(axes, grid, field, shade, errors if column > 1 else None)
            axes.set(xticks=[], yticks=[], aspect="equal")
            if column > 1 and row == len(STAGES) - 1:
                side = {"location": "bottom", "format": "%.2g", "aspect": 25, "pad": 0.02}
                figure.colorbar(drawn, ax=panels[:, column], ticks=errors[::2], **side)
        for axes, stage in zip(panels[:, 0], STAGES, strict=True):
            axes.set_ylabel(stage, fontsize=11)
        for column, axes in enumerate(panels[0]):
            what = "visits" if column < 2 else "mean |TD error|"
            name = f"{'AB'[column % 2]}: {runs[column % 2].label}"
            axes.set_title(style.plain(f"{name}\n{what}"), fontsize=9.5)
        figure.suptitle(style.plain(_caption(runs, made, common)), fontsize=9)
        files = style.figure_files(figure, DPI)
    return {f"visitation.{suffix}": content for suffix, content in files.items()}


def _fill(axes: Any, grid: Grid, field: Density, shade: Any, errors: np.ndarray | None) -> Any:
    """Fill a panel with the density of visits or, if there is a scale of errors, with the mean
    error where most visits are."""
    levels = enclosing(field.density, SHARES)
    colours = shade(np.linspace(0.2, 0.95, len(levels if errors is None else errors) + 1))
    if errors is None:
        return axes.contourf(*grid, field.density, [*levels, np.inf], colors=colours[1:])
    shown = np.ma.masked_where(field.density < levels[0], field.mean)
    return axes.contourf(*grid, shown, errors, colors=colours, extend="both")


def _caption(runs: Sequence[VisitedStates], made: Map, common: bool) -> str:
    drawn = " + ".join(f"{len(picks):,}" for picks in made.picks)
    share = " and ".join(f"{explained:.1%}" for explained in made.explained)
    spans = [f"{run.first:,} to {run.first + len(run.replay.obs):,}" for run in runs]
    steps = " and of ".join(dict.fromkeys(spans))
    axes = (
        f"the same axes for both runs (they explain {share})"
        if common
        else f"each run's own axes (they explain {share}), as in the paper: one place need not be "
        "the same state in both"
    )
    return (
        f"{runs[0].run['task']}, thirds of steps {steps}. t-SNE of {drawn} states, perplexity "
        f"{made.perplexity:.0f}, {maps.ITERATIONS:,} iterations, after PCA:\n{axes}.\nShades "
        "enclose 25, 50, 75 and 95 % of the visits; grey: 99 % of both runs at all times. TD "
        "errors: last critics, one scale for all."
    )


def _grid(places: np.ndarray, margin: float) -> Grid:
    """A square around all places."""
    low, high = places.min(axis=0), places.max(axis=0)
    reach = (high - low).max() / 2 + margin
    x, y = np.linspace((low + high) / 2 - reach, (low + high) / 2 + reach, GRID).T
    return x, y


def _fields(
    run: VisitedStates, places: np.ndarray, picks: np.ndarray, grid: Grid, width: float
) -> list[Density]:
    """Density and mean error, stage by stage."""
    stage, errors = stage_of(len(picks)), run.replay.error[picks].astype(float)
    parts = [stage == i for i in range(len(STAGES))]
    return [density(places[part], errors[part], grid, width) for part in parts]


def _error_range(fields: Sequence[Density]) -> tuple[float, float]:
    """The range of mean errors where most visits are, without the most extreme ones."""
    inside = [field.mean[field.density >= enclosing(field.density, SHARES)[0]] for field in fields]
    low, high = np.quantile(np.concatenate(inside), (0.02, 0.98))
    return float(low), float(max(high, low + 1e-9))
