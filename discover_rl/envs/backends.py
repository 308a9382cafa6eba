"""The two backends that step environments: a task's spaces, vectors and episodes in either."""

from __future__ import annotations

from collections.abc import Sequence

from discover_rl.core.types import Spec
from discover_rl.envs import tasks
from discover_rl.envs.envpool_pool import pool_spec
from discover_rl.envs.envpool_vector import EnvPoolEpisodes, EnvPoolVector
from discover_rl.envs.gymnasium_vector import GymnasiumEpisodes, GymnasiumVector
from discover_rl.envs.settings import PLAIN, Env, Making
from discover_rl.envs.vector import Episodes, VectorEnv


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


def make_vector(task: str, seeds: Sequence[int], env: Env, backend: str) -> VectorEnv:
    """Make the environments that a cohort is trained in.

    Args:
        task: the task's id.
        seeds: of the cohort's runs; each run has `env.count` environments.
        env: how the environments are made; not, which backend steps them.
        backend: "gymnasium" or "envpool".
    """
    kind = GymnasiumVector if backend == "gymnasium" else EnvPoolVector
    return kind(
        task,
        seeds,
        reward_delay=env.reward_delay,
        limit_terminates=env.limit_terminates,
        count=env.count,
        making=env.making,
    )


def make_episodes(
    task: str, seeds: Sequence[int], backend: str, filmed: bool = False, making: Making = PLAIN
) -> Episodes:
    """Make single episodes, for evaluation.

    Args:
        task: the task's id.
        seeds: of the episodes.
        backend: "gymnasium" or "envpool".
        filmed: whether they are going to be rendered, which Gymnasium's alone can be.
        making: how the environments are made.
    """
    if backend == "gymnasium":
        return GymnasiumEpisodes(task, seeds, filmed, making)
    return EnvPoolEpisodes(task, seeds, making)
