"""What `discover` can be told. Everything heavy is imported inside the command that needs it."""

FAILED, USER_ERROR, UNFINISHED, INTERRUPTED = 1, 2, 3, 130
"""Exit codes, beside 0: something failed; a mistake in what was asked; time was up; Ctrl-C."""
