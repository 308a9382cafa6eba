"""The replay buffers of a checkpoint, in segments: every checkpoint adds what is new.

A segment is a file with consecutive transitions of one lane and the observations they refer to. The
checkpoint's manifest lists the segments that make up the buffer.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from msgspec import Meta

from discover_rl.core.replay_buffer import Replay
from discover_rl.storage import files, schemas
from discover_rl.storage.schemas import Count

TRANSITION_FIELDS = ("bare", "executed", "reward", "terminated", "row")
"""Arrays of a replay buffer with one entry per transition; "rows" has one per observation."""


Span = Annotated[list[Count], Meta(min_length=2, max_length=2)]
"""How many transitions, and how many rows."""
_From = TypedDict("_From", {"from": Span})


class Segment(_From):
    """A segment in a manifest: how much there was before it, and with it."""

    file: schemas.Below
    checksum: files.Checksum
    to: Span


def counters(replay: Replay) -> dict[str, Any]:
    """What changes of a buffer beside its contents; small enough to be written each time."""
    return {name: getattr(replay, name) for name in ("head", "inserted", "oldest")}


def reached(entry: Mapping[str, Any] | None) -> list[int]:
    """How many transitions and rows of a lane are on disk already."""
    return entry["replay"][-1]["to"] if entry and entry["replay"] else [0, 0]


def new_contents(replay: Replay, known: np.ndarray) -> list[dict[str, np.ndarray]]:
    """The transitions and observations of each lane that are not on disk yet, oldest first.

    Args:
        replay: of all lanes.
        known: (lanes, 2) how many transitions and observations are on disk already.
    """
    now = jax.device_get(counters(replay))
    capacity, rows = replay.row.shape[1], replay.rows.shape[1]
    stop = np.stack([now["inserted"], now["head"] + 1], axis=1)
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
        bulk = {name: getattr(replay, name)[slots] for name in TRANSITION_FIELDS}
        return bulk | {"rows": replay.rows[(start[1] + jnp.arange(rows)) % replay.rows.shape[0]]}

    return jax.vmap(lane)(replay, start)


def check(path: Path, entry: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """A UserError unless a lane's segments follow one another and hold all of its buffer."""
    segments, end = entry["replay"], [int(now["inserted"]), int(now["head"]) + 1]
    follow = all(a["to"] == b["from"] for a, b in itertools.pairwise(segments))
    whole = segments[-1]["to"] == end if segments else end[0] == 0
    reach = not segments or segments[0]["from"][0] <= now["oldest"]
    if not (follow and whole and reach):
        raise schemas.malformed(path, f"a part of the replay of {entry['name']} is missing")


def load(out: Path, entry: Mapping[str, Any], like: Replay) -> dict[str, np.ndarray]:
    """The parts of a lane's buffer that are kept in segments."""
    shapes = {name: getattr(like, name) for name in (*TRANSITION_FIELDS, "rows")}
    bulk = {name: np.zeros(leaf.shape[1:], leaf.dtype) for name, leaf in shapes.items()}
    for segment in entry["replay"]:
        part = safetensors.numpy.load(files.read(out / segment["file"], segment["checksum"]))
        for name, ring in bulk.items():
            start, stop = (segment[end][int(name == "rows")] for end in ("from", "to"))
            new, shape = part.get(name), (stop - start, *ring.shape[1:])
            if new is None or (new.shape, new.dtype) != (shape, ring.dtype):
                raise schemas.malformed(out / segment["file"], f"its {name}")
            ring[np.arange(start, stop) % len(ring)] = new
    return bulk


def refill(folder: Path, entry: Mapping[str, Any], now: Mapping[str, int], empty: Replay) -> Replay:
    """A buffer that starts with the newest transitions of another lane's, as many as fit.

    Args:
        folder: where the other lane's segments are.
        entry: which they are.
        now: its counters.
        empty: the buffer without them, lanes in front; every lane gets the same.
    """
    check(folder, entry, now)
    (first, first_row), (last, rows) = entry["replay"][0]["from"], entry["replay"][-1]["to"]
    lengths = dict.fromkeys(TRANSITION_FIELDS, last - first) | {"rows": rows - first_row}
    whole = {
        name: jax.ShapeDtypeStruct((1, length, *leaf.shape[2:]), leaf.dtype)
        for name, length in lengths.items()
        for leaf in [getattr(empty, name)]
    }
    there = load(folder, entry, empty._replace(**whole))
    capacity, room = empty.row.shape[1], empty.rows.shape[1]
    which = np.arange(max(now["oldest"], last - capacity), last) % (last - first)
    # Three rows are left for what comes next: where an episode starts, and two to write ahead.
    which = which[rows - there["row"][which] <= room - 3]
    if not len(which):
        return empty
    start = int(there["row"][which[0]])
    taken = {name: there[name][which] for name in TRANSITION_FIELDS}
    taken["row"] = taken["row"] - start
    taken["rows"] = there["rows"][np.arange(start, rows) % (rows - first_row)]
    counts = {"head": rows - 1 - start, "inserted": len(which), "oldest": 0}
    filled = {name: np.array(getattr(empty, name)) for name in (*taken, *counts)}
    for name, new in taken.items():
        filled[name][:, : len(new)] = new
    for name, count in counts.items():
        filled[name][:] = count
    return empty._replace(**filled)
