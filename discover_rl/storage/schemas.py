"""The shapes of what is read from files, and the one reader that checks them.

A shape is a type: a TypedDict of which file has which keys, with ranges of numbers and lengths of
lists. What has another shape is refused in a sentence that says where and why. How large a file and
how deep a value may be is limited, so that no file can fill the memory or the stack.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar

import msgspec
from msgspec import Meta

from discover_rl.core.types import UserError

T = TypeVar("T")

MOST_BYTES = {".jsonl": 2**30, ".log": 2**30, ".json": 2**26, ".toml": 2**18}
"""The largest files that are read, by their names' endings."""
MOST_DEPTH = 16
"""How many values of a TOML file may be inside of one another."""
PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
LONG_KEY = re.compile(rf"""(?<![\w"'-])(?:{PART}){{{MOST_DEPTH}}}""")
"""A dotted key of too many parts: reading one takes memory by the square of their number."""

Count = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Seed = Annotated[int, Meta(ge=0, lt=2**32)]
Text = Annotated[str, Meta(max_length=100_000)]
Name = Annotated[str, Meta(min_length=1, max_length=1_000)]
Below = Annotated[str, Meta(pattern=r"^(?!/)(?!(.*/)?\.\.?(/|$))[^\x00-\x1f]+$", max_length=1_000)]
"""A path that leads to somewhere below the folder it is read in."""

# A setting's value: a keyword argument of a task may be lists and tables, of limited depth.
Scalar = str | int | float | bool | None
Shallow = Scalar | list[Scalar] | dict[str, Scalar]
Deeper = Scalar | list[Shallow] | dict[str, Shallow]
Value = Scalar | list[Deeper] | dict[str, Deeper]


class Format(TypedDict):
    """What files of all formats have, if they have one."""

    format: int


class RunShape(TypedDict):
    """A run as records and policies have it."""

    task: Name
    algorithm: Name
    strategy: Name
    steps: Positive
    seed: Seed
    settings: dict[str, Value]


# Names with dots cannot be those of a class's attributes.
_Dotted = TypedDict(
    "_Dotted",
    {"eval.every": Positive, "eval.episodes": Positive, "env.count": Positive},
    total=False,
)


class KnownSettings(_Dotted, total=False):
    """Settings that records are read by. Runs need not have all of them."""

    horizon: Positive
    warmup: Count


class Malformed(UserError):
    """A file, or a line of it, has another shape than it should."""


def malformed(where: Any, why: str) -> Malformed:
    """The error that says where something is malformed, and why.

    >>> print(malformed("cohorts.json", "no object"))
    cohorts.json is damaged (no object); restore it, or move it away to start over.
    """
    return Malformed(f"{where} is damaged ({why}); restore it, or move it away to start over.")


def content(path: Path) -> bytes:
    """What a file holds; Malformed if it is larger than any of its kind."""
    most = MOST_BYTES[path.suffix]
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > most:
            raise malformed(path, f"more than {most:,} bytes")
        return file.read()


def read_json(path: Path, shape: type[T]) -> T:
    """A JSON file's value of this shape.

    Raises:
        Malformed: it has another one.
        OSError: it cannot be read.
    """
    return decode(content(path), shape, str(path))


def decode(raw: bytes, shape: type[T], where: str) -> T:
    """A JSON text's value of this shape; Malformed, beginning with `where`, if it has another."""
    try:
        return decoder(shape).decode(raw)
    except (ValueError, RecursionError) as error:
        raise malformed(where, reason(error)) from error


def decode_lines(raw: bytes, shape: type[T], path: Path, first: int = 1) -> list[T]:
    """The values of lines of JSON, each of this shape; Malformed names the line that is not.

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
    """A value that was read already, if it has this shape; else Malformed."""
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
    return found


def _depth(value: Any) -> int:
    """How many values are inside of one another; no more than one beyond MOST_DEPTH."""
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
