"""The shapes of files, and the one reader that checks them.

A shape is a type: a TypedDict with the keys of a file, the ranges of numbers and the lengths of
lists. A file of another shape is refused in a sentence that says where and why. The size of files
and the depth of values are limited, so no file can fill the memory or the stack.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, TypeVar

import msgspec
from msgspec import Meta

from discover_rl.core.types import UserError
from discover_rl.system.paths import plain

T = TypeVar("T")

MOST_BYTES = {".jsonl": 2**30, ".log": 2**30, ".json": 2**26, ".toml": 2**18, "": 2**10}
"""The largest files that are read, by their names' endings."""
MOST_DEPTH = 16
"""How deeply the values of a TOML file may be nested."""
PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
"""A part of a dotted key, with its dot."""
LONG_KEY = re.compile(rf"""(?<![\w"'-])(?:{PART}){{{MOST_DEPTH}}}""")
"""A dotted key with too many parts: memory for reading one grows with the square of the parts."""

Count = Annotated[int, Meta(ge=0, le=2**53)]
"""A whole number from 0 on, up to where floats are exact."""
Positive = Annotated[int, Meta(ge=1, le=2**53)]
"""The same, from 1 on."""
Seed = Annotated[int, Meta(ge=0, lt=2**32)]
"""The seed of a run."""
Text = Annotated[str, Meta(max_length=100_000)]
"""Any text, of limited length."""
Name = Annotated[str, Meta(min_length=1, max_length=1_000)]
"""A name: not empty, and of limited length."""
Below = Annotated[
    str, Meta(pattern=r"^(?!/)(?!(.*/)?\.\.?(/|\Z))[^\x00-\x1f]+\Z", max_length=1_000)
]
"""A path that leads to somewhere below the folder it is read in."""

Scalar = str | int | float | bool | None
"""A value that has no others inside."""
Shallow = Scalar | list[Scalar] | dict[str, Scalar]
"""A value with one level of others inside."""
Deeper = Scalar | list[Shallow] | dict[str, Shallow]
"""A value with two levels of others inside."""
Value = Scalar | list[Deeper] | dict[str, Deeper]
"""A setting's value: a keyword argument of a task may be lists and tables, of limited depth."""


class Format(TypedDict):
    """The key that names a file's format."""

    format: int


class RunShape(TypedDict):
    """A run as records and policies have it."""

    task: Name
    algorithm: Name
    strategy: Name
    steps: Positive
    seed: Seed
    settings: dict[str, Value]


Backend = Literal["gymnasium", "envpool"]
"""What steps environments."""
Upto10000 = Annotated[int, Meta(ge=1, le=10_000)]
"""A whole number as small as the settings that it is of must be."""
# Names with dots cannot be those of a class's attributes.
_Dotted = TypedDict(
    "_Dotted",
    {
        "eval.every": Positive,
        "eval.episodes": Annotated[int, Meta(ge=1, le=100_000)],
        "eval.max_steps": Annotated[int, Meta(ge=1, le=10**9)],
        "env.backend": Backend | Literal["auto"],
        "env.engine": Backend | Literal["auto"],  # its old name
        "env.count": Upto10000,
        "env.action_repeat": Upto10000,
        "env.wrappers": list[Name],
        "start.run": Text,
        "start.checksum": Text,
        "start.step": Count,
        "start.transitions": Count,
    },
    total=False,
)


class KnownSettings(_Dotted, total=False):
    """Settings that are used where records and policies are read. A run need not have all."""

    horizon: Positive
    warmup: Count


class Malformed(UserError):
    """A file, or a line of it, does not have the shape that it should have."""


def malformed(where: Any, why: str) -> Malformed:
    """The error that says where something is malformed, and why.

    >>> print(malformed("cohorts.json", "no object"))
    cohorts.json is damaged (no object); restore it, or move it away to start over.
    """
    return Malformed(f"{where} is damaged ({why}); restore it, or move it away to start over.")


def content(path: Path) -> bytes:
    """Return a file's bytes; Malformed if it is larger than files of its kind may be."""
    most = MOST_BYTES[path.suffix]
    if plain(path) > most:
        raise malformed(path, f"more than {most:,} bytes")
    return path.read_bytes()


def read_json(path: Path, shape: type[T]) -> T:
    """A JSON file's value of this shape.

    Raises:
        Malformed: it has another one.
        OSError: it cannot be read.
    """
    return decode(content(path), shape, str(path))


def decode(raw: bytes, shape: type[T], where: str) -> T:
    """Decode a JSON text of this shape; else Malformed, with a message that begins with `where`."""
    try:
        return decoder(shape).decode(raw)
    except (ValueError, RecursionError) as error:
        raise malformed(where, reason(error)) from error


def decode_lines(raw: bytes, shape: type[T], path: Path, first: int = 1) -> list[T]:
    """Decode lines of JSON, each of this shape; Malformed names a line that is not.

    Args:
        raw: whole lines.
        shape: of each.
        path: the file that they are from.
        first: the number there of the first of them.
    """
    try:
        found = decoder(shape).decode_lines(raw)
        if len(found) == raw.count(b"\n"):  # else lines are empty, which are left out
            return found
    except (ValueError, RecursionError):
        pass
    lines = raw.removesuffix(b"\n").split(b"\n")
    return [decode(line, shape, f"{path}, line {i},") for i, line in enumerate(lines, first)]


def check(value: Any, shape: type[T], where: str) -> T:
    """Return a value that was read before if it has this shape; else raise Malformed."""
    try:
        return msgspec.convert(value, shape)
    except (ValueError, RecursionError) as error:
        raise malformed(where, reason(error)) from error


@functools.cache
def decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    """The decoder of JSON texts of this shape; it is made once."""
    return msgspec.json.Decoder(shape)


def reason(error: Exception) -> str:
    """Why a text was refused, in words.

    >>> try:
    ...     msgspec.json.decode(b'{"step": "x"}', type=dict[str, int])
    ... except ValueError as error:
    ...     print(reason(error))
    expected `int`, got `str` at `[...]`
    """
    if isinstance(error, RecursionError):
        return "values inside of values, too deep"
    text = str(error).replace(" - at `$.", " at `").replace(" - at `$", " at `").replace(" ``", "")
    return text[:1].lower() + text[1:] if text[:4] != "JSON" else text


def read_toml(text: str) -> dict[str, Any]:
    """The content of a TOML text; a ValueError if it is none, or too long or deep."""
    most = MOST_BYTES[".toml"]
    if len(text) > most:
        raise ValueError(f"it is longer than {most:,} letters")
    try:
        found = None if LONG_KEY.search(text) else tomllib.loads(text)
    except RecursionError:
        found = None
    if found is None or _depth(found) > MOST_DEPTH:
        raise ValueError(f"more than {MOST_DEPTH} values are inside of one another")
    # TOML's integers have 64 bits, and of much larger ones Python writes no digits.
    if any(isinstance(it, int) and it.bit_length() > 64 for it in _leaves(found)):
        raise ValueError("a whole number has more than 64 bits")
    return found


def _leaves(value: Any) -> Iterator[Any]:
    """All values that are no tables or lists."""
    inner = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        for one in inner:
            yield from _leaves(one)
    else:
        yield value


def _depth(value: Any) -> int:
    """Return how deeply values are nested; counting stops one beyond MOST_DEPTH."""
    depth, layer = 0, [value]
    while layer and depth <= MOST_DEPTH:
        depth += 1
        layer = [
            inner
            for outer in layer
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return depth
