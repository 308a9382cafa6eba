"""Checkpoints: all of a cohort at one step, in one folder that is whole or not there.

`checkpoint-<step>/` has a file per lane – networks, optimisers, strategy, counters, the actions of
the running episode – and `cohort.json`, which names every file with its size and checksum. Replay
buffers are too large to be written each time: every checkpoint adds one segment per lane with the
rows that are new, under `replay/`, and `cohort.json` lists the segments that make up the buffer.
"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from discover_rl import provenance, store
from discover_rl.config import Run
from discover_rl.envs import Episode
from discover_rl.replay import Replay
from discover_rl.trees import stacked
from discover_rl.types import UserError

FORMAT = 2
MANIFEST = "cohort.json"
BULK = ("bare", "executed", "reward", "terminated", "row")  # one entry per transition
ACTIONS = "episode.actions"


class Lane(NamedTuple):
    """A lane's part of a checkpoint."""

    state: Any
    episodes: list[Episode]  # one per environment; none: the lane is dead, and its state zeros


def find(out: Path) -> Path | None:
    """The newest whole checkpoint in a folder."""
    steps = [path.parent.name.removeprefix("checkpoint-") for path in out.glob(f"*/{MANIFEST}")]
    newest = max((int(step) for step in steps if step.isdecimal()), default=None)
    return None if newest is None else out / f"checkpoint-{newest}"


def manifest(path: Path) -> dict[str, Any]:
    try:
        content = json.loads((path / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); move it away to start over.") from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise UserError(f"{path} has format {found}; this version reads {FORMAT}.")
    return content


def clear(desk: Path, dead: Sequence[str] = (), out: Path | None = None) -> None:
    """Remove every checkpoint, for the cohort is done; what `dead` runs had last is kept, in their
    folders below `out`."""
    last = find(desk)
    if last:
        for entry in manifest(last)["lanes"]:
            grave = (out or desk) / entry["name"] / "last-good"
            if entry["name"] in dead and entry["file"] and not grave.exists():
                _inter(last, entry, grave)
        # From here on there is no checkpoint, only what is left to remove.
        (last / MANIFEST).unlink()
    for path in (*desk.glob("checkpoint-*"), desk / "replay"):
        store.remove(path)


def _inter(last: Path, entry: Mapping[str, Any], grave: Path) -> None:
    """Copy a lane's part of a checkpoint to a folder of its own."""
    draft = grave.with_suffix(".tmp")
    store.remove(draft)
    draft.mkdir(parents=True)
    shutil.copyfile(last / entry["file"], draft / "lane.safetensors")
    for segment in entry["replay"]:
        file = last.parent / segment["file"]
        (draft / "replay").mkdir(exist_ok=True)
        shutil.copyfile(file, draft / "replay" / file.name)
    store.write(draft / MANIFEST, json.dumps(entry, indent=1).encode())
    draft.rename(grave)


def step_of(out: Path) -> int:
    """The step of the newest checkpoint; 0 if there is none."""
    last = find(out)
    return int(last.name.removeprefix("checkpoint-")) if last else 0


def save(
    out: Path,
    step: int,
    runs: Sequence[Run],
    alive: np.ndarray,
    state: Any,
    episodes: Sequence[Sequence[Episode]],
) -> bool:
    """Write a checkpoint of the living lanes; dead ones keep what they have in the last.

    False, and nothing written, if something in a living lane is not finite: the next step will
    notice and say what, and until then the last checkpoint is the better one.
    """
    slim = jax.device_get(_slim(state))
    living = np.flatnonzero(alive).tolist()
    lanes = {i: _named(jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), slim)) for i in living}
    if not all(_sound(name, leaf) for arrays in lanes.values() for name, leaf in arrays.items()):
        return False
    last = find(out)
    if last and manifest(last)["step"] == step:
        return True  # stopped again before the first step
    before = {lane["name"]: lane for lane in manifest(last)["lanes"]} if last else {}
    draft = out / f"checkpoint-{step}.tmp"
    store.remove(draft)
    draft.mkdir(parents=True)

    spans, fresh, known = [[0, 0]] * len(runs), [], [[0, 0]] * len(runs)
    if _replays(state):
        spans = np.stack([slim.replay["inserted"], slim.replay["head"] + 1], axis=1).tolist()
        # Of a dead lane nothing is fetched any more.
        known = [
            _reached(before.get(run.name)) if i in lanes else spans[i] for i, run in enumerate(runs)
        ]
        fresh = _excerpt(state.replay, np.asarray(known))
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
            proof = store.write(out / segment, safetensors.numpy.save(fresh[i]))
            first = [span[0] - len(fresh[i]["row"]), span[1] - len(fresh[i]["rows"])]
            segments.append({"file": segment, "proof": proof, "from": first, "to": span})
        oldest = int(slim.replay["oldest"][i]) if _replays(state) else 0
        arrays = lanes[i] | {ACTIONS: np.concatenate([it.actions for it in episodes[i]])}
        entries.append(
            {
                "name": run.name,
                "run": run.to_json(),
                "step": step,
                "alive": True,
                "file": file,
                "proof": store.write(draft / file, safetensors.numpy.save(arrays)),
                "episodes": [
                    {"number": it.number, "steps": len(it.actions), "digest": it.digest}
                    for it in episodes[i]
                ],
                # A segment also holds the row that the next segment's first transition starts from.
                "replay": [segment for segment in segments if segment["to"][0] >= oldest],
            }
        )
    for entry in entries:
        if last and entry["file"] and not entry["alive"]:
            shutil.copyfile(last / entry["file"], draft / entry["file"])
    content = {"format": FORMAT, "step": step, "code": provenance.code(), "lanes": entries}
    store.write(draft / MANIFEST, json.dumps(content, indent=1).encode())
    draft.rename(out / f"checkpoint-{step}")
    store.sync(out)
    _tidy(out, step, content)
    return True


