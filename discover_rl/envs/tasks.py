"""Tasks: environments by their id, and which backend steps them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from discover_rl.core.hyperparameters import nearest
from discover_rl.core.types import Spec, UserError
from discover_rl.envs import dm_control_tasks, sparse
from discover_rl.envs.answers import WrongAnswer
from discover_rl.envs.catalogue import DM_CONTROL, MUJOCO, OWN, id_here, pool_task
from discover_rl.envs.objects import factory_of, kept_wrapper, made_by
from discover_rl.envs.rewards import ActionRepeat, DelayedReward
from discover_rl.envs.settings import PLAIN, Making, thawed
from discover_rl.envs.space_rules import check_spaces, is_image, parts_of, size_of
from discover_rl.system import extras, hardware, modules

OWN_TASK = " If a module of yours registers {0}, name that too: module:{0}."
"""A hint for messages about an unknown id that is no slip of a known one."""
SLIP = 0.8
"""How much an unknown id is like a known one, from 0 to 1, if it is taken for a slip of it."""


class Unmakeable(UserError):
    """A task that exists, but cannot be made on this machine."""


def make(
    task: str, reward_delay: int = 1, filmed: bool = False, making: Making = PLAIN
) -> gymnasium.Env:
    """Make the environment of a task.

    Args:
        task: a Gymnasium id, module:id, or module:name of a function or class that makes it.
        reward_delay: steps over which rewards are summed before they are paid.
        filmed: whether it is going to be rendered.
        making: how it is made.

    Raises:
        UserError: there is no such task, or it cannot be trained on.
    """
    rendering: dict[str, Any] = {"render_mode": "rgb_array"} if filmed else {}
    given = {name: thawed(value) for name, value in making.kwargs}
    try:
        of_users = ":" in task and not task.startswith(OWN)
        own = modules.findable() if of_users else contextlib.nullcontext()
        with warnings.catch_warnings(), own:
            warnings.simplefilter("ignore")
            _register(task)
            if factory := factory_of(task):
                env = made_by(factory, task, {**given, **rendering})
            else:
                env = gymnasium.make(task, **{"disable_env_checker": True, **given, **rendering})
    except UserError:
        raise
    except Exception as error:
        raise _cannot_make(task, error, filmed, given) from error
    for wrapper in making.wrappers:
        env = _wrapped(env, task, wrapper)
    check_spaces(env, task)
    if making.action_repeat > 1:
        env = ActionRepeat(env, making.action_repeat)
    return env if reward_delay == 1 else DelayedReward(env, reward_delay)


def _register(task: str) -> None:
    """Import the module that registers a task, if Gymnasium does not do so by itself.

    Raises:
        Unmakeable: the task needs OpenGL, which does not work here.
    """
    if task.startswith(DM_CONTROL):
        dm_control_tasks.register()
        if task == dm_control_tasks.DRAWN and not dm_control_tasks.opengl_works():
            raise Unmakeable(dm_control_tasks.NO_OPENGL)
    elif task.startswith(OWN):
        sparse.register()


def _cannot_make(task: str, error: Exception, filmed: bool, given: dict[str, Any]) -> UserError:
    """The error for a task that Gymnasium could not make, given what it raised."""
    module, colon, name = task.rpartition(":")
    reason = describe(error)
    missing, ours = extras.missing_module(error), id_here(task)
    if isinstance(error, ModuleNotFoundError) and ours not in ("", task):
        return UserError(f"There is no task {task}. Did you mean {ours}?")
    if extra := extras.EXTRAS.get(missing.split(".")[0]):
        return Unmakeable(extras.hint(task, extra))
    if isinstance(error, ModuleNotFoundError):
        return Unmakeable(f"{task} needs a module that is not installed: {missing}.")
    if isinstance(error, gymnasium.error.Error | ImportError | ValueError):
        reason = " ".join(str(error).split())
        if successor := _successor(name):
            return UserError(
                f"{task} no longer exists; use {successor} instead, whose returns are not the same "
                "one to one."
            )
        if name not in gymnasium.registry:
            if (ours := ours or id_here(name)) and ours != task:
                return UserError(f"There is no task {task}. Did you mean {ours}?")
            hint = nearest(name, gymnasium.registry).replace("mean ", f"mean {module}{colon}")
            if module:
                hint = hint or f" {reason}"
            elif not nearest(name, gymnasium.registry, SLIP):
                hint += OWN_TASK.format(name)
            return UserError(f"There is no task {task}.{hint}")
    if filmed:
        return cannot_render(task, error)
    unexpected = [key for key in given if f"'{key}'" in str(error)]
    if isinstance(error, TypeError) and unexpected:
        return UserError(f"{task} takes no argument {unexpected[0]}, or not with this value.")
    return Unmakeable(f"{task} cannot be made: {reason}.")


def wrapper_function(wrapper: str) -> Callable[[gymnasium.Env], Any]:
    """Import the wrapper that is named as module:function, or find the object of this name."""
    if wrapper.startswith(modules.OBJECT):
        return kept_wrapper(wrapper)
    module, colon, name = wrapper.rpartition(":")
    if not colon or not module or not name:
        raise UserError(f"env.wrappers takes module:function, not {wrapper!r}.")
    try:
        with modules.findable():
            function: Any = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
    except (ImportError, AttributeError) as error:
        raise UserError(f"The wrapper {wrapper} cannot be imported: {describe(error)}.") from error
    return function


def _wrapped(env: gymnasium.Env, task: str, wrapper: str) -> gymnasium.Env:
    """Put an environment into the wrapper that is named as module:function."""
    function = wrapper_function(wrapper)
    try:
        wrapped = function(env)
    except Exception as error:
        raise UserError(f"The wrapper {wrapper} failed on {task}: {describe(error)}.") from error
    if not isinstance(wrapped, gymnasium.Env):
        kind = type(wrapped).__name__
        raise UserError(f"The wrapper {wrapper} must return an environment, not {kind}.")
    return wrapped


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


def renewed(env: gymnasium.Env, make_again: Callable[[], gymnasium.Env]) -> gymnasium.Env:
    """Return the environment for the next episode: the same one, or a new one for Box2D.

    A Box2D world keeps traces of earlier episodes: their contacts change the order in which later
    ones are solved. Then neither an evaluation nor a resumed run could be repeated exactly.
    """
    if not type(env.unwrapped).__module__.startswith("gymnasium.envs.box2d"):
        return env
    close(env)
    return make_again()


def close(env: gymnasium.Env) -> None:
    """Close an environment that is done with, whatever it raises then."""
    with contextlib.suppress(Exception):
        env.close()


def spec_of(env: gymnasium.Env) -> Spec:
    """The spaces of an environment that `make` has accepted."""
    observed, acted = env.observation_space, env.action_space
    assert isinstance(acted, spaces.Box)
    shape = observed.shape if isinstance(observed, spaces.Box) else (size_of(observed),)
    low, high = acted.low.astype(np.float64).ravel(), acted.high.astype(np.float64).ravel()
    return Spec(shape, acted.shape, tuple(low.tolist()), tuple(high.tolist()), _limit(env))


def _limit(env: gymnasium.Env) -> int | None:
    """The time limit of episodes, in steps of a run; None if there is none."""
    limit = getattr(env.spec, "max_episode_steps", None)
    if limit is None:  # dm_control has limits of its own
        own = getattr(getattr(env.unwrapped, "_env", None), "_step_limit", None)
        limit = int(own) if isinstance(own, int | float) and np.isfinite(own) else None
    repeat = 1
    while isinstance(env, gymnasium.Wrapper):
        repeat *= env.times if isinstance(env, ActionRepeat) else 1
        env = env.env
    return None if limit is None else -(-limit // repeat)


def cannot_render(task: str, error: Exception) -> UserError:
    """The error for a task that cannot be filmed, given what was raised."""
    if extras.missing_module(error) == "pygame":
        return UserError(extras.hint("A video", "video"))
    if task.rpartition(":")[2].rpartition("-v")[0] in MUJOCO:
        return UserError(
            "MuJoCo cannot render here: no EGL or OSMesa library works (Debian's libegl1 or "
            f"libosmesa6 brings one; MUJOCO_GL chooses); {describe(error)}."
        )
    return UserError(f"{task} cannot be filmed: {describe(error)}.")


def raised(error: Exception) -> str:
    """Describe an environment's error, or its useless answer, for the record."""
    if isinstance(error, WrongAnswer):
        return str(error)
    return f"the environment raised {describe(error)}"


