"""Keep the last checkpoint of a cohort that has ended, in parts: one in the folder of each run.

Other runs can start from a part. With their replay buffers, the parts of all its runs can be put
together to a checkpoint again, to train for more steps. Runs that are left on the way keep theirs,
too, and may go on in other cohorts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired

import jax
import numpy as np

from discover_rl.config import Run, current_names
from discover_rl.core.replay_buffer import Replay
from discover_rl.core.types import UserError
from discover_rl.envs.vector import Episode
from discover_rl.storage import (
    checkpoints,
    files,
    lane_arrays,
    manifests,
    replay_refill,
    replay_segments,
    schemas,
)
from discover_rl.system import provenance

KEPT = "checkpoint"
"""The folder inside a run's folder that has its part."""


class Kept(checkpoints.LaneShape):
    """A run's part: its entry in the manifest, and the data that its cohort shares."""

    code: dict[str, str]
    cohort: list[schemas.Below]  # the names of all runs of the cohort, in its order
    workdir: str  # where it was trained, below the folder that the runs are in
    bare: NotRequired[bool]  # whether its replay buffer was not kept


def keep(workdir: Path, names: Sequence[str], out: Path, step: int) -> None:
    """Keep the parts that runs have in the last checkpoint, in their folders below `out`.

    Args:
        workdir: where the checkpoint is.
        names: of the runs.
        out: the folder that their folders are in.
        step: keep the checkpoint only if it is of this step; else there is none to keep.
    """
    last = checkpoints.find(workdir)
    if last is None or checkpoints.step_of(workdir) != step:
        for name in names:  # what was kept when the runs were shorter
            files.remove(out / name / KEPT)
        return
    content = checkpoints.manifest(last)
    together = _together(workdir, out, [entry["name"] for entry in content["lanes"]])
    for entry in content["lanes"]:
        if entry["name"] in names:
            checkpoints.copy_lane(last, entry | together, out / entry["name"] / KEPT)


def keep_without_replay(
    workdir: Path,
    out: Path,
    step: int,
    runs: Sequence[Run],
    state: Any,
    episodes: Mapping[int, Sequence[Episode]],
) -> None:
    """Keep the parts of runs but for their replay buffers, which take long to write.

    Args:
        workdir: of their cohort.
        out: the folder that their folders are in.
        step: environment steps made.
        runs: of all lanes of the cohort.
        state: of the agent, lanes in front.
        episodes: the running episodes of each lane whose part is kept.
    """
    slim = jax.device_get(checkpoints.without_bulk(state))
    together = _together(workdir, out, [run.name for run in runs]) | {"bare": True}
    for lane, arrays in lane_arrays.of_lanes(slim, list(episodes)).items():
        where = out / runs[lane].name / KEPT
        files.remove(where)
        if lane_arrays.first_unsound(arrays):
            continue
        draft = where.with_suffix(".tmp")
        files.remove(draft)
        draft.mkdir(parents=True)
        file = draft / checkpoints.LANE
        entry = lane_arrays.write(file, runs[lane], step, arrays, episodes[lane])
        checkpoints.write_manifest(draft, entry | together)
        draft.rename(where)


def _together(workdir: Path, out: Path, cohort: list[str]) -> dict[str, Any]:
    """Return what the parts of a cohort's runs share."""
    where = workdir.relative_to(out).as_posix()
    return {"code": provenance.code(), "cohort": cohort, "workdir": where}


def drop(runs: Sequence[Run], out: Path) -> None:
    """Remove what is kept of runs that were not asked to keep their replay buffers.

    Args:
        runs: whose folders are looked at.
        out: the folder that these are in.
    """
    for run in runs:
        if not run.compute.keep_checkpoint:
            files.remove(out / run.name / KEPT)


def kept(folder: Path) -> Kept | None:
    """Read the part that `keep` has written into a run's folder; None if there is none.

    Raises:
        UserError: a byte of it has changed, or it is not of a run that was trained to its end.
    """
    path = folder / KEPT
    if not (path / checkpoints.MANIFEST).exists():
        return None
    entry = checkpoints.read_manifest(path, Kept)
    manifests.check_kept(path, entry)
    return entry


def checksum(folder: Path) -> str:
    """Return a checksum of a run's part, which changes if any byte of the part does."""
    content = schemas.content(folder / KEPT / checkpoints.MANIFEST)
    return hashlib.sha256(content).hexdigest()[:16]


