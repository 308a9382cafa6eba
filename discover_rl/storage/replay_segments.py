"""Replay buffers on disk, in segments: every checkpoint adds one with the new transitions.

A segment is a file with consecutive transitions of one environment and the observations they refer
to. The checkpoint's manifest lists the segments that make up the buffer. A lane with several
environments has a ring for each (`replay_rings`), and segments of each.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from msgspec import Meta

from discover_rl.core.replay_buffer import Replay
from discover_rl.storage import files, manifests, schemas
from discover_rl.storage.schemas import Count

TRANSITION_FIELDS = ("bare", "executed", "reward", "terminated", "row")
"""Arrays of a replay buffer with one entry per transition; "rows" has one per observation."""
PART_BYTES = 2**29
"""What is new is written in segments of about as many bytes, those of all lanes together: of it
several copies are made, for which a machine that just holds a buffer has no memory."""

Span = Annotated[list[Count], Meta(min_length=2, max_length=2)]
"""A position in a replay buffer: how many transitions and rows were stored up to there."""
_From = TypedDict("_From", {"from": Span})


class Segment(_From):
    """A segment in a manifest: the numbers of transitions and rows before it and after it."""

    file: schemas.Below
    checksum: files.Checksum
    to: Span
    ring: NotRequired[Count]  # number of the environment, if the lane has several


class Ring(NamedTuple):
    """One ring of a lane: its segments, oldest first, and its counters."""

    segments: list[Any]
    inserted: int
    head: int
    oldest: int


def counters(replay: Replay) -> dict[str, Any]:
    """Return the counters of a buffer, which are small enough to be written each time."""
    return {name: getattr(replay, name) for name in ("head", "inserted", "oldest")}


def rings(entry: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Ring]:
    """Yield the rings of a lane.

    Args:
        entry: the lane's entry in a manifest.
        now: the lane's counters, () each, or (rings,).
    """
    own: dict[int, list[Any]] = {}
    for segment in entry["replay"]:
        own.setdefault(segment.get("ring", 0), []).append(segment)
    for ring in range(np.size(now["inserted"])):
        counted = {name: int(np.ravel(it)[ring]) for name, it in now.items()}
        yield Ring(own.get(ring, []), **counted)


def save(
    out: Path,
    names: Mapping[int, str],
    replay: Replay,
    now: Mapping[str, np.ndarray],
    before: Mapping[str, Any],
) -> dict[int, list[dict[str, Any]]]:
    """Write the new transitions of all lanes that have not failed.

    Args:
        out: the folder for checkpoints.
        names: the names of these lanes' runs, by lane.
        replay: the buffers of all lanes.
        now: their counters, on the host.
        before: the lanes' entries in the last checkpoint, by name of the run.

    Returns:
        The segments that make up the buffer of each of these lanes.
    """
    spans = np.stack([now["inserted"], now["head"] + 1], axis=-1)
    known = spans.copy()  # nothing is fetched from the device for lanes that have failed
    found: dict[int, list[Ring]] = {}
    for lane, name in names.items():
        here = {key: it[lane] for key, it in now.items()}
        found[lane] = list(rings(before.get(name, {"replay": []}), here))
        there = [ring.segments[-1]["to"] if ring.segments else [0, 0] for ring in found[lane]]
        known[lane] = np.reshape(there, known[lane].shape)
    known = np.maximum(known, spans - [replay.row.shape[-1], replay.rows.shape[-2]])
    while (known < spans).any():
        upto = _end_of_part(replay, known, spans)
        fresh = new_contents(replay, known, upto)
        for lane, name in names.items():
            for number, ring in enumerate(found[lane]):
                end = np.reshape(upto[lane], (-1, 2))[number].tolist()
                if end != (ring.segments[-1]["to"] if ring.segments else [0, 0]):
                    which = number if spans.ndim > 2 else None
                    ring.segments.append(_write(out, name, which, end, fresh[lane][number]))
        known = upto
    return {
        lane: [
            segment
            for ring in found[lane]
            for segment in ring.segments
            # A segment also holds the row that the next segment's first transition starts from.
            if segment["to"][0] >= ring.oldest
        ]
        for lane in names
    }


def _end_of_part(replay: Replay, known: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """Return where the next segments end: at `spans`, or where they have enough bytes.

    Args:
        replay: the buffers of all lanes.
        known: how much is on disk already: (lanes, 2), or (lanes, rings, 2).
        spans: how much there is, of the same shape.
    """
    capacity = replay.row.shape[-1]
    each = sum(leaf.nbytes for leaf in replay) // capacity
    transitions = known[..., 0] + max(1, PART_BYTES // each)
    if (transitions >= spans[..., 0]).all():
        return spans
    slots = jnp.asarray(transitions % capacity)[..., None]
    row = jax.device_get(jnp.take_along_axis(replay.row, slots, axis=-1))[..., 0]
    # Up to the row that the next segment's first transition starts from.
    part = np.stack([transitions, np.maximum(row + 1, known[..., 1])], axis=-1)
    return np.where(transitions[..., None] < spans[..., :1], part, spans)


def _write(
    out: Path, name: str, number: int | None, upto: list[int], new: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Write a segment of a ring and return its entry.

    Args:
        out: the folder for checkpoints.
        name: the name of the run.
        number: the number of the ring; None if the lane has only one.
        upto: how many transitions and rows were stored up to its end.
        new: its contents.
    """
    which, own = ("", {}) if number is None else (f"{number}+", {"ring": number})
    file = f"replay/{name}/{which}{upto[0]}-{upto[1]}.safetensors"
    checksum = files.write(out / file, safetensors.numpy.save(new))
    first = [upto[0] - len(new["row"]), upto[1] - len(new["rows"])]
    return {"file": file, "checksum": checksum, "from": first, "to": upto} | own


