"""Modules of the user's own: where they are found, and that none is imported unasked.

Importing a module runs its code. A `module:id` that the user writes on the command line, or in
Python, is theirs. One that was read from a file – a policy, a record, a study – may be a
stranger's: it is imported only if the user names its module as well.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from discover_rl.core.types import UserError

WRAPPERS = "env.wrappers"
"""The setting whose words are of the form module:function."""

FOLDERS: list[str] = []
"""Folders that are searched like the working directory; a Ray task has its user's here."""


@contextlib.contextmanager
def findable() -> Iterator[None]:
    """In this context, modules in the working directory can be imported.

    They come last: a file there takes the place of no module that is installed. Outside of it the
    working directory is not searched, so that a folder that happens to be there runs no code.
    """
    added = [os.getcwd(), *FOLDERS]
    sys.path += added
    try:
        yield
    finally:
        for folder in added:
            # The last one: the user may have put the same folder there for good.
            if folder in sys.path:
                del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]


def needed(task: str, settings: Mapping[str, Any]) -> list[str]:
    """The modules that are imported for a run, by its task and settings, each with its package.

    >>> needed("reach:Reach-v0", {"env.wrappers": ["mine.scale:Scale"]}), needed("Hopper-v5", {})
    (['reach', 'mine.scale'], [])
    """
    given = settings.get(WRAPPERS, [])
    words = [task, *(given.split(",") if isinstance(given, str) else given)]
    return [str(word).rpartition(":")[0] for word in words if ":" in str(word)]


def check_named(
    where: Any, task: str, settings: Mapping[str, Any], named: Iterable[str], hint: str = ""
) -> None:
    """Raise a UserError if a file wants a module imported that the user has not named.

    Args:
        where: the file, for the message.
        task: the task that the file names.
        settings: those in the file.
        named: the modules, or module:id, that the user has named.
        hint: what to add to the command; `--trust MODULE` by default.
    """
    # This package is running already, and no file elsewhere can take its place.
    trusted = {"discover_rl", *(word.rpartition(":")[0] or word for word in named)}
    for module in needed(task, settings):
        if module not in trusted:
            raise UserError(
                f"{where} would import the module {module} and run its code, for {task}; if you "
                f"trust it, add {hint or f'--trust {module}'} to the command."
            )
