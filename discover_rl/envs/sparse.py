"""Sparse locomotion: Gymnasium's tasks with a reward only for being past a goal.

    gymnasium.make("discover_rl:SparseHalfCheetah-v0")

Every step past the goal pays 1, every other 0: there is no reward for moving, for being upright or
for small actions. Episodes end as in the original. The position along the track is observed, as the
first number, because the reward depends on it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple


class Goal(NamedTuple):
    """Where a sparse task begins to pay."""

    original: str  # the task of Gymnasium's that it is made of
    entry_point: str  # of the original's class
    position: float  # along the track
    beyond: bool  # whether it has to be passed, not only reached

    def reached(self, x: Any) -> Any:
        """Whether positions along the track, in double precision, are past the goal.

        >>> import numpy as np
        >>> GOALS["SparseHopper-v0"].reached(np.asarray([0.99, 1.0]))
        array([False,  True])
        """
        return x > self.position if self.beyond else x >= self.position

    def reward(self, obs: Any) -> Any:
        """Whether observations (…, n), in double precision, are past the goal: (…)."""
        return self.reached(obs[..., 0])


_CLASSES = "gymnasium.envs.mujoco"
GOALS = {
    "SparseHalfCheetah-v0": Goal(
        "HalfCheetah-v5", f"{_CLASSES}.half_cheetah_v5:HalfCheetahEnv", 5.0, True
    ),
    "SparseHopper-v0": Goal("Hopper-v5", f"{_CLASSES}.hopper_v5:HopperEnv", 1.0, False),
    "SparseSwimmer-v0": Goal("Swimmer-v5", f"{_CLASSES}.swimmer_v5:SwimmerEnv", 1.0, False),
    "SparseAnt-v0": Goal("Ant-v5", f"{_CLASSES}.ant_v5:AntEnv", 4.0, False),
}
"""The sparse tasks, by their ids."""
ARGUMENTS = {"exclude_current_positions_from_observation": False}
"""Arguments with which the original tasks are made."""
TIME_LIMIT = 1000
"""The time limit of episodes, in steps."""


def register() -> None:
    """Register the sparse tasks with Gymnasium, if they are not yet."""
    import gymnasium
    from gymnasium.envs.registration import WrapperSpec

    for name, goal in GOALS.items():
        if name in gymnasium.registry:
            continue
        rule = {"position": goal.position, "beyond": goal.beyond}
        wrapper = WrapperSpec("PositionReward", "discover_rl.envs.rewards:PositionReward", rule)
        gymnasium.register(
            name,
            goal.entry_point,
            max_episode_steps=TIME_LIMIT,
            additional_wrappers=(wrapper,),
            kwargs=ARGUMENTS,
        )


def register_with_gymnasium() -> None:
    """Register the sparse tasks now if Gymnasium is imported, else as soon as it is.

    So `gymnasium.make("discover_rl:SparseHopper-v0")` works whichever of the two was imported
    first, and importing this package stays quick.
    """
    if "gymnasium" in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _WhenImported())


class _WhenImported(importlib.abc.MetaPathFinder):
    """Calls `register` after Gymnasium has been imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname != "gymnasium":
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            register()

        spec.loader.exec_module = exec_module
        return spec
