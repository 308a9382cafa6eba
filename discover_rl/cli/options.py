"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discover_rl.config import MOST_PROCESSES
from discover_rl.core.types import UserError
from discover_rl.system.paths import a_folder

if TYPE_CHECKING:
    from discover_rl.studies import Study


def folder_option(sentence: str, default: str) -> Any:
    """An option that takes a folder.

    Args:
        sentence: its help text.
        default: how the help text names the folder that is used without it.
    """
    return typer.Option(help=sentence, show_default=default, parser=a_folder, metavar="FOLDER")


Task = Annotated[str, typer.Argument(help="A Gymnasium id (Hopper-v5), or module:id.")]
"""The task of a training or a tuning."""


def algorithm_names() -> list[str]:
    """The names of all algorithms of the package."""
    from discover_rl.algorithms import ALGORITHMS

    return list(ALGORITHMS)


def strategy_names() -> list[str]:
    """The names of all strategies of the package."""
    from discover_rl.strategies import STRATEGIES

    return list(STRATEGIES)


def study_names() -> list[str]:
    """The names of the studies that come with the package."""
    from discover_rl.studies import shipped

    return list(shipped())


Algorithm = Annotated[
    str,
    typer.Option(
        help="The learning algorithm; see `discover list`.", autocompletion=algorithm_names
    ),
]
"""The name of an algorithm."""
Strategy = Annotated[
    str,
    typer.Option(
        help="The exploration strategy; see `discover list`.", autocompletion=strategy_names
    ),
]
"""The name of a strategy."""
Steps = Annotated[int, typer.Option(help="Environment steps of each run.")]
"""How long runs are."""
Processes = Annotated[
    int,
    typer.Option(
        min=0,
        max=MOST_PROCESSES,
        help="How many processes share the runs; 0: the fastest number.",
        metavar="<int>",
    ),
]
"""How many processes train at once."""
Fresh = Annotated[
    bool,
    typer.Option("--fresh", metavar="", help="Start over; the folder is renamed to FOLDER.old-1."),
]
"""Whether to start over."""
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway", metavar="", help="Continue even if the code of your own task has changed since."
    ),
]
"""Whether to continue runs on a task whose code has changed."""
Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="MODULE",
        help="Allow files that name this module, as module:id, to have it imported.",
    ),
]
"""Modules that are named in files and may be imported."""
TensorBoard = Annotated[
    bool,
    typer.Option(
        "--tensorboard", metavar="", help="Write curves for TensorBoard into the runs' folders."
    ),
]
"""Whether to write curves for TensorBoard."""
WeightsAndBiases = Annotated[
    str | None, typer.Option(help="Log to this project of Weights & Biases.", metavar="PROJECT")
]
"""The project of Weights & Biases to log to."""
StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="A study's name (`discover list`), or a .toml file.",
        autocompletion=study_names,
    ),
]
"""Which study a command is about."""
StudyFolder = Annotated[Path | None, folder_option("Folder of its results.", "results/STUDY")]
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
