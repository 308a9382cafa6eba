"""The command line `discover`: one module for each of its commands.

`main` puts them together and turns errors into messages and `exit_codes`. `options` has the options
that several commands share, `examples` the examples in help texts, `board` shows studies on a
terminal, and `explain` prints where the settings of a run come from.
"""

from discover_rl.cli.main import main

__all__ = ["main"]
