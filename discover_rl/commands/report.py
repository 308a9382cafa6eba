"""`discover report` and `watch`: figures, tables, a summary and a page of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discover_rl.commands import INTERRUPTED
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
    until: Annotated[
        int | None,
        typer.Option(metavar="STEP", help="Look at runs up to a step, as if they ended there."),
    ] = None,
) -> None:
    """Draw a study's curves, tabulate its scores and say what can be claimed.

    Runs that are missing or failed are named; what there is is reported all the same.
    """
    from discover_rl import report as room
    from discover_rl import studies
    from discover_rl.display import say

    declared = studies.load(study)
    written = room.write(declared, out or declared.out, to, published, until)
    say(written.summary)
    for file in written.files:
        say(str(file))
    say(f"{len(written.files):,} files.{' Runs are missing, see above.' * bool(written.missing)}")


def watch(
    study: Name,
    out: Out = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to serve it; 0: a free one.")
    ] = 0,
) -> None:
    """Show a study's page in a browser while it is trained, to this machine alone.

    The page follows the records by itself. Ctrl-C ends it, with exit code 130; what is being
    trained goes on.
    """
    import signal

    from discover_rl import studies
    from discover_rl.display import say
    from discover_rl.report import live

    declared = studies.load(study)
    for number in (signal.SIGINT, signal.SIGTERM):  # which a shell may have had us ignore
        signal.signal(number, signal.default_int_handler)
    say(f"Reading {len(declared.names):,} runs …")
    try:
        live.serve(
            declared, out or declared.out, port, lambda it: say(f"{it}  until Ctrl-C ends it")
        )
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
