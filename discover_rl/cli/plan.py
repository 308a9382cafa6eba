"""`discover plan`: estimate what a study takes, before it is run."""

from __future__ import annotations

from typing import Annotated

import typer

from discover_rl.cli.options import StudyFolder, StudyName, Trust, check_modules


def plan(
    study: StudyName,
    out: StudyFolder = None,
    measure: Annotated[
        bool,
        typer.Option(metavar="", help="Measure the speed of this machine where it is not known."),
    ] = True,
    trust: Trust = None,
) -> None:
    """Estimate what a study takes: runs, cohorts, memory, disk, and hours on this machine.

    Nothing of the study is trained. The first time, the speed of this machine is measured, which
    takes up to a minute for every algorithm × strategy.
    """
    from discover_rl.cli import board
    from discover_rl.studies import estimate, load
    from discover_rl.studies import plan as plans
    from discover_rl.training.observers.terminal import say

    declared = load(study)
    check_modules(declared, trust)
    folder = out or declared.out
    cohorts = plans.proposed(declared, folder)
    left = plans.left(cohorts)
    announce = (lambda what: say(f"measuring {what} …")) if measure else None
    timings = estimate.Timings()
    on_gpu = estimate.at_once(left, timings, announce)
    found = estimate.costs(left, timings, announce, on_gpu)
    board.show_plan(declared, cohorts, left, found, on_gpu)
