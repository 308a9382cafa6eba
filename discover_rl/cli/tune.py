"""`discover tune`: choose hyper-parameters with Optuna."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discover_rl.cli.exit_codes import FAILED
from discover_rl.cli.options import (
    Algorithm,
    Processes,
    Steps,
    Strategy,
    Task,
    folder_option,
    name_and_value,
)
from discover_rl.tuning import MANY

if TYPE_CHECKING:
    from discover_rl.tuning import Plan
    from discover_rl.tuning.trials import Trial, Tuning

SHOWN = 10
"""The number of trials in the table; trials.csv has all."""
MEASURED = 10
"""The number of seeds in the command that trains the best parameters."""


def tune(
    task: Task,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="NAME=RANGE",
            help="A tuned setting: strategy.lam=0:1, actor_lr=1e-5:1e-2:log, "
            "batch_size=64,128,256; `discover list ALGORITHM` shows the names.",
        ),
    ] = None,
    algorithm: Algorithm = "td3",
    strategy: Strategy = "discover",
    steps: Steps = 1_000_000,
    seeds: Annotated[int, typer.Option(help="Runs of each trial: seeds 1000, 1001, …")] = 1,
    trials: Annotated[
        int, typer.Option(help="How many trials; the number may be raised later.")
    ] = MANY,
    lanes: Annotated[
        int | None,
        typer.Option(help="The largest number of runs side by side.", show_default="8 trials"),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of Optuna's proposals.")] = 0,
    out: Annotated[Path | None, folder_option("Folder for everything.", "runs/…-tune")] = None,
    processes: Processes = 0,
    storage: Annotated[
        str | None,
        typer.Option(
            help="Where Optuna keeps trials: a URL (sqlite:///tuning.db) or a journal file.",
            metavar="URL|FILE",
            show_default="journal.log in the folder",
        ),
    ] = None,
    prune: Annotated[
        str | None,
        typer.Option(
            help="Stop trials on the way that are worse than the median of earlier ones: median.",
            metavar="PRUNER",
            show_default="all are trained to their end",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting, the same for all trials."),
    ] = None,
) -> None:
    """Choose hyper-parameters with Optuna, or continue a tuning that the same command began.

    A trial's score is the mean of its runs' last evaluations (the last tenth, ten if there are 50
    or more; the setting score.last), over its seeds. The seeds of `discover train`, 0, 1, …, are
    not among them: train with these to measure the best parameters. With --prune median, trials are
    compared after an eighth, a quarter and a half of the steps, from the second batch on.
    """
    from discover_rl import tuning
    from discover_rl.config import Request
    from discover_rl.envs.versions import completed

    task = completed(task)
    tuned = dict(name_and_value("--range", text) for text in ranges or [])
    overrides = dict(name_and_value("--set", text) for text in settings or [])
    request = Request(task, algorithm, strategy, steps, seeds, overrides)
    plan = tuning.make_plan(request, tuned, lanes, seed, prune)
    folder = out if out is not None else tuning.default_folder(request)
    result = tuning.carry_out(plan, folder, trials, processes=processes, storage=storage)
    _show(result, plan)
    if not result.best:
        raise typer.Exit(FAILED)


def _show(result: Tuning, plan: Plan) -> None:
    """Print the best trials, how many failed or were pruned, and a command that trains the best."""
    from rich.table import Table

    from discover_rl.storage import scores
    from discover_rl.training.observers.terminal import console, say, shown

    table = Table(title=shown(str(result.path)), title_justify="left")
    pruning = ["pruned"] if plan.prune else []
    for name in ("trial", *plan.ranges, "score", "± sd", *pruning):
        table.add_column(shown(name), justify="right", overflow="fold")
    for trial in [*result.ranking, *result.pruned][:SHOWN]:
        values = [shown(_brief(trial.parameters[name])) for name in plan.ranges]
        score = f"{trial.score:.1f}" if trial.scores else "–"
        spread = f"{trial.deviation:.1f}" if len(trial.scores) > 1 else "–"
        where = [_where_pruned(trial)] if plan.prune else []
        table.add_row(str(trial.number), *values, score, spread, *where)
    console.print(table)
    if plan.prune:
        say(_how_many_pruned(result))
    failed = [trial for trial in result.trials if trial.failure]
    if failed:
        many, first = f"{len(failed)} of {len(result.trials)} trials failed", failed[0]
        say(f"{many}, the first of them trial {first.number}: {first.failure}")
    if len(result.importances) > 1:
        found = [f"{name} {share:.0%}" for name, share in result.importances.items()]
        say(f"The settings explain of the scores' variance (fANOVA): {', '.join(found)}.")
    say(f"All {len(result.trials)} trials: {result.path / 'trials.csv'}")
    if result.best:
        counted = scores.planned(plan.runs(0, result.best)[0])
        say(f"The score of a run is the {scores.in_words(counted)}.")
        say(f"To train with the best parameters, on other seeds:\n  {_command(result, plan)}")


def _where_pruned(trial: Trial) -> str:
    """The step at which a trial was pruned and its mean return there, as a table shows them."""
    if trial.pruned is None:
        return ""
    return f"at {trial.pruned:,}: {trial.values[trial.pruned]:.1f}"


def _how_many_pruned(result: Tuning) -> str:
    """How many trials were pruned, and where, in words."""
    steps = Counter(trial.pruned or 0 for trial in result.pruned)
    found = ", ".join(f"{steps[step]} at step {step:,}" for step in sorted(steps))
    were = "was" if len(result.pruned) == 1 else "were"
    many = f"{len(result.pruned)} of {len(result.trials)} trials {were} pruned"
    return f"{many}: {found}." if found else f"{many}."


def _brief(value: object) -> str:
    """A value as a table shows it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _command(result: Tuning, plan: Plan) -> str:
    """The command that trains the best parameters."""
    request = plan.request
    options = {name: getattr(request, name) for name in ("algorithm", "strategy", "steps")}
    options |= {"seeds": MEASURED, "out": f"{result.path}-best"}
    words = ["discover", "train", request.task]
    for name, value in options.items():
        words += [f"--{name}", str(value)]
    for name, value in {**request.settings, **result.best}.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)
