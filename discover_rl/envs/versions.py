"""Ids of tasks without a version: the newest one is meant."""

from __future__ import annotations

import importlib
import re
import sys

import gymnasium
from gymnasium.envs.registration import find_highest_version

from discover_rl.envs.catalogue import DM_CONTROL
from discover_rl.envs.objects import OBJECT
from discover_rl.system import modules


def full_id(task: str) -> str:
    """The id of a task with its version; as it is if it has one, or if none is registered.

    >>> full_id("Pendulum"), full_id("Pendulum-v1"), full_id("NoSuchTask")
    ('Pendulum-v1', 'Pendulum-v1', 'NoSuchTask')

    Args:
        task: a Gymnasium id, or module:id as the user gives it: the module is imported.
    """
    if re.search(r"-v\d+$", task):
        return task
    module, _, name = task.rpartition(":")
    if module:
        try:
            with modules.findable():
                importlib.import_module(module)
        except Exception:
            return task  # whoever makes the task says what is wrong
    namespace, slash, bare = name.rpartition("/")
    newest = find_highest_version(namespace if slash else None, bare)
    return task if name in gymnasium.registry or newest is None else f"{task}-v{newest}"


def is_registered(task: str) -> bool:
    """Whether a task can be found: by its id, or because it says which module registers it.

    >>> is_registered("Pendulum-v1"), is_registered("reach:Reach-v0"), is_registered("Reach-v0")
    (True, True, False)
    """
    if task.startswith(OBJECT):
        return False
    return ":" in task or task.startswith(DM_CONTROL) or task in gymnasium.registry


def completed(task: str) -> str:
    """The same, and a note on stderr if the user left the version out."""
    full = full_id(task)
    if full != task:
        print(f"Note: {task} means {full} here, the newest version.", file=sys.stderr)
    return full