def load(path: Path, like: Any) -> tuple[Any, list[list[Episode]]]:
    """The lanes, in order. `like` is the state of a fresh agent, or its shapes.

    Dead lanes come along as zeros: a program for fewer lanes would round differently, and the
    living ones would no longer be exact.
    """
    lanes = [_load_lane(path, entry, like) for entry in manifest(path)["lanes"]]
    return stacked([lane.state for lane in lanes]), [lane.episodes for lane in lanes]


def _load_lane(path: Path, entry: Mapping[str, Any], like: Any) -> Lane:
    if not entry["alive"]:
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), like)
        return Lane(zeros, [])
    arrays = safetensors.numpy.load(store.read(path / entry["file"], entry["proof"]))
    actions = arrays.pop(ACTIONS)
    expected = _named(_slim(like))
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
    slim = jax.tree.unflatten(jax.tree.structure(_slim(like)), [arrays[name] for name in expected])
    ends = np.cumsum([it["steps"] for it in entry["episodes"]])
    episodes = [
        Episode(it["number"], taken, it["digest"])
        for it, taken in zip(entry["episodes"], np.split(actions, ends[:-1]), strict=True)
    ]
    if _replays(like):
        bulk = _load_replay(path.parent, entry, like.replay)
        slim = slim._replace(replay=like.replay._replace(**slim.replay, **bulk))
    return Lane(slim, episodes)


def _load_replay(out: Path, entry: Mapping[str, Any], like: Replay) -> dict[str, np.ndarray]:
    """The parts of a lane's buffer that are kept in segments."""
    shapes = {name: getattr(like, name) for name in (*BULK, "rows")}
    bulk = {name: np.zeros(leaf.shape[1:], leaf.dtype) for name, leaf in shapes.items()}
    for segment in entry["replay"]:
        part = safetensors.numpy.load(store.read(out / segment["file"], segment["proof"]))
        for name, ring in bulk.items():
            which = int(name == "rows")
            ring[np.arange(segment["from"][which], segment["to"][which]) % len(ring)] = part[name]
    return bulk


def _sound(name: str, leaf: np.ndarray) -> bool:
    """Finite; an optimiser's moment may overflow, which stops learning but goes on exactly."""
    return bool(np.isfinite(leaf).all() or ("optimiser" in name and not np.isnan(leaf).any()))


def _replays(state: Any) -> bool:
    """Whether there is a replay buffer; a rollout is small enough to be written each time."""
    return hasattr(state, "replay")


def _slim(state: Any) -> Any:
    """A state without the bulk of its replay: what is written anew each time."""
    return state._replace(replay=_counters(state.replay)) if _replays(state) else state


def _counters(replay: Replay) -> dict[str, Any]:
    return {name: getattr(replay, name) for name in ("head", "inserted", "oldest")}


def _reached(entry: Mapping[str, Any] | None) -> list[int]:
    """How many transitions and rows of a lane are on disk already."""
    return entry["replay"][-1]["to"] if entry and entry["replay"] else [0, 0]


def _named(tree: Any) -> dict[str, Any]:
    """Leaves by their path, as 'learner.actor.net.head.weight'."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _excerpt(replay: Replay, known: np.ndarray) -> list[dict[str, np.ndarray]]:
    """Per lane, the transitions and rows past `known` (lanes, 2), oldest first."""
    counters = jax.device_get(_counters(replay))
    capacity, rows = replay.row.shape[1], replay.rows.shape[1]
    stop = np.stack([counters["inserted"], counters["head"] + 1], axis=1)
    start = np.maximum(known, stop - [capacity, rows])
    # Padded to a power of two, so that few shapes are ever compiled.
    sizes = [1 << int(size).bit_length() for size in (stop - start).max(axis=0)]
    taken = jax.device_get(_gather(replay, start, *sizes))
    fresh = stop - start
    return [
        {
            name: np.ascontiguousarray(leaf[i, : fresh[i, int(name == "rows")]])
            for name, leaf in taken.items()
        }
        for i in range(len(start))
    ]


@functools.partial(jax.jit, static_argnames=("transitions", "rows"))
def _gather(replay: Replay, start: Any, transitions: int, rows: int) -> dict[str, jax.Array]:
    """`transitions` entries and `rows` rows of every lane, from `start` (lanes, 2) on."""

    def lane(replay: Replay, start: jax.Array) -> dict[str, jax.Array]:
        slots = (start[0] + jnp.arange(transitions)) % replay.row.shape[0]
        bulk = {name: getattr(replay, name)[slots] for name in BULK}
        return bulk | {"rows": replay.rows[(start[1] + jnp.arange(rows)) % replay.rows.shape[0]]}

    return jax.vmap(lane)(replay, start)


def _tidy(out: Path, step: int, content: Mapping[str, Any]) -> None:
    """Remove older checkpoints and segments that no lane needs any more."""
    for path in out.glob("checkpoint-*"):
        if path.name != f"checkpoint-{step}":
            store.remove(path)
    needed = {segment["file"] for lane in content["lanes"] for segment in lane["replay"]}
    for path in (out / "replay").rglob("*.safetensors*"):
        if path.relative_to(out).as_posix() not in needed:
            path.unlink()
