"""`discover watch`: show a study's page in a browser while the study is trained."""

from __future__ import annotations

from typing import Annotated

import typer

from discover_rl.cli.exit_codes import INTERRUPTED
from discover_rl.cli.options import StudyFolder, StudyName


def watch(
    study: StudyName,
    out: StudyFolder = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port of the page; 0: a free one.")
    ] = 0,
) -> None:
    """Show a study's page in a browser on this machine while the study is trained.

    The page updates itself as records grow. Ctrl-C ends the command, with exit code 130, and does
    not end training.
    """
    import signal

    from discover_rl.report import live
    from discover_rl.studies import load
    from discover_rl.training.observers.terminal import say

    declared = load(study)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell may have set them to be ignored
        signal.signal(number, signal.default_int_handler)
    say(f"Reading {len(declared.names):,} runs …")
    try:
        live.serve(
            declared, out or declared.out, port, lambda url: say(f"{url}  until Ctrl-C ends it")
        )
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
