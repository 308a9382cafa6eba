"""Members of the package and of others: strategies and algorithms, by their names.

A member is a module, or another object, with certain attributes (`Hyper`, `make`, …). There are
three kinds, and `load` gives each in the same way:

    the package's own     modules beside the registry
    of installed packages entry points of a group, such as "discover_rl.strategies"
    registered            by `register`, where a user's module or script is imported
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
"""What a member may be called: its name is that of a folder and follows a dash in others."""


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
        kind: what a member is, in a word.
        package: where the package's own are.
        members: the sentences about all members, by name; others are added to it.
        only: the other names that a member may be combined with, by its name; likewise.
        needs: the attributes of a member.
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
        """Add a member, or put it in the place of another one that was registered.

        Args:
            name: its name: small letters, digits and underscores.
            member: what has its attributes; or the name of a module, which may be the one that is
                being imported: `__name__`.
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
        """The name of the member that a user's word means.

        Args:
            word: a name, or module:name; then the module is imported, and has to register it.
        """
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
        """The member of this name, with its attributes."""
        if name in self._installed and name not in self._registered:
            self._load_installed(name)
        if name not in self._registered:
            return importlib.import_module(f"{self.package}.{name}")
        member = self._registered[name]
        if isinstance(member, str):
            member = self._registered[name] = sys.modules[member]
            self._check(name, member)
        return member

    def outside(self, name: str) -> Any | None:
        """The member of this name if it is not the package's own; None if it is."""
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
