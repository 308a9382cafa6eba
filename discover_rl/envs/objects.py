"""Environments and wrappers as Python objects: functions, classes and instances in place of an id.

The task of a function or class in a module is called module:name, like an id that the module
registers. Any process can import it. A lambda, a nested function and an instance have no such name.
They are kept here, for this process only, as tasks called object:CLASS. Wrappers are named alike.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gymnasium

from discover_rl.core.types import UserError
from discover_rl.envs.own_code import collect
from discover_rl.system import modules
from discover_rl.system.modules import OBJECT

_KEPT: dict[str, Callable[..., Any]] = {}
_WRAPPERS: dict[str, Callable[..., Any]] = {}


def task_of(env: Any) -> str:
    """Return the name of the task that a user's object stands for.

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
    return _importable(env) or _keep(_short(env), env)


def processes_for(names: Iterable[str], processes: int) -> int:
    """Return how many processes may train on tasks and wrappers of these names: one, if any of
    them is an object of this process. A UserError if more are asked for then.

    Args:
        names: of tasks and wrappers.
        processes: as many are asked for; 0: as many as are faster.
    """
    objects = [name.removeprefix(OBJECT) for name in names if name.startswith(OBJECT)]
    if objects and processes > 1:
        raise UserError(
            f"{objects[0]} has no name that other processes could import; train in one "
            "(processes=1), or give a function or class of a module."
        )
    return 1 if objects else processes


def wrapper_names(wrappers: Any) -> list[str]:
    """Return the names of one or several wrappers; those without a name are kept here.

    Raises:
        UserError: something else is given.

    >>> wrapper_names([gymnasium.wrappers.ClipAction, "mine:scaled", lambda env: env])
    ['gymnasium.wrappers.transform_action:ClipAction', 'mine:scaled', 'object:lambda']
    """
    if isinstance(wrappers, str) or callable(wrappers):
        wrappers = [wrappers]
    if not isinstance(wrappers, Iterable):
        raise UserError(f"wrappers are functions or classes, not {type(wrappers).__name__}.")
    names: list[str] = []
    for wrapper in wrappers:
        if isinstance(wrapper, str):
            names.append(wrapper)
        elif not callable(wrapper):
            raise UserError(f"A wrapper is a function or class, not {type(wrapper).__name__}.")
        elif name := _importable(wrapper):
            names.append(name)
        else:
            others = sum(it.startswith(OBJECT) for it in names)
            name = OBJECT + _short(wrapper) + (f"-{others + 1}" if others else "")
            _WRAPPERS[name] = wrapper
            names.append(name)
    return names


def kept_wrapper(name: str) -> Callable[..., Any]:
    """Return a wrapper that has no name to import.

    Raises:
        UserError: only another process has it.
    """
    if name not in _WRAPPERS:
        raise UserError(
            f"The wrapper {name} was an object of the Python process that trained with it; give it "
            "again, by train(wrappers=…), or name a function or class of a module."
        )
    return _WRAPPERS[name]


def copies_of(env: gymnasium.Env) -> Callable[[], gymnasium.Env]:
    """Return a function that makes environments like the given one, which is not touched.

    They are copies of it. If it cannot be copied, they are made from its id and arguments.

    Raises:
        UserError: neither works, or these environments would not be like the given one.
    """
    kind, spec = type(env.unwrapped).__name__, env.spec
    again: list[Callable[[], gymnasium.Env]] = [
        lambda: copy.deepcopy(env),
        lambda: gymnasium.make(spec),  # pyright: ignore[reportArgumentType]
    ]
    for make in again:
        try:
            one = make()
        except Exception:
            continue
        if lost := _lost(env, one):
            raise UserError(
                f"Copies of this {kind} are made anew from its arguments, without what was changed "
                f"in it since ({lost}); give a function that makes and changes it."
            )
        return make
    raise UserError(
        f"This {kind} can be neither copied nor made again; give the function that makes it."
    )


def layers(env: Any) -> Iterator[Any]:
    """Yield the environment with all its wrappers, the outermost first."""
    while True:
        yield env
        if not isinstance(env, gymnasium.Wrapper):
            return
        env = env.env


def _lost(env: gymnasium.Env, copied: gymnasium.Env) -> str:
    """Return an attribute that a copy of an environment does not have as it was; '' if none.

    Several of Gymnasium's environments are copied by calling their classes with the same arguments.
    Paths are not compared: they may be of temporary files.
    """
    before, after = (collect((), layers(it)) for it in (env, copied))
    unlike = (name for name, said in before.items() if after.get(name) != said and "/" not in said)
    return next(unlike, "").rpartition(" ")[2]


def factory_of(task: str) -> Callable[..., Any] | None:
    """Return the function that makes a task's environments; None if the task is a Gymnasium id.

    Args:
        task: a task's name; a module in it is imported.

    Raises:
        UserError: only another process has the task.
    """
    if task.startswith(OBJECT):
        if task not in _KEPT:
            raise UserError(
                f"{task} was an object of the Python process that trained on it; give it again, "
                "by train(env=…), or name a function or class of a module, module:name."
            )
        return _KEPT[task]
    module, colon, name = task.rpartition(":")
    # A stranger's file may name a task of this package (`modules`), but call none of its functions.
    if not colon or ":" in module or module == "discover_rl" or name in gymnasium.registry:
        return None
    with modules.findable():
        importlib.import_module(module)
    found = None if name in gymnasium.registry else _attribute(module, name)
    return found if callable(found) else None


def made_by(factory: Callable[..., Any], task: str, given: dict[str, Any]) -> gymnasium.Env:
    """Call a function that makes environments.

    Args:
        factory: as `factory_of` gives it.
        task: the task's name, for messages.
        given: arguments; `render_mode` is left out where the function does not take it.

    Raises:
        UserError: it returned something else.
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


def _importable(thing: Any) -> str:
    """The name of a function or class of a module, as module:name; '' for all else."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    found = module and name and "<" not in name and _attribute(module, name) is thing
    return f"{module}:{name}" if found else ""


def _short(thing: Any) -> str:
    """What a function or object without a name is called."""
    name = getattr(thing, "__qualname__", "").rpartition(".")[2].strip("<>")
    return name or type(thing).__name__


def _attribute(module: str, name: str) -> Any:
    """Return an attribute of an imported module by module:name; None if it does not exist."""
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
