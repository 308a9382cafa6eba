"""A registry of strategies or algorithms, by name: those of this package and those of others.

A member is a module, or another object, with certain attributes (`Hyper`, `make`, …). Members come
from three places, and `load` returns each in the same way:

    this package         modules of the package that has the registry
    installed packages   entry points of a group, such as "discover_rl.strategies"
    the user             calls of `register` in a module or script that is imported
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Any

from discover_rl.core.types import UserError
from discover_rl.system import modules

NAME = re.compile(r"[a-z][a-z0-9_]*")
"""The pattern of names: a name is used as a folder's name, and after a dash in other names."""


def imported(word: str) -> str:
    """Import the module of module:name, as the user wrote it; return the name."""
    module, _, name = word.rpartition(":")
    try:
        with modules.findable():
            importlib.import_module(module)
    except Exception as error:
        raise _cannot_import(word, error) from error
    return name


def _cannot_import(what: str, error: Exception) -> UserError:
    said = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(".")
    return UserError(f"{what} cannot be imported: {said}.")


class Registry:
    """The members of one kind.

    Args:
        kind: "strategy" or "algorithm".
        package: the package whose modules are members.
        members: a sentence about each member, by name; registered members are added to it.
        only: the names that a member may be combined with, by the member's name; registered
            members are added to it.
        needs: the attributes that a member must have.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        members: dict[str, str],
        only: dict[str, tuple[str, ...]],
        needs: Sequence[str],
    ):
        self.kind, self.package, self.members, self.only = kind, package, members, only
        self.needs = needs
        self._shipped = frozenset(members)
        self._registered: dict[str, Any] = {}
        self._installed: dict[str, metadata.EntryPoint] = {}
        for point in metadata.entry_points(group=package):
            if point.name not in members and NAME.fullmatch(point.name):
                self._installed[point.name] = point
                members[point.name] = f"of the package {point.dist.name if point.dist else '?'}"

    def register(self, name: str, member: Any, about: str = "", only: Iterable[str] = ()) -> None:
        """Add a member. It replaces one of the same name that was registered before.

        Args:
            name: its name: small letters, digits and underscores.
            member: an object with the attributes; or the name of a module that has them, for
                instance `__name__` in the module itself.
            about: a sentence for `discover list`.
            only: what it may be combined with; all, by default.
        """
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise UserError(
                f"The name of a {self.kind} is small letters, digits and underscores, not {name!r}."
            )
        if name in self._shipped:
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise UserError(f"{name} is {article} {self.kind} of discover_rl; choose another name.")
        if not isinstance(member, str):
            self._check(name, member)
        self._registered[name] = member
        self.members[name] = about or "of your own"
        self.only.pop(name, None)
        if chosen := tuple(only):
            self.only[name] = chosen

    def find(self, word: str) -> str:
        """Return the name of the member that the user's text stands for.

        Args:
            word: a name; or module:name, where importing the module registers the name.
        """
        if not isinstance(word, str):
            raise UserError(
                f"There is no {self.kind} {word!r}; what is needed is a name, which "
                f"discover_rl.register_{self.kind} gives to one of your own."
            )
        if ":" not in word:
            return word
        name = imported(word)
        if name not in self.members:
            raise UserError(
                f"Importing {word.rpartition(':')[0]} registers no {self.kind} {name}; it has to "
                f"call discover_rl.register_{self.kind}({name!r}, __name__)."
            )
        return name

    def load(self, name: str) -> Any:
        """The member of this name, with its attributes; a UserError if there is none."""
        if name not in self.members:
            raise UserError(f"There is no {self.kind} {name}; import the module that registers it.")
        if name in self._installed and name not in self._registered:
            self._load_installed(name)
        if name not in self._registered:
            return importlib.import_module(f"{self.package}.{name}")
        member = self._registered[name]
        if isinstance(member, str):
            imported(f"{member}:{name}")  # unless it is the module that registers it
            member = self._registered[name] = sys.modules[member]
            self._check(name, member)
        return member

    def outside(self, name: str) -> Any | None:
        """Return the member of this name if it is not one of this package's; else None."""
        return None if name in self._shipped else self.load(name)

    def _load_installed(self, name: str) -> None:
        point = self._installed[name]
        try:
            member = point.load()
        except Exception as error:
            raise _cannot_import(f"The {self.kind} {name}", error) from error
        if name not in self._registered:  # as its module may have done
            about = (getattr(member, "__doc__", None) or "").strip().partition("\n")[0]
            self.register(name, member, about or self.members[name])

    def _check(self, name: str, member: Any) -> None:
        """A UserError unless a member has all attributes."""
        if missing := [attribute for attribute in self.needs if not hasattr(member, attribute)]:
            raise UserError(f"The {self.kind} {name} has no {' and no '.join(missing)}.")
