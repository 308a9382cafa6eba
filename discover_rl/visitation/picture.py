"""The paper's figure: a row per stage; where each run was, and how wrong its critics are there."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from discover_rl.visitation import STAGES, Visited, maps, stage_of
from discover_rl.visitation.maps import Density, Map, bandwidth, density, enclosing

COLOURS = ("Blues", "Oranges", "Greens", "Purples")  # the paper's; the last two: TD error
SHARES = (0.95, 0.75, 0.5, 0.25)
"""Of a density's mass: what its contours enclose."""
BORDER = (0.99,)
GRID = 120
Grid = tuple[np.ndarray, np.ndarray]


def draw(runs: Sequence[Visited], made: Map, common: bool) -> dict[str, bytes]:
    """The figure's files by name."""
    everywhere = np.concatenate(made.places)
    width = bandwidth(everywhere)  # one for all, so that panels are alike in what they smooth
    grid = _grid(everywhere, 3 * width)
    outline = density(everywhere, np.ones(len(everywhere)), grid, width).density
    given = zip(runs, made.places, made.picks, strict=True)
    fields = [_fields(run, places, picks, grid, width) for run, places, picks in given]
    errors = np.linspace(*_range([field for each in fields for field in each]), 9)
    # Figure, not pyplot, which would keep it; a fixed salt and no date, so that the same numbers
    # give the same file.
    with mpl.rc_context({"svg.hashsalt": "discover_rl", "font.size": 9}):
        figure = Figure(figsize=(10, 8.6), layout="constrained")
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
            axes.set_title(f"{name}\n{what}", fontsize=9.5)
        figure.suptitle(_caption(runs, made, common), fontsize=9)
        png, svg = io.BytesIO(), io.BytesIO()
        figure.savefig(png, format="png", dpi=110, metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None})
    return {"visitation.png": png.getvalue(), "visitation.svg": svg.getvalue()}


def _fill(axes: Any, grid: Grid, field: Density, shade: Any, errors: np.ndarray | None) -> Any:
    """Where the visits are or, on a scale of errors, what the error is where most of them are."""
    levels = enclosing(field.density, SHARES)
    colours = shade(np.linspace(0.2, 0.95, len(levels if errors is None else errors) + 1))
    if errors is None:
        return axes.contourf(*grid, field.density, [*levels, np.inf], colors=colours[1:])
    shown = np.ma.masked_where(field.density < levels[0], field.mean)
    return axes.contourf(*grid, shown, errors, colors=colours, extend="both")


def _caption(runs: Sequence[Visited], made: Map, common: bool) -> str:
    drawn = " + ".join(f"{len(picks):,}" for picks in made.picks)
    share = " and ".join(f"{explained:.1%}" for explained in made.explained)
    spans = [f"{it.first:,} to {it.first + len(it.visits.obs):,}" for it in runs]
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
    """A square around them."""
    low, high = places.min(axis=0), places.max(axis=0)
    reach = (high - low).max() / 2 + margin
    x, y = np.linspace((low + high) / 2 - reach, (low + high) / 2 + reach, GRID).T
    return x, y


def _fields(
    run: Visited, places: np.ndarray, picks: np.ndarray, grid: Grid, width: float
) -> list[Density]:
    """Density and mean error, stage by stage."""
    stage, errors = stage_of(len(picks)), run.visits.error[picks].astype(float)
    parts = [stage == i for i in range(len(STAGES))]
    return [density(places[part], errors[part], grid, width) for part in parts]


def _range(fields: Sequence[Density]) -> tuple[float, float]:
    """Mean errors from lowest to highest where most visits are, but for a few."""
    inside = [it.mean[it.density >= enclosing(it.density, SHARES)[0]] for it in fields]
    low, high = np.quantile(np.concatenate(inside), (0.02, 0.98))
    return float(low), float(max(high, low + 1e-9))
