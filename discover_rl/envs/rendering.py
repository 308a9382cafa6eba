"""Pictures of environments, for videos."""

from __future__ import annotations

import sys
import types

import gymnasium
import numpy as np

from discover_rl.core.types import UserError
from discover_rl.envs.tasks import cannot_render


def picture(env: gymnasium.Env, task: str) -> np.ndarray:
    """Render an environment: (height, width, 3), uint8; a UserError if it cannot be rendered."""
    try:
        frame = env.render()
    except Exception as error:
        if rendering := sys.modules.get("gymnasium.envs.mujoco.mujoco_rendering"):
            # A viewer whose constructor failed has no context, and prints an error when deleted.
            rendering.OffScreenViewer.opengl_context = types.SimpleNamespace(free=lambda: None)
        raise cannot_render(task, error) from error
    if not isinstance(frame, np.ndarray) or frame.ndim != 3 or frame.shape[2] != 3:
        raise UserError(f"{task} cannot be filmed: it gives no pictures as rgb_array.")
    return np.ascontiguousarray(frame, np.uint8)


def frames_per_second(env: gymnasium.Env) -> float:
    """Return the number of steps that the environment makes in a second of its simulated time."""
    return float(env.metadata.get("render_fps") or 30)