def counters(folder: Path) -> dict[str, np.ndarray]:
    """Return the counters of the replay buffer in a run's part; {} if that was not kept.

    Each is (), or (rings,) if the run has several environments.
    """
    entry = kept(folder)
    assert entry is not None
    if entry.get("bare"):
        return {}
    found = {name: it for name, it in _arrays(folder).items() if name.startswith("replay.")}
    named = {name.partition(".")[2]: it for name, it in found.items()}
    environments = current_names(entry["run"]["settings"]).get("env.count", 1)
    replay_segments.check_counters(folder / KEPT, entry, named, environments)
    return named


def load(folder: Path, like: dict[str, Any]) -> dict[str, Any]:
    """Load some entries of the state in a run's part, the same for every lane.

    Args:
        folder: of the run.
        like: entries of an agent's state by name, lanes in front, for their shapes.

    Raises:
        UserError: the arrays of the part and those of `like` differ in names or shapes.
    """
    arrays = _arrays(folder)
    there = {name: leaf for name, leaf in arrays.items() if name.partition(".")[0] in like}
    here = lane_arrays.named(like)
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


def _arrays(folder: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a run's part, without its replay buffer, by their paths."""
    entry = kept(folder)
    assert entry is not None
    assert "checksum" in entry
    path = folder / KEPT / checkpoints.LANE
    arrays = manifests.read_arrays(path, entry["checksum"])
    if name := lane_arrays.first_unsound(arrays):
        raise schemas.malformed(path, f"numbers of {name} are not finite")
    return arrays


def load_replay(folder: Path, empty: Replay) -> Replay:
    """Fill a replay buffer with the newest transitions of a run's part, as many as fit.

    Args:
        folder: of the run.
        empty: an empty buffer, lanes in front; every lane gets the same transitions.
    """
    entry = kept(folder)
    assert entry is not None
    segments = [
        segment | {"file": f"replay/{Path(segment['file']).name}"} for segment in entry["replay"]
    ]
    moved = entry | {"replay": segments}
    return replay_refill.refill(folder / KEPT, moved, counters(folder), empty)


def put_back(workdir: Path, out: Path, runs: Sequence[Run], ended: Collection[str]) -> None:
    """Put the parts of a cohort's runs together to a checkpoint, to train for more steps.

    Args:
        workdir: the folder for the checkpoint.
        out: the folder that the runs' folders are in.
        runs: of the cohort, in its order, with the new number of steps; those that did not end have
            made the same number of steps.
        ended: the names of runs that failed or were stopped early, which stay as they are.

    Raises:
        UserError: a byte of a part has changed, or they are of different steps; then nothing is
            left in `workdir`.
    """
    found = {run.name: None if run.name in ended else kept(out / run.name) for run in runs}
    living = [entry for entry in found.values() if entry is not None]
    steps = {entry["step"] for entry in living if "step" in entry}  # all have it: `kept` checks
    if len(steps) != 1:
        raise UserError(f"The checkpoints that runs in {out} have kept are of different steps.")
    (step,) = steps
    checkpoints.clear(workdir)
    draft = checkpoints.folder_of(workdir, step).with_suffix(".tmp")
    draft.mkdir(parents=True)
    try:
        entries = [_put_back_lane(run, found[run.name], out, draft) for run in runs]
    except UserError:
        checkpoints.clear(workdir)
        raise
    checkpoints.write_manifest(draft, {"step": step, "code": living[0]["code"], "lanes": entries})
    draft.rename(draft.with_suffix(""))


def _put_back_lane(run: Run, entry: Kept | None, out: Path, draft: Path) -> dict[str, Any]:
    """Copy a run's part to a checkpoint; return the run's entry in its manifest."""
    about = {"name": run.name, "run": run.to_json()}
    if entry is None:
        return about | {"file": None, "replay": [], "alive": False}
    assert "checksum" in entry
    folder = out / run.name / KEPT
    lane = files.read(folder / checkpoints.LANE, entry["checksum"])
    files.write(draft / str(entry["file"]), lane)
    for segment in entry["replay"]:
        file = draft.parent / segment["file"]
        files.write(file, files.read(folder / "replay" / file.name, segment["checksum"]))
    own = {name: it for name, it in entry.items() if name not in ("code", "cohort", "workdir")}
    return own | about
