"""Checkpoints: all of a cohort at one step, in one folder that is whole or not there.

`checkpoint-<step>/` has a file per lane – networks, optimisers, strategy, counters, the actions of
the running episode – and a manifest, `cohort.json`, which names every file with its size and
checksum and begins with a checksum of its own. Replay buffers are too large to be written each
time: every checkpoint adds one segment per lane with what is new, under `replay/`, and the manifest
lists the segments that make up the buffer.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import jax
import numpy as np
import safetensors.numpy

from discover_rl.config import Run
from discover_rl.core.pytrees import stack
from discover_rl.core.types import UserError
from discover_rl.envs.vector import EndedEpisodes, Episode
from discover_rl.storage import files, replay_segments, schemas
from discover_rl.storage.schemas import Count, Format
from discover_rl.system import provenance

FORMAT = 3
"""The version of what is written here; others are refused."""
MANIFEST = "cohort.json"
LANE = "lane.safetensors"
"""The file of a lane in a folder of its own, with all but the bulk of its replay."""
ACTIONS = "episode.actions"
"""The array of the running episodes' actions, one after the other."""


class EpisodeShape(TypedDict):
    """A running episode, whose actions are in the lane's file."""

    number: Count
    steps: Count
    digest: int
    before: tuple[Count, float, Count]  # EndedEpisodes, of this environment


class LaneShape(TypedDict):
    """A lane's entry in a manifest. Only one that lived has all of it."""

    name: schemas.Below
    run: schemas.RunShape
    alive: bool
    file: schemas.Below | None
    replay: list[replay_segments.Segment]
    step: NotRequired[Count]
    checksum: NotRequired[files.Checksum]
    episodes: NotRequired[list[EpisodeShape]]


class Manifest(TypedDict):
    """What a manifest has after its first line."""

    step: Count
    code: dict[str, str]
    lanes: list[LaneShape]


class LaneState(NamedTuple):
    """A lane's part of a checkpoint."""

    state: Any
    episodes: list[Episode]  # one per environment; none: the lane is dead, and its state zeros


def find(workdir: Path) -> Path | None:
    """The newest whole checkpoint in a folder, if there is one."""
    steps = [path.parent.name.removeprefix("checkpoint-") for path in workdir.glob(f"*/{MANIFEST}")]
    newest = max((int(step) for step in steps if step.isdecimal()), default=None)
    return None if newest is None else workdir / f"checkpoint-{newest}"


def manifest(path: Path) -> Manifest:
    """The manifest of a checkpoint; a UserError if it is damaged or of another format."""
    raw = schemas.content(path / MANIFEST)
    first, _, body = raw.partition(b"\n")
    # Manifests of formats before 3 are one JSON text of many lines.
    found = schemas.decode(raw if first == b"{" else first, Format, str(path))["format"]
    if found != FORMAT:
        raise UserError(
            f"{path} has format {found}, and this version goes on from {FORMAT}; finish these runs "
            f"with the version that began them, or remove {path} to start them over."
        )
    content = schemas.decode(body, Manifest, str(path)) if with_checksum(body) == raw else None
    if content is None or content["step"] != _step(path):
        raise schemas.malformed(path, f"its {MANIFEST}")
    return content


def with_checksum(body: bytes) -> bytes:
    """A manifest's content behind a line with its checksum."""
    line = json.dumps({"format": FORMAT, "sha256": hashlib.sha256(body).hexdigest()})
    return line.encode() + b"\n" + body


def clear(workdir: Path, failed: Sequence[str] = (), out: Path | None = None) -> None:
    """Remove every checkpoint of a cohort that is done.

    Args:
        workdir: where its checkpoints are.
        failed: runs that failed; what they had last is kept, in their folders.
        out: the folder that these are in; `workdir` by default.
    """
    last = find(workdir)
    if last:
        for entry in manifest(last)["lanes"]:
            where = (out or workdir) / entry["name"] / "last-good"
            if entry["name"] in failed and entry["file"] and not where.exists():
                copy_lane(last, entry, where)
        # From here on there is no checkpoint, only files that are left to remove.
        (last / MANIFEST).unlink()
    for path in (*workdir.glob("checkpoint-*"), workdir / "replay"):
        files.remove(path)


