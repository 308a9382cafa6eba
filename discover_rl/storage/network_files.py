"""A trained network in two files: its arrays as safetensors, and what they mean as JSON.

There is no pickle, so loading a stranger's network runs none of their code, and no JAX, so it loads
in a moment. Files that do not fit together are refused before anything is computed with them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from safetensors.numpy import save

from discover_rl.core import networks
from discover_rl.core.types import CriticHead, Net, PolicyHead, Spec, UserError
from discover_rl.storage import array_files, schemas
from discover_rl.storage.schemas import (
    Backend,
    Count,
    Format,
    KnownSettings,
    Name,
    Positive,
    Seed,
    Value,
)

FORMAT = 1
"""The version of the format; files of another version are refused."""

Shape = Annotated[list[Positive], Meta(max_length=8)]
"""The shape of observations or of actions."""
Bounds = Annotated[list[float], Meta(min_length=1)]
"""Bounds of actions, one for each dimension."""
Activation = Annotated[str, Meta(pattern=rf"^({'|'.join(networks.ACTIVATIONS)})\Z")]
"""The name of a nonlinearity."""


class Files(NamedTuple):
    """The names of a network's files."""

    arrays: str
    description: str


class Description(Format):
    """The content of the JSON file of every network."""

    observation_shape: Shape
    action_shape: Shape
    low: Bounds
    high: Bounds
    activation: Activation
    about: dict[str, Any]  # About, and whatever else


class About(TypedDict, total=False):
    """Where a network comes from, as far as that is known."""

    task: Name
    algorithm: Name
    strategy: Name
    steps: Positive
    seed: Seed
    settings: dict[str, Value]
    step: Count
    backend: Backend


Described = TypeVar("Described", bound=Description)


def to_bytes(
    files: Files, net: Net, spec: Spec, head: PolicyHead | CriticHead, about: Mapping[str, Any]
) -> dict[str, bytes]:
    """Return the contents of a network's files, by their names.

    Args:
        files: the names.
        net: the parameters; NumPy arrays, without lanes.
        spec: the spaces of the task.
        head: what the network's outputs mean, or its inputs.
        about: where it comes from (`About`).
    """
    description = {
        "format": FORMAT,
        "observation_shape": spec.observation_shape,
        "action_shape": spec.action_shape,
        "low": spec.low,
        "high": spec.high,
        **head._asdict(),
        "about": about,
    }
    arrays = {
        f"{layer}.{name}": np.ascontiguousarray(array)
        for layer, parts in net.items()
        for name, array in parts.items()
    }
    return {
        files.arrays: save(arrays),
        files.description: json.dumps(description, indent=2).encode() + b"\n",
    }


def load(
    what: str,
    folder: Path,
    files: Files,
    shape: type[Described],
    read: Callable[[Mapping[str, np.ndarray], Spec, Described], Net],
) -> tuple[Net, Spec, Described]:
    """Load a network, its spaces and its description.

    Args:
        what: the word for it in messages, such as "policy".
        folder: where the files are.
        files: their names.
        shape: of the description.
        read: (arrays, spec, description) → the network; a ValueError if the arrays do not fit.

    Raises:
        UserError: they cannot be read, or do not fit together.
    """
    try:
        raw = schemas.content(folder / files.description)
        there = schemas.decoder(Format).decode(raw)["format"]
        if there != FORMAT:
            raise UserError(
                f"{folder} holds a {what} of format {there}; this version reads format {FORMAT}."
            )
        description = schemas.decoder(shape).decode(raw)
        about = msgspec.convert(description["about"], About)
        msgspec.convert(about.get("settings", {}), KnownSettings)
        spec = _spec(description)
        return read(array_files.read(folder / files.arrays), spec, description), spec, description
    except (OSError, ValueError, RecursionError) as error:
        why = schemas.reason(error)
        raise UserError(f"The {what} in {folder} cannot be read: {why}.") from error


def _spec(description: Description) -> Spec:
    """Return the spaces that a description names; a ValueError if they are impossible."""
    low, high = description["low"], description["high"]
    if not len(low) == len(high) == math.prod(description["action_shape"]):
        raise ValueError("its bounds are not those of its actions")
    if any(a > b for a, b in zip(low, high, strict=True)):
        raise ValueError("a lower bound is above the upper one")
    shapes = tuple(description["observation_shape"]), tuple(description["action_shape"])
    return Spec(*shapes, tuple(low), tuple(high))


def network(
    arrays: Mapping[str, np.ndarray],
    observation: int,
    outputs: int,
    action: int = 0,
    late: bool = False,
    ensemble: bool = False,
) -> Net:
    """Return the network of these arrays; a ValueError if they are not a network of these sizes.

    An array with an unknown name is refused: it would be ignored, and no version has written it.

    Args:
        arrays: by "layer.part".
        observation: how many numbers an observation has.
        outputs: how many numbers the head gives.
        action: how many numbers of an action the network takes.
        late: whether the action enters at the second hidden layer, as in `networks.init`.
        ensemble: whether there may be several networks, along a leading axis.
    """
    left, width = dict(arrays), observation
    depth = sum(name.startswith("layer") and name.endswith(".weight") for name in arrays)
    joined = networks.late_layer(depth) if late else 0
    head = arrays.get("head.weight")
    front = head.shape[:1] if ensemble and head is not None and head.ndim == 3 else ()
    net: dict[str, dict[str, np.ndarray]] = {}

    def take(layer: str, **sizes: tuple[int | None, ...]) -> None:
        for part, size in sizes.items():
            array = left.pop(f"{layer}.{part}", None)
            if array is None:
                raise ValueError(f"{layer}.{part} is missing")
            alike = len(array.shape) == len(size) and all(
                b in (None, a) for a, b in zip(array.shape, size, strict=True)
            )
            if array.dtype != np.float32 or not alike or not array.size:
                raise ValueError(f"{layer}.{part} does not fit its spaces or the layer before it")
            if not np.isfinite(array).all() or (part == "deviation" and not (array > 0).all()):
                raise ValueError(f"{layer}.{part} has numbers that are not finite, or no deviation")
            net.setdefault(layer, {})[part] = array

    if "input.mean" in arrays:
        take("input", mean=(observation,), deviation=(observation,))
    for i, layer in enumerate((*(f"layer{i}" for i in range(depth)), "head")):
        last, width = layer == "head", width + action * (i == joined)
        take(layer, weight=(*front, width, outputs if last else None))
        width = net[layer]["weight"].shape[-1]
        take(layer, bias=(*front, width))
        if f"{layer}.gain" in arrays and not last:
            take(layer, gain=(*front, width), offset=(*front, width))
    if left:
        raise ValueError(f"it has arrays that no such network has, {min(left)}")
    return net


def rows(what: str, given: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """(n, numbers), from one array of this shape or from n of them; a ValueError of another."""
    if given.shape == shape:
        return given.reshape(1, -1)
    if given.ndim == len(shape) + 1 and given.shape[1:] == shape:
        return given.reshape(len(given), math.prod(shape))
    several = ", ".join(map(str, ("n", *shape)))
    raise ValueError(f"expected {what} of shape {shape} or ({several}), got {given.shape}")