def new_contents(
    replay: Replay, start: np.ndarray, stop: np.ndarray
) -> list[list[dict[str, np.ndarray]]]:
    """Return a part of the buffers, by lane and ring, oldest first.

    Args:
        replay: the buffers of all lanes.
        start: how many transitions and observations come before it: (lanes, 2), or
            (lanes, rings, 2).
        stop: the same at its end.
    """
    fresh = (stop - start).reshape(len(start), -1, 2)
    # Padded to a power of two, so that only a few shapes are compiled.
    sizes = [1 << int(size).bit_length() for size in fresh.max(axis=(0, 1))]
    taken = jax.device_get(_gather(replay, start, *sizes))
    several = {name: leaf if start.ndim > 2 else leaf[:, None] for name, leaf in taken.items()}
    return [
        [
            {
                name: np.ascontiguousarray(leaf[i, ring, : fresh[i, ring, int(name == "rows")]])
                for name, leaf in several.items()
            }
            for ring in range(fresh.shape[1])
        ]
        for i in range(len(start))
    ]


@functools.partial(jax.jit, static_argnames=("transitions", "rows"))
def _gather(replay: Replay, start: Any, transitions: int, rows: int) -> dict[str, jax.Array]:
    """Return `transitions` entries and `rows` rows of every ring, from `start` on.

    `start` is (lanes, 2), or (lanes, rings, 2).
    """

    def ring(replay: Replay, start: jax.Array) -> dict[str, jax.Array]:
        slots = (start[0] + jnp.arange(transitions)) % replay.row.shape[0]
        bulk = {name: getattr(replay, name)[slots] for name in TRANSITION_FIELDS}
        return bulk | {"rows": replay.rows[(start[1] + jnp.arange(rows)) % replay.rows.shape[0]]}

    lane = ring if start.ndim == 2 else jax.vmap(ring)
    return jax.vmap(lane)(replay, start)


def check_counters(
    path: Path, entry: Mapping[str, Any], now: Mapping[str, np.ndarray], environments: int
) -> None:
    """Raise Malformed unless these are the counters of a lane's buffer, or it has no buffer.

    Args:
        path: where they are from, for the message.
        entry: the lane's entry in a manifest.
        now: arrays by name.
        environments: how many the lane has.
    """
    if not now and not entry["replay"]:
        return
    shape = (environments,) if environments > 1 else ()
    kinds = {(it.shape, it.dtype.name) for it in now.values()}
    if now.keys() != {"head", "inserted", "oldest"} or kinds != {(shape, "int32")}:
        raise schemas.malformed(path, f"the counters of the replay of {entry['name']}")
    check(path, entry, now)