def copy_lane(last: Path, entry: Mapping[str, Any], where: Path) -> None:
    """Copy a lane's part of a checkpoint to a folder of its own."""
    draft = where.with_suffix(".tmp")
    files.remove(draft)
    draft.mkdir(parents=True)
    shutil.copyfile(last / entry["file"], draft / LANE)
    for segment in entry["replay"]:
        file = last.parent / segment["file"]
        (draft / "replay").mkdir(exist_ok=True)
        shutil.copyfile(file, draft / "replay" / file.name)
    files.write(draft / MANIFEST, json.dumps(entry, indent=1).encode())
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
    """Write a checkpoint of the living lanes; dead ones keep what they have in the last.

    Args:
        out: the folder for checkpoints.
        step: environment steps made.
        runs: of all lanes.
        alive: (lanes,) which of them are trained.
        state: of the agent, lanes in front.
        episodes: the running episodes of each lane.

    Returns:
        Whether it was written. It is not if something in a living lane is not finite: the next step
        will notice and say what, and until then the last checkpoint is the better one.
    """
    slim = jax.device_get(_without_bulk(state))
    living = np.flatnonzero(alive).tolist()
    lanes = {i: named(jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), slim)) for i in living}
    if not all(_is_sound(name, leaf) for arrays in lanes.values() for name, leaf in arrays.items()):
        return False
    last = find(out)
    if last and manifest(last)["step"] == step:
        return True  # stopped again before the first step
    before = {lane["name"]: lane for lane in manifest(last)["lanes"]} if last else {}
    draft = out / f"checkpoint-{step}.tmp"
    files.remove(draft)
    draft.mkdir(parents=True)

    spans, fresh, known = [[0, 0]] * len(runs), [], [[0, 0]] * len(runs)
    if _has_replay(state):
        spans = np.stack([slim.replay["inserted"], slim.replay["head"] + 1], axis=1).tolist()
        # Of a dead lane nothing is fetched any more.
        known = [
            replay_segments.reached(before.get(run.name)) if i in lanes else spans[i]
            for i, run in enumerate(runs)
        ]
        fresh = replay_segments.new_contents(state.replay, np.asarray(known))
    entries = []
    for i, run in enumerate(runs):
        if i not in lanes:
            nothing = {"name": run.name, "run": run.to_json(), "file": None, "replay": []}
            entries.append(before.get(run.name, nothing) | {"alive": False})
            continue
        file = f"{run.name.replace('/', '+')}.safetensors"
        span = spans[i]
        segments = list(before[run.name]["replay"]) if run.name in before else []
        if span != known[i]:
            segment = f"replay/{run.name}/{span[0]}-{span[1]}.safetensors"
            checksum = files.write(out / segment, safetensors.numpy.save(fresh[i]))
            first = [span[0] - len(fresh[i]["row"]), span[1] - len(fresh[i]["rows"])]
            segments.append({"file": segment, "checksum": checksum, "from": first, "to": span})
        oldest = int(slim.replay["oldest"][i]) if _has_replay(state) else 0
        arrays = lanes[i] | {ACTIONS: np.concatenate([it.actions for it in episodes[i]])}
        entries.append(
            {
                "name": run.name,
                "run": run.to_json(),
                "step": step,
                "alive": True,
                "file": file,
                "checksum": files.write(draft / file, safetensors.numpy.save(arrays)),
                "episodes": [
                    {
                        "number": it.number,
                        "steps": len(it.actions),
                        "digest": it.digest,
                        "before": list(it.before),
                    }
                    for it in episodes[i]
                ],
                # A segment also holds the row that the next segment's first transition starts from.
                "replay": [segment for segment in segments if segment["to"][0] >= oldest],
            }
        )
    for entry in entries:
        if last and entry["file"] and not entry["alive"]:
            shutil.copyfile(last / entry["file"], draft / entry["file"])
    content = {"step": step, "code": provenance.code(), "lanes": entries}
    files.write(draft / MANIFEST, with_checksum(json.dumps(content, indent=1).encode()))
    draft.rename(out / f"checkpoint-{step}")
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

    Dead lanes come along as zeros: a program for fewer lanes would round differently, and the
    living ones would no longer be exact.
    """
    lanes = [_load_lane(path, entry, like) for entry in manifest(path)["lanes"]]
    return stack([lane.state for lane in lanes]), [lane.episodes for lane in lanes]


def _load_lane(path: Path, entry: Mapping[str, Any], like: Any) -> LaneState:
    if not entry["alive"]:
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), like)
        return LaneState(zeros, [])
    arrays = safetensors.numpy.load(files.read(path / entry["file"], entry["checksum"]))
    actions = arrays.pop(ACTIONS)
    expected = named(_without_bulk(like))
    for name in sorted(expected.keys() | arrays.keys()):
        here, there = expected.get(name), arrays.get(name)
        if (
            here is None
            or there is None
            or (here.shape[1:], here.dtype) != (there.shape, there.dtype)
        ):
            raise UserError(
                f"{path} does not fit this agent: {name} is not the same there and here."
            )
    structure = jax.tree.structure(_without_bulk(like))
    slim = jax.tree.unflatten(structure, [arrays[name] for name in expected])
    ends = np.cumsum([it["steps"] for it in entry["episodes"]])
    if ends[-1:] != [len(actions)]:
        raise schemas.malformed(path, f"the running episodes of {entry['name']}")
    episodes = [
        Episode(it["number"], taken, it["digest"], EndedEpisodes(*it["before"]))
        for it, taken in zip(entry["episodes"], np.split(actions, ends[:-1]), strict=True)
    ]
    if _has_replay(like):
        replay_segments.check(path, entry, slim.replay)
        bulk = replay_segments.load(path.parent, entry, like.replay)
        slim = slim._replace(replay=like.replay._replace(**slim.replay, **bulk))
    return LaneState(slim, episodes)


def _is_sound(name: str, leaf: np.ndarray) -> bool:
    """Finite; an optimiser's moment may overflow, which stops learning but goes on exactly."""
    return bool(np.isfinite(leaf).all() or ("optimiser" in name and not np.isnan(leaf).any()))


def _has_replay(state: Any) -> bool:
    """Whether there is a replay buffer; a rollout is small enough to be written each time."""
    return hasattr(state, "replay")


def _without_bulk(state: Any) -> Any:
    """A state without the bulk of its replay: what is written anew each time."""
    return (
        state._replace(replay=replay_segments.counters(state.replay))
        if _has_replay(state)
        else state
    )


def named(tree: Any) -> dict[str, Any]:
    """Leaves by their path, as 'learner.actor.net.head.weight'."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _tidy(out: Path, step: int, content: Mapping[str, Any]) -> None:
    """Remove older checkpoints and segments that no lane needs any more."""
    for path in out.glob("checkpoint-*"):
        if path.name != f"checkpoint-{step}":
            files.remove(path)
    needed = {segment["file"] for lane in content["lanes"] for segment in lane["replay"]}
    for path in (out / "replay").rglob("*.safetensors*"):
        if path.relative_to(out).as_posix() not in needed:
            path.unlink()
