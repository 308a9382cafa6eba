"""`discover train`: train runs on one task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discover_rl.cli.exit_codes import FAILED
from discover_rl.cli.options import (
    Algorithm,
    Anyway,
    Fresh,
    Processes,
    Steps,
    Strategy,
    Task,
    name_and_value,
)
from discover_rl.system.paths import a_folder

if TYPE_CHECKING:
    from discover_rl.storage.results import Result


def train(
    task: Task,
    algorithm: Algorithm = "td3",
    strategy: Strategy = "discover",
    steps: Steps = 1_000_000,
    seeds: Annotated[int, typer.Option(help="How many seeds: 0, 1, …")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for records and policies.",
            show_default="runs/…",
            parser=a_folder,
            metavar="FOLDER",
        ),
    ] = None,
    processes: Processes = 0,
    fresh: Fresh = False,
    anyway: Anyway = False,
    start_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            parser=a_folder,
            help="Start with the networks, strategy and replay of a run, by its folder: "
            "--from runs/hopper/seed-0 --set warmup=0. It must have kept its checkpoint "
            "(compute.keep_checkpoint=true).",
        ),
    ] = None,
    tensorboard: Annotated[
        bool,
        typer.Option("--tensorboard", help="Write curves for TensorBoard into the runs' folders."),
    ] = False,
    wandb: Annotated[
        str | None, typer.Option(help="Log to this project of Weights & Biases.", metavar="PROJECT")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting: gamma=0.98, strategy.lam=0.1, eval.every=1000, hidden=64,64; "
            "`discover list ALGORITHM` shows all. Several values of a float "
            "(strategy.lam=0.1,0.3) make a run for each.",
        ),
    ] = None,
) -> None:
    """Train runs, or continue those that the same command began.

    A checkpoint is written about once a minute and at Ctrl-C. The same command again continues from
    there, exactly.
    """
    from discover_rl import api
    from discover_rl.config import Request
    from discover_rl.envs.versions import completed
    from discover_rl.training import observers

    task = completed(task)
    overrides = dict(name_and_value("--set", text) for text in settings or [])
    start = "" if start_from is None else str(start_from)
    request = Request(task, algorithm, strategy, steps, seeds, overrides, start)
    folder = out if out is not None else request.default_folder
    everyone = [None, *observers.requested(folder, tensorboard, wandb)]  # None is the terminal
    results = api.launch(request, folder, everyone, processes=processes, fresh=fresh, anyway=anyway)
    show_results(results, folder)
    if any(result.failure for result in results):
        raise typer.Exit(FAILED)


def show_results(results: Sequence[Result], folder: Path) -> None:
    """Print a table of runs: their folders, their last step and their returns.

    Args:
        results: the runs.
        folder: the folder that they are in.
    """
    from rich.table import Table

    from discover_rl.storage import scores
    from discover_rl.training.observers.terminal import console, say, shown

    table = Table(title=shown(str(folder)), title_justify="left")
    counts = {len(result.counted()) for result in results if not result.failure}
    meaning = " or ".join(map(scores.in_words, sorted(counts))) or "score"
    for i, name in enumerate(("run", "steps", "last return", meaning)):
        table.add_column(name, justify="left" if i == 0 else "right", overflow="fold")
    for result in results:
        name = shown(str(result.path.relative_to(folder)))
        if result.failure:
            table.add_row(name, f"{result.failure['step']:,}", "failed", shown(result.reason))
        else:
            numbers = f"{result.score(last=1):.1f}", f"{result.score():.1f}"
            table.add_row(name, f"{result.steps[-1]:,}", *numbers)
    console.print(table)
    for result in results:
        if result.reason and not result.failure:
            say(f"{shown(result.path.name)} ended early: {shown(result.reason)}")
