"""`discover tune`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discover_rl.commands import FAILED
from discover_rl.commands.train import Algorithm, Processes, Steps, Strategy, Task, pair
from discover_rl.tuning import MANY

if TYPE_CHECKING:
    from discover_rl.tuning import Plan
    from discover_rl.tuning.trials import Tuning

SHOWN = 10
"""Trials in the table; trials.csv has all."""
MEASURED = 10
"""Seeds to train the best with: enough to tell something."""


def tune(
    task: Task,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="NAME=RANGE",
            help="What is tuned: strategy.lam=0:1, actor_lr=1e-5:1e-2:log, batch_size=64,128,256; "
            "`discover list ALGORITHM` has the names.",
        ),
    ] = None,
    algorithm: Algorithm = "td3",
    strategy: Strategy = "discover",
    steps: Steps = 1_000_000,
    seeds: Annotated[int, typer.Option(help="Runs of each trial: seeds 1000, 1001, …")] = 1,
    trials: Annotated[int, typer.Option(help="How many; more may be asked for later.")] = MANY,
    lanes: Annotated[
        int | None, typer.Option(help="Runs side by side at most.", show_default="8 trials")
    ] = None,
    seed: Annotated[int, typer.Option(help="Optuna's.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for everything.", show_default="runs/…-tune")
    ] = None,
    processes: Processes = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting, the same for all trials."),
    ] = None,
) -> None:
    """Choose hyper-parameters by Optuna, trials side by side; or go on where this was stopped.

    A trial's score is the mean over its seeds of the last ten evaluations. The seeds that
    `discover train` has, 0, 1, …, are not among them: train the best with those to know its worth.
    """
    from discover_rl import tuning

    tuned = dict(pair("--range", text) for text in ranges or [])
    overrides = dict(pair("--set", text) for text in settings or [])
    request = task, algorithm, strategy, steps, seeds, tuned, overrides, lanes, seed
    made = tuning.plan(*request)
    folder = out if out is not None else tuning.folder_of(task, algorithm, strategy)
    came = tuning.carry_out(made, folder, trials, processes=processes)
    _show(came, made)
    if not came.best:
        raise typer.Exit(FAILED)


def _show(came: Tuning, made: Plan) -> None:
    """The best trials, how many failed, and how to train with the best."""
    from rich.table import Table
    from rich.text import Text

    from discover_rl.display import console, say

    table = Table(title=Text(str(came.path)), title_justify="left")
    for name in ("trial", *made.ranges, "score", "± sd"):
        table.add_column(Text(name), justify="right", overflow="fold")
    for trial in came.ranking[:SHOWN]:
        values = [_brief(trial.parameters[name]) for name in made.ranges]
        spread = f"{trial.deviation:.1f}" if len(trial.scores) > 1 else "–"
        table.add_row(str(trial.number), *values, f"{trial.score:.1f}", spread)
    console.print(table)
    failed = [trial for trial in came.trials if trial.failure]
    if failed:
        many, first = f"{len(failed)} of {len(came.trials)} trials failed", failed[0]
        say(f"{many}, the first of them trial {first.number}: {first.failure}")
    say(f"All {len(came.trials)} trials: {came.path / 'trials.csv'}")
    if came.best:
        say(f"To train with the best, on seeds it was not chosen by:\n  {_command(came, made)}")


def _brief(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _command(came: Tuning, made: Plan) -> str:
    options = {"algorithm": made.algorithm, "strategy": made.strategy, "steps": made.steps}
    options |= {"seeds": MEASURED, "out": f"{came.path}-best"}
    words = ["discover", "train", made.task]
    for name, value in options.items():
        words += [f"--{name}", str(value)]
    for name, value in {**made.overrides, **came.best}.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)
