"""Which code a task, a strategy or an algorithm of the user's own is: a hash of what it is made of.

Runs on a task whose code has changed are other runs, though the task's id is the same. The hash is
of the source of the environment's class, of its wrappers and of what these use of the user's own
code, and of the arguments that it is made with. What Gymnasium, EnvPool and this package bring has
none: their versions are recorded. Files that an environment reads are not part of it.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator

from discover_rl.envs import tasks
from discover_rl.envs.catalogue import DM_CONTROL, OWN, ROBOTICS
from discover_rl.envs.objects import factory_of
from discover_rl.envs.settings import PLAIN as PLAIN_MAKING
from discover_rl.envs.settings import Making

KNOWN = ("gymnasium", "envpool", "discover_rl", "numpy", "jax", "jaxlib", "optax")
"""Packages that are known by their version."""
PLAIN = (int, float, complex, str, bytes, bool, tuple, list, dict, set, frozenset, type(None))
"""Types of constants whose value is part of the hash."""


def fingerprint(task: str, making: Making = PLAIN_MAKING) -> str:
    """A hash of the code of a task and of what wraps it; '' if all of it comes with known packages.

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
        return fingerprint_of(env, makers)
    finally:
        env.close()


def fingerprint_of(env: gymnasium.Env, wrappers: Sequence[Callable[..., Any]] = ()) -> str:
    """A hash of the code of an environment; '' if all of it comes with known packages.

    Args:
        env: the environment, with all its wrappers.
        wrappers: the functions that made these, and the environment if it has no id.
    """
    layers: list[Any] = [*wrappers, *(type(layer) for layer in _layers(env))]
    spec = env.spec
    arguments: dict[str, Any] = {}
    if spec is not None:
        creator = spec.entry_point
        if isinstance(creator, str):
            creator = load_env_creator(creator)
        layers.append(creator)
        arguments = dict(spec.kwargs)
        arguments.pop("render_mode", None)
        for wrapper in spec.additional_wrappers:
            arguments[wrapper.name] = wrapper.kwargs
    found: dict[str, str] = {}
    for layer in layers:
        _gather(layer, found)
    if spec is None and found:  # no id says what it was made with
        for layer in _layers(env):
            public = {name: it for name, it in vars(layer).items() if not name.startswith("_")}
            plain = {name: it for name, it in public.items() if isinstance(it, PLAIN)}
            found[f"attributes of {type(layer).__qualname__}"] = _text(sorted(plain.items()))
    for name, value in arguments.items():
        for part in _callables(value):
            _gather(part, found)
        found[f"argument {name}"] = _text(value)
    own = spec is not None and not _is_gymnasiums(spec.id)
    if not own and not any(not name.startswith("argument ") for name in found):
        return ""
    return _digest(found)


def fingerprint_of_member(member: Any) -> str:
    """A hash of the code of a strategy or algorithm of the user's own.

    Args:
        member: the module, or the object, that has its functions and classes.
    """
    found: dict[str, str] = {}
    for part in [member, *vars(member).values()]:
        _gather(part, found)
    if isinstance(member, types.ModuleType):
        found["module"] = _source(member)
    return _digest(found)


def _digest(found: Mapping[str, str]) -> str:
    """A hash of sources by their names."""
    digest = hashlib.sha256()
    for name, text in sorted(found.items()):
        digest.update(f"{name}\0{text}\0".encode())
    return digest.hexdigest()[:16]


def _is_known(task: str) -> bool:
    """Whether a task comes with Gymnasium, with this package, or with a package that EnvPool has
    the tasks of."""
    if task.startswith((DM_CONTROL, ROBOTICS, OWN)):
        return True
    return ":" not in task and _is_gymnasiums(task)


def _is_gymnasiums(task: str) -> bool:
    """Whether Gymnasium itself registers this id."""
    return f'id="{task}"' in inspect.getsource(gymnasium.envs)


def _layers(env: Any) -> Iterator[Any]:
    """The environment with all its wrappers, the outermost first."""
    while True:
        yield env
        if not isinstance(env, gymnasium.Wrapper):
            return
        env = env.env


def _is_own(thing: Any) -> bool:
    """Whether a class or function is of the user's own code, or of a package that is not known."""
    package = (getattr(thing, "__module__", None) or "").partition(".")[0]
    return package not in (*KNOWN, "builtins") and package not in sys.stdlib_module_names


def _gather(thing: Any, found: dict[str, str]) -> None:
    """Add the source of a class or function, and of what it uses of its own module, to `found`."""
    name = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', thing)}"
    # A script is called otherwise in the processes that it starts.
    name = name.removeprefix("__main__.").removeprefix("__mp_main__.")
    if name in found or not isinstance(thing, type | types.FunctionType):
        return
    if not _is_own(thing):
        return
    found[name] = _source(thing)
    for base in thing.__bases__ if isinstance(thing, type) else ():
        _gather(base, found)
    for function in _functions(thing):
        for used, value in _used(function):
            if isinstance(value, type | types.FunctionType):
                _gather(value, found)
            elif isinstance(value, PLAIN):
                found[f"{name} uses {used}"] = _text(value)


def _functions(thing: Any) -> Iterator[types.FunctionType]:
    """A function itself; of a class, its methods."""
    members = vars(thing).values() if isinstance(thing, type) else [thing]
    for member in members:
        inner = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if isinstance(inner, types.FunctionType):
            yield inner


def _used(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The names that a function looks up in its module, with their values."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in function.__globals__:
                yield step.argval, function.__globals__[step.argval]


def _source(thing: Any) -> str:
    """The source of a class or function; its compiled code where there is no source."""
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        codes = [function.__code__ for function in _functions(thing)]
        return "".join(f"{code.co_code.hex()}{_text(code.co_consts)}" for code in codes)


def _callables(value: Any) -> Iterator[Any]:
    """The functions and classes among an argument's values."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _callables(part)
    elif callable(value):
        yield value


def _text(value: Any) -> str:
    """A value as text, without addresses, which differ from process to process."""
    if isinstance(value, set | frozenset):
        value = sorted(map(repr, value))
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
