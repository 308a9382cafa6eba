"""Replay buffers that start with the transitions of another run (a warm start)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from discover_rl.core.replay_buffer import Replay
from discover_rl.storage import replay_segments
from discover_rl.storage.replay_segments import TRANSITION_FIELDS, Ring


class Source(NamedTuple):
    """A ring of the other run."""

    arrays: dict[str, np.ndarray]  # everything in its segments; each array is as long as needed
    oldest: int  # the oldest transition that is whole
    last: int  # number of transitions that were ever inserted
    rows: int  # number of rows that were ever written

    def row(self, which: np.ndarray) -> np.ndarray:
        """Return the rows of the transitions' observations, counted from the first row ever."""
        return self.arrays["row"][which % len(self.arrays["row"])]

    def end(self, which: np.ndarray) -> int:
        """Return the row after the last one that these transitions need.

        With the newest transition come all rows that follow it.
        """
        return self.rows if which[-1] == self.last - 1 else int(self.row(which)[-1]) + 2


def refill(folder: Path, entry: Mapping[str, Any], now: Mapping[str, Any], empty: Replay) -> Replay:
    """Fill an empty buffer with the newest transitions of another lane, as many as fit.

    Both buffers may have several rings, not necessarily the same number. The transitions of all
    rings, one ring after the other, are divided into equal parts, one for each new ring.

    Args:
        folder: where the other lane's segments are.
        entry: the segments, as in a manifest.
        now: the other lane's counters.
        empty: an empty buffer, lanes in front; every lane gets the same transitions.
    """
    replay_segments.check(folder, entry, now)
    several = np.ndim(empty.row) > 2
    count, capacity, room = np.shape(empty.row)[1] if several else 1, *_sizes(empty)
    sources = [
        _source(folder, entry["name"], ring, empty)
        for ring in replay_segments.rings(entry, now)
        if ring.inserted > ring.oldest
    ]
    if not sources:
        return empty
    share = count * capacity // len(sources)
    held = [(i, max(it.oldest, it.last - share), it.last) for i, it in enumerate(sources)]
    numbers = np.concatenate([np.arange(first, last) for _, first, last in held])
    owners = np.concatenate([np.full(last - first, i) for i, first, last in held])
    filled = {
        name: np.array(leaf if several else np.asarray(leaf)[:, None])
        for name, leaf in empty._asdict().items()
    }
    for ring, part in enumerate(np.array_split(np.arange(len(numbers)), count)):
        pieces = [
            (source, numbers[part][owners[part] == i])
            for i, source in enumerate(sources)
            if (owners[part] == i).any()
        ]
        # Three rows are left for what comes next: where an episode starts, and two to write ahead.
        _lay(filled, ring, pieces, room - 3)
    whole: dict[str, Any] = {name: it if several else it[:, 0] for name, it in filled.items()}
    return Replay(**whole)


def _sizes(replay: Replay) -> tuple[int, int]:
    """Return the number of transitions and of rows that fit into a ring."""
    return np.shape(replay.row)[-1], np.shape(replay.rows)[-2]


def _source(folder: Path, name: str, ring: Ring, like: Replay) -> Source:
    """Read a ring of the other run."""
    (first, first_row), (last, rows) = ring.segments[0]["from"], ring.segments[-1]["to"]
    lengths = dict.fromkeys(TRANSITION_FIELDS, last - first) | {"rows": rows - first_row}
    # The axes before these are lanes, rings and the ring's own length.
    skipped = np.ndim(like.row)
    shapes = {
        name: jax.ShapeDtypeStruct((length, *leaf.shape[skipped:]), leaf.dtype)
        for name, length in lengths.items()
        for leaf in [getattr(like, name)]
    }
    arrays = replay_segments.load_ring(folder, name, ring, shapes)
    return Source(arrays, ring.oldest, last, rows)


def _lay(
    filled: dict[str, np.ndarray], ring: int, pieces: list[tuple[Source, np.ndarray]], room: int
) -> None:
    """Write pieces into a ring, one after the other; leave out the oldest if rows run out.

    Args:
        filled: arrays of all rings, by name, lanes and rings in front.
        ring: the number of the ring to be filled.
        pieces: consecutive transitions, each with the ring that they come from, the newest last.
        room: rows that may be used.
    """
    laid: dict[str, list[np.ndarray]] = {name: [] for name in (*TRANSITION_FIELDS, "rows")}
    for source, which in reversed(pieces):
        end = source.end(which)
        which = which[end - source.row(which) <= room]
        if not len(which):
            break
        start = int(source.row(which)[0])
        room -= end - start
        for name in TRANSITION_FIELDS:
            laid[name].insert(0, source.arrays[name][which % len(source.arrays[name])])
        laid["row"][0] = laid["row"][0] - start
        rows = source.arrays["rows"]
        laid["rows"].insert(0, rows[np.arange(start, end) % len(rows)])
    if not laid["rows"]:
        return
    before = np.cumsum([0, *map(len, laid["rows"][:-1])])
    laid["row"] = [row + first for row, first in zip(laid["row"], before, strict=True)]
    for name, parts in laid.items():
        whole = np.concatenate(parts)
        filled[name][:, ring, : len(whole)] = whole
    filled["head"][:, ring] = sum(map(len, laid["rows"])) - 1
    filled["inserted"][:, ring] = sum(map(len, laid["row"]))
