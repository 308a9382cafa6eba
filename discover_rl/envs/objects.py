"""Environments as Python objects: functions, classes and instances in place of an id.

A function or class that a module has is a task by its name, module:name, as ids of that module are:
any process can import it. A lambda, a function within another one and an instance have no such
name. They are kept here, for this process alone, as tasks called object:CLASS.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import gymnasium

from discover_rl.core.types import UserError
from discover_rl.system import modules

OBJECT = "object:"
"""What the names of tasks begin with that only this process has."""
_KEPT: dict[str, Callable[..., Any]] = {}


def task_of(env: Any) -> str:
    """The task that a user's object means.

    Args:
        env: an id; a function or class that makes an environment; or an environment.

    Raises:
        UserError: it is none of these.
    """
    if isinstance(env, str):
        return env
    if isinstance(env, gymnasium.Env):
        return _keep(type(env.unwrapped).__name__, copies_of(env))
    if not callable(env):
        raise UserError(
            "A task is an id, a function or class that makes an environment, or an environment, "
            f"not {type(env).__name__}."
        )
    module, name = getattr(env, "__module__", None), getattr(env, "__qualname__", "")
    if module and name and "<" not in name and _attribute(module, name) is env:
        return f"{module}:{name}"
    return _keep(name.rpartition(".")[2].strip("<>") or type(env).__name__, env)


def copies_of(env: gymnasium.Env) -> Callable[[], gymnasium.Env]:
    """A function that makes environments like one that there is, which stays as it is.

    They are copies of it or, where it cannot be copied, made by its id and arguments.
    """
    spec = None
    try:
        copy.deepcopy(env)
        return lambda: copy.deepcopy(env)
    except Exception:
        spec = env.spec
    try:
        gymnasium.make(spec).close()  # pyright: ignore[reportArgumentType]
        return lambda: gymnasium.make(spec)  # pyright: ignore[reportArgumentType]
    except Exception as error:
        kind = type(env.unwrapped).__name__
        raise UserError(
            f"This {kind} can be neither copied nor made again; give the function that makes it."
        ) from error


def factory_of(task: str) -> Callable[..., Any] | None:
    """What makes the environments of a task that is no id; None for one that is.

    Args:
        task: a task's name; a module in it is imported.

    Raises:
        UserError: it was kept by another process.
    """
    if task.startswith(OBJECT):
        if task not in _KEPT:
            raise UserError(
                f"{task} was an object of the Python process that trained on it; give it again, "
                "by train(env=…), or name a function or class of a module, module:name."
            )
        return _KEPT[task]
    module, colon, name = task.rpartition(":")
    if not colon or ":" in module or name in gymnasium.registry:
        return None
    with modules.findable():
        importlib.import_module(module)
    found = None if name in gymnasium.registry else _attribute(module, name)
    return found if callable(found) else None


def made_by(factory: Callable[..., Any], task: str, given: dict[str, Any]) -> gymnasium.Env:
    """Call what makes environments; a UserError if that does not come out.

    Args:
        factory: as `factory_of` gives it.
        task: the task's name, for messages.
        given: arguments; `render_mode` is left out where the function does not take it.
    """
    if "render_mode" in given and not _takes(factory, "render_mode"):
        given = {name: value for name, value in given.items() if name != "render_mode"}
    env = factory(**given)
    if not isinstance(env, gymnasium.Env):
        raise UserError(f"{task} must make an environment, not {type(env).__name__}.")
    return env


def _keep(name: str, factory: Callable[..., Any]) -> str:
    _KEPT[OBJECT + name] = factory
    return OBJECT + name


def _attribute(module: str, name: str) -> Any:
    """What a module that is imported calls by this name; None if there is no such thing."""
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found


def _takes(factory: Callable[..., Any], argument: str) -> bool:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return False
    return argument in parameters or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    )
