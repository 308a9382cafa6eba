"""The command line `discover`: one module for each of its commands.

`main` puts them together and turns errors into messages and exit codes, `options` has the options
that several commands share, `board` shows studies on a terminal.
"""

from discover_rl.cli.main import main

__all__ = ["main"]
