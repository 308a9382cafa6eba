"""Paths: what is wrong with one that a user gives is a sentence, and only plain files are read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from discover_rl.core.types import UserError


class SpecialFile(OSError):
    """A path is neither a file nor a folder: reading a pipe waits, reading a device may not end."""


def plain(path: Path) -> int:
    """The size of a file; SpecialFile if it is a pipe or a device, another OSError as of `stat`."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise SpecialFile(errno.EINVAL, "neither a file nor a folder", str(path))
    return found.st_size


def a_folder(given: str | os.PathLike[str]) -> Path:
    """The path that was given, if it can be a folder; else a UserError."""
    path = _path(given)
    nearest = next(parent for parent in (path, *path.parents) if parent.exists())
    if not nearest.is_dir():
        raise UserError(f"{nearest} is a file, and a folder is needed.")
    if path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
        raise UserError(f"{path} cannot be read: you have no permission.")
    return path


def a_file(given: str | os.PathLike[str]) -> Path:
    """The path that was given, if it can be a file; else a UserError."""
    path = _path(given)
    if path.is_dir():
        raise UserError(f"{path} is a folder, and a file is needed.")
    return path


def _path(given: str | os.PathLike[str]) -> Path:
    """A path; a UserError for '', which Python takes for the working directory, for what is no
    path, and for what no record could have: NUL, and bytes that are no UTF-8."""
    if not isinstance(given, str | os.PathLike) or not str(given) or "\0" in str(given):
        shown = str(given) if isinstance(given, os.PathLike) else given
        raise UserError(f"A path is needed, not {shown!r}; the working directory is '.'.")
    if any("\ud800" <= letter <= "\udfff" for letter in str(given)):
        raise UserError(f"{given} is no text in UTF-8; choose a path that is.")
    return Path(given)
