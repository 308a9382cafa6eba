"""Which code made a result: versions of the packages that can move one, and a hash of our own."""

from __future__ import annotations

import functools
import hashlib
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from discover_rl._version import __version__

DEPENDENCIES = ("jax", "jaxlib", "optax", "numpy", "gymnasium", "mujoco", "box2d", "envpool")
"""Other packages whose version can move a result."""
ROOT = Path(__file__).parent.parent
"""The folder of the package."""
BYSTANDERS = (
    *("analysis", "cli", "config", "report", "storage", "studies", "tuning"),
    *("training/engines", "training/observers"),
)
"""Our own packages that cannot move a result: a run may be resumed after a change in them."""


@functools.cache
def code() -> dict[str, str]:
    """What must be the same for a resumed run to equal, bit for bit, the uninterrupted one.

    Returns:
        Versions by package, and "source", a hash of our own files outside `BYSTANDERS`.
    """
    digest = hashlib.sha256()
    for file in sorted(ROOT.rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        if file.parent != ROOT and not name.startswith(tuple(f"{it}/" for it in BYSTANDERS)):
            digest.update(name.encode() + b"\0" + file.read_bytes())
    versions = {"discover_rl": __version__, "python": platform.python_version()}
    for package in DEPENDENCIES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "absent"
    return versions | {"source": digest.hexdigest()[:16]}


@functools.cache
def commit() -> str | None:
    """Return the commit of the checkout that this code runs from; None outside of a checkout."""
    tracked = ["ls-files", "--error-unmatch", "system/provenance.py"]
    describe = ["describe", "--always", "--dirty", "--abbrev=12"]
    try:
        for words in (tracked, describe):
            command = ["git", "-C", str(ROOT), *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
