"""The spaces of a task, from whichever backend steps it."""

from __future__ import annotations

from discover_rl.core.types import Spec
from discover_rl.envs import tasks
from discover_rl.envs.envpool_pool import pool_spec
from discover_rl.envs.settings import Env


def spaces(task: str, env: Env, place: str) -> Spec:
    """The spaces of a task as runs see it on this machine.

    Args:
        task: the task's id.
        env: how its environments are made and stepped.
        place: where the runs learn, "gpu" or "cpu".

    Raises:
        UserError: there is no such task, or it cannot be trained on.
    """
    backend = tasks.choose_backend(task, env.backend, place, env.making)
    return tasks.check(task, env.making) if backend == "gymnasium" else pool_spec(task, env.making)
