"""Whether the manifest of a checkpoint fits itself, and the arrays that it names.

Its checksum says that no byte has changed since it was written. What is checked here is that it
could have been written: files that were put together from several checkpoints could not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from discover_rl.storage import array_files, files, schemas

LIVING = {"step", "checksum", "episodes"}
"""What a manifest has of a lane that lived, and of no other."""


def check_lanes(path: Path, content: Mapping[str, Any]) -> None:
    """Raise Malformed if the lanes of a manifest cannot be those of one checkpoint."""
    lanes = content["lanes"]
    if not lanes or len({lane["name"] for lane in lanes}) < len(lanes):
        raise schemas.malformed(path, "it has no lanes, or one of them twice")
    for lane in lanes:
        own = f"replay/{lane['name']}/"
        segments = all(it["file"].startswith(own) for it in lane["replay"])
        if lane["file"] not in (None, file_of(lane["name"])) or not segments:
            raise schemas.malformed(path, f"{lane['name']} has files of another run")
        if lane["alive"] and not _could_live(lane, content["step"]):
            raise schemas.malformed(path, f"the entry of {lane['name']}")


def check_kept(path: Path, entry: Mapping[str, Any]) -> None:
    """Raise Malformed if a lane's entry cannot be that of a run that has kept its checkpoint."""
    cohort = entry["cohort"]
    if not entry["alive"] or "step" not in entry:
        raise schemas.malformed(path, f"{entry['name']} did not live")
    if cohort.count(entry["name"]) != 1 or len(set(cohort)) < len(cohort):
        raise schemas.malformed(path, f"{entry['name']} is not one of its cohort")
    check_lanes(path, {"step": entry["step"], "lanes": [entry]})


def file_of(name: str) -> str:
    """The name of a lane's file in a checkpoint, by the run's name."""
    return f"{name.replace('/', '+')}.safetensors"


def _could_live(lane: Mapping[str, Any], step: int) -> bool:
    """Whether a lane's entry is one of a lane that was trained up to this step."""
    if not lane["file"] or not lane.keys() >= LIVING:
        return False
    return lane["step"] == step and bool(lane["episodes"])


def read_arrays(path: Path, checksum: files.Checksum) -> dict[str, np.ndarray]:
    """The arrays of a file; a UserError if it is not the one with this checksum, or has none."""
    raw = files.read(path, checksum)
    try:
        return array_files.decode(raw)
    except ValueError as error:
        raise schemas.malformed(path, str(error)) from error
