"""`discover plan`, `run`, `status` and `export`: studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discover_rl.commands import FAILED, INTERRUPTED, UNFINISHED
from discover_rl.types import UserError

Name = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study's name (`discover list`), or a .toml file.")
]
Out = Annotated[
    Path | None, typer.Option(help="Folder of its results.", show_default="results/STUDY")
]


def plan(
    study: Name,
    out: Out = None,
    measure: Annotated[
        bool, typer.Option(help="Measure what is not known of this machine yet, for a moment.")
    ] = True,
) -> None:
    """What a study comes to: runs, cohorts, memory, disk, and hours on this machine.

    Trains nothing of it. What is not known of this machine is measured, which takes up to a minute
    for every algorithm × strategy the first time.
    """
    from discover_rl import board, studies
    from discover_rl.display import say
    from discover_rl.studies import estimate
    from discover_rl.studies import plan as plans

    declared = studies.load(study)
    folder = out or declared.out
    cohorts = plans.proposed(declared, folder)
    left = plans.left(cohorts)
    tell = (lambda what: say(f"measuring {what} …")) if measure else None
    found = estimate.costs(left, estimate.Paces(), tell)
    board.show_plan(declared, cohorts, left, found)


def run(
    study: Name,
    out: Out = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after so long; the same command goes on.")
    ] = None,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Only the I-th of N parts, for N machines.")
    ] = "1/1",
    engine: Annotated[str, typer.Option(help="Where cohorts are trained: local or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster that is running.")] = None,
    processes: Annotated[
        int, typer.Option(min=0, help="Cohorts at once; 0: as many as pay.", metavar="<int>")
    ] = 0,
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0, help="Time between checkpoints.", metavar="SECONDS")
    ] = 60.0,
    retry: Annotated[bool, typer.Option("--retry", help="Do runs that failed once more.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write event files into the runs' folders.")
    ] = False,
    wandb: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Log to Weights & Biases.")
    ] = None,
) -> None:
    """Do what is missing of a study.

    Stop it, kill it, call it again, from several terminals or machines on one folder at once: no
    run is trained twice, and none is lost. Exit codes: 0 all of it, or of the part, is done; 1
    something failed; 3 some of it is left to do; 130 Ctrl-C.
    """
    import time

    from discover_rl import api

    until = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    with api.stop_on_signal() as asked:  # from here on nothing is lost that is asked for
        from discover_rl import board, engines, observers, studies
        from discover_rl.studies import campaign, progress

        part, declared = _shard(shard), studies.load(study)
        folder = out or declared.out
        train = engines.choose(engine, address, processes, checkpoint_seconds)
        cohorts = campaign.prepare(declared, folder, part, retry)
        others = observers.Droppable(observers.chosen(folder, tensorboard, wandb), board.say)
        with board.on_terminal() as shown:

            def stopping() -> bool:
                return asked() or time.monotonic() >= until

            whole = campaign.carry_out(cohorts, train, shown, others, stopping)
        interrupted = asked()
    found = progress.standings(declared, folder)
    board.show_standings(declared, found)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(it.state == "failed" for it in found):
        raise typer.Exit(FAILED)
    if not whole:
        raise typer.Exit(UNFINISHED)


def status(study: Name, out: Out = None) -> None:
    """What of a study is done, running, to be done, and failed, and why.

    Exit codes: 0 all is done, 1 something failed, 3 some of it is left to do.
    """
    from discover_rl import board, studies
    from discover_rl.studies import progress

    declared = studies.load(study)
    found = progress.standings(declared, out or declared.out)
    board.show_standings(declared, found)
    states = progress.counts(found)
    if "failed" in states:
        raise typer.Exit(FAILED)
    if states.keys() - {"done"}:
        raise typer.Exit(UNFINISHED)


def export(
    study: Name,
    out: Out = None,
    to: Annotated[
        Path | None, typer.Option(help="The file to write.", show_default="OUT/STUDY.csv")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV, the only format there is.")] = True,
) -> None:
    """Write all evaluations of a study as one tidy table, a row each."""
    del csv
    from discover_rl import studies
    from discover_rl.display import say
    from discover_rl.studies import tables

    declared = studies.load(study)
    folder = out or declared.out
    path = to or folder / f"{declared.name}.csv"
    rows = tables.write(declared, folder, path)
    say(f"{rows:,} evaluations in {path}")


def _shard(text: str) -> tuple[int, int]:
    i, slash, n = text.partition("/")
    if not (slash and i.isdecimal() and n.isdecimal() and 1 <= int(i) <= int(n)):
        raise UserError(f"--shard takes I/N with 1 ≤ I ≤ N, as 2/4, not {text!r}.")
    return int(i), int(n)
