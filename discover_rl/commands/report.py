"""`discover report`: figures, tables and a summary of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discover_rl.commands.study import Name, Out


def report(
    study: Name,
    out: Out = None,
    to: Annotated[
        Path | None, typer.Option(help="Folder for the report.", show_default="OUT/report")
    ] = None,
    published: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A copy of the authors' curves, to be drawn, too."),
    ] = None,
) -> None:
    """Draw a study's curves, tabulate its scores and say what can be claimed.

    Runs that are missing or failed are named; what there is is reported all the same.
    """
    from discover_rl import report as room
    from discover_rl import studies
    from discover_rl.display import say

    declared = studies.load(study)
    written = room.write(declared, out or declared.out, to, published)
    say(written.summary)
    for file in written.files:
        say(str(file))
    say(f"{len(written.files):,} files.{' Runs are missing, see above.' * bool(written.missing)}")
