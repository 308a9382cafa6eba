"""Collect the source of a user's own code, and of what it uses, so that it can be hashed.

Starting from classes and functions, that is the source of each, of the user's other classes and
functions that it uses, and the values of variables and constants, attributes and default arguments
that it uses. What the code itself changes as it runs is left out (`changing`), and so is the folder
that it lies in: neither says what the code does.
"""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np

from discover_rl.envs.changing import Changes

KNOWN = ("gymnasium", "envpool", "discover_rl", "numpy", "jax", "jaxlib", "optax")
"""Packages whose version is recorded, so their code is not hashed."""
PLAIN = (
    *(int, float, complex, str, bytes, bool, tuple, list, dict, set, frozenset, range, PurePath),
    type(None),
)
"""Types of constants whose value is collected as text."""
DEPTH = 8
"""How many containers and objects inside of each other are opened: they may hold themselves."""


def collect(
    things: Iterable[Any],
    objects: Iterable[Any] = (),
    values: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """Collect the code of classes and functions, and of what they use.

    Args:
        things: the classes and functions; others are ignored.
        objects: objects whose attributes are collected as well.
        values: anything that they were given, by names.

    Returns:
        Sources and values, by what they are of; {} if nothing is the user's own.
    """
    things, objects = list(things), list(objects)
    changes = Changes()
    while True:
        known, collection = len(changes), _Collection(changes)
        for thing in things:
            collection.add(thing)
        for number, one in enumerate(objects):
            collection.add_attributes(f"attributes of {type(one).__qualname__} {number}", one)
        for name, value in values.items():
            collection.note(name, value)
        # Code that was found late may change what was collected before it.
        if len(changes) == known:
            return collection.found


class _Collection:
    """The sources and values found so far, by what they are of."""

    def __init__(self, changes: Changes):
        """Nothing is collected yet; `changes` has what is left out, and gets more of it."""
        self.found: dict[str, str] = {}
        self._changes = changes
        self._folders = {str(Path(gymnasium.__file__).parents[1])}

    def add(self, thing: Any) -> None:
        """Add the source of a class or function, and what it uses of the user's own."""
        if not isinstance(thing, type | types.FunctionType) or not is_own(thing):
            return
        name = f"{thing.__module__}.{thing.__qualname__}"
        # In processes that a script starts, its module has another name.
        name = name.removeprefix("__main__.").removeprefix("__mp_main__.")
        if "<" in name:  # several functions may have this name
            name += f" {source(thing)} {text(sorted(_closure(thing).items()))}"
        if name in self.found:
            return
        self.found[name] = source(thing)
        for base in thing.__bases__ if isinstance(thing, type) else ():
            self.add(base)
        if not is_users(thing):
            self._add_of_installed(name, thing)
            return
        self._folders |= _folder(thing.__module__)
        self._changes.read(thing, _seen_by(thing))
        for function in _functions(thing):
            for module, used, value in _used(function):
                if not self._changes.variable(module, used):
                    self.note(f"{name} uses {used}", value)
            given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
            for number, value in enumerate(given):
                self.note(f"{name} {function.__name__} default {number}", value)
        if isinstance(thing, type):
            for attribute, value in vars(thing).items():
                inner = attribute.startswith("__") or isinstance(value, types.FunctionType)
                if not inner and not self._changes.attribute(thing, attribute):
                    self.note(f"{name} has {attribute}", value)

    def add_attributes(self, name: str, value: Any, depth: int = DEPTH) -> None:
        """Add the attributes of an object of the user's, but not the source of its class."""
        for kind in type(value).__mro__[:-1]:  # a parent from elsewhere has state, too
            self._changes.read(kind, _seen_by(kind))
        slots = (slot for kind in type(value).__mro__ for slot in _slots(kind))
        there = {slot: getattr(value, slot) for slot in slots if hasattr(value, slot)}
        for attribute, part in sorted({**there, **getattr(value, "__dict__", {})}.items()):
            if not self._changes.attribute(value, attribute):
                self.note(f"{name} {attribute}", part, depth - 1)

    def _add_of_installed(self, name: str, thing: type | types.FunctionType) -> None:
        """Add what code of an installed package uses: its constants and functions."""
        for function in _functions(thing):
            for _, used, value in _used(function):
                if isinstance(value, PLAIN):
                    self.found[f"{name} uses {used}"] = text(value)
                else:
                    self.add(value)

    def note(self, name: str, value: Any, depth: int = DEPTH) -> None:
        """Add a value that the user's code uses: its source, or what it says.

        Args:
            name: who uses it, and by which name.
            value: a class or function, a constant, a container, or an object of a user's class.
            depth: how many containers and objects are opened.
        """
        if depth == 0 or self._changes.container(value):
            return
        if hasattr(value, "__wrapped__"):  # a decorator has made it, such as jax.jit
            self.note(f"{name} wrapped", value.__wrapped__, depth - 1)
        if isinstance(value, type | types.FunctionType):
            self.add(value)
        elif isinstance(value, (*PLAIN, gymnasium.Space)):
            self.found[name] = self._without_folders(text(value))
            parts = value if isinstance(value, dict) else {}
            parts = dict(enumerate(value)) if isinstance(value, list | tuple) else parts
            for key, part in parts.items():
                if not isinstance(part, int | float | str | bytes | None):
                    self.note(f"{name} {text(key)}", part, depth - 1)
        elif isinstance(value, functools.partial):
            parts = {"function": value.func, "args": value.args, "keywords": value.keywords}
            for key, part in parts.items():
                self.note(f"{name} {key}", part, depth - 1)
        elif hasattr(type(value), "__array__"):
            array = np.asarray(value)
            if not array.dtype.hasobject:
                self.found[name] = f"{array.dtype} {array.shape} {digest(array.tobytes())}"
        elif type(value).__name__ == "MjModel":  # of MuJoCo, which need not be installed
            self.found[name] = _model(value)
        elif is_users(type(value)) and not isinstance(value, gymnasium.Env):
            self.add(type(value))
            self.add_attributes(name, value, depth)

    def _without_folders(self, said: str) -> str:
        """A text without the folders that Gymnasium and the user's code lie in."""
        for folder in self._folders:
            said = said.replace(folder, "")
        return said


def source(thing: Any) -> str:
    """The source of a class or function; its compiled code where there is no source."""
    try:
        return _of_lambda(thing) or inspect.getsource(thing)
    except (OSError, TypeError):
        codes = [function.__code__ for function in _functions(thing)]
        return "".join(f"{code.co_code.hex()}{text(code.co_consts)}" for code in codes)


def _of_lambda(thing: Any) -> str:
    """The source of a lambda without the rest of its line, which may say other things, such as the
    number of steps; '' if it is none, or if it is not found."""
    if getattr(thing, "__name__", "") != "<lambda>":
        return ""
    content = "".join(inspect.findsource(thing)[0])
    ours = set(thing.__code__.co_positions())
    try:
        nodes = [node for node in ast.walk(ast.parse(content)) if isinstance(node, ast.Lambda)]
    except SyntaxError:  # of a shell, or edited since
        return ""
    for node in nodes:
        body = node.body
        place = body.lineno, body.end_lineno, body.col_offset, body.end_col_offset
        if place in ours:
            return ast.get_source_segment(content, node) or ""
    return ""


def text(value: Any) -> str:
    """A value as text, the same in every process: without addresses, and with sets in order."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(_ordered(value)))


def digest(content: bytes) -> str:
    """A short hash of the content, in hexadecimal: 16 digits of SHA-256."""
    return hashlib.sha256(content).hexdigest()[:16]


def _ordered(value: Any, depth: int = DEPTH) -> Any:
    """The value with a sorted list in place of every set, also in `depth` containers around it:
    these may hold themselves."""
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if depth and type(value) is dict:
        return {key: _ordered(part, depth - 1) for key, part in value.items()}
    if depth and type(value) in (list, tuple):
        return type(value)(_ordered(part, depth - 1) for part in value)
    return value


def is_own(thing: Any) -> bool:
    """Whether a class or function comes from the user's own code or a package not in `KNOWN`."""
    package = (getattr(thing, "__module__", None) or "").partition(".")[0]
    return package not in (*KNOWN, "builtins") and package not in sys.stdlib_module_names


def is_users(thing: Any) -> bool:
    """Whether a module, class or function is code that the user edits, not an installed package."""
    name = thing.__name__ if isinstance(thing, types.ModuleType) else thing.__module__
    installed = {"site-packages", "dist-packages"} & set(_file_of(name).parts)
    return is_own(types.SimpleNamespace(__module__=name)) and not installed


def _file_of(module: str) -> Path:
    """The file of an imported module; an empty path if it has none."""
    return Path(getattr(sys.modules.get(module), "__file__", None) or "")


def _folder(module: str) -> set[str]:
    """The folder that the package of an imported module lies in, or the module itself."""
    file, inside = _file_of(module), module.count(".")
    inside += file.name == "__init__.py"
    folder = file.parents[inside] if len(file.parents) > inside else Path()
    return {str(folder)} if len(folder.parts) > 1 else set()


def _functions(thing: Any) -> Iterator[types.FunctionType]:
    """A function itself; of a class, its methods."""
    for member in vars(thing).values() if isinstance(thing, type) else [thing]:
        inner = getattr(member, "__func__", getattr(member, "func", member))
        for one in (inner, *(getattr(member, it, None) for it in ("fget", "fset", "fdel"))):
            if isinstance(one, types.FunctionType):
                yield one


def _used(function: types.FunctionType) -> Iterator[tuple[str, str, Any]]:
    """The names that a function looks up in its module, in modules of the user's and in functions
    around it; for each the module, the name and the value."""
    yield from (("", name, value) for name, value in _closure(function).items())
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        module: types.ModuleType | None = None  # whose attribute comes next
        for step in dis.get_instructions(code):
            names = vars(module) if module else function.__globals__
            kinds = ("LOAD_ATTR", "LOAD_METHOD") if module else ("LOAD_GLOBAL", "LOAD_NAME")
            where, module = module.__name__ if module else function.__module__, None
            if step.opname not in kinds or step.argval not in names:
                continue
            value = names[step.argval]
            if not isinstance(value, types.ModuleType):
                yield where, step.argval, value
            elif is_users(value):
                module = value


def _model(value: Any) -> str:
    """A hash of a model of MuJoCo."""
    mujoco = sys.modules["mujoco"]
    content = np.zeros(mujoco.mj_sizeModel(value), np.uint8)
    mujoco.mj_saveModel(value, None, content)
    return digest(content.tobytes())


def _seen_by(thing: type | types.FunctionType) -> dict[str, Any]:
    """The variables that the code of a class or function can see, by name."""
    seen = dict(vars(sys.modules.get(thing.__module__, types.ModuleType(""))))
    for function in _functions(thing):
        seen |= function.__globals__ | _closure(function)
    return seen


def _closure(function: Any) -> dict[str, Any]:
    """The variables of functions around a function, by name."""
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if cells else ()
    found = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    return found


def _slots(kind: type) -> list[str]:
    """The attributes that a class keeps in slots."""
    slots = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else [*slots]
    return [name for name in names if not name.startswith("__")]
