"""A trained policy on its own: two files, loaded with NumPy alone.

`policy.safetensors` holds the network's arrays, `policy.json` what they mean. There is no pickle,
so loading a stranger's policy runs none of their code, and no JAX, so it loads in a moment.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec
import numpy as np
from msgspec import Meta
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from discover_rl.core import networks
from discover_rl.core.types import Net, PolicyHead, Spec, UserError
from discover_rl.envs.observations import flatten
from discover_rl.storage import schemas
from discover_rl.storage.schemas import Count, Format, Name, Positive, Seed, Value

ARRAYS, DESCRIPTION = "policy.safetensors", "policy.json"
"""The files of a policy, in its folder."""
BEST_ARRAYS, BEST_DESCRIPTION = "policy-best.safetensors", "policy-best.json"
"""The files of the policy that was best in an evaluation of its run, beside those of the last."""
FORMAT = 1
"""The version of what is written here; others are refused."""


Shape = Annotated[list[Positive], Meta(max_length=8)]
Bounds = Annotated[list[float], Meta(min_length=1)]
Activation = Annotated[str, Meta(pattern=f"^({'|'.join(networks.ACTIVATIONS)})$")]


class Description(Format):
    """What `policy.json` has."""

    observation_shape: Shape
    action_shape: Shape
    low: Bounds
    high: Bounds
    activation: Activation
    squash: bool
    about: dict[str, Any]  # About, and whatever else


class About(TypedDict, total=False):
    """Where a policy comes from, as far as that is known."""

    task: Name
    algorithm: Name
    strategy: Name
    steps: Positive
    seed: Seed
    settings: dict[str, Value]
    step: Count
    backend: Name


class Policy:
    """A deterministic policy for tasks with these spaces."""

    def __init__(
        self, net: Net, spec: Spec, head: PolicyHead, about: Mapping[str, Any] | None = None
    ):
        self.net, self.spec, self.head = net, spec, head
        self._size = spec.observation_size
        self.about = dict(about or {})
        """Where it comes from: the run, fully resolved, and the step."""

    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, None]:
        """The action for one observation, or the actions for a batch of them, in the task's units.

        The signature is that of Stable-Baselines3's models, so that code written for these takes a
        policy too. One observation may be a dict, as the task has it. `state`, `episode_start` and
        `deterministic` change nothing: there is no memory and nothing random.
        """
        del state, episode_start, deterministic
        if isinstance(obs, Mapping):
            obs = flatten(obs)
        obs = np.asarray(obs, np.float32)
        shape = self.spec.observation_shape
        if obs.shape == shape:
            return self.spec.to_box(self._act(obs.reshape(1, -1))[0]), None
        if obs.ndim == len(shape) + 1 and obs.shape[1:] == shape:
            return self.spec.to_box(self._act(obs.reshape(len(obs), self._size))), None
        raise ValueError(
            f"expected observations of shape {shape} or (n, *{shape}), got {obs.shape}"
        )

    def _act(self, obs: np.ndarray) -> np.ndarray:
        return np.asarray(networks.mean_action(self.head, self.net, obs))

    def to_bytes(self, best: bool = False) -> dict[str, bytes]:
        """The contents of the policy's files, by their names; those of the `best` have others."""
        description = {
            "format": FORMAT,
            "observation_shape": self.spec.observation_shape,
            "action_shape": self.spec.action_shape,
            "low": self.spec.low,
            "high": self.spec.high,
            **self.head._asdict(),
            "about": self.about,
        }
        arrays = {
            f"{layer}.{name}": np.ascontiguousarray(array)
            for layer, parts in self.net.items()
            for name, array in parts.items()
        }
        return {
            BEST_ARRAYS if best else ARRAYS: save(arrays),
            BEST_DESCRIPTION if best else DESCRIPTION: json.dumps(description, indent=2).encode()
            + b"\n",
        }


def find_policies(path: str | Path) -> list[Path]:
    """The folders at or below `path` that hold a policy."""
    return sorted(file.parent for file in Path(path).rglob(DESCRIPTION))


