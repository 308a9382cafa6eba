"""Files that are either complete or absent, checksums, and locks of folders."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypedDict

from discover_rl.core.types import UserError
from discover_rl.system import hardware
from discover_rl.system.paths import plain


class FolderInUse(UserError):
    """Another process is working in a folder."""


class Checksum(TypedDict):
    """Size and hash of a file that was written, to check it when it is read."""

    bytes: int
    crc32: int


def write(path: Path, content: bytes) -> Checksum:
    """Write a file as a whole: after a crash it has the new content or the old one.

    Returns:
        Its size and checksum.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".tmp")
    try:
        draft.unlink(missing_ok=True)  # a link would lead elsewhere
        with draft.open("xb") as file:
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
    """Return a file's content; a UserError if it does not have this checksum."""
    content = None
    if size(path) == checksum["bytes"]:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror}).") from error
    if content is None or zlib.crc32(content) != checksum["crc32"]:
        raise UserError(f"{path} is damaged; restore it, or move {path.parent} away to start over.")
    return content


def size(path: Path) -> int:
    """Return how many bytes a file has; a UserError if it cannot be read, or not into memory."""
    try:
        found = plain(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from error
    if not hardware.holds(found):
        raise UserError(f"{path} cannot be read (its {found:,} bytes are too many for memory).")
    return found


def sync(folder: Path) -> None:
    """Write a folder's renames to disk, so that they survive a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Remove a file, a folder or a link, if it is there; where a link leads to is left alone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def refuse_links(out: Path, names: Iterable[str]) -> None:
    """Raise a UserError if a folder below another is a link, or lies behind one.

    Files there are removed and replaced by their names, which somebody else's may have elsewhere.

    Args:
        out: a folder, which may be a link itself.
        names: paths of folders below it; they need not exist.
    """
    below = dict.fromkeys(
        path for name in names for path in (Path(name), *Path(name).parents) if path.name
    )
    for path in below:
        if (out / path).is_symlink():
            raise UserError(
                f"{out / path} is a link, behind which files would be removed or replaced; put the "
                "folder in its place, or choose another one."
            )


def _file_locks() -> Any:
    """The module fcntl, which locks files; None on Windows, which has none."""
    try:
        import fcntl
    except ImportError:
        return None
    return fcntl


def check_locks() -> None:
    """Raise a UserError where folders cannot be locked, so that nothing can be trained."""
    if _file_locks() is None:
        raise UserError(
            "Training locks its folder by flock, which this system lacks; train on Linux, on macOS "
            "or, in Windows, in WSL. Policies can be loaded here."
        )


@contextlib.contextmanager
def locked(
    folder: Path, patience: float = 0.0, stopping: Callable[[], bool] = bool
) -> Iterator[None]:
    """Hold a folder's lock in a context. It is also released if the process is killed.

    Args:
        folder: the folder, which is made if it does not exist.
        patience: seconds to wait while another process holds the lock.
        stopping: called while waiting; if it returns true, the wait ends.

    Raises:
        FolderInUse: somebody else holds the lock.
    """
    check_locks()
    fcntl = _file_locks()
    until = time.monotonic() + patience
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Neither emptied nor followed: a link would lead to another file.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.fdopen(os.open(folder / ".lock", flags, 0o666), "rb")
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
        plain(folder / ".lock")
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
