"""The last checkpoint of a cohort that has ended, kept in parts: one in the folder of each run.

From the parts of all its runs a checkpoint can be made again, for more steps.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors.numpy
from safetensors import safe_open

from discover_rl.config import Run
from discover_rl.core.replay_buffer import Replay
from discover_rl.core.types import UserError
from discover_rl.storage import checkpoints, files, replay_segments, schemas

KEPT = "checkpoint"
"""In the folder of a run, with compute.keep_checkpoint: its part of the last checkpoint."""


class Kept(checkpoints.LaneShape):
    """What is kept of a run: its entry in the manifest, and what it shares with its cohort."""

    code: dict[str, str]
    cohort: list[schemas.Below]  # the names of all runs of the cohort, in its order
    workdir: str  # where it was trained, below the folder that the runs are in


def keep(workdir: Path, names: Sequence[str], out: Path, step: int | None) -> None:
    """Keep the parts that runs have in the last checkpoint, in their folders below `out`.

    Args:
        workdir: where the checkpoint is.
        names: of the runs.
        out: the folder that their folders are in.
        step: the step of the checkpoint; if the last one is another, it is not kept. None: none is
            to be kept, and those of when the runs were shorter are removed.
    """
    last = checkpoints.find(workdir)
    if step is None or last is None or checkpoints.step_of(workdir) != step:
        for name in names if step is None else ():
            files.remove(out / name / KEPT)
        return
    content = checkpoints.manifest(last)
    together = {
        "code": content["code"],
        "cohort": [entry["name"] for entry in content["lanes"]],
        "workdir": workdir.relative_to(out).as_posix(),
    }
    for entry in content["lanes"]:
        if entry["name"] in names:
            checkpoints.copy_lane(last, entry | together, out / entry["name"] / KEPT)


def kept(folder: Path) -> Kept | None:
    """What `keep` has written of a run, by the run's folder; None if there is nothing."""
    path = folder / KEPT / checkpoints.MANIFEST
    return schemas.read_json(path, Kept) if path.exists() else None


def checksum(folder: Path) -> str:
    """Of what `keep` has written of a run: another one if anything of it is another."""
    content = schemas.content(folder / KEPT / checkpoints.MANIFEST)
    return hashlib.sha256(content).hexdigest()[:16]


def counters(folder: Path) -> dict[str, int]:
    """The counters of the replay buffer that is kept of a run; {} if it has none."""
    with safe_open(folder / KEPT / checkpoints.LANE, "numpy") as arrays:
        names = [name for name in arrays.keys() if name.startswith("replay.")]  # noqa: SIM118
        return {name.partition(".")[2]: int(arrays.get_tensor(name)) for name in names}


def load(folder: Path, like: dict[str, Any]) -> dict[str, Any]:
    """Parts of the state that is kept of a run, for every lane the same.

    Args:
        folder: of the run.
        like: parts of the state of an agent, lanes in front, by their names.

    Raises:
        UserError: an array there has another shape than here, or is only in one of them.
    """
    entry = kept(folder)
    assert entry is not None
    assert "checksum" in entry
    arrays = safetensors.numpy.load(files.read(folder / KEPT / checkpoints.LANE, entry["checksum"]))
    there = {name: leaf for name, leaf in arrays.items() if name.partition(".")[0] in like}
    here = checkpoints.named(like)
    for name in sorted(here.keys() | there.keys()):
        shapes = [
            (there[name].shape, there[name].dtype) if name in there else None,
            (here[name].shape[1:], here[name].dtype) if name in here else None,
        ]
        if shapes[0] != shapes[1]:
            found, asked = (f"of shape {it[0]}" if it else "absent" for it in shapes)
            raise UserError(
                f"{folder} does not fit these runs: {name} is {found} there and {asked} here; "
                "settings that shape networks must be the same."
            )
    leaves = [np.broadcast_to(there[name], leaf.shape) for name, leaf in here.items()]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def load_replay(folder: Path, empty: Replay) -> Replay:
    """A replay buffer with the newest transitions that are kept of a run, as many as fit.

    Args:
        folder: of the run.
        empty: the buffer without them, lanes in front; every lane gets the same.
    """
    entry = kept(folder)
    assert entry is not None
    segments = [
        segment | {"file": f"replay/{Path(segment['file']).name}"} for segment in entry["replay"]
    ]
    moved = entry | {"replay": segments}
    return replay_segments.refill(folder / KEPT, moved, counters(folder), empty)


def put_back(workdir: Path, out: Path, runs: Sequence[Run], ended: Collection[str]) -> None:
    """Make a checkpoint of what `keep` has kept of a cohort, to go on from.

    Args:
        workdir: the folder for the checkpoint.
        out: the folder that the runs' folders are in.
        runs: of the cohort, in its order, as they are now asked for.
        ended: the names of those that have ended for good.
    """
    found = {run.name: None if run.name in ended else kept(out / run.name) for run in runs}
    living = [entry for entry in found.values() if entry is not None]
    (step,) = {entry.get("step") for entry in living}
    checkpoints.clear(workdir)
    draft = workdir / f"checkpoint-{step}.tmp"
    files.remove(draft)
    draft.mkdir(parents=True)
    entries = []
    for run in runs:
        entry, about = found[run.name], {"name": run.name, "run": run.to_json()}
        if entry is None:
            entries.append(about | {"file": None, "replay": [], "alive": False})
            continue
        folder = out / run.name / KEPT
        shutil.copyfile(folder / checkpoints.LANE, draft / str(entry["file"]))
        for segment in entry["replay"]:
            file = workdir / segment["file"]
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / "replay" / file.name, file)
        own = {name: it for name, it in entry.items() if name not in ("code", "cohort", "workdir")}
        entries.append(own | about)
    content = {"step": step, "code": living[0]["code"], "lanes": entries}
    files.write(
        draft / checkpoints.MANIFEST,
        checkpoints.with_checksum(json.dumps(content, indent=1).encode()),
    )
    draft.rename(draft.with_suffix(""))
