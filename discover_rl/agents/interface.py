"""What an agent is to the training loop, and all it takes to make one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from discover_rl.core.finite import Divergence
from discover_rl.core.types import Array, CriticHead, Net, PolicyHead, Spec
from discover_rl.envs.vector import VectorEnv
from discover_rl.strategies.interface import Strategy

State = Any
"""All of a cohort that training changes: a pytree of arrays with lanes in front."""


@dataclass(frozen=True)
class AgentSetup:
    """All it takes to make an agent."""

    spec: Spec
    algorithm: str
    hyper: Any
    """The algorithm's hyper-parameters; only what is static counts, `init` gets the floats."""
    strategy: str
    strategy_hyper: Any
    """The strategy's hyper-parameters, likewise."""
    steps: int
    """Environment steps of a run."""
    environments: int = 1
    """Environments of each lane."""
    precision: str = "float32"
    """Of matrix products on a GPU."""
    transitions: int = 0
    """Those that its replay buffer starts with, of another run."""
    metrics_every: int = 0
    """Steps between those at which `Agent.metrics` is asked; 0: never."""


class Agent(Protocol):
    """Acts and learns for all lanes of a cohort. All states have lanes in front."""

    @property
    def head(self) -> PolicyHead:
        """How the networks of `nets` become actions."""
        ...

    @property
    def strategy(self) -> Strategy:
        """How it explores."""
        ...

    def init(self, seeds: np.ndarray, hyper: Any, strategy_hyper: Any, /) -> State:
        """The state of fresh lanes; the arguments are (lanes,) and pytrees of (lanes,)."""
        ...

    def like(self, seeds: np.ndarray, hyper: Any, strategy_hyper: Any, /) -> State:
        """What has the shapes and dtypes of that state."""
        ...

    def place(self, state: State, /) -> State:
        """A state that was read from disk, where the agent wants it: on the device or the host."""
        ...

    def enter(self, state: State, obs: np.ndarray, fresh: np.ndarray, step: Any, /) -> State:
        """Start episodes at `obs`, (environments, observation), in the environments `fresh`."""
        ...

    def prepare(self, state: State, vector: VectorEnv, step: int, /) -> None:
        """Compile what the next steps need, side by side."""
        ...

    def advance(
        self, state: State, vector: VectorEnv, alive: np.ndarray, step: int, until: int, /
    ) -> tuple[State, int, list[Divergence]]:
        """Act and learn on, no further than step `until`.

        It returns every few steps, so that the caller can look at the clock.

        Args:
            state: of all lanes.
            vector: the environments of all lanes.
            alive: (lanes,) which lanes are trained.
            step: environment steps made so far.
            until: the step to stop at.

        Returns:
            The new state, the step that was reached, and the lanes that diverged on the way.
        """
        ...

    def nets(self, state: State, /) -> Net:
        """The networks that evaluation uses, on the host, lanes in front."""
        ...

    def critics(self, state: State, /) -> Net:
        """The critics' networks, on the host, lanes in front."""
        ...

    @property
    def critic_head(self) -> CriticHead:
        """What the networks of `critics` take."""
        ...

    def report(self, state: State, step: Any, /) -> dict[str, Array]:
        """Diagnostics by name, (lanes,) each. Changes nothing."""
        ...

    def metrics(self, state: State, step: int, /) -> dict[str, Array]:
        """Those and more, of training, when that was due. Changes nothing."""
        ...