def describe(error: Exception) -> str:
    """An error's type and message, in one line."""
    said = " ".join(str(error).split()).removesuffix(".")
    return type(error).__name__ + (f": {said}" if said else "")


def time_limit(task: str, making: Making = PLAIN) -> int | None:
    """The time limit of a task's episodes, in steps of a run; None if it has none."""
    env = make(task, making=making)
    close(env)
    return _limit(env)


def check(task: str, making: Making = PLAIN) -> Spec:
    """Return the spaces of a task; warn if it observes images.

    Raises:
        UserError: nothing can be trained on it.
    """
    env = make(task, making=making)
    spec = spec_of(env)
    close(env)
    if any(map(is_image, parts_of(env.observation_space))):
        _note_images(task)
    return spec


@functools.cache
def _note_images(task: str) -> None:
    print(
        f"Note: {task} observes images, and the networks here read them as one flat row of "
        "numbers.",
        file=sys.stderr,
    )


def in_envpool(task: str) -> bool:
    """Whether EnvPool has a task."""
    return pool_task(task) is not None


def check_backend(task: str, backend: str, making: Making = PLAIN) -> None:
    """Raise a UserError if `env.backend=backend` cannot step a task, on any machine."""
    if backend != "envpool":
        return
    if not in_envpool(task):
        if (ours := id_here(task)) and ours != task:
            raise UserError(f"There is no task {task}. Did you mean {ours}?")
        raise UserError(f"env.backend=envpool does not have {task}; it needs gymnasium.")
    if making.gymnasium_only:
        raise UserError(f"{making.gymnasium_only} needs env.backend=gymnasium; envpool has none.")


def choose_backend(task: str, backend: str, place: str, making: Making = PLAIN) -> str:
    """Choose the backend that steps a task here: the requested one or, for "auto", the faster.

    EnvPool is faster if lanes learn on a GPU and there are enough cores for their environments and
    for evaluation. On a CPU each core has a process of its own, and handing an environment to a
    thread takes about as long as stepping it.

    Args:
        task: the task's id.
        backend: "gymnasium", "envpool" or "auto".
        place: where the lanes learn, "gpu" or "cpu".
        making: how its environments are made.
    """
    check_backend(task, backend, making)
    installed = importlib.util.find_spec("envpool") is not None
    if backend == "envpool" and not installed:
        raise UserError(extras.hint("env.backend=envpool", "envpool"))
    if backend == "auto":
        faster = place == "gpu" and hardware.cores() >= 4
        possible = installed and in_envpool(task) and not making.gymnasium_only
        return "envpool" if possible and faster else "gymnasium"
    return backend
