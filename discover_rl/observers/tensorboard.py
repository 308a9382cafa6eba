"""Curves for TensorBoard, without TensorBoard: event files, encoded by hand.

An event file is a row of records: a length, the length's checksum, an event, its checksum. An event
is a Protocol Buffers message; the few fields that are written are named where they are.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from discover_rl.config import Run
from discover_rl.observers import Observer, Report, scalars


class TensorBoard(Observer):
    """Writes event files into the folders of the runs in `out`, to be seen while training goes on.

    Whoever goes on from a checkpoint does some evaluations again. So a file says first at which
    step it starts, and TensorBoard drops what earlier files have from there on.
    """

    def __init__(self, out: str | Path):
        self.out = Path(out)
        self._files: dict[str, Path] = {}

    def started(self, runs: Sequence[Run], step: int) -> None:
        for run in runs:
            self._files.pop(run.name, None)

    def evaluated(self, run: Run, step: int, returns: Sequence[float], report: Report) -> None:
        self._write(run, _event(step, _curves(scalars(returns, report))), start=step)

    def noted(self, run: Run, step: int, note: str) -> None:
        # An evaluation at this very step may have come before.
        self._write(run, _event(step, _text("note", note)), start=step + 1)

    def _write(self, run: Run, event: bytes, start: int) -> None:
        """Append an event. A run's first one opens a file: not every run goes on at the step that
        `started` tells, but what is heard first is what comes next."""
        content = _record(event)
        if run.name not in self._files:
            folder = self.out / run.name
            folder.mkdir(parents=True, exist_ok=True)
            # Files are read in the order of their names.
            self._files[run.name] = folder / f"events.out.tfevents.{time.time_ns()}"
            version = _event(0, _bytes(3, b"brain.Event:2"))
            content = _record(version) + _record(_event(start, _START)) + content
        with self._files[run.name].open("ab") as file:
            file.write(content)


# Protocol Buffers: every field is its number and kind, then its content.


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _double(field: int, number: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", number)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _float(field: int, number: float) -> bytes:
    with np.errstate(over="ignore"):  # what is too large for 32 bits is infinite
        return _varint(field << 3 | 5) + np.asarray(number, "<f4").tobytes()


def _event(step: int, what: bytes) -> bytes:
    return _double(1, time.time()) + _number(2, step) + what  # wall_time, step


_START = _bytes(7, _number(1, 1))  # session_log: status START


def _curves(numbers: Mapping[str, float]) -> bytes:
    """summary: for each number, value: tag, simple_value."""
    values = (_bytes(1, name.encode()) + _float(2, number) for name, number in numbers.items())
    return _bytes(5, b"".join(_bytes(1, value) for value in values))


def _text(tag: str, text: str) -> bytes:
    """summary: value: tag, metadata that says what it is, a tensor of one string."""
    metadata = _bytes(9, _bytes(1, _bytes(1, b"text")))  # plugin_data: plugin_name
    shape = _bytes(2, _bytes(2, _number(1, 1)))  # tensor_shape: dim: size
    tensor = _bytes(8, _number(1, 7) + shape + _bytes(8, text.encode()))  # DT_STRING, string_val
    return _bytes(5, _bytes(1, _bytes(1, tag.encode()) + metadata + tensor))


# Records


def _remainders() -> list[int]:
    """Of every byte, for CRC-32C, lowest bit first."""
    table = list(range(256))
    for _ in range(8):
        table = [value >> 1 ^ (0x82F63B78 if value & 1 else 0) for value in table]
    return table


_TABLE = _remainders()


def _checksum(content: bytes) -> bytes:
    """CRC-32C, rotated and shifted, so that a checksum of what holds checksums is a good one."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _record(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    return length + _checksum(length) + event + _checksum(event)
