"""`discover report`: write figures, tables, a summary and a page of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discover_rl.cli.options import StudyFolder, StudyName, folder_option
from discover_rl.system.paths import a_file, a_folder


def report(
    study: StudyName,
    out: StudyFolder = None,
    to: Annotated[Path | None, folder_option("Folder for the report.", "OUT/report")] = None,
    published: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="A copy of the authors' curves, to draw them, too.",
            parser=a_folder,
        ),
    ] = None,
    until: Annotated[
        int | None,
        typer.Option(
            min=1, max=10**9, metavar="STEP", help="Treat runs as if they ended at a step."
        ),
    ] = None,
    leaderboard: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.md",
            help="Write a suite's leaderboard instead: one page and its figure.",
            parser=a_file,
        ),
    ] = None,
) -> None:
    """Draw a study's curves, tabulate its scores and summarise what they show.

    Runs that are missing or failed are named; all others are reported.
    """
    from discover_rl import report as reports
    from discover_rl.studies import load
    from discover_rl.training.observers.terminal import say

    declared = load(study)
    if leaderboard is not None:
        for file in reports.write_leaderboard(declared, out or declared.out, leaderboard, until):
            say(str(file))
        return
    written = reports.write(declared, out or declared.out, to, published, until)
    say(written.summary)
    if written.missing:
        say("Runs are missing, see above.")
    say(f"{len(written.files):,} files; the page has all of it: {written.page}")
