"""`discover visitation`: which states two runs visited, drawn as the paper does and measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discover_rl.system.paths import a_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from discover_rl.analysis.visitation import VisitedStates
    from discover_rl.analysis.visitation.maps import Map


def visitation(
    first: Annotated[
        Path, typer.Argument(metavar="RUN_A", help="A run's folder.", parser=a_folder)
    ],
    second: Annotated[
        Path,
        typer.Argument(metavar="RUN_B", help="Another run's, of the same task.", parser=a_folder),
    ],
    to: Annotated[
        Path, typer.Option(help="Folder for figure and numbers.", parser=a_folder, metavar="FOLDER")
    ] = Path("runs/visitation"),
    points: Annotated[
        int, typer.Option(min=10, max=100_000, help="States of each run that are drawn.")
    ] = 5000,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="The seed of t-SNE and of the splits.")
    ] = 0,
    common: Annotated[
        bool,
        typer.Option(
            "--common-axes",
            metavar="",
            help="Put both runs on the same principal axes before t-SNE.",
        ),
    ] = False,
) -> None:
    """Compare the states that two runs visited: coverage, overlap and a map.

    Both runs must have kept their replay (--set compute.keep_replay=true).
    """
    from discover_rl.analysis.visitation import check_same_task, load, maps, measure
    from discover_rl.analysis.visitation.figure import draw
    from discover_rl.storage import files
    from discover_rl.system.extras import needed_for_figures
    from discover_rl.training.observers.terminal import console, say

    maps.tsne_class()  # these fail at once if a package is missing
    needed_for_figures()
    runs = [load(path) for path in (first, second)]
    check_same_task(runs)
    measured = measure(runs, seed)
    say("All numbers are measured; t-SNE takes a minute or more to draw the map.")
    made = maps.embed(runs, points, seed, common)
    about = _about(runs, made, seed, common)
    numbers = json.dumps(about | measured, indent=1, ensure_ascii=False) + "\n"
    for name, content in ({"visitation.json": numbers.encode()} | draw(runs, made, common)).items():
        files.write(to / name, content)
    console.print(_table(measured))
    for sentence in sentences(runs, made, measured):
        say(sentence)
    say(f"Figure and numbers: {to / 'visitation.png'}, visitation.svg, visitation.json")


def sentences(runs: Sequence[VisitedStates], made: Map, measured: dict[str, Any]) -> list[str]:
    """Explain the letters of the table, and the limits of its numbers."""
    a, b = runs
    apart = measured["whole_on_axes_of_their_own"]["between"]
    own_axes = "Overlap on principal axes of their own, as in the paper's figure, is not known."
    if apart is not None:
        own_axes = (
            "Each on principal axes of its own, as in the paper's figure, A and B would overlap by "
            f"{apart['mean']:.2f}."
        )
    few = "–: nothing is said of overlap where a run has too few episodes to split into halves."
    stages = [numbers["overlap"] for numbers in measured["stages"].values()]
    return [
        f"A: {a.label}; B: {b.label}; {a.run['task']}, {measured['states']:,} states of each.",
        f"coverage: share of the {measured['cubes']:,} cubes that A or B was ever in. overlap: "
        "Σ min(p, q) over cubes; A–A and B–B, of random halves of a run's episodes, are what "
        "no difference looks like. Brackets: 5 to 95 % of the splits.",
        "Two seeds of one thing may differ by more than halves of one run: compare those, too.",
        *([few] if any(None in (it["between"], *it["within"]) for it in stages) else []),
        f"{own_axes} The map's axes explain {made.explained[0]:.1%} of A's variance and "
        f"{made.explained[1]:.1%} of B's.",
        f"The map has {len(made.picks[0]):,} states of A and {len(made.picks[1]):,} of B; t-SNE's "
        f"perplexity is {made.perplexity:.1f}.",
    ]


def _table(measured: dict[str, Any]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    names = ("stage", "cover A", "cover B", "overlap A–B", "A–A", "B–B")
    for i, name in enumerate(names):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for stage, numbers in measured["stages"].items():
        overlap = numbers["overlap"]
        spreads = (overlap["between"], *overlap["within"])
        covered = (f"{share:.1%}" for share in numbers["coverage"])
        table.add_row(stage, *covered, *map(_spread, spreads))
    return table


def _spread(numbers: dict[str, float] | None) -> str:
    if numbers is None:
        return "–"
    mean, low, high = (f"{numbers[name]:.2f}" for name in ("mean", "low", "high"))
    return f"{mean} ({low.lstrip('0')}–{high.lstrip('0')})"  # so that 80 columns hold it


def _about(runs: Sequence[VisitedStates], made: Map, seed: int, common: bool) -> dict[str, Any]:
    from discover_rl.analysis.visitation import AXES, CUBE, SPLITS, STAGES, maps, stage_of

    described = []
    for run, explained, pick in zip(runs, made.explained, made.picks, strict=True):
        errors = run.replay.error
        stages = stage_of(len(errors))
        last = run.first + len(errors)
        described.append(
            {
                "run": run.run,
                "steps": [run.first, last],
                "drawn": len(pick),
                "explained": explained,
                "td_error": {
                    name: float(errors[stages == i].mean(dtype=float))
                    for i, name in enumerate(STAGES)
                },
            }
        )
    tsne = {"perplexity": made.perplexity, "iterations": maps.ITERATIONS, "metric": "euclidean"}
    settings = {"seed": seed, "common_axes": common, "axes": AXES, "cube": CUBE}
    return {"runs": described, "tsne": tsne, "settings": settings | {"splits": SPLITS}}
