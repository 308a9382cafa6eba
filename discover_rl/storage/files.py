"""Files that are whole or not there, checksums, and folders that one process works in at a time."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

from discover_rl.core.types import UserError


class FolderInUse(UserError):
    """Another process is working in a folder."""


class Checksum(TypedDict):
    """What a file that was written can be checked by."""

    bytes: int
    crc32: int


def write(path: Path, content: bytes) -> Checksum:
    """Write a file so that it is whole or not there; return its size and checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".tmp")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync(path.parent)
    return {"bytes": len(content), "crc32": zlib.crc32(content)}


def read(path: Path, checksum: Checksum) -> bytes:
    """A file's content; a UserError if it is not what `write` returned this checksum for."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from error
    if len(content) != checksum["bytes"] or zlib.crc32(content) != checksum["crc32"]:
        raise UserError(f"{path} is damaged; restore it, or move {path.parent} away to start over.")
    return content


def sync(folder: Path) -> None:
    """Make renames in a folder last, whatever happens to the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _file_locks() -> Any:
    """The module fcntl, which locks files; None on Windows, which has none."""
    try:
        import fcntl
    except ImportError:
        return None
    return fcntl


@contextlib.contextmanager
def locked(
    folder: Path, patience: float = 0.0, stopping: Callable[[], bool] = bool
) -> Iterator[None]:
    """Hold a folder's lock. It is released when its process ends, however that happens.

    Args:
        folder: made if it is not there.
        patience: seconds to wait for whoever holds the lock.
        stopping: asked while waiting; if true, the wait ends.

    Raises:
        FolderInUse: somebody else holds the lock.
    """
    fcntl = _file_locks()
    if fcntl is None:
        raise UserError(
            "Training locks its folder by flock, which this system lacks; train on Linux, on macOS "
            "or, in Windows, in WSL. Policies can be loaded here."
        )
    until = time.monotonic() + patience
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise UserError(f"{folder} cannot be written to ({error.strerror}).") from error
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= until or stopping():
                    raise FolderInUse(
                        f"Another process is training in {folder}; choose another --out."
                    ) from error
            time.sleep(0.05)
        yield


def in_use(folder: Path) -> bool:
    """Whether another process holds a folder's lock right now."""
    fcntl = _file_locks()
    if fcntl is None:
        return False  # nobody can hold it here
    try:
        with (folder / ".lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def move_aside(folder: Path) -> Path | None:
    """Give a folder another name, NAME.old-1 or the first such that is free.

    Returns:
        The new path; None if there is no such folder, or nothing but a lock in it.

    Raises:
        FolderInUse: somebody is working in it.
    """
    if not folder.is_dir() or all(entry.name == ".lock" for entry in folder.iterdir()):
        return None
    with locked(folder):
        free = (folder.with_name(f"{folder.name}.old-{i}") for i in itertools.count(1))
        aside = next(path for path in free if not path.exists())
        folder.rename(aside)
    return aside
