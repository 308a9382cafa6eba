"""The tasks that EnvPool has, by the ids that they have here.

A task has the same id whichever backend steps it: Gymnasium's own, `dm_control/NAME-TASK-v0` for
dm_control's suite, `gymnasium_robotics:ID` for Gymnasium-Robotics, `discover_rl:ID` for the sparse
tasks of this package. EnvPool has names of its own for some of them.

Nothing here asks EnvPool, which may not be installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from discover_rl.envs import sparse

MUJOCO = (
    *("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "Swimmer", "Walker2d"),
    *("Reacher", "InvertedPendulum", "InvertedDoublePendulum", "Pusher"),
)
"""Gymnasium's tasks on MuJoCo, without their versions."""
CLASSIC = ("MountainCarContinuous-v0", "Pendulum-v1")
"""Gymnasium's classic control tasks with continuous actions."""
DM_CONTROL, ROBOTICS, OWN = "dm_control/", "gymnasium_robotics:", "discover_rl:"
"""The prefixes of ids of tasks from other packages."""
SUITE = {
    "acrobot": "swingup swingup_sparse",
    "ball_in_cup": "catch",
    "cartpole": "balance balance_sparse swingup swingup_sparse two_poles three_poles",
    "cheetah": "run",
    "dog": "stand walk trot run fetch",
    "finger": "spin turn_easy turn_hard",
    "fish": "upright swim",
    "hopper": "stand hop",
    "humanoid": "stand walk run run_pure_state",
    "humanoid_CMU": "stand walk run",
    "manipulator": "bring_ball bring_peg insert_ball insert_peg",
    "pendulum": "swingup",
    "point_mass": "easy hard",
    "quadruped": "walk run escape fetch",
    "reacher": "easy hard",
    "stacker": "stack_2 stack_4",
    "swimmer": "swimmer6 swimmer15",
    "walker": "stand walk run",
}
"""The tasks of dm_control's suite whose actions have bounds, by their domain."""
ABSENT = {
    **dict.fromkeys(("dog-stand", "dog-walk", "dog-trot", "dog-run"), "ball_state target_position"),
    "finger-spin": "dist_to_target target_position",
    "fish-upright": "target",
    **dict.fromkeys(("humanoid-stand", "humanoid-walk", "humanoid-run"), "position"),
    "humanoid-run_pure_state": "com_velocity extremities head_height joint_angles torso_vertical",
    **dict.fromkeys(
        ("quadruped-walk", "quadruped-run"), "ball_state origin rangefinder target_position"
    ),
    "quadruped-escape": "ball_state target_position",
    "quadruped-fetch": "origin rangefinder",
}
"""Parts of EnvPool's observations that dm_control's own task does not have.

EnvPool gives all tasks of a domain the same parts."""


def ball_is_caught(obs: Any) -> Any:
    """Whether the ball is in the cup, as dm_control pays it: (…, 8) → (…), True or False.

    It is if its centre is less than .025 from that of the cup, which hangs .35 higher at rest, in
    both directions. EnvPool takes the thickness of the cup's wall for the size of the ball, so it
    also pays up to .042, where the ball still touches the rim.
    """
    cup_x, cup_z, ball_x, ball_z = (obs[..., i] for i in range(4))
    return (abs(cup_x - ball_x) < 0.025) & (abs(cup_z + 0.35 - ball_z) < 0.025)


CORRECTED = {"ball_in_cup-catch": ball_is_caught}
"""Rewards of dm_control's tasks that EnvPool pays otherwise."""
ROBOTIC = re.compile(
    r"PointMaze_(UMaze|(Open|Medium|Large)(_Diverse_GR?)?)(Dense)?-v3"
    r"|Fetch(Reach|Push|Slide|PickAndPlace)(Dense)?-v4"
    r"|AdroitHand(Door|Hammer|Pen|Relocate)(Sparse)?-v1"
    r"|HandReach(Dense)?-v3"
    r"|HandManipulate(Block|Egg|Pen)Full(Dense)?-v1"
    r"|HandManipulate(Block(Rotate(Z|Parallel|XYZ))?|(Egg|Pen)(Rotate)?)"
    r"(_(Boolean|Continuous)TouchSensors)?(Dense)?-v1"
)
"""Ids of Gymnasium-Robotics that EnvPool has too."""


class PoolTask(NamedTuple):
    """A task of EnvPool's."""

    id: str  # EnvPool's
    arguments: Mapping[str, Any] = {}  # for `envpool.make`
    reward: Callable[[Any], Any] | None = None  # of observations (n, observation) in double
    # precision, as NumPy's or JAX's arrays: what is paid in place of EnvPool's reward
    absent: frozenset[str] = frozenset()  # parts of observations that the task does not have
    double_bounds: bool = False  # whether the task's bounds of actions are in double precision


def pool_task(task: str) -> PoolTask | None:
    """Return EnvPool's task for an id; None if EnvPool does not have the same task.

    >>> pool_task("dm_control/cartpole-swingup_sparse-v0").id
    'CartpoleSwingupSparse-v1'
    """
    if goal := sparse.GOALS.get(task.removeprefix(OWN)) if task.startswith(OWN) else None:
        return PoolTask(goal.original, sparse.ARGUMENTS, goal.reward)
    if task in CLASSIC or (task.endswith("-v5") and task.removesuffix("-v5") in MUJOCO):
        return PoolTask(task)
    if task.startswith(ROBOTICS) and ROBOTIC.fullmatch(task.removeprefix(ROBOTICS)):
        return PoolTask(task.removeprefix(ROBOTICS))
    if task not in _SUITE_NAMES:
        return None
    name = task.removeprefix(DM_CONTROL).removesuffix("-v0")
    absent = frozenset(ABSENT.get(name, "").split())
    return PoolTask(_SUITE_NAMES[task], {}, CORRECTED.get(name), absent, double_bounds=True)


def id_here(name: str) -> str:
    """Return this package's id for an id of EnvPool, Gymnasium-Robotics or dm_control, or ''.

    >>> id_here("PointMaze_UMaze-v3"), id_here("HopperHop-v1")
    ('gymnasium_robotics:PointMaze_UMaze-v3', 'dm_control/hopper-hop-v0')
    >>> id_here("hopper-hop"), id_here("gymnasium-robotics/FetchReach-v4")
    ('dm_control/hopper-hop-v0', 'gymnasium_robotics:FetchReach-v4')
    """
    name = re.sub(r"^(gymnasium[-_]robotics|discover[-_]rl|dm[-_]control)[:/]", "", name)
    if re.match(r"(PointMaze|AntMaze)_|Fetch[A-Z]|AdroitHand|Hand(Reach|Manipul)|FrankaKit", name):
        return ROBOTICS + name
    if name in sparse.GOALS:
        return OWN + name
    if (suites := f"{DM_CONTROL}{name.removesuffix('-v0')}-v0") in _SUITE_NAMES:
        return suites
    return next((ours for ours, theirs in _SUITE_NAMES.items() if theirs == name), "")


def _camel(words: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split("[-_]", words))


_SUITE_NAMES = {
    f"{DM_CONTROL}{domain}-{task}-v0": f"{_camel(domain)}{_camel(task)}-v1"
    for domain, listed in SUITE.items()
    for task in listed.split()
}