def check(path: Path, entry: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise a UserError unless a lane's segments are consecutive and hold all of its buffer.

    Args:
        path: where they are from, for the message.
        entry: the lane's entry in a manifest.
        now: the lane's counters.
    """
    listed = 0
    for segments, inserted, head, oldest in rings(entry, now):
        listed += len(segments)
        end = [inserted, head + 1]
        follow = all(a["to"] == b["from"] for a, b in itertools.pairwise(segments))
        forward = all(a <= b for it in segments for a, b in zip(it["from"], it["to"], strict=True))
        whole = segments[-1]["to"] == end if segments else inserted == 0
        reach = 0 <= oldest <= inserted and (not segments or segments[0]["from"][0] <= oldest)
        if not (follow and forward and whole and reach):
            raise schemas.malformed(path, f"a part of the replay of {entry['name']} is missing")
    if listed < len(entry["replay"]):
        raise schemas.malformed(path, f"the replay of {entry['name']}")


def load(
    out: Path, entry: Mapping[str, Any], now: Mapping[str, Any], like: Replay
) -> dict[str, np.ndarray]:
    """Read the arrays of a lane's buffer that are kept in segments.

    Args:
        out: the folder for checkpoints.
        entry: the lane's entry in a manifest.
        now: the lane's counters.
        like: a buffer of the same shapes, lanes in front.
    """
    several = np.ndim(now["inserted"])
    shapes = {
        name: jax.ShapeDtypeStruct(leaf.shape[1 + several :], leaf.dtype)
        for name in (*TRANSITION_FIELDS, "rows")
        for leaf in [getattr(like, name)]
    }
    found = [load_ring(out, entry["name"], ring, shapes) for ring in rings(entry, now)]
    if not several:
        return found[0]
    return {name: np.stack([ring[name] for ring in found]) for name in shapes}


def load_ring(out: Path, name: str, ring: Ring, shapes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Read the arrays of one ring from its segments.

    Args:
        out: the folder for checkpoints.
        name: the name of the run.
        ring: the ring.
        shapes: the shapes and dtypes of the arrays, by name.
    """
    for segment in ring.segments:  # before anything is allocated by its numbers
        _check_size(out / segment["file"], segment, shapes)
    bulk = {field: np.zeros(leaf.shape, leaf.dtype) for field, leaf in shapes.items()}
    for segment in ring.segments:
        part = manifests.read_arrays(out / segment["file"], segment["checksum"])
        for field, whole in bulk.items():
            start, stop = (segment[end][int(field == "rows")] for end in ("from", "to"))
            new, shape = part.get(field), (stop - start, *whole.shape[1:])
            if new is None or (new.shape, new.dtype) != (shape, whole.dtype):
                raise schemas.malformed(out / segment["file"], f"its {field}")
            whole[np.arange(start, stop) % len(whole)] = new
    if ring.segments and (last := ring.segments[-1]["to"][0]) > ring.oldest:
        rows = bulk["row"][np.arange(ring.oldest, last) % len(bulk["row"])]
        if rows.min() < ring.segments[0]["from"][1] or rows.max() >= ring.segments[-1]["to"][1]:
            raise schemas.malformed(out, f"a part of the replay of {name} is missing")
    return bulk


def _check_size(path: Path, segment: Mapping[str, Any], shapes: Mapping[str, Any]) -> None:
    """Raise a UserError if a segment's file is too small for the arrays that it should have."""
    lengths = [b - a for a, b in zip(segment["from"], segment["to"], strict=True)]
    needed = sum(
        lengths[field == "rows"] * math.prod(leaf.shape[1:]) * leaf.dtype.itemsize
        for field, leaf in shapes.items()
    )
    if files.size(path) < needed:
        raise schemas.malformed(path, "it is too short")
