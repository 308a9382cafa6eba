"""The command `discover`: its subcommands, and how errors become messages and exit codes."""

from __future__ import annotations

import errno
import gc
import io
import os
import shlex
import sys
from typing import Annotated, NoReturn

import typer

from discover_rl._version import __version__
from discover_rl.cli.evaluate import evaluate
from discover_rl.cli.examples import epilog, exit_code_table, unwrapped
from discover_rl.cli.exit_codes import FAILED, INTERRUPTED, USER_ERROR
from discover_rl.cli.export import export
from discover_rl.cli.list import list_
from discover_rl.cli.plan import plan
from discover_rl.cli.report import report
from discover_rl.cli.run import run
from discover_rl.cli.status import status
from discover_rl.cli.theory import theory
from discover_rl.cli.train import train
from discover_rl.cli.tune import tune
from discover_rl.cli.visitation import visitation
from discover_rl.cli.watch import watch
from discover_rl.core.types import Stopped, UserError
from discover_rl.system.paths import SpecialFile
from discover_rl.system.text import printable, shortened
from discover_rl.training.signals import end_where_it_hangs

PATHS: dict[type[OSError], str] = {
    NotADirectoryError: "is not a folder, or is in something that is none",
    IsADirectoryError: "is a folder, and a file is needed",
    FileExistsError: "is a file, and a folder is needed",
    FileNotFoundError: "does not exist",
    PermissionError: "cannot be read or written to: you have no permission",
    SpecialFile: "is neither a file nor a folder",
}
"""What is wrong with a path, by the type of the error."""
app = typer.Typer(
    help="Exploration in continuous control: train, compare and report.",
    no_args_is_help=True,
    epilog=exit_code_table(),
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
"""The command and all its subcommands, for the parser."""

_TRAINING = (train, tune, evaluate, list_)
_STUDIES = (plan, run, status, export, report, watch)
for command in (*_TRAINING, *_STUDIES, theory, visitation):
    _name = command.__name__.removesuffix("_")
    app.command(_name, epilog=epilog(_name), help=unwrapped(command.__doc__ or ""))(command)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[
        bool, typer.Option("--version", metavar="", help="Print the version.")
    ] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> NoReturn:
    """Run the command of `sys.argv` and exit.

    A mistake of the user is one sentence on stderr and exit code 2; `exit_codes` has the others.
    """
    command = shlex.join(["discover", *sys.argv[1:]])
    # Records are read as very many small objects, and none of them is garbage: looking for some as
    # often as Python does by default takes longer than reading.
    gc.set_threshold(50_000, 20, 50)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal has a λ
    try:
        with end_where_it_hangs():
            code = app(standalone_mode=False)
    except UserError as error:
        _exit(shortened(str(error)), USER_ERROR)
    except BrokenPipeError:  # nobody reads the output any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except Stopped as stop:
        _exit(f"Stopped at step {stop.step:,}, all is saved. To go on: {command}", INTERRUPTED)
    except typer.Abort:  # a second Ctrl-C; what there is to say was said
        sys.exit(INTERRUPTED)
    except ChildProcessError as error:
        _exit("\n".join([*getattr(error, "__notes__", []), str(error)]), FAILED)
    except MemoryError as error:
        _exit(f"Memory does not suffice ({shortened(str(error) or 'for an array')}).", FAILED)
    except OSError as error:
        said, code = _about(error, command)
        _exit(shortened(said), code)
    except Exception as error:
        # Errors of the command-line parser, as of an unknown option, have a sentence of their own.
        if sentence := getattr(error, "format_message", None):
            _exit(sentence(), USER_ERROR)
        raise
    sys.exit(code or 0)


def _about(error: OSError, command: str) -> tuple[str, int]:
    """Return the message and the exit code for an error of reading or writing.

    A wrong path is the user's mistake. Only for a full disk the message says that nothing is lost:
    there training is known to leave records and checkpoints whole.
    """
    path = f"{error.filename}" if error.filename else "A path"
    for kind, sentence in PATHS.items():
        if isinstance(error, kind):
            return f"{path} {sentence}.", USER_ERROR
    if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
        return f"{path} cannot be a path: {error.strerror}.", USER_ERROR
    where = f" ({error.filename})" if error.filename else ""
    said = f"Reading or writing failed: {error.strerror or error}{where}."
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if command.split()[1:2] not in (["train"], ["tune"], ["run"]):
        return said, FAILED
    said += " Records and the last checkpoint are intact; correct" if full else " Correct"
    return f"{said} the cause and run the same command again: {command}", FAILED


def _exit(message: str, code: int) -> NoReturn:
    """Print a message to stderr and exit."""
    print(printable(message), file=sys.stderr)
    sys.exit(code)
