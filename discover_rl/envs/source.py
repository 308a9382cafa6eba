"""Hash the code of a user's own task, strategy or algorithm, to notice when it changes.

Runs on a task whose code has changed are different runs, even though the task's id is the same. The
hash covers the source of the environment's class and of its wrappers, the user's own code and
constants that these use, and the arguments of the environment. Code from Gymnasium, EnvPool and
this package is not hashed: records have its version. Neither are files that an environment reads,
modules that are imported inside a function, nor variables that the code itself changes, such as a
counter of episodes: their values say what has happened, not what the task is.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator

from discover_rl.envs import tasks
from discover_rl.envs.catalogue import DM_CONTROL, OWN, ROBOTICS
from discover_rl.envs.objects import factory_of, layers
from discover_rl.envs.own_code import collect, digest, is_own, is_users, source, text
from discover_rl.envs.settings import PLAIN as PLAIN_MAKING
from discover_rl.envs.settings import Making
from discover_rl.system.modules import OBJECT


def fingerprint(task: str, making: Making = PLAIN_MAKING) -> str:
    """Hash the code of a task and of its wrappers; '' if all of it comes with `KNOWN` packages.

    Args:
        task: a Gymnasium id, or module:id.
        making: how its environments are made.
    """
    if _is_known(task) and not making.wrappers:
        return ""
    env = tasks.make(task, making=making)
    makers = [tasks.wrapper_function(name) for name in making.wrappers]
    if factory := factory_of(task):
        makers.append(factory)
    try:
        return fingerprint_of(env, makers, task.startswith(OBJECT))
    finally:
        tasks.close(env)


def fingerprint_of(
    env: gymnasium.Env, wrappers: Sequence[Callable[..., Any]] = (), whole: bool = False
) -> str:
    """Hash the code of an environment; '' if all of it comes with `KNOWN` packages.

    Args:
        env: the environment, with all its wrappers.
        wrappers: the functions that made the wrappers, and the one that made an environment
            without an id.
        whole: hash the attributes of Gymnasium's environments and wrappers, too. That is for an
            environment that was given as it is: its task's name does not say what it is.
    """
    made: list[Any] = [*wrappers, *(type(layer) for layer in layers(env))]
    spec = env.spec
    arguments: dict[str, Any] = {}
    if spec is not None:
        creator = spec.entry_point
        if isinstance(creator, str):
            creator = load_env_creator(creator)
        made.append(creator)
        arguments = dict(spec.kwargs)
        arguments.pop("render_mode", None)
        for wrapper in spec.additional_wrappers:
            arguments[wrapper.name] = wrapper.kwargs
    own = spec is not None and not _is_gymnasiums(spec.id)
    called = [part for value in arguments.values() for part in _callables(value)]
    makers = {f"maker {number}": maker for number, maker in enumerate(wrappers)}
    found = collect([*made, *called], _told_by_attributes(env, whole), makers)
    if not own and not found:
        return ""
    given = {f"argument {name}": value for name, value in arguments.items()}
    said = {name: text(value) for name, value in given.items()}
    return _digest(found | said | collect((), values=given))


def _told_by_attributes(env: gymnasium.Env, whole: bool) -> Iterator[Any]:
    """The layers of an environment of which nothing but their attributes says how they were made.

    Args:
        env: the environment.
        whole: as for `fingerprint_of`.
    """
    for layer in layers(env):
        own = is_own(type(layer))
        installed = own and not is_users(type(layer))
        # With an id, the arguments of an installed package's environment are known.
        if (own or whole) if env.spec is None else (whole and not installed):
            yield layer


def fingerprint_of_member(member: Any) -> str:
    """Hash the code of a user's own strategy or algorithm.

    Args:
        member: the module, or the object, that has its functions and classes.
    """
    found = collect([member, *vars(member).values()])
    if isinstance(member, types.ModuleType):
        found["module"] = source(member)
    return _digest(found)


def _digest(found: Mapping[str, str]) -> str:
    """A hash of sources by their names."""
    said = (f"{name}\0{content}\0" for name, content in sorted(found.items()))
    return digest("".join(said).encode())


def _is_known(task: str) -> bool:
    """Whether a task comes with Gymnasium, with this package, or with a package that EnvPool has
    the tasks of."""
    if task.startswith((DM_CONTROL, ROBOTICS, OWN)):
        return True
    return ":" not in task and _is_gymnasiums(task)


def _is_gymnasiums(task: str) -> bool:
    """Whether Gymnasium itself registers this id."""
    return f'id="{task}"' in inspect.getsource(gymnasium.envs)


def _callables(value: Any) -> Iterator[Any]:
    """The functions and classes among an argument's values."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _callables(part)
    elif callable(value):
        yield value
