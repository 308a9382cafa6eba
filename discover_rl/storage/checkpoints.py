"""Checkpoints: everything in a cohort at one step, in a folder that is either complete or absent.

`checkpoint-<step>/` has a file per lane – networks, optimisers, strategy, counters, the actions of
the running episode – and a manifest, `cohort.json`, which names every file with its size and
checksum and begins with a checksum of its own. Replay buffers are too large to be written each
time: every checkpoint adds one segment per lane with what is new, under `replay/`, and the manifest
lists the segments that make up the buffer.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict, TypeVar

import jax
import numpy as np

from discover_rl.config import Run
from discover_rl.core.pytrees import stack
from discover_rl.core.types import UserError
from discover_rl.envs.vector import EndedEpisodes, Episode
from discover_rl.storage import files, lane_arrays, manifests, replay_segments, schemas
from discover_rl.storage.schemas import Count, Format
from discover_rl.system import provenance

T = TypeVar("T")

FORMAT = 3
"""The version of the format; files of another version are refused."""
NAME = re.compile("checkpoint-(0|[1-9][0-9]{0,9})")
"""What the folder of a checkpoint is called."""
MANIFEST = "cohort.json"
"""The file that names all others of a checkpoint."""
LANE = "lane.safetensors"
"""The name of a lane's file where it has a folder of its own. It has all arrays but those of the
replay buffer."""


class EpisodeShape(TypedDict):
    """A running episode, whose actions are in the lane's file."""

    number: Count
    steps: Count
    digest: int
    before: tuple[Count, float, Count]  # EndedEpisodes, of this environment


class LaneShape(TypedDict):
    """A lane's entry in a manifest. A lane that has failed lacks some of its keys."""

    name: schemas.Below
    run: schemas.RunShape
    alive: bool
    file: schemas.Below | None
    replay: list[replay_segments.Segment]
    step: NotRequired[Count]
    checksum: NotRequired[files.Checksum]
    episodes: NotRequired[list[EpisodeShape]]


class Manifest(TypedDict):
    """The content of a manifest after its first line."""

    step: Count
    code: dict[str, str]
    lanes: list[LaneShape]


class LaneState(NamedTuple):
    """A lane's part of a checkpoint."""

    state: Any
    episodes: list[Episode]  # one per environment; none: the lane is dead, and its state zeros


def find(workdir: Path) -> Path | None:
    """The newest whole checkpoint in a folder, if there is one; no link is followed."""
    folders = (path.parent for path in workdir.glob(f"*/{MANIFEST}"))
    names = (NAME.fullmatch(path.name) for path in folders if not path.is_symlink())
    newest = max((int(name[1]) for name in names if name), default=None)
    return None if newest is None else folder_of(workdir, newest)


def folder_of(workdir: Path, step: int) -> Path:
    """The folder of the checkpoint at a step."""
    return workdir / f"checkpoint-{step}"


def manifest(path: Path) -> Manifest:
    """The manifest of a checkpoint; a UserError if it is damaged or of another format."""
    content = read_manifest(path, Manifest)
    if content["step"] != _step(path):
        raise schemas.malformed(path, f"its {MANIFEST}")
    manifests.check_lanes(path, content)
    return content


def read_manifest(path: Path, shape: type[T]) -> T:
    """The manifest in a folder, of this shape; a UserError if a byte of it has changed."""
    raw = schemas.content(path / MANIFEST)
    first, _, body = raw.partition(b"\n")
    # Manifests of formats before 3 are one JSON text of many lines.
    found = schemas.decode(raw if first == b"{" else first, Format, str(path))["format"]
    if found != FORMAT:
        raise UserError(
            f"{path} has format {found}, and this version reads format {FORMAT}; finish these runs "
            f"with the version that began them, or remove {path} to start them over."
        )
    if with_checksum(body) != raw:
        raise schemas.malformed(path, f"its {MANIFEST}")
    return schemas.decode(body, shape, str(path))


