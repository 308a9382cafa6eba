"""`discover theory`: exploration in tables, measured, printed and drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from discover_rl.system.paths import a_folder


def theory(
    out: Annotated[
        Path, typer.Option(help="Folder for figure and numbers.", parser=a_folder, metavar="FOLDER")
    ] = Path("runs/theory"),
    states: Annotated[int, typer.Option(min=8, max=64, help="Largest number of states.")] = 64,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="How many seeds: 0, 1, …")] = 11,
    cap: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Actions after which a run is given up.")
    ] = 50_000,
    variants: Annotated[
        bool, typer.Option(metavar="", help="Also measure other settings.")
    ] = False,
) -> None:
    """Measure how many actions exploration needs in small tables, against the number of states:
    at random, by TD errors, by novelty, and by a planner."""
    from discover_rl.analysis.theory import (
        AGENTS,
        SIZES,
        TASKS,
        VARIANTS,
        figure,
        measure,
        numbers,
        report,
    )
    from discover_rl.storage import files
    from discover_rl.system.extras import needed_for_figures
    from discover_rl.training.observers.terminal import console, say

    needed_for_figures()
    sizes = [size for size in SIZES if size <= states]
    agents = [*AGENTS, *(VARIANTS if variants else ())]
    measured = {
        task: {agent: measure(task, agent, sizes, seeds, cap) for agent in agents} for task in TASKS
    }
    content = json.dumps(numbers(measured, sizes, seeds, cap), indent=1, ensure_ascii=False) + "\n"
    for name, written in ({"theory.json": content.encode()} | figure.draw(measured, cap)).items():
        files.write(out / name, written)
    console.print(report.growth_table(measured, cap))
    console.print(report.ratio_table(measured))
    for sentence in report.sentences(measured, seeds, cap):
        say(sentence)
    say(f"Figure and numbers: {out / 'theory.png'}, theory.svg, theory.json")
