"""A trained critic on its own: two files beside the policy's, loaded with NumPy alone.

`critic.safetensors` holds the networks' arrays, `critic.json` what they mean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from discover_rl.core import networks
from discover_rl.core.types import CriticHead, Net, Spec, UserError
from discover_rl.envs.observations import flatten

ARRAYS, DESCRIPTION = "critic.safetensors", "critic.json"
"""The files of a critic, in its run's folder."""
FORMAT = 1
"""The version of what is written here; others are refused."""


class Critic:
    """What a run has learned to expect: Q(s, a) off-policy, V(s) on-policy.

    Values are in the units that the algorithm learned in: A2C and PPO divide rewards by a running
    standard deviation, SAC multiplies them by its `reward_scale` and counts entropy as reward.
    """

    def __init__(
        self, net: Net, spec: Spec, head: CriticHead, about: Mapping[str, Any] | None = None
    ):
        self.net, self.spec, self.head = net, spec, head
        self.about = dict(about or {})
        """Where it comes from: the run, fully resolved, and the step."""

    def __call__(self, obs: Any, action: Any = None) -> np.ndarray:
        """The value of one observation, or of a batch of them; of twin critics the smaller one.

        Args:
            obs: (*observation_shape) or (n, *observation_shape); one observation may be a dict.
            action: (*action_shape) or (n, *action_shape) in the task's units; off-policy only.

        Returns:
            () or (n,).
        """
        return self.each(obs, action).min(axis=0)

    def each(self, obs: Any, action: Any = None) -> np.ndarray:
        """The same for every critic by itself: (critics,) or (critics, n)."""
        obs = np.asarray(flatten(obs) if isinstance(obs, Mapping) else obs, np.float32)
        alone = obs.shape == self.spec.observation_shape
        rows = _rows("observations", obs, self.spec.observation_shape)
        if (action is None) == bool(self.head.action):
            raise ValueError(f"this critic takes observations {self._takes}")
        if action is not None:
            given = _rows("actions", np.asarray(action, np.float32), self.spec.action_shape)
            if len(given) != len(rows):
                raise ValueError(f"{len(rows)} observations came with {len(given)} actions")
            action = self.spec.from_box(given.reshape(-1, *self.spec.action_shape))
        values = np.asarray(networks.critic_value(self.head, self.net, rows, action))
        values = values.reshape(-1, len(rows))
        return values[:, 0] if alone else values

    @property
    def _takes(self) -> str:
        return "and actions" if self.head.action else "alone"

    def to_bytes(self) -> dict[str, bytes]:
        """The contents of the critic's files, by their names."""
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
            ARRAYS: save(arrays),
            DESCRIPTION: json.dumps(description, indent=2).encode() + b"\n",
        }


def load_critic(folder: Path) -> Critic:
    """Load the critic in a run's folder.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    if not (folder / DESCRIPTION).exists():
        raise UserError(f"There is no saved critic in {folder}; it is saved when its run ends.")
    try:
        description = json.loads((folder / DESCRIPTION).read_text())
        if description["format"] != FORMAT:
            raise UserError(
                f"{folder} holds a critic of format {description['format']}, and this is {FORMAT}."
            )
        shape = tuple(description["observation_shape"]), tuple(description["action_shape"])
        spec = Spec(*shape, tuple(description["low"]), tuple(description["high"]))
        head = CriticHead(**{name: description[name] for name in CriticHead._fields})
        net: dict[str, dict[str, np.ndarray]] = {}
        for name, array in load_file(folder / ARRAYS).items():
            layer, part = name.split(".")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} is not finite")
            net.setdefault(layer, {})[part] = array
        critic = Critic(net, spec, head, description["about"])
        box = spec.to_box(np.zeros(spec.action_size, np.float32)) if head.action else None
        critic(np.zeros(spec.observation_shape, np.float32), box)  # does it fit together?
        return critic
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise UserError(f"The critic in {folder} cannot be read: {error}.") from error


def _rows(what: str, given: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """(n, numbers), from one of this shape or from n of them."""
    if given.shape == shape:
        return given.reshape(1, -1)
    if given.ndim == len(shape) + 1 and given.shape[1:] == shape:
        return given.reshape(len(given), -1)
    raise ValueError(f"expected {what} of shape {shape} or (n, *{shape}), got {given.shape}")
