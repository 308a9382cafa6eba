"""Tasks: environments by their id, and how they are made. The only room that imports Gymnasium."""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any

import gymnasium
import numpy as np

from discover_rl.hyper import nearest
from discover_rl.machine import MUJOCO
from discover_rl.types import Spec, UserError


class Unmakeable(UserError):
    """A task that exists, but not here and now."""


def make(task: str, reward_delay: int = 1, filmed: bool = False) -> gymnasium.Env:
    """The environment of this id; a UserError where there is none or it cannot be trained on."""
    module, colon, name = task.rpartition(":")
    seen_as: dict[str, Any] = {"render_mode": "rgb_array"} if filmed else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env = gymnasium.make(task, disable_env_checker=True, **seen_as)
    except ModuleNotFoundError as error:
        cause = error.__cause__ if isinstance(error.__cause__, ModuleNotFoundError) else error
        raise Unmakeable(f"{task} needs a module that is not installed: {cause.name}.") from error
    except (gymnasium.error.Error, ImportError, ValueError) as error:
        if successor := _successor(name):
            raise UserError(
                f"{task} no longer exists; use {successor} instead, whose returns are not the same "
                "one to one."
            ) from error
        reason = " ".join(str(error).split())
        if filmed and name in gymnasium.registry:
            raise _unseen(task, error) from error
        if name in gymnasium.registry:
            raise Unmakeable(f"{task} cannot be made: {reason}.") from error
        hint = nearest(name, gymnasium.registry).replace("mean ", f"mean {module}{colon}")
        raise UserError(f"There is no task {task}.{hint or f' {reason}'}") from error
    except Exception as error:  # whatever the libraries raise that should draw it
        if not filmed:
            raise Unmakeable(f"{task} cannot be made: {_said(error)}.") from error
        raise _unseen(task, error) from error
    seen, acted = env.observation_space, env.action_space
    if not isinstance(acted, gymnasium.spaces.Box) or acted.dtype.kind != "f":
        raise UserError(f"{task} has {_kind(acted)} actions; a Box of continuous ones is needed.")
    if not np.isfinite([acted.low, acted.high]).all() or (acted.low >= acted.high).any():
        raise UserError(f"{task} has actions without bounds; every dimension needs low < high.")
    if not isinstance(seen, gymnasium.spaces.Box):
        raise UserError(
            f"{task} has {_kind(seen)} observations; a Box is needed "
            "(gymnasium.wrappers.FlattenObservation makes one)."
        )
    return env if reward_delay == 1 else DelayedReward(env, reward_delay)


def _successor(name: str) -> str:
    """The id to use in place of one that Gymnasium no longer makes; '' for all others.

    Gymnasium keeps most of these ids in its registry, only to raise when they are made.
    """
    kind, _, version = name.rpartition("-v")
    heirs = dict.fromkeys(MUJOCO, ("v2", "v3"))  # they ran on mujoco-py
    heirs |= {"LunarLanderContinuous": ("v2",), "BipedalWalker": ("v2",)}
    if f"v{version}" not in heirs.get(kind, ()):
        return ""
    return f"{kind}-v5" if kind in MUJOCO else f"{kind}-v3"


def _kind(space: gymnasium.Space) -> str:
    whole = isinstance(space, gymnasium.spaces.Box)
    return "whole-number" if whole else type(space).__name__


def renewed(
    env: gymnasium.Env, task: str, reward_delay: int = 1, filmed: bool = False
) -> gymnasium.Env:
    """The environment to start an episode in: the same, or a new one where episodes leave traces.

    Box2D's worlds do: contacts of earlier episodes change the order in which later ones are solved,
    so neither an evaluation nor a resumed run would come out the same twice.
    """
    if not type(env.unwrapped).__module__.startswith("gymnasium.envs.box2d"):
        return env
    env.close()
    return make(task, reward_delay, filmed)


class DelayedReward(gymnasium.Wrapper):
    """Rewards are summed and paid every `period` steps of an episode, and at its end."""

    def __init__(self, env: gymnasium.Env, period: int):
        super().__init__(env)
        self.period = period
        self._owed, self._steps = 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._owed, self._steps = 0.0, 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._owed += float(reward)
        self._steps += 1
        if self._steps % self.period and not (terminated or truncated):
            return obs, 0.0, terminated, truncated, info
        return obs, self.settle(), terminated, truncated, info

    def settle(self) -> float:
        """What is owed, paid now: a period is over, or the episode is."""
        paid, self._owed = self._owed, 0.0
        return paid


def spec_of(env: gymnasium.Env) -> Spec:
    seen, acted = env.observation_space, env.action_space
    assert isinstance(seen, gymnasium.spaces.Box)
    assert isinstance(acted, gymnasium.spaces.Box)
    low, high = acted.low.astype(np.float64).ravel(), acted.high.astype(np.float64).ravel()
    return Spec(seen.shape, acted.shape, tuple(low.tolist()), tuple(high.tolist()))


def picture(env: gymnasium.Env, task: str) -> np.ndarray:
    """What it looks like, (height, width, 3); a UserError where it cannot be seen."""
    try:
        seen = env.render()
    except Exception as error:
        if rendering := sys.modules.get("gymnasium.envs.mujoco.mujoco_rendering"):
            # A viewer that was never made whole complains when it goes, for it has no context.
            rendering.OffScreenViewer.opengl_context = types.SimpleNamespace(free=lambda: None)
        raise _unseen(task, error) from error
    if not isinstance(seen, np.ndarray) or seen.ndim != 3 or seen.shape[2] != 3:
        raise UserError(f"{task} cannot be filmed: it gives no pictures as rgb_array.")
    return np.ascontiguousarray(seen, np.uint8)


def _unseen(task: str, error: Exception) -> UserError:
    """Why it cannot be filmed."""
    if task.rpartition(":")[2].rpartition("-v")[0] in MUJOCO:
        return UserError(
            "MuJoCo cannot render here: no EGL or OSMesa library works (Debian's libegl1 or "
            f"libosmesa6 brings one; MUJOCO_GL chooses); {_said(error)}."
        )
    return UserError(f"{task} cannot be filmed: {_said(error)}.")


def pictures_per_second(env: gymnasium.Env) -> float:
    """As many as it makes steps in a second of its own time."""
    return float(env.metadata.get("render_fps") or 30)


def raised(error: Exception) -> str:
    """What an environment said when it crashed."""
    return f"the environment raised {_said(error)}"


def _said(error: Exception) -> str:
    said = " ".join(str(error).split()).removesuffix(".")
    return type(error).__name__ + (f": {said}" if said else "")


def limit(task: str) -> int | None:
    """After how many steps an episode is cut; None if never."""
    env = make(task)
    env.close()
    return env.spec.max_episode_steps if env.spec else None
