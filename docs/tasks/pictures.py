"""Draw the pictures of tasks on these pages: one image per family, after a few random steps.

    python docs/tasks/pictures.py [FOLDER]

MuJoCo renders by EGL or OSMesa (Debian's libegl1 or libosmesa6); MUJOCO_GL chooses.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

from discover_rl.envs import rendering, tasks

DM, ROBOTICS, OWN = "dm_control/", "gymnasium_robotics:", "discover_rl:"
FAMILIES = {
    "classic-control": ["MountainCarContinuous-v0", "Pendulum-v1"],
    "mujoco": ["HalfCheetah-v5", "Hopper-v5", "Swimmer-v5", "Walker2d-v5"],
    "dm_control": [
        f"{DM}{name}-v0"
        for name in (
            *("cartpole-swingup_sparse", "pendulum-swingup", "ball_in_cup-catch"),
            *("finger-turn_hard", "hopper-hop"),
        )
    ],
    "mazes": [
        ROBOTICS + name
        for name in (
            *("PointMaze_UMaze-v3", "PointMaze_Large-v3", "FetchReach-v4"),
            "AdroitHandDoorSparse-v1",
        )
    ],
    "sparse-locomotion": [
        f"{OWN}Sparse{name}-v0" for name in ("HalfCheetah", "Hopper", "Swimmer", "Ant")
    ],
}
STEPS = 8


def frame(task: str):
    """A picture of a task, (height, width, 3)."""
    env = tasks.make(task, filmed=True)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(STEPS):
        env.step(env.action_space.sample())
    picture = rendering.picture(env, task)
    env.close()
    return picture


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    mpl.use("agg")
    for family, listed in FAMILIES.items():
        figure, axes = plt.subplots(
            1, len(listed), figsize=(2.6 * len(listed), 2.7), layout="constrained"
        )
        for task, panel in zip(listed, axes, strict=True):
            panel.imshow(frame(task))
            panel.set_title(task.split("/")[-1].split(":")[-1], fontsize=9)
            panel.axis("off")
        figure.savefig(folder / f"{family}.png", dpi=110, pil_kwargs={"optimize": True})
        plt.close(figure)


if __name__ == "__main__":
    main()
