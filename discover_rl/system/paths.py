"""Paths that users give: what is wrong with one is a sentence."""

from __future__ import annotations

import os
from pathlib import Path

from discover_rl.core.types import UserError


def a_folder(given: str | Path) -> Path:
    """The path that was given, if it can be a folder; else a UserError."""
    path = _path(given)
    nearest = next(parent for parent in (path, *path.parents) if parent.exists())
    if not nearest.is_dir():
        raise UserError(f"{nearest} is a file, and a folder is needed.")
    if path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
        raise UserError(f"{path} cannot be read: you have no permission.")
    return path


def a_file(given: str | Path) -> Path:
    """The path that was given, if it can be a file; else a UserError."""
    path = _path(given)
    if path.is_dir():
        raise UserError(f"{path} is a folder, and a file is needed.")
    return path


def _path(given: str | Path) -> Path:
    """A path; a UserError for '', which Python takes for the working directory, and for NUL."""
    if not str(given) or "\0" in str(given):
        raise UserError(f"A path is needed, not {str(given)!r}; the working directory is '.'.")
    return Path(given)
