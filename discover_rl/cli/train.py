"""`discover train`: train runs on one task."""

from __future__ import annotations

import shlex
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
    TensorBoard,
    WeightsAndBiases,
    folder_option,
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
    out: Annotated[Path | None, folder_option("Folder for records and policies.", "runs/…")] = None,
    processes: Processes = 0,
    fresh: Fresh = False,
    anyway: Anyway = False,
    start_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            parser=a_folder,
            help="Start with the networks and strategy of a run, by its folder, and with its "
            "replay if it was kept (compute.keep_checkpoint=true): --from runs/hopper/seed-0 "
            "--set warmup=0.",
        ),
    ] = None,
    tensorboard: TensorBoard = False,
    wandb: WeightsAndBiases = None,
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

    A checkpoint is written about once a minute and at Ctrl-C. The same command, called again,
    continues exactly from there.
    """
    from discover_rl import api
    from discover_rl.config import Request
    from discover_rl.envs.versions import completed
    from discover_rl.training import observers
    from discover_rl.training.observers.terminal import say, shown

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
    say(f"Next: {shown(next_command(task, folder))}")


def next_command(task: str, folder: Path) -> str:
    """Return the command that plays the policies of this folder.

    A module that registers the task is imported only if it is named.

    >>> next_command("Pendulum-v1", Path("runs/my pendulum"))
    "discover evaluate 'runs/my pendulum'"
    >>> next_command("reach:Reach-v0", Path("runs/reach"))
    'discover evaluate runs/reach --task reach:Reach-v0'
    """
    play = f"discover evaluate {shlex.quote(str(folder))}"
    return f"{play} --task {task}" if ":" in task else play


def show_results(results: Sequence[Result], folder: Path) -> None:
    """Print a table of runs: their names, their last step, their last return and their score.

    Where scores are last returns, because evaluations are few, they are not shown twice.

    Args:
        results: the runs.
        folder: the folder that they are in.
    """
    from rich.table import Table

    from discover_rl.storage import scores
    from discover_rl.training.observers.terminal import console, say, shown

    table = Table()
    counts = {len(result.counted()) for result in results if not result.failure}
    names = ["run", "steps", "last return"]
    if counts - {1}:
        names.append(" or ".join(map(scores.in_words, sorted(counts))))
    for name in names:
        table.add_column(name, justify="left" if name == "run" else "right", overflow="fold")
    for result in results:
        name = shown(str(result.path.relative_to(folder)))
        if result.failure:
            table.add_row(name, f"{result.failure['step']:,}", "failed")
            continue
        row = [name, f"{result.steps[-1]:,}", f"{result.score(last=1):.1f}"]
        if counts - {1}:
            row.append(f"{result.score():.1f}")
        table.add_row(*row)
    say(str(folder))  # as the table's title it would be broken where the table is narrow
    console.print(table)
    for result in results:
        if result.reason:
            how = "failed" if result.failure else "ended early"
            say(f"{shown(str(result.path.relative_to(folder)))} {how}: {shown(result.reason)}")