def load_policy(path: str | Path, best: bool = False) -> Policy:
    """Load the policy in a folder, or the only one below it.

    Args:
        path: the folder of a run, or one with a run below it.
        best: the policy that was best in an evaluation of its run, not the last one.
            `about["step"]` is its step.

    Raises:
        UserError: there is none, there are several, or it cannot be read.

    Example:
        policy = load_policy("runs/hopper/seed-0")
        action, _ = policy.predict(obs)
    """
    found = [Path(path)] if (Path(path) / DESCRIPTION).exists() else find_policies(path)
    if not found:
        raise UserError(f"There is no saved policy in {path}.")
    if len(found) > 1:
        names = ", ".join(str(folder) for folder in found)
        raise UserError(f"{path} holds several policies; name one of {names}.")
    folder = found[0]
    names = (BEST_DESCRIPTION, BEST_ARRAYS) if best else (DESCRIPTION, ARRAYS)
    if not (folder / names[0]).exists():
        raise UserError(
            f"There is no {names[0]} in {folder}: no evaluation came after learning started, or "
            "the run is from a version that kept none."
        )
    try:
        raw = schemas.content(folder / names[0])
        there = schemas.decoder(Format).decode(raw)["format"]
        if there != FORMAT:
            raise UserError(f"{folder} holds a policy of format {there}, and this is {FORMAT}.")
        description = schemas.decoder(Description).decode(raw)
        msgspec.convert(description["about"], About)
        spec = _spec(description)
        net = _net(load_file(folder / names[1]), spec)
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        why = schemas.reason(error)
        raise UserError(f"The policy in {folder} cannot be read: {why}.") from error
    head = PolicyHead(description["activation"], description["squash"])
    return Policy(net, spec, head, description["about"])


def _spec(description: Description) -> Spec:
    """The spaces that a description names; a ValueError if they cannot be."""
    low, high = description["low"], description["high"]
    if not len(low) == len(high) == math.prod(description["action_shape"]):
        raise ValueError("its bounds are not those of its actions")
    if any(a > b for a, b in zip(low, high, strict=True)):
        raise ValueError("a lower bound is above the upper one")
    shapes = tuple(description["observation_shape"]), tuple(description["action_shape"])
    return Spec(*shapes, tuple(low), tuple(high))


def _net(arrays: Mapping[str, np.ndarray], spec: Spec) -> dict[str, dict[str, np.ndarray]]:
    """The network of these arrays; a ValueError if they are not one for these spaces.

    What is not named here would be ignored, so it is refused: it is no policy of this version's.
    """
    inputs, left = math.prod(spec.observation_shape), dict(arrays)
    depth = sum(name.startswith("layer") and name.endswith(".weight") for name in arrays)
    net: dict[str, dict[str, np.ndarray]] = {}

    def take(layer: str, **sizes: tuple[int | None, ...]) -> None:
        for part, size in sizes.items():
            array = left.pop(f"{layer}.{part}", None)
            if array is None:
                raise ValueError(f"{layer}.{part} is missing")
            alike = len(array.shape) == len(size) and all(
                b in (None, a) for a, b in zip(array.shape, size, strict=True)
            )
            if array.dtype != np.float32 or not alike:
                raise ValueError(f"{layer}.{part} does not fit its spaces or the layer before it")
            if not np.isfinite(array).all() or (part == "deviation" and not (array > 0).all()):
                raise ValueError(f"{layer}.{part} has numbers that are not finite, or no deviation")
            net.setdefault(layer, {})[part] = array

    if "input.mean" in arrays:
        take("input", mean=(inputs,), deviation=(inputs,))
    for layer in (*(f"layer{i}" for i in range(depth)), "head"):
        last = layer == "head"
        take(layer, weight=(inputs, spec.action_size if last else None))
        inputs = net[layer]["weight"].shape[1]
        take(layer, bias=(inputs,))
        if f"{layer}.gain" in arrays and not last:
            take(layer, gain=(inputs,), offset=(inputs,))
    if left:
        raise ValueError(f"it has arrays that no policy has, {min(left)}")
    return net
