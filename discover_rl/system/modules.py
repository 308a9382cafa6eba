"""The user's own modules: where they are found, and when they may be imported.

Importing a module runs its code. A `module:id` that the user writes on the command line, or in
Python, is imported. A `module:id` that was read from a file – a policy, a record, a study – may be
a stranger's: it is imported only if the user names its module as well.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from discover_rl.core.types import UserError

WRAPPERS = "env.wrappers"
"""The setting whose values have the form module:function."""

OBJECT = "object:"
"""The prefix of the names of tasks and wrappers that only the process which trained has."""

ARGUMENTS = "env.kwargs."
"""The prefix of settings that are arguments of environments: some import a module:id."""

IMPORTABLE = re.compile(r"([^\W\d][\w.-]*):")
"""The module of a module:id somewhere in an argument; Gymnasium imports it whatever the id is."""

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Environment variables with which a new Python does not search the working directory first."""

FOLDERS: list[str] = []
"""Folders that are searched like the working directory; for a Ray task, that of its user."""


@contextlib.contextmanager
def findable() -> Iterator[None]:
    """A context in which modules in the working directory can be imported.

    They come last, so a file there never hides an installed module. Outside of this context the
    working directory is not searched: code that happens to lie there is not run.
    """
    added = [os.getcwd(), *FOLDERS]
    sys.path += added
    try:
        yield
    finally:
        for folder in added:
            # Only the last entry: the user's own path may contain the same folder.
            if folder in sys.path:
                del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]


def needed(task: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the modules that a run imports, or may, because its task and settings name them.

    >>> needed("reach:Reach-v0", {"env.wrappers": ["mine.scale:Scale"]}), needed("Hopper-v5", {})
    (['reach', 'mine.scale'], [])
    >>> needed("GymV21Environment-v0", {"env.kwargs.env_id": "reach:Reach-v0"})
    ['reach']
    """
    given = settings.get(WRAPPERS, [])
    words = [task, *(given.split(",") if isinstance(given, str) else given)]
    named = [str(word).strip() for word in words if ":" in str(word)]
    found = [word.rpartition(":")[0] for word in named if not word.startswith(OBJECT)]
    # All of them may also be one table, env.kwargs.
    arguments = [value for name, value in settings.items() if f"{name}.".startswith(ARGUMENTS)]
    return found + IMPORTABLE.findall(repr(arguments))


def check_named(
    where: Any, task: str, settings: Mapping[str, Any], named: Iterable[str], hint: str = ""
) -> None:
    """Raise a UserError if a file names a module to import that the user has not named.

    Args:
        where: the file, for the message.
        task: the task that the file names.
        settings: the settings in the file.
        named: the modules, or module:id, that the user has named.
        hint: what to add to the command for the task's module; `--trust MODULE` by default.
    """
    trusted = {word.rpartition(":")[0] or word for word in named}
    # Tasks of this package are ids that it has registered; its functions make none (`objects`).
    own = task.startswith("discover_rl:")
    for module in needed("" if own else task, settings):
        if module not in trusted:
            of_task = hint and module == task.rpartition(":")[0]
            raise UserError(
                f"{where} would import the module {module} and run its code, for {task}; if you "
                f"trust it, add {hint if of_task else f'--trust {module}'} to the command."
            )
