"""A trained critic on its own: two files beside the policy's, loaded with NumPy alone.

`critic.safetensors` holds the networks' arrays, `critic.json` what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from discover_rl.core import networks
from discover_rl.core.types import CriticHead, Net, Spec, UserError
from discover_rl.envs.observations import flatten
from discover_rl.storage import network_files
from discover_rl.storage.network_files import Files

FILES = Files("critic.safetensors", "critic.json")
"""The files of a critic, in its run's folder."""


class Description(network_files.Description):
    """The content of `critic.json`."""

    action: Literal["input", "second layer", ""]


class Critic:
    """A trained value function: Q(s, a) off-policy, V(s) on-policy.

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
        """Return the value of one observation or of a batch; with twin critics the smaller one.

        Args:
            obs: (*observation_shape) or (n, *observation_shape); one observation may be a dict.
            action: (*action_shape) or (n, *action_shape) in the task's units; off-policy only.

        Returns:
            () or (n,).
        """
        return self.each(obs, action).min(axis=0)

    def each(self, obs: Any, action: Any = None) -> np.ndarray:
        """Return the value that each critic gives: (critics,) or (critics, n)."""
        obs = np.asarray(flatten(obs) if isinstance(obs, Mapping) else obs, np.float32)
        alone = obs.shape == self.spec.observation_shape
        rows = network_files.rows("observations", obs, self.spec.observation_shape)
        if (action is None) == bool(self.head.action):
            raise ValueError(f"this critic takes observations {self._takes}")
        if action is not None:
            given = network_files.rows(
                "actions", np.asarray(action, np.float32), self.spec.action_shape
            )
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
        return network_files.to_bytes(FILES, self.net, self.spec, self.head, self.about)


def load_critic(folder: Path) -> Critic:
    """Load the critic in a run's folder.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    if not (folder / FILES.description).exists():
        raise UserError(f"There is no saved critic in {folder}; it is saved when its run ends.")
    net, spec, description = network_files.load("critic", folder, FILES, Description, _read)
    head = CriticHead(description["activation"], description["action"])
    return Critic(net, spec, head, description["about"])


def _read(arrays: Mapping[str, np.ndarray], spec: Spec, description: Description) -> Net:
    """Read the critics' network; a ValueError if the arrays do not fit these spaces."""
    at = description["action"]
    action = spec.action_size if at else 0
    late = at == "second layer"
    return network_files.network(arrays, spec.observation_size, 1, action, late, ensemble=True)
