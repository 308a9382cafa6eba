"""`discover run`: train the runs of a study."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from discover_rl.cli.exit_codes import FAILED, INTERRUPTED, UNFINISHED
from discover_rl.cli.options import (
    Anyway,
    Fresh,
    StudyFolder,
    StudyName,
    TensorBoard,
    Trust,
    WeightsAndBiases,
    check_modules,
)
from discover_rl.config import MOST_PROCESSES
from discover_rl.core.types import UserError

MOST_PARTS = 10_000
"""The largest number of parts that a study is divided into for machines."""


def run(
    study: StudyName,
    out: StudyFolder = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0, max=10_000_000, help="Stop after this time; the same command continues."
        ),
    ] = None,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Train only the I-th of N parts, for N machines.")
    ] = "1/1",
    engine: Annotated[str, typer.Option(help="Where cohorts are trained: local or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="The address of a running Ray cluster.")
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            min=0,
            max=MOST_PROCESSES,
            help="How many cohorts train at once; 0: the fastest number.",
            metavar="<int>",
        ),
    ] = 0,
    checkpoint_seconds: Annotated[
        float,
        typer.Option(min=0, max=10**9, help="Time between checkpoints.", metavar="SECONDS"),
    ] = 60.0,
    retry: Annotated[
        bool, typer.Option("--retry", metavar="", help="Train failed runs again.")
    ] = False,
    fresh: Fresh = False,
    anyway: Anyway = False,
    trust: Trust = None,
    tensorboard: TensorBoard = False,
    wandb: WeightsAndBiases = None,
) -> None:
    """Train the unfinished runs of a study.

    The command may be stopped, killed and called again, also from several terminals or machines
    with one folder at once: no run is trained twice, and none is lost. Exit codes: 0 all runs, or
    those of the part, are done; 1 a run failed; 3 some runs are left to train; 130 Ctrl-C.
    """
    import time

    from discover_rl.training.signals import stop_on_signal

    until = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    with stop_on_signal() as asked:  # before imports, which take seconds
        from discover_rl.cli import board
        from discover_rl.storage.files import move_aside
        from discover_rl.studies import campaign, estimate, load
        from discover_rl.studies import plan as plans
        from discover_rl.studies import status as statuses
        from discover_rl.training import engines, observers
        from discover_rl.training.observers.terminal import say

        part, declared = _shard(shard), load(study)
        check_modules(declared, trust)
        folder = out or declared.out
        engines.check(engine, address)
        if fresh:
            move_aside(folder)
        prepared = campaign.prepare(declared, folder, part, retry, anyway, here=engine == "local")
        on_gpu = 1
        if engine == "local" and not processes:
            on_gpu = estimate.at_once(plans.left(*prepared), estimate.Timings())
        if on_gpu > 1:
            say(f"{on_gpu} cohorts at once on the GPU, which discover plan measured as faster.")
        train = engines.choose(engine, address, processes, checkpoint_seconds, on_gpu)
        others = observers.FailSafeObservers(observers.requested(folder, tensorboard, wandb), say)
        with board.on_terminal() as shown:

            def stopping() -> bool:
                return asked() or time.monotonic() >= until

            whole = campaign.carry_out(prepared, train, shown, others, stopping)
        interrupted = asked()
    found = statuses.statuses(declared, folder)
    board.show_status(declared, found)
    named = f"{study}{'' if out is None else f' --out {out}'}"
    say(next_step(named, [run.state for run in found], whole))
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(run.state == "failed" for run in found):
        raise typer.Exit(FAILED)
    if not whole:
        raise typer.Exit(UNFINISHED)


def next_step(study: str, states: Sequence[str], whole: bool = False) -> str:
    """Say in a sentence what to do after `discover run`.

    Args:
        study: the study, as the command line has it, with its folder.
        states: of all its runs.
        whole: whether the part that was asked for is done.

    >>> next_step("smoke", ["done", "done"])
    'Next: discover report smoke'
    >>> next_step("mine.toml", ["done", "waiting"], whole=True)[:21]
    'Next: the other parts'
    """
    report = f"discover report {study}"
    if "failed" in states:
        retry = f"discover run {study} --retry"
        return f"Next: {retry}, for runs that failed; {report}, for the others."
    if set(states) <= {"done"}:
        return f"Next: {report}"
    if whole:
        return f"Next: the other parts, which --shard names; {report} shows what there is so far."
    return f"Next: the same command goes on; {report} shows what there is so far."


def _shard(text: str) -> tuple[int, int]:
    """The two numbers of I/N."""
    numbers = re.fullmatch("([0-9]{1,6})/([0-9]{1,6})", text)
    i, n = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= i <= n <= MOST_PARTS:
        raise UserError(f"--shard takes I/N with 1 ≤ I ≤ N ≤ {MOST_PARTS}, as 2/4, not {text!r}.")
    return i, n
