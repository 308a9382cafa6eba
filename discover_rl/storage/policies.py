"""A trained policy on its own: two files, loaded with NumPy alone.

`policy.safetensors` holds the network's arrays, `policy.json` what they mean. There is no pickle,
so loading a stranger's policy runs none of their code, and no JAX, so it loads in a moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from discover_rl.core import networks
from discover_rl.core.types import Net, PolicyHead, Spec, UserError
from discover_rl.envs.observations import flatten
from discover_rl.storage import network_files
from discover_rl.storage.network_files import Files
from discover_rl.system.paths import a_folder

LAST = Files("policy.safetensors", "policy.json")
"""The files of a policy, in its folder."""
BEST = Files("policy-best.safetensors", "policy-best.json")
"""The files of the policy that was best in an evaluation of its run, beside those of the last."""


class Description(network_files.Description):
    """The content of `policy.json`."""

    squash: bool


class Policy:
    """A deterministic policy for tasks with these spaces."""

    def __init__(
        self, net: Net, spec: Spec, head: PolicyHead, about: Mapping[str, Any] | None = None
    ):
        self.net, self.spec, self.head = net, spec, head
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
        actions = self._act(network_files.rows("observations", obs, self.spec.observation_shape))
        alone = obs.shape == self.spec.observation_shape
        return self.spec.to_box(actions[0] if alone else actions), None

    def _act(self, obs: np.ndarray) -> np.ndarray:
        return np.asarray(networks.mean_action(self.head, self.net, obs))

    def to_bytes(self, best: bool = False) -> dict[str, bytes]:
        """Return the contents of the policy's files by name; `best` chooses the names."""
        files = BEST if best else LAST
        return network_files.to_bytes(files, self.net, self.spec, self.head, self.about)


def find_policies(path: str | Path) -> list[Path]:
    """The folders at or below `path` that hold a policy."""
    return sorted(file.parent for file in Path(path).rglob(LAST.description))


def load_policy(path: str | Path, best: bool = False) -> Policy:
    """Load the policy in a folder, or the only one below it.

    Args:
        path: the folder of a run, or one with a run below it.
        best: the policy that was best in an evaluation of its run, not the last one.
            `about["step"]` is its step.

    Raises:
        UserError: there is none, there are several, or it cannot be read.

    Examples:
        >>> policy = load_policy("runs/Pendulum-v1-td3-discover/seed-0")  # doctest: +SKIP
        >>> action, _ = policy.predict([1.0, 0.0, 0.0])  # doctest: +SKIP
        >>> action.shape  # doctest: +SKIP
        (1,)
    """
    path = a_folder(path)
    found = [path] if (path / LAST.description).exists() else find_policies(path)
    if not found:
        raise UserError(f"There is no saved policy in {path}.")
    if len(found) > 1:
        names = ", ".join(str(folder) for folder in found)
        raise UserError(f"{path} holds several policies; name one of {names}.")
    folder = found[0]
    files = BEST if best else LAST
    if not (folder / files.description).exists():
        raise UserError(
            f"There is no {files.description} in {folder}: no evaluation came after learning "
            "started, or the run is from a version that kept none."
        )

    def read(arrays: Mapping[str, np.ndarray], spec: Spec, _: Description) -> Net:
        return network_files.network(arrays, spec.observation_size, spec.action_size)

    net, spec, description = network_files.load("policy", folder, files, Description, read)
    head = PolicyHead(description["activation"], description["squash"])
    return Policy(net, spec, head, description["about"])
