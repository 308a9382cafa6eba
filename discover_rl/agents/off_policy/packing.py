"""Pack a pytree's small leaves into one array: dispatch costs time per leaf.

On a GPU, starting a program takes several microseconds for every array that it takes or returns,
more than computing on most of them. So what is small – biases, settings, counters – lies in one
array there. Large arrays stay as they are, because taking them out of a larger one would mean
copying them. On a CPU it is the copying that costs, so there pytrees stay as they are. All arrays
have lanes in front.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from discover_rl.core.types import Array

LARGE = 16_384
"""An array with this many numbers per lane, or more, stays as it is."""


class Layout:
    """Which leaf lies where. Layouts are compared by identity, which takes no time: `_layout`
    makes each only once."""

    def __init__(self, tree: Any, kinds: tuple[tuple[tuple[int, ...], Any], ...]):
        self.tree, self.kinds = tree, kinds  # of each leaf, the shape in a lane and the type


_layout = functools.cache(Layout)


@jax.tree_util.register_pytree_node_class
class Packed:
    """A pytree with its small leaves in one array."""

    def __init__(self, large: tuple[Array | None, ...], small: Array, layout: Layout):
        self.large, self.layout = large, layout
        self.small = small  # (lanes, numbers), as bits

    def tree_flatten(self) -> tuple[Any, Layout]:
        """The arrays, and the layout as static data."""
        return (self.large, self.small), self.layout

    @classmethod
    def tree_unflatten(cls, layout: Layout, parts: Any) -> Packed:
        """The inverse of `tree_flatten`."""
        large, small = parts
        return cls(large, small, layout)


def pack(tree: Any) -> Packed:
    """Pack a pytree whose leaves have lanes in front."""
    leaves, structure = jax.tree.flatten(tree)
    kinds = tuple((leaf.shape[1:], leaf.dtype) for leaf in leaves)
    bits = [_bits(leaf).reshape(len(leaf), -1) for leaf in leaves if not _large(leaf.shape[1:])]
    large = tuple(leaf for leaf in leaves if _large(leaf.shape[1:]))
    return Packed(large, jnp.concatenate(bits, axis=1), _layout(structure, kinds))


def unpack(packed: Any) -> Any:
    """Return the original pytree; a pytree that is not packed is returned as it is."""
    if not isinstance(packed, Packed):
        return packed
    large, at, leaves = iter(packed.large), 0, []
    for shape, dtype in packed.layout.kinds:
        if _large(shape):
            leaves.append(next(large))
            continue
        bits = packed.small[:, at : at + math.prod(shape)].reshape(-1, *shape)
        leaves.append(bits > 0 if dtype.itemsize < 4 else jax.lax.bitcast_convert_type(bits, dtype))
        at += math.prod(shape)
    return jax.tree.unflatten(packed.layout.tree, leaves)


def reads(function: Callable[..., Any], packed: Packed, *rest: Any) -> tuple[bool, ...]:
    """For each large array, whether a function of these arguments reads it."""
    program = jax.make_jaxpr(function)(packed, *rest).jaxpr
    read = {id(var) for equation in program.eqns for var in equation.invars}
    return tuple(id(var) in read for var in program.invars[: len(packed.large)])


def without_unread(packed: Packed, read: Sequence[bool]) -> Packed:
    """Leave out the large arrays that are not read."""
    pairs = zip(packed.large, read, strict=True)
    large = tuple(array if wanted else None for array, wanted in pairs)
    return Packed(large, packed.small, packed.layout)


def packed_like(before: Any, tree: Any) -> Any:
    """Return the pytree, packed if the one that it replaces was packed."""
    return pack(tree) if isinstance(before, Packed) else tree


def _bits(leaf: Array) -> Array:
    assert leaf.dtype == bool or leaf.dtype.itemsize == 4
    if leaf.dtype == bool:
        return jnp.asarray(leaf, jnp.int32)
    return jax.lax.bitcast_convert_type(leaf, jnp.int32)


def _large(shape: tuple[int, ...]) -> bool:
    return math.prod(shape) >= LARGE
