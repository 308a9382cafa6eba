"""dm_control's tasks, which shimmy registers with Gymnasium, and what they need beside it."""

from __future__ import annotations

import importlib
import warnings

import gymnasium

from discover_rl.envs.catalogue import DM_CONTROL

UNBOUNDED = 1e10
"""What MuJoCo has in place of a bound where there is none."""
DRAWN = "dm_control/quadruped-escape-v0"
"""The task that hands its terrain to a renderer whenever an episode begins, filmed or not."""
NO_OPENGL = (
    f"{DRAWN} draws its terrain, and OpenGL does not work here; MUJOCO_GL=egl before the command "
    "may change that (Debian's libegl1), and env.backend=envpool needs none."
)
"""What is said where that does not work."""


def register() -> None:
    """Register dm_control's tasks, if they are not yet; an ImportError if a package is missing."""
    importlib.import_module("dm_control")  # without it, shimmy registers nothing and says nothing
    from shimmy.registration import (  # pyright: ignore[reportMissingImports]
        register_gymnasium_envs,
    )

    if not any(name.startswith(DM_CONTROL) for name in gymnasium.registry):
        register_gymnasium_envs()


def opengl_works() -> bool:
    """Whether dm_control's renderer works; MuJoCo ends the process where it is used and does not.

    dm_control takes EGL and OSMesa only if these work, but GLFW also without a display.
    """
    from dm_control import _render  # pyright: ignore[reportMissingImports]

    if _render.BACKEND != "glfw":
        return _render.BACKEND in ("egl", "osmesa")
    import glfw  # pyright: ignore[reportMissingImports]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bool(glfw.init())
