"""`discover export`: write a study as one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discover_rl.cli.options import StudyFolder, StudyName
from discover_rl.system.paths import a_file


def export(
    study: StudyName,
    out: StudyFolder = None,
    to: Annotated[
        Path | None,
        typer.Option(
            help="The file to write.", show_default="OUT/STUDY.csv", parser=a_file, metavar="FILE"
        ),
    ] = None,
    csv: Annotated[
        bool, typer.Option("--csv", metavar="", help="Write CSV, the only format.")
    ] = True,
) -> None:
    """Write all evaluations of a study as one tidy table, with a row for each.

    Runs whose records are damaged are named and left out.
    """
    del csv
    from discover_rl.studies import export as tables
    from discover_rl.studies import load
    from discover_rl.training.observers.terminal import say

    declared = load(study)
    folder = out or declared.out
    path = to or folder / f"{declared.name}.csv"
    written = tables.write(declared, folder, path)
    for run in written.left_out:
        say(f"Left out: {run.name}: {run.reason}")
    say(f"{written.rows:,} evaluations in {path}")
