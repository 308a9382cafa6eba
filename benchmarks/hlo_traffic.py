"""Memory traffic of a compiled program: what its kernels read and write, from XLA's own listing.

XLA's cost analysis counts whole arrays where a kernel touches a few rows of a replay buffer, and
leaves out much of what GPU libraries do. Here slices, gathers and updates in place count what they
touch, every other array counts whole, once for every kernel that takes or makes it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

BYTES = {"pred": 1, "bf16": 2, "c64": 8, "c128": 16}
"""Sizes of the types whose names do not say how many bits they have."""
FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "copy-done", "after-all"),
    *("optimization-barrier", "opt-barrier", "partition-id", "replica-id", "iota"),
}
"""Operations that move nothing."""
INSIDE = {"while": "body", "call": "to_apply", "async-start": "calls"}
"""Operations that stand for all of a computation, and the attribute that names it."""
LINE = re.compile(r"\s+(?P<root>ROOT )?%?(?P<name>[\w.\-]+) = (?P<rest>.*)")


class Instruction(NamedTuple):
    """One line of the listing."""

    name: str
    operation: str
    kind: str  # the type of its result
    operands: list[str]
    attributes: str
    is_root: bool

    @property
    def size(self) -> int:
        """Bytes of the result. What a library's product takes to work in is left out."""
        parts = [_size(*it) for it in re.findall(r"(\w+)\[([\d,]*)\]", self.kind)]
        return parts[0] if "__cublas" in self.attributes else sum(parts)

    def named(self, attribute: str) -> str:
        """The computation that an attribute names."""
        found = re.search(rf"{attribute}=%?([\w.\-]+)", self.attributes)
        assert found
        return found[1]


def traffic(listing: str) -> int:
    """Bytes that a program's kernels read and write. A loop counts as one round of it."""
    computations, entry = _parse(listing)

    def moved(name: str) -> int:
        instructions = computations[name]
        sizes = {it.name: it.size for it in instructions}
        total = 0
        for it in instructions:
            if it.operation in INSIDE:
                total += moved(it.named(INSIDE[it.operation]))
            elif it.operation == "fusion":
                total += sum(_touched(computations[it.named("calls")]))
            elif it.operation not in FREE:
                total += it.size + sum(sizes[operand] for operand in it.operands)
        return total

    return moved(entry)


def _touched(instructions: list[Instruction]) -> tuple[int, int]:
    """Bytes that a kernel reads and writes."""
    by_name, users = {it.name: it for it in instructions}, defaultdict(list)
    for it in instructions:
        for place, operand in enumerate(it.operands):
            users[operand].append((it, place))

    def read(it: Instruction) -> int:
        total = 0
        for user, place in users[it.name]:
            if user.operation == "bitcast":
                total += read(user)
            elif user.operation in ("slice", "dynamic-slice", "gather") and place == 0:
                total += user.size
            elif user.operation not in ("dynamic-update-slice", "scatter") or place:
                return it.size
        return min(total, it.size)

    def written(it: Instruction) -> int:
        if it.operation in ("tuple", "bitcast"):
            return sum(written(by_name[operand]) for operand in it.operands)
        if it.operation in ("dynamic-update-slice", "scatter"):
            return by_name[it.operands[1 if it.operation == "dynamic-update-slice" else 2]].size
        return it.size

    (root,) = (it for it in instructions if it.is_root)
    return sum(read(it) for it in instructions if it.operation == "parameter"), written(root)


def _parse(listing: str) -> tuple[dict[str, list[Instruction]], str]:
    """The instructions of every computation, and the name of the one that is called first."""
    computations: dict[str, list[Instruction]] = {}
    entry, name = "", ""
    for line in listing.splitlines():
        if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{$", line):
            name = head[2]
            computations[name], entry = [], name if head[1] else entry
        elif name and (found := LINE.match(line)):
            kind, rest = _cut(found["rest"])
            operation, _, rest = rest.partition("(")
            operands, attributes = _cut("(" + rest)
            names = re.findall(r"%([\w.\-]+)", operands)
            root = bool(found["root"])
            computations[name].append(
                Instruction(found["name"], operation, kind, names, attributes, root)
            )
    return computations, entry


def _cut(text: str) -> tuple[str, str]:
    """Cut after the first word, or after the first pair of brackets if the text begins with one."""
    if not text.startswith("("):
        word, _, rest = text.partition(" ")
        return word, rest
    depth = end = 0
    while depth or not end:
        depth += (text[end] == "(") - (text[end] == ")")
        end += 1
    return text[:end], text[end:].lstrip(" ")


def _size(kind: str, shape: str) -> int:
    bits = re.search(r"\d+", kind)
    size = BYTES[kind] if kind in BYTES else int(bits[0]) // 8 if bits else 0
    for length in filter(None, shape.split(",")):
        size *= int(length)
    return size