def write_manifest(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` as the manifest of the folder `path`, behind a line with its format and
    checksum."""
    files.write(path / MANIFEST, with_checksum(json.dumps(content, indent=1).encode()))


def with_checksum(body: bytes) -> bytes:
    """A manifest's content behind a line with its checksum."""
    line = json.dumps({"format": FORMAT, "sha256": hashlib.sha256(body).hexdigest()})
    return line.encode() + b"\n" + body


def clear(workdir: Path, failed: Sequence[str] = (), out: Path | None = None) -> None:
    """Remove every checkpoint of a cohort that is done.

    Args:
        workdir: where its checkpoints are.
        failed: runs that failed; their part of the last checkpoint is kept, in their folders.
        out: the folder with the runs' folders; `workdir` by default.
    """
    last = find(workdir)
    if last:
        for entry in manifest(last)["lanes"]:
            where = (out or workdir) / entry["name"] / "last-good"
            if entry["name"] in failed and entry["file"] and not where.exists():
                copy_lane(last, entry, where)
        # Without its manifest the folder no longer counts as a checkpoint.
        (last / MANIFEST).unlink()
    for path in (*workdir.glob("checkpoint-*"), workdir / "replay"):
        files.remove(path)


def copy_lane(last: Path, entry: Mapping[str, Any], where: Path) -> None:
    """Copy a lane's part of a checkpoint to a folder of its own.

    Args:
        last: the folder of the checkpoint.
        entry: the lane's entry in its manifest, which becomes the manifest of the copy.
        where: the new folder; what is there is replaced.
    """
    draft = where.with_suffix(".tmp")
    files.remove(draft)
    draft.mkdir(parents=True)
    shutil.copyfile(last / entry["file"], draft / LANE)
    for segment in entry["replay"]:
        file = last.parent / segment["file"]
        (draft / "replay").mkdir(exist_ok=True)
        shutil.copyfile(file, draft / "replay" / file.name)
    write_manifest(draft, entry)
    files.remove(where)
    draft.rename(where)


def step_of(workdir: Path) -> int:
    """The step of the newest checkpoint in a folder; 0 if there is none."""
    last = find(workdir)
    return _step(last) if last else 0


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("checkpoint-"))


def save(
    out: Path,
    step: int,
    runs: Sequence[Run],
    alive: np.ndarray,
    state: Any,
    episodes: Sequence[Sequence[Episode]],
) -> bool:
    """Write a checkpoint of the living lanes; failed lanes keep their part of the one before.

    Args:
        out: the folder for checkpoints.
        step: environment steps made.
        runs: of all lanes.
        alive: (lanes,) which of them are trained.
        state: of the agent, lanes in front.
        episodes: the running episodes of each lane.

    Returns:
        Whether it was written. It is not if something in a living lane is not finite. The next step
        will find and name that, and until then the checkpoint before is the better one.
    """
    files.refuse_links(out, ["replay"])
    slim = jax.device_get(without_bulk(state))
    lanes = lane_arrays.of_lanes(slim, np.flatnonzero(alive).tolist())
    if any(map(lane_arrays.first_unsound, lanes.values())):
        return False
    last = find(out)
    if last and manifest(last)["step"] == step:
        return True  # stopped again before the first step
    before = {lane["name"]: lane for lane in manifest(last)["lanes"]} if last else {}
    draft = folder_of(out, step).with_suffix(".tmp")
    files.remove(draft)
    draft.mkdir(parents=True)

    segments: Mapping[int, list[Any]] = {}
    if has_replay(state):
        names = {i: runs[i].name for i in lanes}
        segments = replay_segments.save(out, names, state.replay, slim.replay, before)
    entries = []
    for i, run in enumerate(runs):
        if i not in lanes:
            nothing = {"name": run.name, "run": run.to_json(), "file": None, "replay": []}
            entries.append(before.get(run.name, nothing) | {"alive": False})
            continue
        path = draft / manifests.file_of(run.name)
        entry = lane_arrays.write(path, run, step, lanes[i], episodes[i])
        entries.append(entry | {"replay": segments.get(i, [])})
    for entry in entries:
        if last and entry["file"] and not entry["alive"]:
            shutil.copyfile(last / entry["file"], draft / entry["file"])
    content = {"step": step, "code": provenance.code(), "lanes": entries}
    write_manifest(draft, content)
    draft.rename(folder_of(out, step))
    files.sync(out)
    _tidy(out, step, content)
    return True


def load(path: Path, like: Any) -> tuple[Any, list[list[Episode]]]:
    """Read a checkpoint.

    Args:
        path: its folder.
        like: the state of a fresh agent, or its shapes.

    Returns:
        The state with lanes in front, on the host, and the running episodes of each lane.

    Failed lanes are loaded as zeros. Without them the program would have fewer lanes and round
    differently, and the living lanes would not be resumed exactly.
    """
    lanes = [_load_lane(path, entry, like) for entry in manifest(path)["lanes"]]
    return stack([lane.state for lane in lanes]), [lane.episodes for lane in lanes]


def _load_lane(path: Path, entry: Mapping[str, Any], like: Any) -> LaneState:
    if not entry["alive"]:
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), like)
        return LaneState(zeros, [])
    arrays = manifests.read_arrays(path / entry["file"], entry["checksum"])
    actions = arrays.pop(lane_arrays.ACTIONS, np.zeros((0, 0)))
    if not np.isfinite(actions).all() or lane_arrays.first_unsound(arrays):
        raise schemas.malformed(path / entry["file"], "numbers that are not finite")
    if (actions.ndim, actions.dtype) != (2, np.float32):
        raise schemas.malformed(path / entry["file"], f"its {lane_arrays.ACTIONS}")
    expected = lane_arrays.named(without_bulk(like))
    for name in sorted(expected.keys() | arrays.keys()):
        here, there = expected.get(name), arrays.get(name)
        if (
            here is None
            or there is None
            or (here.shape[1:], here.dtype) != (there.shape, there.dtype)
        ):
            raise UserError(
                f"{path} does not fit this agent: {name} is not the same array there and here."
            )
    structure = jax.tree.structure(without_bulk(like))
    slim = jax.tree.unflatten(structure, [arrays[name] for name in expected])
    ends = np.cumsum([it["steps"] for it in entry["episodes"]])
    if ends[-1:] != [len(actions)]:
        raise schemas.malformed(path, f"the running episodes of {entry['name']}")
    episodes = [
        Episode(it["number"], taken, it["digest"], EndedEpisodes(*it["before"]))
        for it, taken in zip(entry["episodes"], np.split(actions, ends[:-1]), strict=True)
    ]
    if has_replay(like):
        replay_segments.check(path, entry, slim.replay)
        bulk = replay_segments.load(path.parent, entry, slim.replay, like.replay)
        slim = slim._replace(replay=like.replay._replace(**slim.replay, **bulk))
    return LaneState(slim, episodes)


def unsound(state: Any, living: Sequence[int]) -> dict[int, str]:
    """Find the living lanes that keep `save` from writing, each with the name of a bad array.

    Args:
        state: of the agent, lanes in front.
        living: the lanes that are trained.
    """
    lanes = lane_arrays.of_lanes(jax.device_get(without_bulk(state)), living)
    found = {lane: lane_arrays.first_unsound(arrays) for lane, arrays in lanes.items()}
    return {lane: name for lane, name in found.items() if name}


def has_replay(state: Any) -> bool:
    """Whether there is a replay buffer. A rollout needs no segments: it is small."""
    return hasattr(state, "replay")


def without_bulk(state: Any) -> Any:
    """Return a state without the large arrays of its replay buffer, to be written each time."""
    return (
        state._replace(replay=replay_segments.counters(state.replay))
        if has_replay(state)
        else state
    )


def _tidy(out: Path, step: int, content: Mapping[str, Any]) -> None:
    """Remove older checkpoints and segments that no lane needs any more."""
    for path in out.glob("checkpoint-*"):
        if path != folder_of(out, step):
            files.remove(path)
    needed = {segment["file"] for lane in content["lanes"] for segment in lane["replay"]}
    for path in (out / "replay").rglob("*.safetensors*"):
        if path.relative_to(out).as_posix() not in needed:
            path.unlink()
