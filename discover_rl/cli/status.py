"""`discover status`: show how far a study is."""

from __future__ import annotations

import typer

from discover_rl.cli.exit_codes import FAILED, UNFINISHED
from discover_rl.cli.options import StudyFolder, StudyName


def status(study: StudyName, out: StudyFolder = None) -> None:
    """Show which runs of a study are done, running, waiting or failed, and why these failed.

    Exit codes: 0 all runs are done, 1 a run failed, 3 some runs are left to train.
    """
    from discover_rl.cli import board
    from discover_rl.studies import load
    from discover_rl.studies import status as statuses

    declared = load(study)
    found = statuses.statuses(declared, out or declared.out)
    board.show_status(declared, found)
    states = statuses.counts(found)
    if "failed" in states:
        raise typer.Exit(FAILED)
    if states.keys() - {"done"}:
        raise typer.Exit(UNFINISHED)
