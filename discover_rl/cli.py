"""The `discover` command: which commands it has, and what becomes of mistakes."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Annotated, NoReturn

import typer

from discover_rl._version import __version__
from discover_rl.commands import (
    FAILED,
    INTERRUPTED,
    USER_ERROR,
    look,
    report,
    study,
    theory,
    train,
    tune,
    visitation,
)
from discover_rl.types import Stopped, UserError

app = typer.Typer(
    help="Exploration in continuous control: train, compare and report.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(train.train)
app.command()(tune.tune)
app.command()(look.evaluate)
app.command(name="list")(look.list_)
STUDIES = (study.plan, study.run, study.status, study.export, report.report, report.watch)
for command in (*STUDIES, theory.theory, visitation.visitation):
    app.command()(command)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> NoReturn:
    """Run the command; mistakes are one sentence and exit code 2."""
    sys.path.append(os.getcwd())  # so that module:id finds a module of the user's own
    command = shlex.join(["discover", *sys.argv[1:]])
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        _exit(str(error), USER_ERROR)
    except BrokenPipeError:  # who read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except Stopped as stop:
        _exit(f"Stopped at step {stop.step:,}, all is saved. To go on: {command}", INTERRUPTED)
    except ChildProcessError as error:
        _exit("\n".join([*getattr(error, "__notes__", []), str(error)]), FAILED)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _exit(
            f"The disk said: {error.strerror or error}{where}. Records and the last checkpoint are "
            f"whole; mend it and run the same command again: {command}",
            FAILED,
        )
    except Exception as error:
        # The command line's own complaints, of a word it does not know, say it in one sentence.
        if complaint := getattr(error, "format_message", None):
            _exit(complaint(), USER_ERROR)
        raise
    sys.exit(code or 0)


def _exit(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(code)
