"""`discover export`: write a study as one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discover_rl.cli.options import StudyFolder, StudyName, a_file


def export(
    study: StudyName,
    out: StudyFolder = None,
    to: Annotated[
        Path | None,
        typer.Option(
            help="The file to write.", show_default="OUT/STUDY.csv", parser=a_file, metavar="FILE"
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV, the only format.")] = True,
) -> None:
    """Write all evaluations of a study as one tidy table, with a row for each."""
    del csv
    from discover_rl.studies import export as tables
    from discover_rl.studies import load
    from discover_rl.training.observers.terminal import say

    declared = load(study)
    folder = out or declared.out
    path = to or folder / f"{declared.name}.csv"
    rows = tables.write(declared, folder, path)
    say(f"{rows:,} evaluations in {path}")
