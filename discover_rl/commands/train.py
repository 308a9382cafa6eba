"""`discover train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discover_rl.commands import FAILED
from discover_rl.types import UserError

Task = Annotated[str, typer.Argument(help="A Gymnasium id (Hopper-v5), or module:id.")]
Algorithm = Annotated[str, typer.Option(help="What learns; see `discover list`.")]
Strategy = Annotated[str, typer.Option(help="How it explores; see `discover list`.")]
Steps = Annotated[int, typer.Option(help="Environment steps of each run.")]
Processes = Annotated[
    int, typer.Option(min=0, help="How many share the runs; 0: as many as pay.", metavar="<int>")
]


def train(
    task: Task,
    algorithm: Algorithm = "td3",
    strategy: Strategy = "discover",
    steps: Steps = 1_000_000,
    seeds: Annotated[int, typer.Option(help="How many seeds: 0, 1, …")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder for records and policies.", show_default="runs/…")
    ] = None,
    processes: Processes = 0,
    tensorboard: Annotated[
        bool,
        typer.Option("--tensorboard", help="Write curves for TensorBoard, by the records."),
    ] = False,
    wandb: Annotated[
        str | None, typer.Option(help="Log to this project of W&B.", metavar="PROJECT")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting: gamma=0.98, strategy.lam=0.1, eval.every=1000, hidden=64,64; "
            "`discover list ALGORITHM` has all. Several values for a float (strategy.lam=0.1,0.3) "
            "make a run of each.",
        ),
    ] = None,
) -> None:
    """Train, or go on where the same command was stopped.

    Ctrl-C leaves a checkpoint; so does a crash, about once a minute. The same command again goes on
    from there, exactly.
    """
    from discover_rl import api, display, observers

    overrides = dict(pair("--set", text) for text in settings or [])
    folder = out if out is not None else api.default_out(task, algorithm, strategy)
    listening = [None, *observers.chosen(folder, tensorboard, wandb)]  # None is the terminal
    results = api.launch(
        task, algorithm, strategy, steps, seeds, folder, overrides, listening, processes=processes
    )
    display.show_results(results, folder)
    if any(result.failure for result in results):
        raise typer.Exit(FAILED)


def pair(option: str, text: str) -> tuple[str, str]:
    """NAME=VALUE, taken apart."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise UserError(f"{option} takes NAME=VALUE, not {text!r}.")
    return name.strip(), value.strip()
