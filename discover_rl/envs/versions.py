"""Complete ids of tasks that lack a version: the newest version is meant."""

from __future__ import annotations

import importlib
import re
import sys

import gymnasium
from gymnasium.envs.registration import find_highest_version

from discover_rl.envs.catalogue import DM_CONTROL, OWN
from discover_rl.envs.sparse import GOALS
from discover_rl.system import modules
from discover_rl.system.modules import OBJECT


def full_id(task: str) -> str:
    """Return a task's id with its version; unchanged if it has one, or if none is registered.

    >>> full_id("Pendulum"), full_id("Pendulum-v1"), full_id("NoSuchTask")
    ('Pendulum-v1', 'Pendulum-v1', 'NoSuchTask')
    >>> full_id("dm_control/hopper-hop")
    'dm_control/hopper-hop-v0'

    Sparse tasks of this package are one task, with its module or without:

    >>> full_id("SparseHopper-v0"), full_id("SparseHopper")
    ('discover_rl:SparseHopper-v0', 'discover_rl:SparseHopper-v0')

    Args:
        task: a Gymnasium id, or module:id as the user gives it: the module is imported.
    """
    if task in GOALS or f"{task}-v0" in GOALS:
        return f"{OWN}{task.removesuffix('-v0')}-v0"
    if re.search(r"-v\d+$", task):
        return task
    if task.startswith(DM_CONTROL):
        return f"{task}-v0"  # the only version; they are registered when one of them is made
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
    """Like `full_id`, with a note on stderr if the user left out the version or this package."""
    full = full_id(task)
    if full != task:
        newest = ", the newest version" if not full.endswith(task) else ""
        print(f"Note: {task} means {full} here{newest}.", file=sys.stderr)
    return full
