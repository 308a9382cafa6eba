"""Which code made a result: versions of all that can move one, and a hash of our own rooms."""

from __future__ import annotations

import functools
import hashlib
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from discover_rl._version import __version__

PACKAGES = ("jax", "jaxlib", "optax", "numpy", "gymnasium", "mujoco", "box2d", "envpool")
HERE = Path(__file__).parent
# Rooms that cannot move a result: a change there must not keep a run from being resumed.
BYSTANDERS = (
    *("__init__", "__main__", "api", "cli", "commands", "display", "board", "observers"),
    *("config", "machine", "policy", "results", "training", "jobs", "engines"),
    *("studies", "tuning", "stats", "theory", "report", "visitation", "film"),
    *("provenance", "store", "checkpoint"),
)


@functools.cache
def code() -> dict[str, str]:
    """What must be the same for a resumed run to be bit for bit the uninterrupted one."""
    digest = hashlib.sha256()
    for file in sorted(HERE.rglob("*.py")):
        if file.relative_to(HERE).parts[0].removesuffix(".py") not in BYSTANDERS:
            digest.update(file.relative_to(HERE).as_posix().encode() + b"\0" + file.read_bytes())
    versions = {"discover_rl": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "absent"
    return versions | {"source": digest.hexdigest()[:16]}


@functools.cache
def commit() -> str | None:
    """The commit of the checkout this runs from, if it is one."""
    ours = [
        "ls-files",
        "--error-unmatch",
        Path(__file__).name,
    ]
    asked = ["describe", "--always", "--dirty", "--abbrev=12"]
    try:
        for words in (ours, asked):
            command = ["git", "-C", str(HERE), *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
