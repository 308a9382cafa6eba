"""Find the variables that a user's own code changes as it runs, such as a counter of episodes.

They are read from the code's source, before it runs:

    global NAME                              the module's variable NAME
    OWNER.name = …, also += and del          this attribute of OWNER; if OWNER is `self`, that of
                                             every object of the class, unless `__init__` sets it
    CONTAINER[…] = …, CONTAINER.append(…)    this container, whatever it is called elsewhere

OWNER and CONTAINER are looked up, so that two things of one name are not confused. What is changed
by a way round, as by another name for the same container, is not found.
"""

from __future__ import annotations

import ast
import collections
import inspect
import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

CHANGING = (
    *("add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "fill", "insert"),
    *("pop", "popitem", "popleft", "remove", "reverse", "setdefault", "sort", "subtract", "update"),
)
"""Methods that change the container they are called on."""
CONTAINERS = (list, dict, set, collections.deque, np.ndarray)
"""Types of containers that code may change."""
FIRST = ("__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__")
"""Methods that give an object its attributes, before anything happens to it."""
UNKNOWN: Any = object()
"""The value of an expression that cannot be looked up."""
Method = ast.FunctionDef | ast.AsyncFunctionDef
"""The definition of a function, which may be a class's."""


class Changes:
    """What the code that was read changes as it runs."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._variables: set[tuple[str, str]] = set()  # module, name
        self._of_objects: set[tuple[type, str]] = set()  # class, attribute of each of its objects
        self._of_classes: set[tuple[type, str]] = set()  # class, attribute of it or of its children
        # Objects are held, so that no other one can get the same id.
        self._attributes: dict[tuple[int, str], Any] = {}  # id of the owner, name
        self._containers: dict[int, Any] = {}  # by id

    def __len__(self) -> int:
        """How many variables there are."""
        found = self._variables, self._of_objects, self._of_classes, self._attributes
        return sum(map(len, found)) + len(self._containers)

    def variable(self, module: str, name: str) -> bool:
        """Whether a module's variable is changed."""
        return (module, name) in self._variables

    def attribute(self, owner: Any, name: str) -> bool:
        """Whether an attribute of a class or of an object is changed."""
        of_class = isinstance(owner, type)
        parents = (owner if of_class else type(owner)).__mro__
        found = self._of_classes if of_class else self._of_objects
        return (id(owner), name) in self._attributes or any((it, name) in found for it in parents)

    def container(self, value: Any) -> bool:
        """Whether a value is a container that is changed."""
        return id(value) in self._containers

    def read(self, thing: type | types.FunctionType, names: Mapping[str, Any]) -> None:
        """Add what a class or a function changes.

        Args:
            thing: the class or function.
            names: the variables that its code can see, by name.
        """
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
        except (OSError, TypeError, SyntaxError, IndexError):
            return
        body = tree.body if isinstance(tree, ast.ClassDef) else [tree]
        methods = [it for it in body if isinstance(it, Method)]
        first = _first(methods)
        for method in methods:
            owner = thing if isinstance(thing, type) else None
            reader = _Reader(self, thing.__module__, owner, method, names, method.name in first)
            reader.generic_visit(method)

    def add_variable(self, module: str, name: str) -> None:
        """Add a module's variable."""
        self._variables.add((module, name))

    def add_attribute(self, owner: Any, name: str) -> None:
        """Add an attribute of a module, a class or an object."""
        if isinstance(owner, types.ModuleType):
            self.add_variable(owner.__name__, name)
        elif owner is not UNKNOWN:
            self._attributes[id(owner), name] = owner

    def add_own(self, owner: type, name: str, of_class: bool) -> None:
        """Add an attribute of a class and its children, or of their objects."""
        (self._of_classes if of_class else self._of_objects).add((owner, name))

    def add_container(self, value: Any) -> None:
        """Add a container; nothing, if it is none."""
        if isinstance(value, CONTAINERS):
            self._containers[id(value)] = value


def _first(methods: Sequence[Method]) -> set[str]:
    """The methods of a class that only give an object its attributes: those of `FIRST`, and
    private ones that no other method names."""
    named = {
        method.name: {it.attr for it in ast.walk(method) if isinstance(it, ast.Attribute)}
        for method in methods
    }
    first: set[str] = set(FIRST)
    while True:
        later = set[str]().union(*(used for name, used in named.items() if name not in first))
        once = set[str]().union(*(used for name, used in named.items() if name in first)) - later
        more = {name for name in named.keys() & once if name.startswith("_")} - first
        if not more:
            return first
        first |= more


class _Reader(ast.NodeVisitor):
    """Adds what a function changes."""

    def __init__(
        self,
        changes: Changes,
        module: str,
        owner: type | None,
        function: Method,
        names: Mapping[str, Any],
        first: bool,
    ):
        """Prepare to read.

        Args:
            changes: gets what is found.
            module: the name of the function's module.
            owner: the class, if it is a method.
            function: its tree.
            names: the variables that it can see, by name.
            first: whether it is one of the methods in which an object gets its attributes.
        """
        self._changes, self._module, self._owner, self._first = changes, module, owner, first
        local = set(_local_names(function))
        self._names = {name: value for name, value in names.items() if name not in local}
        arguments = [*function.args.posonlyargs, *function.args.args]
        kinds = {it.id for it in function.decorator_list if isinstance(it, ast.Name)}
        bound = owner is not None and arguments and "staticmethod" not in kinds
        self._bound = arguments[0].arg if bound else ""
        self._takes_class = "classmethod" in kinds or function.name == "__init_subclass__"

    def visit_Global(self, node: ast.Global) -> None:
        for name in node.names:
            self._changes.add_variable(self._module, name)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._assigned(node.value, node.attr)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._filled(node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._filled(node.target)  # in place, if it is a container
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(func=ast.Attribute(value=container, attr=method)) if method in CHANGING:
                self._filled(container)
            case ast.Call(
                func=ast.Name(id="setattr" | "delattr"),
                args=[owner, ast.Constant(value=str(name)), *_],
            ):
                self._assigned(owner, name)
        self.generic_visit(node)

    def _assigned(self, owner: ast.expr, name: str) -> None:
        """An attribute is assigned."""
        if self._is_object(owner):
            if self._owner and not self._first:
                self._changes.add_own(self._owner, name, of_class=False)
        elif self._owner and self._is_class(owner):
            self._changes.add_own(self._owner, name, of_class=True)
        else:
            self._changes.add_attribute(self._value(owner), name)

    def _filled(self, node: ast.expr) -> None:
        """A container is changed."""
        self._changes.add_container(self._value(node))
        if isinstance(node, ast.Attribute) and self._is_object(node.value):
            self._assigned(node.value, node.attr)

    def _is_object(self, node: ast.expr) -> bool:
        """Whether an expression is `self`."""
        return isinstance(node, ast.Name) and node.id == self._bound and not self._takes_class

    def _is_class(self, node: ast.expr) -> bool:
        """Whether an expression is the class of `self`."""
        match node:
            case ast.Name(id=name):
                return name == self._bound and self._takes_class
            case ast.Attribute(value=inner, attr="__class__"):
                return self._is_object(inner)
            case ast.Call(func=ast.Name(id="type"), args=[inner]):
                return self._is_object(inner)
        return False

    def _value(self, node: ast.expr) -> Any:
        """What a dotted name stands for; `self` for its class, UNKNOWN for another expression."""
        if self._is_object(node) or self._is_class(node):
            return self._owner
        match node:
            case ast.Name(id=name):
                return self._names.get(name, UNKNOWN)
            case ast.Attribute(value=inner, attr=name):
                return _attribute(self._value(inner), name)
        return UNKNOWN


def _attribute(owner: Any, name: str) -> Any:
    """An attribute as it stands in a module, a class or an object, without calling anything."""
    if owner is UNKNOWN:
        return UNKNOWN
    parents = owner.__mro__ if isinstance(owner, type) else (owner, *type(owner).__mro__)
    return next((vars(it)[name] for it in parents if name in getattr(it, "__dict__", {})), UNKNOWN)


def _local_names(function: Method) -> Iterator[str]:
    """The variables of a function, and of functions inside of it."""
    known: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                known.update(names)
    for node in ast.walk(function):
        match node:
            case ast.arg(arg=name) if name not in known:
                yield name
            case ast.Name(id=name, ctx=ast.Store()) if name not in known:
                yield name
