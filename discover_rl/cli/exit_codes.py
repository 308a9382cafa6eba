"""Exit codes of `discover`; 0 is success."""

FAILED = 1
"""A run, or the command itself, failed."""
USER_ERROR = 2
"""The user made a mistake, which a sentence on stderr names."""
UNFINISHED = 3
"""Some runs of a study are left to train."""
INTERRUPTED = 130
"""The user pressed Ctrl-C."""
MEANINGS = {
    0: "all is done",
    FAILED: "a run, or the command itself, failed",
    USER_ERROR: "a mistake in the command or in a file; a sentence names it",
    UNFINISHED: "some runs of a study are left to train",
    INTERRUPTED: "Ctrl-C or SIGTERM; all is saved",
}
"""The meaning of each code, in words."""
