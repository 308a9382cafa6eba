"""EnvPool's tasks by their ids here, and what is said where a package is missing."""

import os
import re
import subprocess
import sys

import gymnasium
import pytest

from discover_rl.core.types import UserError
from discover_rl.envs import catalogue, dm_control_tasks, tasks
from discover_rl.envs.catalogue import id_here, pool_task

ROBOTIC = (
    *("PointMaze_UMaze-v3", "PointMaze_Large_Diverse_GRDense-v3", "FetchReach-v4"),
    *("FetchPickAndPlaceDense-v4", "AdroitHandDoorSparse-v1", "AdroitHandPen-v1"),
    *("HandReach-v3", "HandManipulateBlockRotateXYZ-v1", "HandManipulateEggFullDense-v1"),
    "HandManipulatePenRotate_ContinuousTouchSensors-v1",
)


# Ids


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("dm_control/cartpole-swingup_sparse-v0", "CartpoleSwingupSparse-v1"),
        ("dm_control/ball_in_cup-catch-v0", "BallInCupCatch-v1"),
        ("dm_control/humanoid_CMU-run-v0", "HumanoidCMURun-v1"),
        ("dm_control/stacker-stack_2-v0", "StackerStack2-v1"),
        ("gymnasium_robotics:FetchReach-v4", "FetchReach-v4"),
        ("Hopper-v5", "Hopper-v5"),
        ("discover_rl:SparseHopper-v0", "Hopper-v5"),
    ],
)
def test_an_id_has_its_name_in_envpool(ours, theirs):
    assert pool_task(ours).id == theirs
    if theirs != "Hopper-v5":
        assert id_here(theirs) == ours


@pytest.mark.parametrize(
    "task",
    [
        *("Hopper-v4", "BipedalWalker-v3", "SparseHopper-v0", "FetchReach-v4", "HopperHop-v1"),
        *("gymnasium_robotics:FetchReach-v1", "gymnasium_robotics:AntMaze_UMaze-v5"),
        *("dm_control/hopper-jump-v0", "dm_control/hopper-hop-v1", "mine:Hopper-v5"),
    ],
)
def test_other_ids_have_none(task):
    assert pool_task(task) is None


def test_envpool_has_every_task_that_it_is_said_to_have():
    envpool = pytest.importorskip("envpool")
    known = set(envpool.list_all_envs())
    ids = [*catalogue._SUITE_NAMES, *catalogue.CLASSIC, *(f"{it}-v5" for it in catalogue.MUJOCO)]
    ids += [catalogue.ROBOTICS + name for name in ROBOTIC]
    assert {pool_task(task).id for task in ids} <= known


# Of these modules of EnvPool's every task with continuous actions is here, but for these.
LEFT_OUT = {
    "envpool.classic_control": r"(phys2d/)?Pendulum-v0",
    "envpool.mujoco.gym": r".*-v[234]",
    "envpool.mujoco.dmc": r"LqrLqr.*",
    "envpool.mujoco.robotics": r"(Fetch.*-v1|Hand(Reach|Manip).*-v0|FrankaKitchen-v1)",
}


def test_no_task_that_envpool_has_is_missing():
    envpool = pytest.importorskip("envpool")
    from envpool.registration import registry

    for name in envpool.list_all_envs():
        module, *_ = registry.specs[name]
        if module not in LEFT_OUT or pool_task(id_here(name) or name):
            continue
        acted = envpool.make_spec(name).gymnasium_action_space
        continuous = isinstance(acted, gymnasium.spaces.Box) and acted.dtype.kind == "f"
        assert not continuous or re.fullmatch(LEFT_OUT[module], name), name


@pytest.mark.parametrize(
    "task",
    [
        *("PointMaze_UMaze-v3", "HopperHop-v1", "hopper-hop", "finger-turn_hard-v0"),
        *("dm_control:hopper-hop-v0", "SparseAnt-v7", "discover_rl/SparseAnt-v0"),
        *("gymnasium-robotics:FetchReach-v4", "gymnasium_robotics/FetchReach-v4"),
    ],
)
def test_an_id_without_its_module_is_answered_with_the_whole(task, monkeypatch):
    # As in a process that has not imported Gymnasium-Robotics, which registers such ids.
    monkeypatch.delitem(gymnasium.registry, task, raising=False)
    with pytest.raises(UserError) as caught:
        tasks.make(task)
    whole = {
        "PointMaze_UMaze-v3": "gymnasium_robotics:PointMaze_UMaze-v3",
        "HopperHop-v1": "dm_control/hopper-hop-v0",
        "hopper-hop": "dm_control/hopper-hop-v0",
        "dm_control:hopper-hop-v0": "dm_control/hopper-hop-v0",
        "finger-turn_hard-v0": "dm_control/finger-turn_hard-v0",
        "SparseAnt-v7": "SparseAnt-v0",
        "discover_rl/SparseAnt-v0": "discover_rl:SparseAnt-v0",
        "gymnasium-robotics:FetchReach-v4": "gymnasium_robotics:FetchReach-v4",
        "gymnasium_robotics/FetchReach-v4": "gymnasium_robotics:FetchReach-v4",
    }
    assert str(caught.value) == f"There is no task {task}. Did you mean {whole[task]}?"


@pytest.mark.parametrize(
    ("task", "module", "extra"),
    [
        ("dm_control/hopper-hop-v0", "shimmy", "dm_control"),
        ("dm_control/hopper-hop-v0", "dm_control", "dm_control"),  # shimmy alone says nothing
        ("gymnasium_robotics:PointMaze_UMaze-v3", "gymnasium_robotics", "robotics"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, task, module, extra):
    for name in [it for it in sys.modules if it.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError) as caught:
        tasks.make(task)
    assert str(caught.value) == f"{task} needs a package: pip install 'discover_rl[{extra}]'."


def test_a_task_that_would_end_the_process_without_opengl_is_refused_before(monkeypatch):
    """MuJoCo aborts where a renderer is made twice that cannot be made."""
    pytest.importorskip("shimmy")
    pytest.importorskip("dm_control")
    monkeypatch.setattr(dm_control_tasks, "opengl_works", lambda: False)
    with pytest.raises(tasks.Unmakeable, match=r"OpenGL does not work here.*env\.backend=envpool"):
        tasks.make("dm_control/quadruped-escape-v0")
    tasks.make("dm_control/quadruped-walk-v0").close()  # draws nothing unless it is filmed


def test_without_a_display_glfw_counts_as_no_opengl():
    pytest.importorskip("dm_control")
    code = "from discover_rl.envs.dm_control_tasks import opengl_works; print(opengl_works())"
    hidden = ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY")
    bare = {name: it for name, it in os.environ.items() if name not in hidden}
    for kind in ("glfw", "disable"):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env=bare | {"MUJOCO_GL": kind},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "False\n", done.stderr


def test_actions_that_mujoco_does_not_limit_are_without_bounds():
    pytest.importorskip("shimmy")
    pytest.importorskip("dm_control")
    with pytest.raises(UserError, match="actions without bounds"):
        tasks.make("dm_control/lqr-lqr_2_1-v0")
