"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discover_rl.core.types import UserError
from discover_rl.system.paths import a_folder

if TYPE_CHECKING:
    from discover_rl.studies import Study


MOST_PROCESSES = 1000
"""The largest number of processes that train at once."""


Task = Annotated[str, typer.Argument(help="A Gymnasium id (Hopper-v5), or module:id.")]
"""The task of a training or a tuning."""


def _algorithms() -> list[str]:
    from discover_rl.algorithms import ALGORITHMS

    return list(ALGORITHMS)


def _strategies() -> list[str]:
    from discover_rl.strategies import STRATEGIES

    return list(STRATEGIES)


def _studies() -> list[str]:
    from discover_rl.studies import shipped

    return list(shipped())


Algorithm = Annotated[
    str,
    typer.Option(help="The learning algorithm; see `discover list`.", autocompletion=_algorithms),
]
"""The name of an algorithm."""
Strategy = Annotated[
    str,
    typer.Option(help="The exploration strategy; see `discover list`.", autocompletion=_strategies),
]
"""The name of a strategy."""
Steps = Annotated[int, typer.Option(help="Environment steps of each run.")]
"""How long runs are."""
Processes = Annotated[
    int,
    typer.Option(
        min=0,
        max=MOST_PROCESSES,
        help="How many processes share the runs; 0: as many as are faster.",
        metavar="<int>",
    ),
]
"""How many processes train at once."""
Fresh = Annotated[
    bool,
    typer.Option("--fresh", help="Start over; what there is is moved aside, to FOLDER.old-1."),
]
"""Whether to start over."""
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway", help="Continue though the code of a task of your own has changed since."
    ),
]
"""Whether to continue runs on a task whose code has changed."""
Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="MODULE",
        help="A module of your own that files name, as module:id, and that may be imported.",
    ),
]
"""Modules that are named in files and may be imported."""
StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="A study's name (`discover list`), or a .toml file.",
        autocompletion=_studies,
    ),
]
"""Which study a command is about."""
StudyFolder = Annotated[
    Path | None,
    typer.Option(
        help="Folder of its results.",
        show_default="results/STUDY",
        parser=a_folder,
        metavar="FOLDER",
    ),
]
"""Where a study's results are."""


def name_and_value(option: str, text: str) -> tuple[str, str]:
    """Split NAME=VALUE.

    Args:
        option: the option that was given it, for the error message.
        text: NAME=VALUE.

    Raises:
        UserError: there is no name or no value.

    >>> name_and_value("--set", "strategy.lam=0.1")
    ('strategy.lam', '0.1')
    """
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise UserError(f"{option} takes NAME=VALUE, not {text!r}.")
    return name.strip(), value.strip()


def check_modules(study: Study, trust: Sequence[str] | None) -> None:
    """Raise a UserError if a study's file names a module that the user has not named.

    Args:
        study: what the file declares.
        trust: the values of `--trust`.
    """
    from discover_rl.system.modules import check_named

    for cell in study.cells:
        check_named(cell.where, cell.task, cell.settings, trust or [])
